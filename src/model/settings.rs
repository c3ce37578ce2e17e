//! Members of requests that not every endpoint takes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::domain::model::ModelRequest;

/// The members that a request is sent without if the endpoint does not support them. `max_tokens` has another name then.
const MEMBERS: [&str; 3] = ["max_tokens", "response_format", "temperature"];
/// The other name of `max_tokens`.
const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";
/// How endpoints say, in lower case, that they do not support a member.
const UNSUPPORTED: [&str; 13] = [
    "additional properties are not allowed",
    "does not support",
    "doesn't support",
    "extra inputs are not permitted",
    "extra_forbidden",
    "not supported",
    "unavailable",
    "unexpected keyword",
    "unknown field",
    "unknown name",
    "unknown parameter",
    "unrecognized",
    "unsupported",
];
/// A fault of the schema in `response_format`, not of the member.
const OF_SCHEMA: &str = "invalid schema";
/// How long it is known that a model does not support a member.
const KNOWN: Duration = Duration::from_secs(3600);
/// For how many models that is known at most.
const MAX_KNOWN: usize = 1000;

/// The members that models do not support, by pipeline, URL and model, and since when that is known. One pipeline's requests
/// change no other's.
type Known = HashMap<[String; 3], (Instant, Vec<&'static str>)>;

/// The members that models do not support.
#[derive(Default)]
pub(super) struct Refused(Mutex<Known>);

impl Refused {
    /// Changes the body of a request to what the endpoint takes, as far as that is known.
    pub(super) fn adapt(&self, request: &ModelRequest<'_>, body: &mut Map<String, Value>) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let members = known.get(&of(request)).filter(|(since, _)| since.elapsed() < KNOWN);
        members.into_iter().flat_map(|(_, members)| members).for_each(|member| without(member, body));
    }

    /// Changes a body that an endpoint refused with this answer, and remembers that. Returns false if the answer does not say that
    /// one of the members is not supported.
    pub(super) fn learn(&self, request: &ModelRequest<'_>, answer: &Value, body: &mut Map<String, Value>) -> bool {
        let is_named = |member: &&&str| body.contains_key(**member) && says_unsupported(answer, member);
        let Some(member) = MEMBERS.iter().find(is_named) else { return false };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        let (since, members) = known.entry(of(request)).or_insert_with(|| (Instant::now(), Vec::new()));
        if since.elapsed() >= KNOWN {
            members.clear();
        }
        *since = Instant::now();
        members.push(member);
        without(member, body);
        true
    }
}

/// Whether an error says that a member is not supported: in one sentence, or in one object that names it in a member of its own.
fn says_unsupported(error: &Value, member: &str) -> bool {
    let is_unsupported = |text: &str| {
        let text = text.to_ascii_lowercase();
        UNSUPPORTED.iter().any(|said| text.contains(said)) && !text.contains(OF_SCHEMA)
    };
    let says = |text: &str| {
        text.split(['\n', ';']).flat_map(|line| line.split(". ")).any(|it| has_word(it, member) && is_unsupported(it))
    };
    match error {
        Value::String(text) => says(text),
        Value::Array(list) => list.iter().any(|inner| says_unsupported(inner, member)),
        Value::Object(members) => {
            let lists = members.values().filter_map(Value::as_array).flatten();
            let mut texts = members.values().chain(lists).filter_map(Value::as_str);
            let is_named = texts.any(|text| text == member);
            let mut own = members.values().filter_map(Value::as_str);
            let is_of_schema = own.clone().any(|text| text.to_ascii_lowercase().contains(OF_SCHEMA));
            is_named && !is_of_schema && own.any(is_unsupported)
                || members.values().any(|inner| says_unsupported(inner, member))
        }
        _ => false,
    }
}

/// Whether a text has a word, which is not a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_inside = |char: char| char.is_ascii_alphanumeric() || char == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_inside) && !text[at + word.len()..].starts_with(is_inside))
}

fn of(request: &ModelRequest<'_>) -> [String; 3] {
    let model = request.body.get("model").and_then(Value::as_str).unwrap_or_default();
    [request.pipeline, request.base_url, model].map(str::to_owned)
}

fn without(member: &str, body: &mut Map<String, Value>) {
    if let Some(value) = body.remove(member)
        && member == MEMBERS[0]
    {
        body.insert(MAX_COMPLETION_TOKENS.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_is_unsupported_if_the_error_says_so() {
        let message = |text: &str| json!({"error": {"message": text, "type": "invalid_request_error"}});
        let loc =
            |member: &str| json!({"detail": [{"loc": ["body", member], "msg": "Extra inputs are not permitted"}]});
        let coded = |param: &str, code: &str| json!({"error": {"message": "x", "param": param, "code": code}});
        for (error, expected) in [
            (
                message(
                    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                ),
                Some("max_tokens"),
            ),
            (
                message(
                    "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) is.",
                ),
                Some("temperature"),
            ),
            (message("Unrecognized request argument supplied: response_format"), Some("response_format")),
            (message("This response_format type is unavailable now"), Some("response_format")),
            (json!("response_format.json_schema is not supported"), Some("response_format")),
            (loc("temperature"), Some("temperature")),
            (coded("response_format", "unsupported_parameter"), Some("response_format")),
            (json!({"error": {"message": "Unknown name \"temperature\": Cannot find field."}}), Some("temperature")),
            (message("max_tokens is too large: 9000. This model supports at most 4096 completion tokens"), None),
            (message("Images are not supported. The request had temperature 0 and max_tokens 7"), None),
            (message("temperature must be at most 2"), None),
            (message("max_tokens_to_sample is not supported"), None),
            (message("Invalid schema for response_format 'answer': 'oneOf' is not supported"), None),
            (coded("response_format", "invalid_schema"), None),
            (coded("temperature", "invalid_value"), None),
            (loc("messages"), None),
            (json!(null), None),
        ] {
            let found = MEMBERS.into_iter().find(|member| says_unsupported(&error, member));
            assert_eq!(found, expected, "{error}");
        }
    }

    #[test]
    fn a_refusal_changes_the_requests_of_its_own_pipeline() {
        let body = Map::from_iter([("model".to_owned(), json!("m")), ("max_tokens".to_owned(), json!(7))]);
        let request = |pipeline: &'static str| ModelRequest {
            pipeline,
            base_url: "http://h/v1",
            key: None,
            step: ["", ""],
            body: &body,
            timeout: Duration::ZERO,
            reserve: &|_| Ok(()),
        };
        let refused = Refused::default();
        let error = json!({"error": {"message": "max_tokens is not supported"}});
        let mut sent = body.clone();
        assert!(refused.learn(&request("team-a/p"), &error, &mut sent));
        assert!(!refused.learn(&request("team-a/p"), &error, &mut sent), "it is gone");
        for (pipeline, member) in [("team-a/p", MAX_COMPLETION_TOKENS), ("team-b/p", "max_tokens")] {
            let mut sent = body.clone();
            refused.adapt(&request(pipeline), &mut sent);
            assert_eq!((sent.len(), &sent[member]), (2, &json!(7)), "{pipeline}");
        }
    }
}
