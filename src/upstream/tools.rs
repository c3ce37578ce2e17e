//! Pages of a tool list.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::ids::ObjectKey;
use crate::domain::rpc::too_deep;
use crate::domain::tool::Tool;
use crate::domain::upstream::{Answer, UpstreamError};

/// Pages of one list.
const PAGES: usize = 100;
/// Tools of one list.
const TOOLS: usize = 10_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// A list as far as it was read.
#[derive(Debug)]
pub(super) struct ToolList {
    upstream: ObjectKey,
    tools: Vec<Tool>,
    names: HashSet<String>,
    pages: usize,
    seen: usize,
}

impl ToolList {
    /// Nothing read yet.
    pub(super) fn new(upstream: ObjectKey) -> Self {
        Self { upstream, tools: Vec::new(), names: HashSet::new(), pages: 0, seen: 0 }
    }

    /// Takes a page in. Returns the cursor of the next one.
    pub(super) fn add(&mut self, answer: &Answer) -> Result<Option<String>, UpstreamError> {
        let Answer::Result(result) = answer else {
            return Err(UpstreamError::Protocol("it answered tools/list with an error".into()));
        };
        let page: Page<'_> = serde_json::from_str(result.get())
            .map_err(|_| UpstreamError::Protocol("its tool list cannot be read".into()))?;
        (self.pages, self.seen) = (self.pages + 1, self.seen + page.tools.len());
        if self.seen > TOOLS {
            return Err(UpstreamError::Protocol(format!("it lists more than {TOOLS} tools")));
        }
        for definition in page.tools {
            match self.read(definition) {
                Ok(tool) => self.tools.push(tool),
                Err(fault) => tracing::warn!(upstream = %self.upstream, "a tool is left out: {fault}"),
            }
        }
        match page.next_cursor {
            Some(_) if self.pages == PAGES => {
                Err(UpstreamError::Protocol(format!("its tool list has more than {PAGES} pages")))
            }
            cursor => Ok(cursor),
        }
    }

    fn read(&mut self, definition: &RawValue) -> Result<Tool, String> {
        if too_deep(definition.get().as_bytes()) {
            return Err("it nests too deep".into());
        }
        let tool = Tool::parse(definition)?;
        if !self.names.insert(tool.name.clone()) {
            return Err(format!("{} is listed twice", tool.name));
        }
        Ok(tool)
    }

    /// All that was read.
    pub(super) fn finish(self) -> Vec<Tool> {
        self.tools
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Answer {
        Answer::Result(RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn good_tools_stay_when_others_are_bad() {
        let mut list = ToolList::new(ObjectKey::new("default", "up"));
        let deep = format!(r#"{{"name":"deep","inputSchema":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let text = format!(
            r#"{{"tools":[{{"name":"a"}},7,{{"name":"b c"}},{{}},{deep},{{"name":"a"}},{{"name":"z"}}],"nextCursor":"n"}}"#
        );
        assert_eq!(list.add(&page(&text)).unwrap().as_deref(), Some("n"));
        assert_eq!(list.add(&page(r#"{"tools":[{"name":"b"}],"nextCursor":null}"#)).unwrap(), None);
        assert_eq!(list.finish().iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "z", "b"]);
    }

    #[test]
    fn lists_are_bounded() {
        let mut list = ToolList::new(ObjectKey::new("default", "up"));
        let endless = page(r#"{"tools":[],"nextCursor":"again"}"#);
        let outcome = (0..PAGES).map(|_| list.add(&endless)).find(Result::is_err);
        assert!(outcome.unwrap().unwrap_err().to_string().contains("100 pages"));
        let mut list = ToolList::new(ObjectKey::new("default", "up"));
        let many = format!(r#"{{"tools":[{}0]}}"#, "0,".repeat(TOOLS));
        assert!(list.add(&page(&many)).is_err());
        assert!(list.add(&page("[]")).is_err());
    }
}
