//! What a server says of itself to clients when they connect (MCP, InitializeResult and DiscoverResult).

use std::sync::Arc;

use serde_json::value::RawValue;

use super::extensions::{Extensions, MAX_OF_SERVER};
use super::raw::RawObject;
use super::secret::Mask;

/// Maximum size of the instructions of a server in bytes; longer ones are cut.
const MAX_INSTRUCTIONS: usize = 16 << 10;
/// Maximum size of the description of a server, in bytes of JSON. Icons can be part of it; they are left out first.
const MAX_INFO: usize = 16 << 10;

/// What a server announces to clients besides its version and its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// The extensions that the server supports.
    pub extensions: Extensions,
    /// Its experimental capabilities.
    pub experimental: Extensions,
    /// What a server of the legacy era does with tasks; `None` if it has none.
    pub tasks: Option<LegacyTasks>,
    /// How to use the server, for the model of a client.
    pub instructions: Option<Arc<str>>,
    /// The description of the server (`serverInfo`), a JSON object.
    pub info: Option<Arc<str>>,
}

/// What a server does with tasks (MCP 2025-11-25, `capabilities.tasks`). It can run tool calls as tasks; that it can list
/// tasks is left out, because clients share connections to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyTasks {
    /// Whether tasks can be cancelled.
    pub cancel: bool,
}

impl LegacyTasks {
    fn read(tasks: &RawValue) -> Option<Self> {
        let member = |object: &RawValue, name: &str| {
            RawObject::parse(object.get())
                .ok()?
                .get(name)
                .filter(|value| value.get().starts_with('{'))
                .map(RawValue::to_owned)
        };
        let (requests, cancel) = (member(tasks, "requests")?, member(tasks, "cancel"));
        member(&member(&requests, "tools")?, "call")?;
        Some(Self { cancel: cancel.is_some() })
    }

    /// Returns what two servers both do.
    pub fn both(self, other: Self) -> Self {
        Self { cancel: self.cancel && other.cancel }
    }
}

/// The members of a server's answer to `initialize` or `server/discover` that make up an [`Announcement`], as raw JSON.
#[derive(Clone, Copy, Debug, Default)]
pub struct Announced<'a> {
    /// `capabilities.extensions`.
    pub extensions: Option<&'a RawValue>,
    /// `capabilities.experimental`.
    pub experimental: Option<&'a RawValue>,
    /// `capabilities.tasks`, which only the legacy era has.
    pub tasks: Option<&'a RawValue>,
    /// `instructions`.
    pub instructions: Option<&'a RawValue>,
    /// `serverInfo`.
    pub info: Option<&'a RawValue>,
}

impl Announcement {
    /// Reads what a server answers. Leaves out what is not valid or too large.
    pub fn read(Announced { extensions, experimental, tasks, instructions, info }: Announced<'_>) -> Self {
        let instructions = instructions.and_then(|text| serde_json::from_str::<String>(text.get()).ok());
        Self {
            extensions: Extensions::read(extensions, MAX_OF_SERVER),
            experimental: Extensions::read(experimental, MAX_OF_SERVER),
            tasks: tasks.and_then(LegacyTasks::read),
            instructions: instructions.map(|text| Arc::from(&text[..text.floor_char_boundary(MAX_INSTRUCTIONS)])),
            info: info.and_then(description).map(|info| Arc::from(info.get())),
        }
    }

    /// Returns the announcement with secret values hidden.
    #[must_use]
    pub fn masked(&self, mask: &Mask) -> Self {
        let object = |info: &Arc<str>| {
            let info = RawValue::from_string(info.to_string()).ok()?;
            Some(Arc::from(mask.masked_json(info).get()))
        };
        Self {
            extensions: self.extensions.without_secrets(mask),
            experimental: self.experimental.without_secrets(mask),
            tasks: self.tasks,
            instructions: self.instructions.as_ref().map(|text| Arc::from(&*mask.masked(&**text))),
            info: self.info.as_ref().and_then(object),
        }
    }
}

/// Returns the description of a server that clients get; `None` if there is no valid one.
fn description(info: &RawValue) -> Option<Box<RawValue>> {
    let mut object = RawObject::parse(info.get()).ok()?;
    // Clients cannot read a description without these two (MCP, Implementation).
    object.get_str("name").and(object.get_str("version"))?;
    if info.get().len() <= MAX_INFO {
        return Some(info.to_owned());
    }
    object.remove("icons");
    Some(object.to_raw()).filter(|info| info.get().len() <= MAX_INFO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::secret::SecretText;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    #[test]
    fn secrets_are_hidden_and_what_is_too_long_is_cut() {
        let instructions = raw(&format!(r#""use hunter22 {}""#, "ä".repeat(MAX_INSTRUCTIONS)));
        let info = raw(r#"{"name":"n","version":"1","title":"hunter22","x": 1.0}"#);
        let announced = Announced { instructions: Some(&instructions), info: Some(&info), ..Announced::default() };
        let said = Announcement::read(announced);
        assert!(said.instructions.as_ref().unwrap().len() <= MAX_INSTRUCTIONS);
        assert_eq!(said.info.as_deref(), Some(info.get()));
        let masked = said.masked(&Mask::of([&SecretText::new("hunter22")]));
        assert!(masked.instructions.unwrap().starts_with("use [secret] ä"));
        assert!(masked.info.unwrap().contains(r#""title":"[secret]""#));
    }

    #[test]
    fn tasks_of_the_legacy_era_are_those_of_tool_calls() {
        for (tasks, read) in [
            (r#"{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#, Some(LegacyTasks { cancel: true })),
            (r#"{"requests":{"tools":{"call":{}}}}"#, Some(LegacyTasks { cancel: false })),
            (r#"{"cancel":{},"requests":{"sampling":{"createMessage":{}}}}"#, None),
            ("{}", None),
            ("true", None),
        ] {
            assert_eq!(LegacyTasks::read(&raw(tasks)), read, "{tasks}");
        }
    }

    #[test]
    fn a_description_that_clients_cannot_read_is_left_out() {
        let large = format!(r#"{{"name":"n","version":"1","icons":["{}"]}}"#, "x".repeat(MAX_INFO));
        for (info, kept) in
            [(r#"{"name":"n"}"#, None), ("[]", None), (large.as_str(), Some(r#"{"name":"n","version":"1"}"#))]
        {
            assert_eq!(description(&raw(info)).as_deref().map(RawValue::get), kept);
        }
    }
}
