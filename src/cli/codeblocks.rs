//! The code blocks of a Markdown document that call tools (document 003, data flow): fenced blocks whose info string begins
//! with the name of a server, with YAML in them.

use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use pulldown_cmark::{CodeBlockKind, Event, OffsetIter, Parser, Tag, TagEnd};
use serde::Serialize;
use serde_json::{Value, json};

use crate::config::nearest::nearest;
use crate::source::yaml;

/// The comment above a result that `run-doc --write` has put below a block.
pub const RESULT_BEGINS: &str = "<!-- hawsepipe:result -->";
/// The comment below such a result.
pub const RESULT_ENDS: &str = "<!-- /hawsepipe:result -->";

/// A block that calls a tool.
#[derive(Debug, PartialEq, Eq)]
pub struct CodeBlock {
    /// The first word of the info string, which names the server.
    pub server: String,
    /// The text between the fences.
    code: String,
    /// The bytes of the document that the block has, with its fences.
    pub place: Range<usize>,
    /// The line of the opening fence, from 1.
    pub line: usize,
    /// The headings above the block, the outermost one first.
    headings: Vec<Heading>,
    /// Whether the block is in no list and no quote.
    pub is_top_level: bool,
    /// The bytes that the result of an earlier run has.
    pub old_result: Option<Range<usize>>,
}

/// A heading of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Heading {
    text: String,
    level: usize,
}

/// Returns the blocks of a document that are named after one of these servers. A block is also returned if its name is similar
/// to one of them and its text names a tool, so that a slip is not left out in silence.
pub fn find(text: &str, servers: &[&str]) -> Vec<CodeBlock> {
    let (mut blocks, mut headings, mut depth) = (Vec::<CodeBlock>::new(), Vec::<Heading>::new(), 0_usize);
    let mut events = Parser::new(text).into_offset_iter();
    while let Some((event, place)) = events.next() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                let (text, level) = (text_of(&mut events, TagEnd::Heading(level)), level as usize);
                headings.retain(|above| above.level < level);
                headings.push(Heading { text: text.trim().to_owned(), level });
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let code = text_of(&mut events, TagEnd::CodeBlock);
                let line = text[..place.start].matches('\n').count() + 1;
                let CodeBlockKind::Fenced(info) = kind else { continue };
                let server = info.split_whitespace().next().unwrap_or_default().to_owned();
                let (headings, is_top_level) = (headings.clone(), depth == 0);
                let block = CodeBlock { server, code, place, line, headings, is_top_level, old_result: None };
                if block.is_meant_for(servers) {
                    blocks.push(block);
                }
            }
            Event::Html(comment) if comment.trim() == RESULT_BEGINS => {
                let end = events.find(|(event, _)| matches!(event, Event::Html(html) if html.trim() == RESULT_ENDS));
                let whole = place.start..end.map_or(place.end, |(_, end)| end.end);
                let above = blocks.last_mut().filter(|block| text[block.place.end..place.start].trim().is_empty());
                if let Some(block) = above {
                    block.old_result = Some(whole);
                }
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    blocks
}

/// Returns the text up to the end of an element.
fn text_of(events: &mut OffsetIter<'_>, end: TagEnd) -> String {
    let inside = events.map(|(event, _)| event).take_while(|event| *event != Event::End(end));
    let text = |event| if let Event::Text(text) | Event::Code(text) = event { Some(text.into_string()) } else { None };
    inside.filter_map(text).collect()
}

impl CodeBlock {
    fn is_meant_for(&self, servers: &[&str]) -> bool {
        let names_tool = || self.code.lines().any(|line| line.starts_with("tool:"));
        servers.contains(&&*self.server) || nearest(&self.server, servers.iter().copied()).is_some() && names_tool()
    }

    /// Whether the line, from 1, is one of the block's.
    pub fn has_line(&self, line: usize, text: &str) -> bool {
        (self.line..=self.line + text[self.place.clone()].trim_end().matches('\n').count()).contains(&line)
    }

