//! A plugin as the data plane sees it: its input, its output, and how it can fail.
//!
//! Input and output are those of the Plugin API Contract 1.0 (document 001), which fixes the names of their fields.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub(super) use super::failure::cut;
pub use super::failure::{Failure, MAX_MESSAGE};
pub use super::plugin_kind::{PluginKind, TypedCall};
use super::reason::Reason;

/// The phase of a call in which a plugin runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum Phase {
    /// Before the call is sent to the upstream.
    Request,
    /// After the upstream has answered.
    Response,
}

impl Phase {
    /// Returns the phase as the contract writes it, in lower case.
    pub fn wire(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
        }
    }
}

/// The purpose of a plugin. It decides the default failure policy of the plugin's entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum Role {
    /// Checks and redacts. By default, the call fails if the plugin fails.
    Guard,
    /// Curates and enriches. By default, the content is passed on unchanged if the plugin fails.
    #[default]
    Transform,
    /// Observes, such as a logger. It runs off the call's path and changes nothing.
    Observe,
}

/// The effect of an entry's failure on its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum FailurePolicy {
    /// The call fails. In the response phase, the content of the response is withheld.
    Fail,
    /// The content is passed on as the entry received it.
    LastGood,
    /// The content is passed on unchanged, and the failure is only recorded.
    Ignore,
}

impl Role {
    /// Returns the policy of an entry that does not set one.
    pub fn default_policy(self) -> FailurePolicy {
        match self {
            Self::Guard => FailurePolicy::Fail,
            Self::Transform => FailurePolicy::LastGood,
            Self::Observe => FailurePolicy::Ignore,
        }
    }
}

/// The part of a response that an entry sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum View {
    /// `Text` if the result is exactly one text block and its structured content only repeats that text, else `Json`.
    /// For a Guard, also `Json` if any other member of the result could hold content, or if the text repeats structured
    /// content in other characters: with escapes, or with numbers that have an exponent.
    #[default]
    Auto,
    /// The text of the only text block.
    Text,
    /// The JSON text of the whole result or error.
    Json,
}

/// The way an entry runs: with effect on its calls, or only to show what it would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum Mode {
    /// The entry affects calls.
    #[default]
    Enforce,
    /// The entry runs beside the call and changes nothing. Its record shows what it would have done.
    Shadow,
}

impl Mode {
    /// Returns the mode as a metric label.
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
        }
    }
}

/// How a worker exchanges messages with its plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum Protocol {
    /// Exactly contract 1.0: the script reads standard input to its end, writes one line and exits.
    Once,
    /// A script that repeatedly reads one message and writes one.
    Lines,
    /// A module that exports functions. A warm worker loads it once.
    Module,
}

/// The format of the messages of a Lines plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Encoding {
    /// One line of JSON for each message.
    #[default]
    #[serde(rename = "JSON")]
    Json,
    /// MessagePack, each message preceded by its length.
    MessagePack,
}

/// The `metadata` object in the input of contract 1.0. The contract lets gateways add optional fields to it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata<'a> {
    /// A UUIDv7 made by the gateway, the same for every entry of one call.
    pub request_id: &'a str,
    /// When the call started, in RFC 3339, UTC, with milliseconds.
    pub timestamp: &'a str,
    /// The upstream's name.
    pub server_name: &'a str,
    /// The phase: `request` or `response`.
    pub phase: &'static str,
    /// The method of the request, such as `tools/call`.
    pub method: &'static str,
    /// The user's question, if the call contains it.
    pub user_query: Option<&'a str>,
    /// `text` or `json`: the type of `rawContent`.
    pub content_type: ContentType,
    /// The plugin's configuration, overridden by that of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<&'a RawValue>,
    /// The chain that the plugin runs in, as `namespace/name`.
    pub chain: &'a str,
    /// Always 1: chains run once, even if a call is sent again.
    pub attempt: u32,
}

/// The type of `rawContent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentType {
    /// Free text.
    Text,
    /// The text of a JSON value.
    Json,
}

