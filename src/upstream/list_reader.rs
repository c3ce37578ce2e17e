//! Reads the pages of a server's lists.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::request_failure::refused;
use crate::domain::caching::Caching;
use crate::domain::definition::for_clients;
use crate::domain::item::{Item, ItemKind, Listed};
use crate::domain::quoted::Quoted;
use crate::domain::raw::RawObject;
use crate::domain::rpc::LEVELS_ABOVE_ITEM;
use crate::domain::schema::{in_2020_12, schema_fault};
use crate::domain::skim::Skim;
use crate::domain::tokens::{MAX_DEPTH, deeper_than};
use crate::domain::upstream::{Answer, UpstreamError};
use crate::domain::version::Era;

/// The maximum number of pages of one list.
const PAGES: usize = 50;
/// The maximum number of items of one list.
const ITEMS: usize = 10_000;
/// The maximum number of bytes of all definitions of one list.
const BYTES: usize = 4 << 20;

/// A page. Only the list of the kind that was asked for counts.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerPage<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    prompts: Option<&'a RawValue>,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
    #[serde(borrow)]
    resource_templates: Option<&'a RawValue>,
    #[serde(borrow)]
    next_cursor: Option<&'a RawValue>,
    #[serde(borrow)]
    ttl_ms: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_scope: Option<&'a RawValue>,
}

impl<'a> ServerPage<'a> {
    /// Returns the list of this kind; `None` if it is null or missing.
    fn list(&self, kind: ItemKind) -> Option<&'a RawValue> {
        match kind {
            ItemKind::Tool => self.tools,
            ItemKind::Prompt => self.prompts,
            ItemKind::Resource => self.resources,
            ItemKind::Template => self.resource_templates,
        }
    }
}

/// A list that is being read page by page.
#[derive(Debug)]
pub(super) struct ListReader {
    kind: ItemKind,
    /// The era of the server. In the legacy era pages say nothing about caching.
    era: Era,
    listed: Listed,
    names: HashSet<String>,
    pages: usize,
    /// The cursor that the last page returned.
    cursor: Option<String>,
    seen: usize,
    bytes: usize,
}

impl ListReader {
    /// Creates the reader of a list of items of this kind, of a server of this era.
    pub(super) fn new(kind: ItemKind, era: Era) -> Self {
        let (listed, names) = (Listed::default(), HashSet::new());
        Self { kind, era, listed, names, pages: 0, cursor: None, seen: 0, bytes: 0 }
    }

    /// Adds a page. Returns the cursor of the next one, if there is one. Of a list that is too long, keeps what was read.
    pub(super) fn add(&mut self, answer: &Answer) -> Result<Option<String>, UpstreamError> {
        let method = self.kind.listed_by();
        let result = match answer {
            Answer::Result(result) => result,
            Answer::Error(error) => return Err(refused(method, error)),
        };
        let page: Option<ServerPage<'_>> = serde_json::from_str(result.get()).ok();
        let read = page.and_then(|page| Some((self.items(&page)?, page)));
        let unreadable = || UpstreamError::Protocol(format!("its answer to {method} cannot be read"));
        let (items, page) = read.ok_or_else(unreadable)?;
        if self.era == Era::Modern {
            self.listed.caching = self.listed.caching.and(Caching::read(page.ttl_ms, page.cache_scope));
        }
        self.pages += 1;
        for definition in items {
            (self.seen, self.bytes) = (self.seen + 1, self.bytes + definition.get().len());
            let limit = match () {
                () if self.seen > ITEMS => format!("{ITEMS} items"),
                () if self.bytes > BYTES => format!("{} MiB of definitions", BYTES >> 20),
                () => {
                    match self.read(definition) {
                        Ok(item) => self.listed.items.push(item),
                        Err(fault) => self.leave_out(definition, &fault),
                    }
                    continue;
                }
            };
            return Ok(self.cut(&limit));
        }
        // Some servers mark the last page with a cursor that leads to that same page.
        let next = page.next_cursor.and_then(|cursor| Skim::from(cursor).text()).map(Cow::into_owned);
        let next = next.filter(|cursor| self.cursor.as_ref() != Some(cursor));
        if next.is_some() && self.pages == PAGES {
            return Ok(self.cut(&format!("{PAGES} pages")));
        }
        self.cursor.clone_from(&next);
        Ok(next)
    }

