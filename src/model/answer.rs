//! Reads answers of endpoints. They differ in what they leave out, so only what an answer needs is required.

use http::StatusCode;
use serde_json::{Map, Value};

use crate::domain::model::{ModelAnswer, ModelFailure, TokenUse, ToolUse};
use crate::domain::reason::Reason;

/// Reads a chat completion.
///
/// # Errors
/// If it is none, or the model refused to answer.
pub(super) fn read(body: &Value) -> Result<ModelAnswer, ModelFailure> {
    let choices = body["choices"].as_array().ok_or_else(|| invalid("is not a chat completion"))?;
    let choice = choices.first().ok_or_else(|| invalid("has no choice"))?;
    let message = choice["message"].as_object().ok_or_else(|| invalid("is not a chat completion"))?;
    let member = |name: &str| message.get(name).unwrap_or(&Value::Null);
    let finish_reason = choice["finish_reason"].as_str().unwrap_or_default();
    let parts = member("content").as_array().map(Vec::as_slice).unwrap_or_default();
    let refusals = parts.iter().map(|part| &part["refusal"]).chain([member("refusal")]);
    if finish_reason == "content_filter" || refusals.filter_map(Value::as_str).any(|refusal| !refusal.is_empty()) {
        return Err(ModelFailure::new(
            Reason::ModelRefused,
            "the model, or a filter of its endpoint, refused to answer",
        ));
    }
    // A part that is a thought has another type.
    let texts = parts.iter().filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str());
    let text = member("content").as_str().map_or_else(|| texts.collect(), str::to_owned);
    let tokens = |name: &str| body["usage"][name].as_u64().unwrap_or_default();
    Ok(ModelAnswer {
        text,
        tool_calls: member("tool_calls").as_array().into_iter().flatten().map(tool_use).collect::<Result<_, _>>()?,
        finish_reason: finish_reason.to_owned(),
        usage: TokenUse { prompt_tokens: tokens("prompt_tokens"), completion_tokens: tokens("completion_tokens") },
        model: body["model"].as_str().unwrap_or_default().to_owned(),
    })
}

fn tool_use(call: &Value) -> Result<ToolUse, ModelFailure> {
    let name = call["function"]["name"].as_str().ok_or_else(|| invalid("calls a tool without a name"))?;
    let arguments = match &call["function"]["arguments"] {
        Value::String(text) if text.trim().is_empty() => Value::Null,
        Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Bool(false)),
        other => other.clone(),
    };
    let arguments = match arguments {
        Value::Null => Value::Object(Map::new()),
        object @ Value::Object(_) => object,
        _ => return Err(invalid("calls a tool with what is no JSON object")),
    };
    // The result of the tool is sent back under the id.
    let id = call["id"].as_str().filter(|id| !id.is_empty());
    let id = id.map_or_else(|| format!("call_{}", uuid::Uuid::new_v4().simple()), str::to_owned);
    Ok(ToolUse { id, name: name.to_owned(), arguments })
}

fn invalid(why: &str) -> ModelFailure {
    ModelFailure::new(Reason::ModelOutputInvalid, format!("the endpoint's answer {why}"))
}

/// Returns the status that an answer means, which is an error: some endpoints send it with the status 200, and the status in
/// the body. `None` for any other answer.
pub(super) fn error_status(status: StatusCode, body: &Value) -> Option<StatusCode> {
    if !status.is_success() {
        return Some(status);
    }
    let error = [&body["error"], &body["choices"][0]["error"]].into_iter().find(|error| !error.is_null())?;
    let codes = [&error["code"], &error["status"]].into_iter();
    let code = codes.filter_map(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok())).next();
    let meant = code.and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
    Some(meant.filter(|meant| meant.is_client_error() || meant.is_server_error()).unwrap_or(StatusCode::BAD_GATEWAY))
}

