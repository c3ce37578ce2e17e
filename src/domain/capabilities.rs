//! What a client says that it can be asked (MCP, client capabilities).

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::method::Method;
use super::raw::RawObject;

/// Which questions a client answers, as its capabilities say (MCP, client capabilities). Each value is a set of flags, so
/// that connections can be told apart by it and a session id can hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClientCapabilities(u8);

const SAMPLING: u8 = 1;
const SAMPLING_TOOLS: u8 = 1 << 1;
const SAMPLING_CONTEXT: u8 = 1 << 2;
const ELICITATION: u8 = 1 << 3;
const ELICITATION_FORM: u8 = 1 << 4;
const ELICITATION_URL: u8 = 1 << 5;
const ROOTS: u8 = 1 << 6;

/// A member inside of a capability, and its flag.
type Member = (&'static str, u8);

/// The capabilities, with the members inside of each.
const TABLE: [(&str, u8, &[Member]); 3] = [
    ("elicitation", ELICITATION, &[("form", ELICITATION_FORM), ("url", ELICITATION_URL)]),
    ("roots", ROOTS, &[]),
    ("sampling", SAMPLING, &[("context", SAMPLING_CONTEXT), ("tools", SAMPLING_TOOLS)]),
];

impl ClientCapabilities {
    /// Reads what a client declares. What is not about questions, or is not an object, is left out.
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
        Self(flags)
    }

    /// Whether the client answers no questions.
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Whether the client answers questions of this method.
    pub fn answers(self, method: Method) -> bool {
        let flag = match method {
            Method::CreateMessage => SAMPLING,
            Method::Elicit => ELICITATION,
            Method::ListRoots => ROOTS,
            _ => 0,
        };
        self.0 & flag != 0
    }

    /// Returns the capabilities as JSON, as a client declares them to a server.
    pub fn to_json(self) -> String {
        if self.is_empty() {
            return "{}".to_owned();
        }
        let has = |flag: u8| self.0 & flag != 0;
        let declared = TABLE.into_iter().filter(|(_, flag, _)| has(*flag)).map(|(name, _, members)| {
            let inside = members.iter().filter(|(_, flag)| has(*flag)).map(|(member, _)| (*member, json!({})));
            (name.to_owned(), serde_json::Value::Object(inside.map(|(name, value)| (name.to_owned(), value)).collect()))
        });
        serde_json::Value::Object(declared.collect()).to_string()
    }
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
        ] {
            assert_eq!(read(declared).to_json(), told, "{declared}");
        }
        assert_eq!(ClientCapabilities::read(None), ClientCapabilities::default());
    }

    #[test]
    fn a_client_answers_what_it_declares() {
        let sampling = read(r#"{"sampling":{"context":{}}}"#);
        assert!(sampling.answers(Method::CreateMessage) && !sampling.is_empty());
        assert!(!sampling.answers(Method::Elicit) && !sampling.answers(Method::ListRoots));
        assert!(!read(r#"{"roots":{}}"#).answers(Method::CallTool) && read("{}").is_empty());
    }
}
