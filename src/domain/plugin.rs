//! A plugin as the data plane sees it: what goes in, what comes out, and how it may fail.
//!
//! Input and output are those of the Plugin API Contract 1.0 (document 001); field names there are fixed.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::reason::Reason;

/// When in a call a plugin runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Before the call is sent.
    Request,
    /// On what came back.
    Response,
}

impl Phase {
    /// The contract's word, lower case.
    pub fn wire(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
        }
    }
}

/// What a plugin is for, and so what its failure means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// Checks and redactors: where it cannot run, the call fails.
    Guard,
    /// Curation, enrichment: where it cannot run, the content goes on as it was.
    #[default]
    Transform,
    /// Loggers: off the call's path, changes nothing.
    Observe,
}

/// What the failure of an entry does to the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// The call fails; in the response phase its content is withheld.
    Fail,
    /// The content goes on as it entered the entry.
    LastGood,
    /// The same content goes on; the failure is only recorded.
    Ignore,
}

impl Role {
    /// The policy of an entry that writes none.
    pub fn default_policy(self) -> FailurePolicy {
        match self {
            Self::Guard => FailurePolicy::Fail,
            Self::Transform => FailurePolicy::LastGood,
            Self::Observe => FailurePolicy::Ignore,
        }
    }
}

/// What of a response an entry sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum View {
    /// `Text` where the result is exactly one text block and its structured content only mirrors it, else `Json`. For a
    /// Guard, `Json` too where any other member could hold content.
    #[default]
    Auto,
    /// The text of the only text block.
    Text,
    /// The JSON text of the whole result or error.
    Json,
}

/// Whether an entry acts or only watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// It acts.
    #[default]
    Enforce,
    /// It runs beside the call and changes nothing; its record says what it would have done.
    Shadow,
}

impl Mode {
    /// The metric label.
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
        }
    }
}

/// How a worker speaks with its plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// Contract 1.0 to the letter: standard input to its end, one line out, exit.
    Once,
    /// A script that reads one message and prints one, again and again.
    Lines,
    /// A module with exported functions, loaded once in a warm worker.
    Module,
}

/// What the messages of a Lines plugin are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Encoding {
    /// Lines of JSON.
    #[default]
    #[serde(rename = "JSON")]
    Json,
    /// MessagePack, each with its length before it.
    MessagePack,
}

/// Contract 1.0's `metadata`, with the optional fields that later gateways may add.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata<'a> {
    /// A UUIDv7 of ours, the same for every entry of one call.
    pub request_id: &'a str,
    /// RFC 3339, UTC, milliseconds.
    pub timestamp: &'a str,
    /// The upstream's name.
    pub server_name: &'a str,
    /// `request` or `response`.
    pub phase: &'static str,
    /// What the user asked, where the call says so.
    pub user_query: Option<&'a str>,
    /// `text` or `json`: what `rawContent` is.
    pub content_type: ContentType,
    /// The plugin's configuration with the entry's overrides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<&'a RawValue>,
    /// The chain, as `namespace/name`.
    pub chain: &'a str,
    /// 1, and more where a call is tried again.
    pub attempt: u32,
}

/// What `rawContent` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentType {
    /// Free text.
    Text,
    /// The text of a JSON value.
    Json,
}

/// Contract 1.0's input.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Input<'a> {
    /// `{upstream}/{tool}` with the upstream's own tool name.
    pub tool_name: &'a str,
    /// The content. Framed wires send it beside the header, so it is left out there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_content: Option<&'a str>,
    /// A limit for curating plugins.
    pub max_tokens: Option<u32>,
    /// The rest.
    pub metadata: Metadata<'a>,
}

/// Contract 1.0's output, checked.
#[derive(Clone, Debug)]
pub struct Output {
    /// The content that goes on.
    pub text: String,
    /// Whether the chain's later entries run.
    pub proceed: bool,
    /// Any JSON, for the record.
    pub metadata: Option<Box<RawValue>>,
    /// The plugin's own word that it failed, or denies.
    pub error: Option<String>,
}

/// Why an execution gave no usable output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// One word of the closed list.
    pub reason: Reason,
    /// For the log and the record; no content, no secret.
    pub message: String,
}

impl Failure {
    /// A failure of this reason. A message longer than [`MAX_MESSAGE`] is cut.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: cut(message.into()) }
    }
}

/// The longest message of a failure or a denial, in bytes: it is kept with each record, and a plugin may put whatever
/// it was given into its words.
pub const MAX_MESSAGE: usize = 1024;

fn cut(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        message.push_str("...");
    }
    message
}

/// One execution, as the runner reports it.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The output, or why there is none.
    pub output: Result<Output, Failure>,
    /// From asking for a worker to having one.
    pub queued: Duration,
    /// From having one to its answer.
    pub ran: Duration,
    /// The worker, where one was had.
    pub worker_pid: Option<u32>,
}

/// Contract 1.0's output as a wire carries it, `metadata` in the form that the wire has for any value.
#[derive(Deserialize)]
pub struct WireOutput<M> {
    /// The content that goes on; none where the wire carries it apart.
    pub text: Option<String>,
    /// Whether the chain's later entries run.
    #[serde(rename = "continue")]
    pub proceed: Option<bool>,
    /// Any value.
    pub metadata: Option<M>,
    /// The plugin's own word that it failed, or denies.
    pub error: Option<String>,
}

impl Output {
    /// Reads one line of contract 1.0 output. `text` is given apart where the wire carries it beside the header.
    ///
    /// # Errors
    /// `InvalidOutput` if it is not a JSON object, a required field is missing or has another type, or `error` comes
    /// with `continue: true`. The message holds no content.
    pub fn parse(json: &str, text: Option<String>) -> Result<Self, Failure> {
        let invalid = |what: String| Failure::new(Reason::InvalidOutput, what);
        let wire: WireOutput<Box<RawValue>> =
            serde_json::from_str(json).map_err(|e| invalid(format!("returned invalid JSON: {}", place(&e))))?;
        Self::check(WireOutput { text: text.or(wire.text), ..wire })
    }

    /// Checks what a wire carried.
    ///
    /// # Errors
    /// `InvalidOutput` where a required field is missing, or `error` comes with `continue: true`.
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

/// What a JSON error may say in a log: its kind and place, never the text that was read.
fn place(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "a field has the wrong type",
        serde_json::error::Category::Eof => "it ends too early",
        _ => "unexpected token",
    };
    format!("{what} at line {}, column {}", error.line(), error.column())
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