    /// Returns the definitions of a page, none if it has no list; `None` if the list cannot be read.
    fn items<'a>(&mut self, page: &ServerPage<'a>) -> Option<Vec<&'a RawValue>> {
        if let Some(list) = page.list(self.kind) {
            return serde_json::from_str(list.get()).ok();
        }
        let (method, member) = (self.kind.listed_by(), self.kind.list_member());
        self.listed.note(format!("its answer to {method} has no `{member}`, which counts as empty"));
        Some(Vec::new())
    }

    /// Ends a list that is longer than `limit`.
    fn cut(&mut self, limit: &str) -> Option<String> {
        let (method, count) = (self.kind.listed_by(), self.listed.items.len());
        self.listed.note(format!("its answer to {method} has more than {limit}: the first {count} items are offered"));
        None
    }

    fn leave_out(&mut self, definition: &RawValue, fault: &str) {
        let name = name_of(self.kind, definition);
        let said = name.as_ref().map_or_else(|| "without a name".to_owned(), |name| Quoted(name, 64).to_string());
        self.listed.leave_out(self.kind, &said, fault);
    }

    fn read(&mut self, definition: &RawValue) -> Result<Item, String> {
        if deeper_than(MAX_DEPTH - LEVELS_ABOVE_ITEM, definition.get().as_bytes()) {
            return Err("it nests too deep".into());
        }
        let mut item = Item::parse(self.kind, &for_clients(self.kind, definition)?)?;
        read_schema(&mut item);
        if !self.names.insert(item.name.clone()) {
            return Err("it is listed twice".into());
        }
        Ok(item)
    }

    /// Returns the items that were read, and messages about those that were left out. `is_announced` tells whether the server
    /// announces items of this kind.
    pub(super) fn finish(mut self, is_announced: bool) -> Listed {
        match (is_announced, self.seen) {
            (true, 0) if self.kind == ItemKind::Tool => {
                self.listed.note("it announces tools and lists none".to_owned());
            }
            // Some servers answer whatever they are asked with an empty object.
            (false, 0) => self.listed.notes.clear(),
            (false, _) => {
                let note = format!("it lists {}s, which its capabilities do not announce", self.kind);
                self.listed.note(note);
            }
            _ => {}
        }
        self.listed
    }
}

/// Says what is wrong with the input schema of a tool. Of a schema of an older draft, clients see the form in the newest one; the
/// schema itself stays what arguments are checked against.
fn read_schema(tool: &mut Item) {
    let Some(schema) = tool.input_schema.as_deref() else { return };
    let Some(mut fault) = schema_fault(schema.get()) else { return };
    match in_2020_12(schema) {
        Some(Ok(form)) => {
            if let Ok(mut definition) = RawObject::parse(tool.definition.get()) {
                definition.set("inputSchema", form);
                tool.definition = definition.to_raw().into();
                return;
            }
        }
        Some(Err(of_form)) => fault = of_form,
        None => {}
    }
    tool.fault = Some(format!("inputSchema{fault}").into());
}