/// Returns the code of an error, if it is one word.
pub(super) fn error_code(body: &Value) -> Option<&str> {
    let code = ["code", "type"].into_iter().find_map(|member| body["error"][member].as_str())?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (code.len() <= 64 && code.bytes().all(is_word)).then_some(code)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(message: Value) -> Value {
        json!({"choices": [{"message": message, "finish_reason": "stop"}]})
    }

    #[test]
    fn content_is_a_text_or_a_list_of_parts() {
        let text = |kind: &str, text: &str| json!({"type": kind, "text": text});
        for (content, expected) in [
            (json!("a"), "a"),
            (json!(null), ""),
            (json!([]), ""),
            (
                json!([text("text", "a"), {"type": "thinking", "thinking": []}, text("reasoning", "x"), text("text", "b")]),
                "ab",
            ),
            (json!(["a"]), ""),
        ] {
            let read = read(&answer(json!({"content": content, "refusal": "", "tool_calls": null}))).unwrap();
            assert_eq!(read.text, expected, "{content}");
        }
        assert_eq!(read(&answer(json!({}))).unwrap().text, "");
    }

    #[test]
    fn arguments_of_tools_are_an_object_or_nothing() {
        let call = |function: Value| {
            let calls = json!([{"type": "function", "function": function}]);
            read(&answer(json!({"tool_calls": calls}))).map(|answer| answer.tool_calls[0].clone())
        };
        for (arguments, expected) in [
            (json!(r#"{"a":1}"#), json!({"a": 1})),
            (json!({"a": 1}), json!({"a": 1})),
            (json!(null), json!({})),
            (json!("null"), json!({})),
            (json!(" "), json!({})),
        ] {
            let call = call(json!({"name": "t", "arguments": arguments})).unwrap();
            assert_eq!((&*call.name, call.arguments), ("t", expected), "{arguments}");
            assert!(call.id.starts_with("call_"));
        }
        assert_eq!(call(json!({"name": "t"})).unwrap().arguments, json!({}));
        for arguments in [json!("[1]"), json!("{"), json!(7), json!("false")] {
            assert!(call(json!({"name": "t", "arguments": arguments})).is_err(), "{arguments}");
        }
        assert!(call(json!({"arguments": {}})).is_err());
        let ids =
            [json!("mine"), json!(""), json!(null), json!(7)].map(|id| json!({"id": id, "function": {"name": "t"}}));
        let ids = read(&answer(json!({"tool_calls": ids}))).unwrap().tool_calls.into_iter().map(|call| call.id);
        let ids: Vec<_> = ids.collect();
        assert!(ids[0] == "mine" && ids[1..].iter().all(|id| id.starts_with("call_")) && ids[1] != ids[2], "{ids:?}");
    }

    #[test]
    fn what_cannot_be_read_of_the_rest_is_left_out() {
        for (usage, tokens) in [
            (json!({"prompt_tokens": 3, "completion_tokens": 4}), (3, 4)),
            (json!("many"), (0, 0)),
            (json!({"prompt_tokens": null, "completion_tokens": "4"}), (0, 0)),
            (json!([1]), (0, 0)),
        ] {
            let body =
                json!({"choices": [{"message": {"content": "a"}, "finish_reason": 7}], "usage": usage, "model": 7});
            let read = read(&body).unwrap();
            assert_eq!((read.usage.prompt_tokens, read.usage.completion_tokens), tokens, "{usage}");
        }
        for body in [json!({}), json!([]), json!({"choices": []}), json!({"choices": [{}]}), json!({"choices": {}})] {
            assert_eq!(read(&body).unwrap_err().reason, Reason::ModelOutputInvalid, "{body}");
        }
        for message in [json!({"refusal": "no"}), json!({"content": [{"type": "refusal", "refusal": "no"}]})] {
            assert_eq!(read(&answer(message)).unwrap_err().reason, Reason::ModelRefused);
        }
    }

    #[test]
    fn an_error_inside_of_a_200_counts_as_its_status() {
        let status =
            |status: u16, body: Value| error_status(StatusCode::from_u16(status).unwrap(), &body).map(|it| it.as_u16());
        for (body, expected) in [
            (json!({"error": {"code": 429}}), Some(429)),
            (json!({"error": {"code": "401"}}), Some(401)),
            (json!({"error": {"code": "overloaded", "status": 529}}), Some(529)),
            (json!({"error": {"code": 200, "message": "x"}}), Some(502)),
            (json!({"error": "x"}), Some(502)),
            (json!({"choices": [{"error": {"code": 503}}]}), Some(503)),
            (json!({"error": null, "choices": [{"error": null}]}), None),
            (json!([]), None),
        ] {
            assert_eq!(status(200, body.clone()), expected, "{body}");
        }
        assert_eq!(status(422, json!({"error": {"code": 500}})), Some(422));
    }
}
