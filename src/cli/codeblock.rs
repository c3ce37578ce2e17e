//! `hawsepipe call --codeblock`: calls the tool that a code block of a document names.

use std::process::ExitCode;

use anyhow::{Context, bail};

use super::admin::list;
use super::args::{AdminArgs, CallArgs};
use super::codeblocks::{CodeBlock, find};
use super::invoked::{Images, invoke, show};
use super::output::text;

/// The most blocks that a message names.
const MAX_NAMED: usize = 10;

/// Runs the block at `FILE[:LINE]`.
pub async fn call(args: &CallArgs, place: &str) -> anyhow::Result<ExitCode> {
    let (file, line) = match place.rsplit_once(':').map(|(file, line)| (file, line.parse::<usize>())) {
        Some((file, Ok(line))) => (file, Some(line)),
        _ => (place, None),
    };
    let document = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let admin = args.admin();
    let servers = servers(&admin).await?;
    let servers: Vec<_> = servers.iter().map(String::as_str).collect();
    let mut blocks = find(&document, &servers);
    blocks.retain(|block| line.is_none_or(|line| block.has_line(line, &document)));
    let [block] = &blocks[..] else { bail!(not_one(file, line, &blocks, &servers)) };
    let new = block.invocation(file, &document, &servers).with_context(|| format!("{file}:{}", block.line))?;
    let images = args.save.as_deref().map_or(Images::Offered, Images::Saved);
    show(&invoke(&admin, new.to_string()).await?, args.output, images)
}

/// Returns the names of the gateway's servers.
pub async fn servers(admin: &AdminArgs) -> anyhow::Result<Vec<String>> {
    let upstreams = list(admin, "/api/v1/upstreams", &[], usize::MAX).await?;
    Ok(upstreams.iter().map(|upstream| text(&upstream["name"])).collect())
}

fn not_one(file: &str, line: Option<usize>, blocks: &[CodeBlock], servers: &[&str]) -> String {
    let shown = |names: Vec<String>| names.into_iter().take(MAX_NAMED).collect::<Vec<_>>().join(", ");
    let servers = shown(servers.iter().map(|&name| name.to_owned()).collect());
    match (blocks, line) {
        ([], Some(line)) => {
            format!("line {line} of {file} is in no fenced code block named after a server ({servers})")
        }
        ([], None) => format!("{file} has no fenced code block named after a server ({servers})"),
        (blocks, _) => {
            let lines = shown(blocks.iter().map(|block| format!("{file}:{}", block.line)).collect());
            format!("{file} has {} code blocks of servers: name one with its line ({lines})", blocks.len())
        }
    }
}
