//! The one text block that a result may consist of, and whether there is anything else in it.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::domain::json::is_same;
use crate::domain::raw::RawObject;
use crate::domain::skim::Skim;

/// Words of `resultType` (MCP 2026-07-28, Result).
const RESULT_TYPES: [&str; 2] = ["complete", "input_required"];

/// How the structured content of a result follows its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mirror {
    /// There is none.
    Absent,
    /// It is the same JSON as the text.
    SameJson,
    /// It is `{"result": text}`.
    Wrapped,
    /// It says something else.
    Other,
}

/// The text of a result whose content is one text block.
#[derive(Debug)]
pub(crate) struct TextBlock<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) mirror: Mirror,
    /// Whether the result has members, or its block has, that are neither text nor of a fixed set of words.
    pub(crate) more: bool,
}

/// The members of a JSON object.
struct ObjectMembers<'a>(Vec<(Cow<'a, str>, Skim<'a>)>);

impl<'a> ObjectMembers<'a> {
    /// The value of a member that stands there once.
    fn once(&self, name: &str) -> Option<Skim<'a>> {
        let mut found = self.0.iter().filter(|(member, _)| member == name).map(|(_, value)| *value);
        found.next().filter(|_| found.next().is_none())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(member, _)| member == name)
    }
}

impl<'a> TextBlock<'a> {
    /// The only text block of a result; none where there is another block, or where its text has lone surrogates, or
    /// where a member that counts stands twice.
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

/// Whether a member of a result holds nothing but what is looked at here anyway, or one of a fixed set of words.
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