/// The input of contract 1.0.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Input<'a> {
    /// `{upstream}/{tool}`, with the server's own name for the tool.
    pub tool_name: &'a str,
    /// The content; `None` on protocols that send it separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_content: Option<&'a str>,
    /// Token limit for plugins that shorten content; `None` means no limit.
    pub max_tokens: Option<u32>,
    /// Data about the call and the entry.
    pub metadata: Metadata<'a>,
    /// The function to call, for a plugin that is not middleware. The content is then a JSON array of its arguments, and
    /// the text of the output is the JSON of its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub typed: Option<TypedCall<'a>>,
}

/// The output of contract 1.0, after validation.
#[derive(Clone, Debug)]
pub struct Output {
    /// The content that replaces the input.
    pub text: String,
    /// Whether the later entries of the chain run; if false, only Guards do. The contract calls this field `continue`.
    pub proceed: bool,
    /// Any JSON. It becomes part of the entry's trace, unless it is too large or nested too deep.
    pub metadata: Option<Box<RawValue>>,
    /// The plugin's message if it reports a failure or denies the call.
    pub error: Option<String>,
}

/// The result of one execution, as the runner returns it.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The output, or why there is none.
    pub output: Result<Output, Failure>,
    /// The time spent waiting for a worker.
    pub queued: Duration,
    /// The time from getting a worker to its answer.
    pub ran: Duration,
    /// The process id of the worker; `None` if the execution got none.
    pub worker_pid: Option<u32>,
}

/// The output of contract 1.0 before validation. `M` is the type that can hold any value of the encoding in use.
#[derive(Deserialize)]
pub struct WireOutput<M> {
    /// The content that replaces the input; `None` if it is sent separately.
    pub text: Option<String>,
    /// Whether the later entries of the chain run; see [`Output::proceed`].
    #[serde(rename = "continue")]
    pub proceed: Option<bool>,
    /// Any value; see [`Output::metadata`].
    pub metadata: Option<M>,
    /// The plugin's message if it reports a failure or denies the call.
    pub error: Option<String>,
}

impl Output {
    /// Parses one line of contract 1.0 output. `text` is the content if the protocol sends it separately.
    ///
    /// # Errors
    /// `InvalidOutput` if the line is not a JSON object, a required field is missing or has another type, or `error` is
    /// set together with `continue: true`. The message holds no content.
    pub fn parse(json: &str, text: Option<String>) -> Result<Self, Failure> {
        let invalid = |what: String| Failure::new(Reason::InvalidOutput, what);
        let wire: WireOutput<Box<RawValue>> = serde_json::from_str(json).map_err(|error| {
            let member = error.is_data().then(|| wrong_member(json)).flatten();
            invalid(member.map_or_else(|| format!("returned invalid JSON: {}", place(&error)), str::to_owned))
        })?;
        Self::check(WireOutput { text: text.or(wire.text), ..wire })
    }

    /// Validates an output that was decoded.
    ///
    /// # Errors
    /// `InvalidOutput` if a required field is missing, or `error` is set together with `continue: true`.
    pub fn check(wire: WireOutput<Box<RawValue>>) -> Result<Self, Failure> {
        let invalid = |what: String| Failure::new(Reason::InvalidOutput, what);
        let text = wire.text.ok_or_else(|| invalid("its answer has no `text`".into()))?;
        let proceed = wire.proceed.ok_or_else(|| invalid("its answer has no `continue`".into()))?;
        if wire.error.is_some() && proceed {
            return Err(invalid("its answer has an `error` with `continue: true`".into()));
        }
        Ok(Self { text, proceed, metadata: wire.metadata.filter(|m| m.get() != "null"), error: wire.error.map(cut) })
    }
}

/// Describes a JSON error for a log: its category and place, never the text that was read.
fn place(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => said_twice(error).unwrap_or_else(|| "a field has the wrong type".into()),
        serde_json::error::Category::Eof => "it ends too early".into(),
        _ => "unexpected token".into(),
    };
    format!("{what} at line {}, column {}", error.line(), error.column())
}

