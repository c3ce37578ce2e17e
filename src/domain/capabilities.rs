//! What a client says that it can be asked, and its extensions (MCP, client capabilities).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::extensions::{Extensions, MAX_OF_CLIENT};
use super::method::Method;
use super::quoted::Quoted;
use super::raw::{RawObject, to_raw};

/// What a client can do, as its capabilities say (MCP, client capabilities). A value is small and cheap to clone, because
/// connections are told apart by it, and a session id holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClientCapabilities {
    /// The questions of servers that the client answers, as flags.
    #[serde(rename = "q", default, skip_serializing_if = "is_zero")]
    questions: u8,
    /// The extensions that the client supports.
    #[serde(rename = "x", default, skip_serializing_if = "Extensions::is_empty")]
    extensions: Extensions,
}

/// The maximum number of characters of the name of an extension that an error repeats.
const MAX_SHOWN: usize = 64;

fn is_zero(flags: &u8) -> bool {
    *flags == 0
}

const SAMPLING: u8 = 1;
const SAMPLING_TOOLS: u8 = 1 << 1;
const SAMPLING_CONTEXT: u8 = 1 << 2;
const ELICITATION: u8 = 1 << 3;
const ELICITATION_FORM: u8 = 1 << 4;
const ELICITATION_URL: u8 = 1 << 5;
const ROOTS: u8 = 1 << 6;

/// Capabilities that are objects too, and that the gateway does not ask for.
const OTHERS: [&str; 3] = ["experimental", "extensions", "tasks"];