    /// Returns the id of the block: `^id` on the next line with text below it, and below its result.
    fn id<'t>(&self, text: &'t str) -> Option<&'t str> {
        let end = self.old_result.as_ref().map_or(self.place.end, |result| result.end);
        let line = text[end..].lines().find(|line| !line.trim().is_empty())?;
        let id = line.trim().strip_prefix('^')?;
        id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-').then_some(id)
    }

    /// Returns the body of the request that creates the block's invocation. `text` is that of the document.
    ///
    /// # Errors
    /// If the text is not a YAML mapping with a `tool`, or no server has the name.
    pub fn invocation(&self, file: &str, text: &str, servers: &[&str]) -> anyhow::Result<Value> {
        if !servers.contains(&&*self.server) {
            let hint = nearest(&self.server, servers.iter().copied()).map(|near| format!("; did you mean {near}?"));
            bail!("no server is named {}{}", self.server, hint.unwrap_or_default());
        }
        let documents = yaml::read(&self.code).context("the block (lines count from its first)")?;
        let [document] = &documents[..] else { bail!("the block must be one YAML mapping such as `tool: echo`") };
        let mut parameters = document.value.as_object().cloned().context("the block must be a YAML mapping")?;
        let Some(Value::String(tool)) = parameters.remove("tool") else {
            bail!("the block must name a tool, such as `tool: echo`");
        };
        let document: PathBuf = Path::new(file).components().filter(|part| *part != Component::CurDir).collect();
        let headings: Vec<_> = self.headings.iter().filter(|heading| !heading.text.is_empty()).collect();
        let section = json!({"document": document, "headings": headings, "block": self.id(text), "line": self.line});
        Ok(json!({"serverId": self.server, "toolName": tool, "parameters": parameters, "source": "user-codeblock",
            "documentPath": file, "sectionLine": self.line, "section": section}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVERS: [&str; 2] = ["weather", "files"];

    #[test]
    fn blocks_of_servers_are_found_wherever_markdown_has_them() {
        let text = "# A\n```weather\ntool: now\ncity: London\n```\n\n```yaml\ntool: x\n```\n\n- item\n  ~~~files\n  tool: read\n  ~~~\n\
                    \n````text\n```weather\ntool: quoted\n```\n````\n\n    ```weather\n    tool: indented\n\n```wether\ntool: slip\n```\n";
        let found = find(text, &SERVERS);
        let short: Vec<_> = found.iter().map(|block| (&*block.server, block.line, block.is_top_level)).collect();
        assert_eq!(short, [("weather", 2, true), ("files", 12, false), ("wether", 25, true)]);
        assert!(!found[0].has_line(1, text) && found[0].has_line(2, text) && found[0].has_line(5, text));
        assert!(!found[0].has_line(6, text));
        let invocation = found[0].invocation("./a.md", text, &SERVERS).unwrap();
        let section = json!({"document": "a.md", "headings": [{"text": "A", "level": 1}], "block": null, "line": 2});
        let expected = json!({"serverId": "weather", "toolName": "now", "parameters": {"city": "London"},
            "source": "user-codeblock", "documentPath": "./a.md", "sectionLine": 2, "section": section});
        assert_eq!(invocation, expected);
        assert_eq!(found[1].invocation("a.md", text, &SERVERS).unwrap()["toolName"], "read");
        let slip = found[2].invocation("a.md", text, &SERVERS).unwrap_err().to_string();
        assert_eq!(slip, "no server is named wether; did you mean weather?");
    }

    #[test]
    fn the_place_of_a_block_has_its_headings_and_its_id() {
        let block = "```files\ntool: a\n```\n";
        let result = format!("{RESULT_BEGINS}\n\n# No heading\n\n{RESULT_ENDS}\n");
        let text = format!(
            "# Run `it`\n\n> ## Quoted\n\n### Deep\n\n{block}\n{result}\n^db-checks\n\nPart\n----\n\n{block}\n^not an id\n"
        );
        let sections =
            find(&text, &SERVERS).into_iter().map(|found| found.invocation("a.md", &text, &SERVERS).unwrap());
        let sections: Vec<_> = sections.map(|mut found| found["section"].take()).collect();
        let heading = |text: &str, level: u32| json!({"text": text, "level": level});
        assert_eq!(sections[0]["headings"], json!([heading("Run it", 1), heading("Deep", 3)]));
        assert_eq!(sections[1]["headings"], json!([heading("Run it", 1), heading("Part", 2)]));
        assert_eq!((&sections[0]["block"], &sections[1]["block"]), (&json!("db-checks"), &Value::Null));
    }

    #[test]
    fn what_is_no_call_is_an_error_that_says_so() {
        for (code, said) in [
            ("city: London", "must name a tool"),
            ("tool: 7", "must name a tool"),
            ("- a", "must be a YAML mapping"),
            ("", "must be one YAML mapping"),
            ("a: 1\na: 2", "line 2"),
        ] {
            let text = format!("```files\n{code}\n```\n");
            let error = find(&text, &SERVERS)[0].invocation("a.md", &text, &SERVERS).unwrap_err();
            assert!(format!("{error:#}").contains(said), "{code}: {error:#}");
        }
    }

    #[test]
    fn a_result_belongs_to_the_block_above_and_has_no_blocks() {
        let block = "```files\ntool: a\n```\n";
        let result =
            format!("{RESULT_BEGINS}\n\n````text\n{RESULT_ENDS}\n```files\ntool: b\n```\n````\n\n{RESULT_ENDS}\n");
        let text = format!("{block}\n{result}\nText.\n\n{block}\nText.\n\n{result}");
        let found = find(&text, &SERVERS);
        assert_eq!(found.len(), 2);
        assert_eq!(&text[found[0].old_result.clone().unwrap()], result);
        assert_eq!((found[1].old_result.clone(), found[1].is_top_level), (None, true));
    }
}
