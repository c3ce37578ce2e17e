//! The single text block that a result can consist of, and whether the result holds anything else.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::domain::json::is_same;
use crate::domain::raw::RawObject;
use crate::domain::skim::Skim;

/// The values of `resultType` (MCP 2026-07-28, Result).
const RESULT_TYPES: [&str; 2] = ["complete", "input_required"];

/// How the structured content of a result relates to its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mirror {
    /// There is no structured content.
    Absent,
    /// The structured content is the same JSON as the text.
    SameJson,
    /// The structured content is `{"result": text}`.
    Wrapped,
    /// The structured content is something else.
    Other,
}

/// The text of a result whose content is a single text block.
#[derive(Debug)]
pub(crate) struct TextBlock<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) mirror: Mirror,
    /// Whether the result or its block has other members that could hold arbitrary data.
    pub(crate) more: bool,
}

/// The members of a JSON object.
struct ObjectMembers<'a>(Vec<(Cow<'a, str>, Skim<'a>)>);

impl<'a> ObjectMembers<'a> {
    /// Returns the value of a member that occurs exactly once.
    fn once(&self, name: &str) -> Option<Skim<'a>> {
        let mut found = self.0.iter().filter(|(member, _)| member == name).map(|(_, value)| *value);
        found.next().filter(|_| found.next().is_none())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(member, _)| member == name)
    }
}

impl<'a> TextBlock<'a> {
    /// Returns the single text block of a result. Returns `None` if there is another block, if the text has lone
    /// surrogates, or if a relevant member occurs twice.
    pub(crate) fn of(result: &'a RawValue) -> Option<Self> {
        let result = ObjectMembers(Skim::from(result).members()?);
        let mut blocks = result.once("content")?.elements()?;
        let (Some(block), None) = (blocks.next(), blocks.next()) else { return None };
        let block = ObjectMembers(block.members()?);
        if block.once("type")?.text()? != "text" {
            return None;
        }
        let text = block.once("text")?.text()?;
        let mirror = match result.once("structuredContent") {
            Some(structured) if structured.get() == "null" => Mirror::Absent,
            Some(structured) => mirror(structured, &text),
            None if result.has("structuredContent") => return None,
            None => Mirror::Absent,
        };
        let more = result.0.iter().any(|(name, value)| !is_plain(name, *value)) || block.0.len() > 2;
        Some(Self { text, mirror, more })
    }
}

/// Whether a member of a result holds only what is examined anyway, or one of a fixed set of values.
fn is_plain(name: &str, value: Skim<'_>) -> bool {
    match name {
        "content" | "structuredContent" => true,
        "isError" => matches!(value.get(), "true" | "false"),
        "resultType" => value.text().is_some_and(|word| RESULT_TYPES.contains(&&*word)),
        _ => false,
    }
}

fn mirror(structured: Skim<'_>, text: &str) -> Mirror {
    let object = RawObject::parse(structured.get()).unwrap_or_default();
    if object.iter().count() == 1 && object.get_str("result").as_deref() == Some(text) {
        return Mirror::Wrapped;
    }
    if is_same(structured.get(), text) { Mirror::SameJson } else { Mirror::Other }
}