/// A member inside of a capability, and its flag.
type Member = (&'static str, u8);

/// The capabilities, with the members inside of each.
const TABLE: [(&str, u8, &[Member]); 3] = [
    ("elicitation", ELICITATION, &[("form", ELICITATION_FORM), ("url", ELICITATION_URL)]),
    ("roots", ROOTS, &[]),
    ("sampling", SAMPLING, &[("context", SAMPLING_CONTEXT), ("tools", SAMPLING_TOOLS)]),
];

impl ClientCapabilities {
    /// Checks that the capabilities of the protocol are objects, and so what is inside of them (MCP, client capabilities).
    /// A member that is `null` counts as absent, because some clients write what they do not have so.
    ///
    /// # Errors
    /// Says which member is no object. `name` is the name of all of them.
    pub fn check(declared: Option<&RawValue>, name: &str) -> Result<(), String> {
        let Some(all) = object(declared, || name.to_owned())? else { return Ok(()) };
        for (capability, _, members) in TABLE {
            let place = || format!("{name}.{capability}");
            let Some(inner) = object(all.get(capability), place)? else { continue };
            for (member, _) in members {
                object(inner.get(member), || format!("{}.{member}", place()))?;
            }
        }
        for capability in OTHERS {
            object(all.get(capability), || format!("{name}.{capability}"))?;
        }
        let extensions = object(all.get("extensions"), String::new)?.unwrap_or_default();
        for (extension, settings) in extensions.iter() {
            object(Some(settings), || format!("{name}.extensions[{}]", Quoted(extension, MAX_SHOWN)))?;
        }
        Ok(())
    }

    /// Reads what a client declares. What is not about questions or extensions, or is not an object, is left out.
    pub fn read(declared: Option<&RawValue>) -> Self {
        let object = |raw: &RawValue| RawObject::parse(raw.get()).ok();
        let Some(declared) = declared.and_then(object) else { return Self::default() };
        let mut flags = 0;
        for (name, flag, members) in TABLE {
            let Some(capability) = declared.get(name).and_then(object) else { continue };
            flags |= flag;
            let inside = members.iter().filter(|(member, _)| capability.get(member).and_then(object).is_some());
            flags |= inside.fold(0, |flags, (_, flag)| flags | flag);
        }
        Self { questions: flags, extensions: Extensions::read(declared.get("extensions"), MAX_OF_CLIENT) }
    }

    /// Whether the client answers no questions and has no extensions.
    pub fn is_empty(&self) -> bool {
        self.answers_nothing() && self.extensions.is_empty()
    }

    /// Whether the client answers no questions.
    pub fn answers_nothing(&self) -> bool {
        self.questions == 0
    }

    /// Whether the client answers questions of this method.
    pub fn answers(&self, method: Method) -> bool {
        let flag = match method {
            Method::CreateMessage => SAMPLING,
            Method::Elicit => ELICITATION,
            Method::ListRoots => ROOTS,
            _ => 0,
        };
        self.questions & flag != 0
    }

    /// Whether the client supports this extension.
    pub fn has_extension(&self, name: &str) -> bool {
        self.extensions.has(name)
    }

    /// Returns the capabilities without this extension.
    #[must_use]
    pub fn without_extension(&self, name: &str) -> Self {
        Self { questions: self.questions, extensions: self.extensions.without(name) }
    }

    /// Returns the capabilities as JSON, as a client declares them to a server.
    pub fn to_json(&self) -> String {
        if self.is_empty() {
            return "{}".to_owned();
        }
        let has = |flag: u8| self.questions & flag != 0;
        let mut declared = RawObject::default();
        for (name, _, members) in TABLE.into_iter().filter(|(_, flag, _)| has(*flag)) {
            let inside = members.iter().filter(|(_, flag)| has(*flag)).map(|(member, _)| (*member, json!({})));
            declared.set(name, to_raw(&inside.collect::<BTreeMap<_, _>>()));
        }
        if !self.extensions.is_empty() {
            declared.set("extensions", to_raw(&self.extensions));
        }
        to_raw(&declared).get().to_owned()
    }
}

/// Reads a member that has to be an object; `None` if it is absent. `place` names it.
fn object(member: Option<&RawValue>, place: impl Fn() -> String) -> Result<Option<RawObject>, String> {
    let Some(text) = member.map(RawValue::get).filter(|text| *text != "null") else { return Ok(None) };
    let found = match text.as_bytes().first() {
        Some(b'{') => return Ok(RawObject::parse(text).ok()),
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        _ => "a number",
    };
    Err(format!("`{}` must be an object, such as {{}}, and is {found}", place()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ClientCapabilities {
        ClientCapabilities::read(Some(&RawValue::from_string(text.into()).unwrap()))
    }

    #[test]
    fn what_a_client_declares_is_told_to_servers() {
        for (declared, told) in [
            ("{}", "{}"),
            ("[]", "{}"),
            (r#"{"sampling":{}}"#, r#"{"sampling":{}}"#),
            (r#"{"sampling":{"tools":{},"x":{}},"other":{}}"#, r#"{"sampling":{"tools":{}}}"#),
            (
                r#"{"roots":{"listChanged":true},"elicitation":{"url":{},"form":{}}}"#,
                r#"{"elicitation":{"form":{},"url":{}},"roots":{}}"#,
            ),
            (r#"{"sampling":true,"elicitation":null}"#, "{}"),
            (r#"{"extensions":{"a/x":{"n": 1.0}},"roots":{}}"#, r#"{"roots":{},"extensions":{"a/x":{"n": 1.0}}}"#),
        ] {
            assert_eq!(read(declared).to_json(), told, "{declared}");
        }
        assert_eq!(ClientCapabilities::read(None), ClientCapabilities::default());
    }

    #[test]
    fn what_cannot_be_an_object_is_named() {
        let check = |text: &str| ClientCapabilities::check(Some(&RawValue::from_string(text.into()).unwrap()), "all");
        for valid in [
            "{}",
            "null",
            r#"{"sampling":{},"elicitation":null,"roots":{"listChanged":true},"new":3}"#,
            r#"{"elicitation":{"form":{},"url":null},"sampling":{"tools":{},"context":{"x":[]}},"experimental":{"x":true}}"#,
            r#"{"extensions":{"a/x":{}},"tasks":{"list":{},"requests":{"sampling":{"createMessage":{}}}}}"#,
        ] {
            assert_eq!(check(valid), Ok(()), "{valid}");
        }
        for (declared, place, found) in [
            ("[]", "all", "an array"),
            (r#"{"sampling":3}"#, "all.sampling", "a number"),
            (r#"{"elicitation":[]}"#, "all.elicitation", "an array"),
            (r#"{"roots":true}"#, "all.roots", "a boolean"),
            (r#"{"elicitation":{"form":"yes"}}"#, "all.elicitation.form", "a string"),
            (r#"{"sampling":{"tools":-1}}"#, "all.sampling.tools", "a number"),
            (r#"{"experimental":"x"}"#, "all.experimental", "a string"),
            (r#"{"tasks":[]}"#, "all.tasks", "an array"),
            (r#"{"extensions":{"a/x":1}}"#, r#"all.extensions["a/x"]"#, "a number"),
        ] {
            assert_eq!(check(declared), Err(format!("`{place}` must be an object, such as {{}}, and is {found}")));
        }
        assert_eq!(ClientCapabilities::check(None, "all"), Ok(()));
    }

    #[test]
    fn a_client_answers_what_it_declares() {
        let sampling = read(r#"{"sampling":{"context":{}}}"#);
        assert!(sampling.answers(Method::CreateMessage) && !sampling.is_empty());
        assert!(!sampling.answers(Method::Elicit) && !sampling.answers(Method::ListRoots));
        assert!(!read(r#"{"roots":{}}"#).answers(Method::CallTool) && read("{}").is_empty());
        let extended = read(r#"{"extensions":{"a/x":{}}}"#);
        assert!(extended.answers_nothing() && !extended.is_empty());
    }
}
