//! Reads the pages of a tool list.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::definition::for_clients;
use crate::domain::quoted::Quoted;
use crate::domain::rpc::too_deep;
use crate::domain::tool::{Listed, Tool};
use crate::domain::upstream::{Answer, UpstreamError};

/// The maximum number of pages of one list.
const PAGES: usize = 50;
/// The maximum number of tools of one list.
const TOOLS: usize = 10_000;
/// The maximum number of bytes of all definitions in one list.
const BYTES: usize = 4 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListToolsResult<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// A list that is being read page by page.
#[derive(Debug, Default)]
pub(super) struct ToolListReader {
    listed: Listed,
    names: HashSet<String>,
    pages: usize,
    /// The cursor that the last page returned.
    cursor: Option<String>,
    seen: usize,
    bytes: usize,
}

impl ToolListReader {
    /// Adds a page. Returns the cursor of the next one, if there is one.
    pub(super) fn add(&mut self, answer: &Answer) -> Result<Option<String>, UpstreamError> {
        let Answer::Result(result) = answer else {
            return Err(UpstreamError::Protocol("it answered tools/list with an error".into()));
        };
        let page: ListToolsResult<'_> = serde_json::from_str(result.get())
            .map_err(|_| UpstreamError::Protocol("its tool list cannot be read".into()))?;
        (self.pages, self.seen) = (self.pages + 1, self.seen + page.tools.len());
        if self.seen > TOOLS {
            return Err(UpstreamError::Protocol(format!("it lists more than {TOOLS} tools")));
        }
        self.bytes += page.tools.iter().map(|definition| definition.get().len()).sum::<usize>();
        if self.bytes > BYTES {
            return Err(UpstreamError::Protocol(format!("its tools' definitions have more than {BYTES} bytes")));
        }
        for definition in page.tools {
            match self.read(definition) {
                Ok(tool) => self.listed.tools.push(tool),
                Err(fault) => self.listed.leave_out(&named(definition), &fault),
            }
        }
        // Some servers mark the last page with a cursor that leads to that same page.
        let next = page.next_cursor.filter(|cursor| self.cursor.as_ref() != Some(cursor));
        if next.is_some() && self.pages == PAGES {
            return Err(UpstreamError::Protocol(format!("its tool list has more than {PAGES} pages")));
        }
        self.cursor.clone_from(&next);
        Ok(next)
    }

    fn read(&mut self, definition: &RawValue) -> Result<Tool, String> {
        if too_deep(definition.get().as_bytes()) {
            return Err("it nests too deep".into());
        }
        let tool = Tool::parse(&for_clients(definition)?)?;
        if !self.names.insert(tool.name.clone()) {
            return Err("it is listed twice".into());
        }
        Ok(tool)
    }

    /// Returns the tools that were read, and messages about those that were left out.
    pub(super) fn finish(self) -> Listed {
        self.listed
    }
}

/// Returns how messages name a tool that is left out: its quoted name or, if it has none, `without a name`.
fn named(definition: &RawValue) -> String {
    #[derive(Deserialize)]
    struct NamedTool {
        name: String,
    }
    let named = serde_json::from_str::<NamedTool>(definition.get());
    named.map_or_else(|_| "without a name".to_owned(), |named| Quoted(&named.name, 64).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Answer {
        Answer::Result(RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn good_tools_stay_when_others_are_bad() {
        let mut list = ToolListReader::default();
        let tool = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
        let deep = format!(r#"{{"name":"deep","inputSchema":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let bare = r#"{"name":"bare"}"#;
        let (a, bc, z) = (tool("a"), tool("b c"), tool("z"));
        let text = format!(r#"{{"tools":[{a},7,{bc},{{}},{deep},{bare},{a},{z}],"nextCursor":"n"}}"#);
        assert_eq!(list.add(&page(&text)).unwrap().as_deref(), Some("n"));
        for (name, cursor, next) in [("b", r#""""#, Some("")), ("c", r#""""#, None)] {
            let text = format!(r#"{{"tools":[{}],"nextCursor":{cursor}}}"#, tool(name));
            assert_eq!(list.add(&page(&text)).unwrap().as_deref(), next, "the second leads to itself");
        }
        let listed = list.finish();
        assert_eq!(listed.tools.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "z", "b", "c"]);
        let left_out = [
            "tool without a name is left out: its definition is not an object",
            r#"tool "b c" is left out: its name is not 1 to 128 of A-Z a-z 0-9 _ . -: "b c""#,
            "tool without a name is left out: its inputSchema is missing",
            r#"tool "deep" is left out: it nests too deep"#,
            r#"tool "bare" is left out: its inputSchema is missing"#,
            r#"tool "a" is left out: it is listed twice"#,
        ];
        assert_eq!(listed.left_out, left_out);
    }

    #[test]
    fn long_names_of_tools_are_cut_in_messages() {
        let mut list = ToolListReader::default();
        let long = "x".repeat(10_000);
        list.add(&page(&format!(r#"{{"tools":[{{"name":"{long}","inputSchema":{{"type":"object"}}}}]}}"#))).unwrap();
        let left_out = list.finish().left_out;
        assert!(left_out[0].len() < 256, "{} bytes", left_out[0].len());
    }

    #[test]
    fn lists_are_bounded() {
        let mut list = ToolListReader::default();
        let endless = |n: usize| page(&format!(r#"{{"tools":[],"nextCursor":"{n}"}}"#));
        let outcome = (0..PAGES).map(|n| list.add(&endless(n))).find(Result::is_err);
        assert!(outcome.unwrap().unwrap_err().to_string().contains("50 pages"));
        let mut list = ToolListReader::default();
        let many = format!(r#"{{"tools":[{}0]}}"#, "0,".repeat(TOOLS));
        assert!(list.add(&page(&many)).is_err());
        let mut list = ToolListReader::default();
        let large = |n: usize| page(&format!(r#"{{"tools":[{{"name":"t{n}","x":"{}"}}]}}"#, "x".repeat(1 << 20)));
        let outcomes: Vec<_> = (0..4).map(|n| list.add(&large(n)).is_ok()).collect();
        assert_eq!(outcomes, [true, true, true, false], "of a mebibyte each");
        assert!(list.add(&page("[]")).is_err());
    }
}
