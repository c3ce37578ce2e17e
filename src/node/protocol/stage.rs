//! Messages of wrappers that run in a stage of a pipeline (document 004). The input is a line `{prompt, context}`. The answer is the
//! result of the plugin's type as a JSON object, or a text with the heading `## Plugin Result`.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::domain::plugin::{Failure, Input, Output, PluginKind};
use crate::domain::reason::Reason;

/// The heading of an answer that is no JSON.
const HEADING: &str = "## Plugin Result";
/// The members of such an answer, each at the start of a line, before a colon.
const MEMBERS: [&str; 5] = ["Status", "Plugin", "Confidence", "Result", "Evidence"];

/// The argument of a function of a stage, as far as a wrapper gets it.
#[derive(Deserialize)]
struct StageInput<'a> {
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    context: Option<&'a RawValue>,
}

/// Appends the input, without a newline. Returns `None` if it is none of a stage.
pub(super) fn write(input: &Input<'_>, message: &mut Vec<u8>) -> Option<()> {
    let [StageInput { prompt, context }] = serde_json::from_str(input.raw_content?).ok()?;
    let (prompt, context) = (prompt.map_or(r#""""#, RawValue::get), context.map_or("[]", RawValue::get));
    message.extend_from_slice(format!(r#"{{"prompt":{prompt},"context":{context}}}"#).as_bytes());
    // A line is one message: JSON has newlines only between its tokens.
    message.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    Some(())
}

/// Reads the answer of a wrapper of this type.
///
/// # Errors
/// `InvalidOutput` if it is neither of both forms.
pub(super) fn read(kind: PluginKind, answer: &[u8]) -> Result<Output, Failure> {
    let invalid = |what: &str| Failure::new(Reason::InvalidOutput, what);
    let answer = std::str::from_utf8(answer).map_err(|_| invalid("its answer is not UTF-8"))?.trim();
    let text = match (answer.starts_with('{'), answer.strip_prefix(HEADING)) {
        _ if answer.is_empty() => return Err(invalid("ended without an answer")),
        (true, _) => {
            let object = serde_json::from_str::<&RawValue>(answer);
            object.map_err(|_| invalid("its answer is not one JSON object"))?.get().to_owned()
        }
        (false, Some(lines)) => of_text(kind, lines).map_err(invalid)?.to_string(),
        (false, None) => return Err(invalid("its answer is neither a JSON object nor begins with `## Plugin Result`")),
    };
    Ok(Output { text, proceed: true, metadata: None, error: None })
}

/// Reads the members of the text after the heading. Lines that begin no member belong to the last one.
fn members(lines: &str) -> HashMap<&'static str, String> {
    let (mut members, mut last): (HashMap<_, String>, _) = (HashMap::new(), "");
    for line in lines.lines().map(|line| line.trim().trim_start_matches("- ")) {
        let begun = line.split_once(':').and_then(|(name, value)| {
            let name = MEMBERS.iter().find(|member| **member == name.trim_matches('*').trim())?;
            Some((*name, value.trim_start_matches("**").trim()))
        });
        if let Some((name, value)) = begun {
            last = name;
            members.insert(name, value.to_owned());
        } else if let Some(value) = members.get_mut(last) {
            value.push('\n');
            value.push_str(line);
        }
    }
    members
}

/// Returns the result of a type that the text after the heading means.
fn of_text(kind: PluginKind, lines: &str) -> Result<Value, &'static str> {
    let members = members(lines);
    let text = |name: &str| members.get(name).map(|text| text.trim()).unwrap_or_default();
    let is_success = match text("Status") {
        "success" => true,
        "error" => false,
        _ => return Err("the Status of its Plugin Result is neither success nor error"),
    };
    match kind {
        PluginKind::ValPlugin => {
            Ok(json!({"status": if is_success { "accepted" } else { "rejected" }, "reason": text("Result")}))
        }
        _ if !is_success => {
            Ok(json!({"status": "error", "error": {"code": "PLUGIN_ERROR", "message": text("Result")}}))
        }
        PluginKind::GsPlugin => Ok(json!({"status": "success", "responseMarkdown": text("Result")})),
        PluginKind::KbPlugin => {
            let score = text("Confidence").parse::<f64>().ok();
            let evidence = json!({"id": "1", "title": text("Plugin"), "text": text("Evidence"), "score": score});
            Ok(json!({"status": "success", "evidence": [evidence]}))
        }
        _ => Err("a Plugin Result has no form for seeds: print a JSON object"),
    }
}

/// Returns the failure of a process that ended with a code other than 0. The codes 1 to 3 have names.
pub(super) fn exited(failure: Failure, code: Option<i32>) -> Failure {
    match code {
        Some(code @ 1..=3) => {
            let meaning =
                ["", ": the input is not valid", ": it took too long"][usize::try_from(code - 1).unwrap_or(0)];
            Failure { message: format!("PLUGIN_EXIT_{code}{meaning}"), ..failure }
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::plugin::{ContentType, Metadata};

    fn input(content: &str) -> Input<'_> {
        let metadata = Metadata {
            request_id: "r",
            timestamp: "",
            server_name: "",
            phase: "",
            method: "tools/call",
            user_query: None,
            content_type: ContentType::Json,
            config: None,
            chain: "",
            attempt: 1,
        };
        Input { tool_name: "", raw_content: Some(content), max_tokens: None, metadata, typed: None }
    }

    #[test]
    fn a_wrapper_gets_the_prompt_and_the_context_in_one_line() {
        for (content, line) in [
            ("[{\"prompt\":\"p\\n\",\"context\":[{\n}],\"seeds\":[1]}]", "{\"prompt\":\"p\\n\",\"context\":[{ }]}"),
            ("[{}]", r#"{"prompt":"","context":[]}"#),
        ] {
            let mut message = Vec::new();
            write(&input(content), &mut message).unwrap();
            assert_eq!(String::from_utf8(message).unwrap(), line);
        }
        assert!(write(&input("[1]"), &mut Vec::new()).is_none() && write(&input("[]"), &mut Vec::new()).is_none());
    }

    #[test]
    fn an_answer_is_json_or_a_plugin_result() {
        use PluginKind::{GsPlugin, KbPlugin, SdPlugin, ValPlugin};
        let good = "## Plugin Result\nStatus: success\nPlugin: z3\nConfidence: 0.5\nResult: It holds.\nBy proof.\nEvidence: x > 1";
        let bad = "## Plugin Result\n- **Status**: error\n- **Result**: no model";
        let reading = |kind, answer: &str| {
            read(kind, answer.as_bytes()).map(|output| serde_json::from_str::<Value>(&output.text).unwrap())
        };
        for (kind, answer, result) in [
            (GsPlugin, good, json!({"status": "success", "responseMarkdown": "It holds.\nBy proof."})),
            (
                KbPlugin,
                good,
                json!({"status": "success", "evidence": [{"id": "1", "title": "z3", "text": "x > 1", "score": 0.5}]}),
            ),
            (ValPlugin, good, json!({"status": "accepted", "reason": "It holds.\nBy proof."})),
            (ValPlugin, bad, json!({"status": "rejected", "reason": "no model"})),
            (GsPlugin, bad, json!({"status": "error", "error": {"code": "PLUGIN_ERROR", "message": "no model"}})),
            (SdPlugin, " {\"status\":\"unsupported\"}\n", json!({"status": "unsupported"})),
        ] {
            assert_eq!(reading(kind, answer).unwrap(), result, "{kind:?} {answer}");
        }
        for (answer, why) in [
            ("", "ended without an answer"),
            ("hello", "its answer is neither a JSON object nor begins with `## Plugin Result`"),
            ("{} {}", "its answer is not one JSON object"),
            ("## Plugin Result\nResult: x", "the Status of its Plugin Result is neither success nor error"),
        ] {
            let failure = read(GsPlugin, answer.as_bytes()).unwrap_err();
            assert_eq!((failure.reason, &*failure.message), (Reason::InvalidOutput, why), "{answer}");
        }
    }

    #[test]
    fn codes_of_exit_have_names() {
        let of = |code| exited(Failure::new(Reason::ExitCode, "exited with code 2"), code).message;
        assert_eq!(of(Some(2)), "PLUGIN_EXIT_2: the input is not valid");
        assert_eq!((of(Some(4)), of(None)), ("exited with code 2".into(), "exited with code 2".into()));
    }
}
