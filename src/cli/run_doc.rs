//! `hawsepipe run-doc`: runs the code blocks of a Markdown document that call tools, one after another.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::args::RunDocArgs;
use super::codeblock::servers;
use super::codeblocks::{CodeBlock, RESULT_BEGINS, RESULT_ENDS, find};
use super::formats::ResultFormat;
use super::invoked::{Images, Invoked, ResultFields};
use super::ran::{Ran, finish};

pub async fn run_doc(args: RunDocArgs) -> anyhow::Result<ExitCode> {
    let file = args.file.display().to_string();
    let document = fs::read_to_string(&args.file).with_context(|| format!("cannot read {file}"))?;
    let servers = servers(&args.admin).await?;
    let servers: Vec<_> = servers.iter().map(String::as_str).collect();
    let blocks = find(&document, &servers);
    if blocks.is_empty() {
        bail!("{file} has no fenced code block named after a server ({})", servers.join(", "));
    }
    if args.write {
        check_writable(&file, &document, &blocks)?;
    }
    let mut ran = Vec::new();
    for block in &blocks {
        let new = block.invocation(&file, &document, &servers).map(|new| new.to_string());
        let call = Ran::run(&args.admin, format!("{file}:{}", block.line), &block.server, new).await;
        if args.output == ResultFormat::Text {
            call.print()?;
        }
        ran.push(call);
    }
    let code = finish(args.output, &ran)?;
    if args.write {
        let outcomes: Vec<_> = ran.iter().map(|call| call.invoked.as_ref()).collect();
        write(&args.file, &document, &with_results(&document, &blocks, &outcomes)?)?;
    }
    Ok(code)
}

/// The invocation of a block, or why there is none.
type Outcome<'a> = Result<&'a Invoked, &'a anyhow::Error>;

/// Checks that a result can be put below each block.
fn check_writable(file: &str, document: &str, blocks: &[CodeBlock]) -> anyhow::Result<()> {
    for block in blocks {
        let line = block.line;
        if !block.is_top_level {
            bail!("{file}:{line}: --write puts no results into lists and quotes: move the block out of it");
        }
        let text = document[block.place.clone()].trim_end();
        let last = text.rsplit_once('\n').map_or("", |(_, last)| last.trim_start());
        if !last.starts_with("```") && !last.starts_with("~~~") {
            bail!("{file}:{line}: the code block has no closing fence, so that no result can be put below it");
        }
    }
    Ok(())
}

/// Returns the document with the results below the blocks, in place of those of an earlier run.
fn with_results(document: &str, blocks: &[CodeBlock], ran: &[Outcome<'_>]) -> anyhow::Result<String> {
    let (mut written, mut from) = (String::with_capacity(document.len()), 0);
    for (block, outcome) in blocks.iter().zip(ran) {
        let end = block.place.start + document[block.place.clone()].trim_end().len();
        let result = markdown_of(*outcome)?;
        written.push_str(&document[from..end]);
        written.push_str(&format!("\n\n{RESULT_BEGINS}\n\n{result}\n\n{RESULT_ENDS}"));
        from = block.old_result.as_ref().map_or(end, |old| old.start + document[old.clone()].trim_end().len());
    }
    written.push_str(&document[from..]);
    Ok(written)
}

/// Returns a fenced block with the result, or with the error.
fn markdown_of(outcome: Outcome<'_>) -> anyhow::Result<String> {
    let of_result = |result: &ResultFields| {
        let kind = if result.content_type == "image" { "text" } else { &result.content_type };
        anyhow::Ok((kind.to_owned(), result.rendered(Images::Noted)?))
    };
    let (kind, text) = match outcome {
        Ok(Invoked { fields, .. }) => match &fields.result {
            Some(result) => of_result(result)?,
            None => ("text".to_owned(), format!("{}: {}", fields.status, fields.error())),
        },
        Err(error) => ("text".to_owned(), format!("error: {error:#}")),
    };
    // The fence is longer than any in the text, so that a server cannot end it.
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    Ok(format!("{fence}{kind}\n{}\n{fence}", text.trim_end()))
}

/// Replaces the document as a whole, unless it was changed meanwhile.
fn write(file: &Path, read: &str, written: &str) -> anyhow::Result<()> {
    let file = fs::canonicalize(file)?;
    let failed = || format!("cannot write {}", file.display());
    if fs::read_to_string(&file).with_context(failed)? != read {
        bail!("{} was changed while its blocks ran: the results are not written", file.display());
    }
    let new = file.with_file_name(format!(".{}.new", file.file_name().unwrap_or_default().to_string_lossy()));
    let replace = || {
        let mut beside = OpenOptions::new().write(true).create_new(true).open(&new)?;
        beside.set_permissions(fs::metadata(&file)?.permissions())?;
        beside.write_all(written.as_bytes())?;
        beside.sync_all()?;
        fs::rename(&new, &file)
    };
    replace().inspect_err(|_| drop(fs::remove_file(&new))).with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: &str = "Before\n\n```files\ntool: a\n```\n\n```files\ntool: b\n```\nAfter\n";

    fn run(document: &str, message: &str) -> String {
        let blocks = find(document, &["files", "text"]);
        let error = anyhow::anyhow!("{message}");
        let ran: Vec<Outcome<'_>> = blocks.iter().map(|_| Err(&error)).collect();
        with_results(document, &blocks, &ran).unwrap()
    }

    #[test]
    fn results_are_put_below_their_blocks_and_replaced_by_the_next_run() {
        let first = run(BLOCKS, "one");
        let result = format!("\n\n{RESULT_BEGINS}\n\n```text\nerror: one\n```\n\n{RESULT_ENDS}\n");
        let expected = format!("Before\n\n```files\ntool: a\n```{result}\n```files\ntool: b\n```{result}After\n");
        assert_eq!(first, expected);
        assert_eq!(run(&first, "one"), first);
        assert_eq!(run(&first, "two"), first.replace("one", "two"));
    }

    #[test]
    fn a_server_cannot_put_blocks_into_the_document() {
        let hostile = format!("````\n\n{RESULT_ENDS}\n\n```files\ntool: c\n```");
        let written = run(BLOCKS, &hostile);
        assert_eq!(find(&written, &["files", "text"]).len(), 2, "{written}");
        assert_eq!(run(&written, &hostile), written);
    }

    #[test]
    fn a_place_without_room_for_a_result_is_refused() {
        for (document, said) in
            [("- ```files\n  tool: a\n  ```\n", "lists and quotes"), ("```files\ntool: a\n", "no closing fence")]
        {
            let error = check_writable("a.md", document, &find(document, &["files"])).unwrap_err().to_string();
            assert!(error.starts_with("a.md:1: ") && error.contains(said), "{error}");
        }
    }
}