/// Names the first member of a line that has another type than [`WireOutput`], and says which one it must have.
fn wrong_member(json: &str) -> Option<&'static str> {
    let answer: Value = serde_json::from_str(json).ok()?;
    let Value::Object(answer) = answer else { return Some("its answer is not an object") };
    let is_wrong =
        |name, fits: fn(&Value) -> bool| answer.get(name).is_some_and(|value| !value.is_null() && !fits(value));
    let wrong = [
        (is_wrong("text", Value::is_string), "its `text` is not a string"),
        (is_wrong("continue", Value::is_boolean), "its `continue` is neither true nor false"),
        (is_wrong("error", Value::is_string), "its `error` is not a string"),
    ];
    wrong.iter().find_map(|(is_wrong, said)| is_wrong.then_some(*said))
}

/// If a deserializer's error is that a member of [`WireOutput`] occurs twice, says so, by the name of the member and
/// nothing else that was read.
pub fn said_twice(error: &dyn fmt::Display) -> Option<String> {
    let error = error.to_string();
    let (name, _) = error.strip_prefix("duplicate field `")?.split_once('`')?;
    Some(format!("the key `{name}` stands twice"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_contract_output() {
        let out = Output::parse(r#"{"text":"a","continue":true,"metadata":null,"error":null,"more":1}"#, None).unwrap();
        assert_eq!((out.text.as_str(), out.proceed, out.error), ("a", true, None));
        assert!(out.metadata.is_none());
    }

    #[test]
    fn refuses_what_the_contract_does_not_allow() {
        for bad in [
            "",
            "[]",
            r#"{"continue":true}"#,
            r#"{"text":"a"}"#,
            r#"{"text":1,"continue":true}"#,
            r#"{"text":"a","continue":"yes"}"#,
            r#"{"text":"a","continue":true,"error":"x"}"#,
            r#"{"text":"a","continue":false,"error":{"m":1}}"#,
        ] {
            assert_eq!(Output::parse(bad, None).unwrap_err().reason, Reason::InvalidOutput, "{bad}");
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_named() {
        for (answer, said) in [
            (r#"{"text":"a","continue":true,"text":"b"}"#, "the key `text` stands twice at line 1, column "),
            (r#"{"text":"a","continue":false,"error":"x","error":null}"#, "the key `error` stands twice"),
        ] {
            let failure = Output::parse(answer, None).unwrap_err();
            assert_eq!(failure.reason, Reason::InvalidOutput);
            assert!(failure.message.starts_with(&format!("returned invalid JSON: {said}")), "{failure}");
        }
    }

    #[test]
    fn a_member_of_another_type_is_named() {
        for (answer, said) in [
            ("[]", "its answer is not an object"),
            (r#"{"text":1,"continue":true}"#, "its `text` is not a string"),
            (r#"{"text":"a","continue":"duplicate field `text`"}"#, "its `continue` is neither true nor false"),
            (r#"{"text":"a","continue":false,"error":0}"#, "its `error` is not a string"),
        ] {
            assert_eq!(Output::parse(answer, None).unwrap_err().message, said);
        }
    }

    #[test]
    fn long_words_of_a_plugin_are_cut() {
        let answer = format!(r#"{{"text":"","continue":false,"error":"{}"}}"#, "ä".repeat(2000));
        let error = Output::parse(&answer, None).unwrap().error.unwrap();
        assert!(error.len() <= MAX_MESSAGE + 3 && error.ends_with("..."));
        assert!(Failure::new(Reason::PluginError, "x".repeat(5000)).message.len() <= MAX_MESSAGE + 3);
    }

    #[test]
    fn its_messages_hold_no_content() {
        let failure = Output::parse(r#"{"text": s3cret}"#, None).unwrap_err();
        assert!(!failure.message.contains("s3cret"), "{}", failure.message);
    }

    #[test]
    fn metadata_is_kept_as_it_came_unless_it_is_null() {
        for (metadata, kept) in [("null", None), ("0", Some("0")), (r#"{"a": null}"#, Some(r#"{"a": null}"#))] {
            let answer = format!(r#"{{"text":"","continue":true,"metadata":{metadata}}}"#);
            let output = Output::parse(&answer, None).unwrap();
            assert_eq!(output.metadata.as_deref().map(RawValue::get), kept, "{metadata}");
        }
    }
}
