//! The single text block that a result can consist of, and whether the result holds anything else.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::domain::json::{is_plain, is_same};
use crate::domain::plugin::Role;
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
    /// Whether the result or its block has other members that can hold arbitrary data.
    more: bool,
}

impl<'a> TextBlock<'a> {
    /// Returns the text block of a result whose content is exactly one text block. Returns `None` for other results, if
    /// the text contains a lone surrogate, or if a relevant member occurs twice.
    pub(crate) fn of(result: &'a RawValue) -> Option<Self> {
        let (mut content, mut structured, mut more) = (None, None, false);
        for (name, value) in Skim::from(result).members()? {
            match &*name? {
                "content" => set_once(&mut content, value)?,
                "structuredContent" => set_once(&mut structured, value)?,
                name => more |= !is_harmless(name, value),
            }
        }
        let mut blocks = content?.elements()?;
        let (Some(block), None) = (blocks.next(), blocks.next()) else { return None };
        let (mut kind, mut text) = (None, None);
        for (name, value) in block.members()? {
            match &*name? {
                "type" => set_once(&mut kind, value)?,
                "text" => set_once(&mut text, value)?,
                _ => more = true,
            }
        }
        if kind?.text()? != "text" {
            return None;
        }
        let text = text?.text()?;
        let mirror = match structured {
            Some(structured) if structured.get() != "null" => mirror(structured, &text),
            _ => Mirror::Absent,
        };
        Some(Self { text, mirror, more })
    }

    /// Whether an entry of this role sees all that the result says if it sees the text alone. A Guard may search the text
    /// as it is, so structured content must say the same in the same characters: what stands in an escape or with an
    /// exponent in the text is plain to those who parse the structured content.
    pub(crate) fn says_all(&self, role: Role) -> bool {
        match self.mirror {
            Mirror::Other => false,
            _ if role != Role::Guard => true,
            Mirror::SameJson => !self.more && is_plain(&self.text),
            Mirror::Absent | Mirror::Wrapped => !self.more,
        }
    }
}

/// Stores the value of a member; `None` if the member occurs twice.
fn set_once<'a>(place: &mut Option<Skim<'a>>, value: Skim<'a>) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// Whether a member of a result cannot hide data from a Guard: it is examined separately, or has one of a fixed set of
/// values.
fn is_harmless(name: &str, value: Skim<'_>) -> bool {
    match name {
        "content" | "structuredContent" => true,
        "isError" => matches!(value.get(), "true" | "false" | "null"),
        "resultType" => value.text().is_some_and(|word| RESULT_TYPES.contains(&&*word)),
        _ => false,
    }
}

fn mirror(structured: Skim<'_>, text: &str) -> Mirror {
    if is_wrapped(structured, text).unwrap_or_default() {
        return Mirror::Wrapped;
    }
    if is_same(structured.get(), text) { Mirror::SameJson } else { Mirror::Other }
}

/// Whether an object has the member `result` with this text, and no other.
fn is_wrapped(structured: Skim<'_>, text: &str) -> Option<bool> {
    let mut members = structured.members()?;
    let (name, value) = members.next()?;
    Some(name? == "result" && value.text()? == text && members.next().is_none())
}
