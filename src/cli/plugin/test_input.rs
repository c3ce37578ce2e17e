//! The test input of a plugin: the content and the call that the command line describes.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::args::{self, ContentType};
use crate::cli::output::say;
use crate::config::nearest::nearest;
use crate::domain::plugin::Phase;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::upstream::Answer;

/// Maximum size of the content, in bytes.
const MAX_CONTENT: u64 = 64 << 20;
/// The default server and tool of the call.
const TOOL: &str = "test/tool";

/// The content and the call on which a plugin is tested.
#[derive(Clone, Debug)]
pub struct TestInput {
    pub server: String,
    /// The upstream's own name for the tool.
    pub tool: String,
    /// The phase to run in; `None` means the response phase if the plugin supports it, otherwise the request phase.
    pub phase: Option<Phase>,
    pub text: String,
    /// Whether the content of a response is the JSON of the whole result.
    pub is_json: bool,
    /// The token limit for plugins that shorten content.
    pub max_tokens: Option<u32>,
    /// The user's question, which is passed to plugins.
    pub user_query: Option<String>,
}

/// The members of a contract 1.0 input that are used. The id and the time in it are ignored, because the gateway makes
/// new ones for each call.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContractInput {
    tool_name: Option<String>,
    raw_content: Option<String>,
    max_tokens: Option<u32>,
    metadata: ContractMetadata,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContractMetadata {
    phase: Option<String>,
    server_name: Option<String>,
    user_query: Option<String>,
    content_type: Option<String>,
    config: Option<Value>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// The members of an input that are used, and those of its `metadata` with those that are ignored.
const MEMBERS: [&str; 4] = ["toolName", "rawContent", "maxTokens", "metadata"];
const METADATA: [&str; 9] =
    ["requestId", "timestamp", "serverName", "phase", "userQuery", "contentType", "config", "chain", "attempt"];

/// Returns what of an input is not of the contract, with the name that was perhaps meant.
fn unknown_members(input: &ContractInput) -> Vec<String> {
    let told = |name: &String, known: &[&'static str], place: &str| {
        let near = nearest(name, known.iter().copied()).map(|near| format!("; did you mean {place}{near}?"));
        format!("--input: {place}{name:.60} is not a field of contract 1.0 and is ignored{}", near.unwrap_or_default())
    };
    let unknown = input.others.keys().map(|name| told(name, &MEMBERS, ""));
    let metadata = input.metadata.others.keys().filter(|name| !METADATA.contains(&name.as_str()));
    unknown.chain(metadata.map(|name| told(name, &METADATA, "metadata."))).collect()
}

impl TestInput {
    /// Returns the input that the command line describes, and the configuration in `--input`. Other flags take
    /// precedence over `--input`.
    pub fn read(args: &args::CaseArgs) -> anyhow::Result<(Self, Option<Value>)> {
        let input = match &args.input {
            Some(input) => input_of(input)?,
            None => ContractInput {
                raw_content: args.text.as_deref().map(content).transpose()?,
                ..ContractInput::default()
            },
        };
        unknown_members(&input).iter().for_each(|line| say(line));
        let Some(text) = input.raw_content else {
            bail!("say what the plugin is to run on: --text TEXT, or --input with a rawContent");
        };
        let phase = match (args.phase, input.metadata.phase.as_deref()) {
            (Some(args::Phase::Request), _) | (None, Some("request")) => Some(Phase::Request),
            (Some(args::Phase::Response), _) | (None, Some("response")) => Some(Phase::Response),
            (None, None) => None,
            (None, Some(other)) => bail!("metadata.phase is {other:?}: it is request or response"),
        };
        let is_json = match args.content_type {
            Some(kind) => kind == ContentType::Json,
            None => input.metadata.content_type.as_deref() == Some("json"),
        };
        let name = args.tool.clone().or(input.tool_name).unwrap_or_else(|| TOOL.to_owned());
        let (server, tool) = match name.split_once('/') {
            Some((server, tool)) => (server.to_owned(), tool.to_owned()),
            None => (input.metadata.server_name.unwrap_or_else(|| "test".to_owned()), name),
        };
        let (max_tokens, user_query) = (input.max_tokens, input.metadata.user_query);
        let case = Self {
            server,
            tool,
            phase,
            text,
            is_json,
            max_tokens: args.max_tokens.or(max_tokens).filter(|tokens| *tokens > 0),
            user_query: args.user_query.clone().or(user_query),
        };
        Ok((case, input.metadata.config))
    }

    /// Returns the same call with another text as its content.
    pub fn with_text(&self, text: String) -> Self {
        Self { text, is_json: false, ..self.clone() }
    }

    /// Returns the arguments of the call: in the request phase, the content; otherwise an empty object.
    pub fn arguments(&self, phase: Phase) -> anyhow::Result<Box<RawValue>> {
        if phase == Phase::Response {
            return Ok(to_raw(&json!({})));
        }
        let object = RawObject::parse(&self.text).ok().and_then(|_| RawValue::from_string(self.text.clone()).ok());
        object
            .context("in the request phase the content is the JSON text of the tool's arguments, such as '{\"a\": 1}'")
    }

    /// Returns the upstream's answer to the call: in the response phase, the content; otherwise an empty result.
    pub fn answer(&self, phase: Phase) -> anyhow::Result<Answer> {
        if phase == Phase::Request {
            return Ok(Answer::Result(to_raw(&json!({"content": []}))));
        }
        if !self.is_json {
            return Ok(Answer::Result(to_raw(&json!({"content": [{"type": "text", "text": self.text}]}))));
        }
        let object = RawObject::parse(&self.text).ok().zip(RawValue::from_string(self.text.clone()).ok());
        let (object, raw) = object.context("content of type json is the JSON text of a tool's result")?;
        let is_error = object.get("content").is_none() && object.get("code").is_some();
        Ok(if is_error { Answer::Error(raw) } else { Answer::Result(raw) })
    }

    /// Returns the `_meta` of the call. It contains the user's question, if there is one.
    pub fn meta(&self) -> Box<RawValue> {
        to_raw(&match &self.user_query {
            Some(query) => json!({"hawsepipe.dev/userQuery": query}),
            None => json!({}),
        })
    }
}

fn content(text: &str) -> anyhow::Result<String> {
    if text == "-" { standard_input() } else { Ok(text.to_owned()) }
}

fn input_of(written: &str) -> anyhow::Result<ContractInput> {
    serde_json::from_str(&json_text(written)?)
        .context("--input: it is not an input of contract 1.0, such as '{\"rawContent\": \"hello\"}'")
}

/// Returns the JSON text that a flag gives: itself, in a file, or on standard input (`-`).
pub fn json_text(written: &str) -> anyhow::Result<String> {
    if written == "-" {
        standard_input()
    } else if written.trim_start().starts_with(['{', '[']) {
        Ok(written.to_owned())
    } else {
        file(Path::new(written))
    }
}

fn file(path: &Path) -> anyhow::Result<String> {
    let read = || bounded(std::fs::File::open(path)?);
    read().with_context(|| format!("cannot read {}", path.display()))
}

fn standard_input() -> anyhow::Result<String> {
    bounded(std::io::stdin()).context("cannot read standard input")
}

fn bounded(source: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    if source.take(MAX_CONTENT + 1).read_to_string(&mut text)? as u64 > MAX_CONTENT {
        bail!("it is larger than {MAX_CONTENT} bytes");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_contract_does_not_have_is_told() {
        let told = |json: &str| unknown_members(&input_of(json).unwrap());
        let known = r#"{"rawContent":"a","toolName":"s/t","metadata":{"requestId":"1","attempt":1,"chain":"c"}}"#;
        assert_eq!(told(known), Vec::<String>::new());
        let told = told(r#"{"rawcontent":"a","metadata":{"phse":"request","x":1}}"#);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(
            told[0].contains("rawcontent is not a field") && told[0].contains("did you mean rawContent?"),
            "{told:?}"
        );
        assert!(told[1].contains("did you mean metadata.phase?"), "{told:?}");
    }
}