/// Returns the name of an item as far as its definition can be read.
fn name_of(kind: ItemKind, definition: &RawValue) -> Option<String> {
    RawObject::parse(definition.get()).ok().and_then(|object| object.get_str(kind.name_member()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Answer {
        Answer::Result(RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn good_tools_stay_when_others_are_bad() {
        let mut list = ListReader::new(ItemKind::Tool, Era::Legacy);
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
        let listed = list.finish(true);
        assert_eq!(listed.items.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "z", "b", "c"]);
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
    fn a_schema_of_an_older_draft_is_shown_in_the_newest_and_kept_for_checks() {
        let mut list = ListReader::new(ItemKind::Tool, Era::Legacy);
        let schema = |of_a: &str| format!(r#"{{"type":"object","properties":{{"a":{of_a}}}}}"#);
        let [old, new] = ["items", "prefixItems"].map(|items| schema(&format!(r#"{{"{items}":[{{"type":"null"}}]}}"#)));
        let (faulty, sound) = (schema(r##"{"items":[{"$ref":"#/x"}]}"##), schema("{}"));
        let tool = |name: &str, schema: &str| format!(r#"{{"name":"{name}","inputSchema":{schema},"x":1.0}}"#);
        let tools = [tool("old", &old), tool("faulty", &faulty), tool("sound", &sound)].join(",");
        list.add(&page(&format!(r#"{{"tools":[{tools}]}}"#))).unwrap();
        let read = list.finish(true).items;
        let seen =
            |item: &Item| (item.definition.get().to_owned(), item.input_schema.as_ref().unwrap().get().to_owned());
        assert_eq!(seen(&read[0]), (tool("old", &new), old));
        assert_eq!(seen(&read[1]), (tool("faulty", &faulty), faulty));
        assert_eq!(seen(&read[2]), (tool("sound", &sound), sound));
        let fault = read[1].fault.as_deref().unwrap();
        assert!(fault.starts_with(r##"inputSchema/properties/a/prefixItems/0/$ref: "#/x""##), "{fault}");
        assert!(read[0].fault.is_none() && read[2].fault.is_none());
    }

    #[test]
    fn an_item_nests_as_deep_as_the_message_that_lists_it_may() {
        let tool = |name: &str, levels: usize| {
            let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","default":{deep}}}}}"#)
        };
        let room = MAX_DEPTH - LEVELS_ABOVE_ITEM - 2;
        let mut list = ListReader::new(ItemKind::Tool, Era::Legacy);
        let tools = [tool("a", room), tool("b", room + 1)].join(",");
        list.add(&page(&format!(r#"{{"tools":[{tools}]}}"#))).unwrap();
        let listed = list.finish(true);
        assert_eq!(listed.items.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(listed.left_out, [r#"tool "b" is left out: it nests too deep"#]);
    }

    #[test]
    fn of_several_pages_the_least_ttl_counts_and_legacy_servers_say_nothing() {
        let pages =
            [r#"{"tools":[],"ttlMs":9000,"cacheScope":"public","nextCursor":"n"}"#, r#"{"tools":[],"ttlMs":7}"#];
        let read = |era, count: usize| {
            let mut list = ListReader::new(ItemKind::Tool, era);
            pages[..count].iter().for_each(|text| drop(list.add(&page(text)).unwrap()));
            list.finish(true).caching
        };
        assert_eq!(read(Era::Modern, 1), Caching { ttl_ms: Some(9000), is_private: false });
        assert_eq!(read(Era::Modern, 2), Caching { ttl_ms: Some(7), is_private: true });
        assert_eq!(read(Era::Legacy, 2), Caching::default());
    }

    #[test]
    fn long_names_of_tools_are_cut_in_messages() {
        let mut list = ListReader::new(ItemKind::Tool, Era::Legacy);
        let long = "x".repeat(10_000);
        list.add(&page(&format!(r#"{{"tools":[{{"name":"{long}","inputSchema":{{"type":"object"}}}}]}}"#))).unwrap();
        let left_out = list.finish(true).left_out;
        assert!(left_out[0].len() < 256, "{} bytes", left_out[0].len());
    }

    #[test]
    fn lists_are_bounded() {
        let mut list = ListReader::new(ItemKind::Tool, Era::Legacy);
        let endless = |n: usize| page(&format!(r#"{{"tools":[],"nextCursor":"{n}"}}"#));
        let pages = (0..).map(|n| list.add(&endless(n)).unwrap()).take_while(Option::is_some).count();
        let cut = |list: ListReader| list.finish(true).notes.concat();
        assert_eq!((pages, cut(list).contains("more than 50 pages")), (PAGES - 1, true));
        let mut list = ListReader::new(ItemKind::Tool, Era::Legacy);
        let many = format!(r#"{{"tools":[{}0]}}"#, "0,".repeat(ITEMS));
        assert_eq!(list.add(&page(&many)).unwrap(), None);
        assert!(cut(list).contains("more than 10000 items"));
        let mut list = ListReader::new(ItemKind::Tool, Era::Legacy);
        let large = |n: usize| {
            let long = "x".repeat(1 << 20);
            let tool = format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}},"x":"{long}"}}"#);
            page(&format!(r#"{{"tools":[{tool}],"nextCursor":"{n}"}}"#))
        };
        let outcomes: Vec<_> = (0..4).map(|n| list.add(&large(n)).unwrap().is_some()).collect();
        assert_eq!(outcomes, [true, true, true, false], "of a mebibyte each");
        assert!(cut(list).ends_with("more than 4 MiB of definitions: the first 3 items are offered"));
    }

    #[test]
    fn null_counts_as_empty_and_other_values_cannot_be_read() {
        for (text, note) in [
            (r#"{"tools":null,"nextCursor":null}"#, "its answer to tools/list has no `tools`, which counts as empty"),
            ("{}", "its answer to tools/list has no `tools`, which counts as empty"),
            (r#"{"tools":[],"nextCursor":7}"#, "it announces tools and lists none"),
        ] {
            let mut list = ListReader::new(ItemKind::Tool, Era::Legacy);
            assert_eq!(list.add(&page(text)).unwrap(), None);
            assert_eq!(list.finish(true).notes.first().unwrap(), note, "{text}");
        }
        for text in ["[]", r#"{"tools":{}}"#, r#"{"tools":"none"}"#] {
            assert!(ListReader::new(ItemKind::Tool, Era::Legacy).add(&page(text)).is_err(), "{text}");
        }
    }
}
