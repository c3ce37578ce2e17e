//! `hawsepipe call --from-text`: runs the tool calls in a text that a model wrote.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, bail};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use serde_json::value::RawValue;

use super::args::CallArgs;
use super::formats::ResultFormat;
use super::ran::{Ran, finish};
use crate::domain::quoted::Quoted;
use crate::domain::raw::{RawObject, to_raw};

/// How deep the calls are looked for in a JSON value.
const MAX_DEPTH: usize = 6;
/// Words of forms of calls that are not read, and what the form is.
const OTHER_FORMS: [(&str, &str); 5] = [
    ("\"tool_use\"", "Anthropic's tool_use blocks"),
    ("\"functionCall\"", "Gemini's functionCall"),
    ("\"function_call\"", "OpenAI's former function_call"),
    ("<tool_call>", "<tool_call> tags"),
    ("<function_calls>", "<function_calls> tags"),
];

/// A call that a model wrote.
#[derive(Debug)]
struct WrittenCall {
    server: Option<String>,
    tool: String,
    arguments: Box<RawValue>,
}

/// Runs the calls in a file, or in standard input if its name is `-`.
pub async fn call(args: &CallArgs, file: &str) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    match file {
        "-" => std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?,
        _ => std::fs::File::open(file)
            .and_then(|mut opened| opened.read_to_string(&mut text))
            .context(file.to_owned())?,
    };
    let (admin, mut ran) = (args.admin(), Vec::new());
    for (index, call) in calls(&text)?.into_iter().enumerate() {
        let mut body = RawObject::default();
        if let Some(server) = &call.server {
            body.set("serverId", to_raw(server));
        }
        body.set("toolName", to_raw(&call.tool));
        body.set("parameters", call.arguments);
        body.set("source", to_raw(&"ai-autonomous"));
        let body = Ok(body.to_raw().get().to_owned());
        let call = Ran::run(&admin, format!("call {}", index + 1), &call.tool, body).await;
        if args.output == ResultFormat::Text {
            call.print()?;
        }
        ran.push(call);
    }
    finish(args.output, &ran)
}

/// Returns the calls in a text, in their order: those of a text that is JSON as a whole, else those of its fenced blocks.
fn calls(text: &str) -> anyhow::Result<Vec<WrittenCall>> {
    let (mut calls, mut found) = (Vec::new(), BTreeSet::new());
    match serde_json::from_str::<Box<RawValue>>(text) {
        Ok(whole) => read(&whole, MAX_DEPTH, &mut calls, &mut found)?,
        Err(_) => {
            for (kind, code) in fenced(text) {
                match serde_json::from_str::<Box<RawValue>>(&code) {
                    Ok(value) => read(&value, MAX_DEPTH, &mut calls, &mut found)?,
                    Err(_) => found.extend([format!("a fenced block {} that is not JSON", Quoted(&kind, 20))]),
                }
            }
        }
    }
    if calls.is_empty() {
        let others = OTHER_FORMS.iter().filter(|(word, _)| text.contains(word));
        found.extend(others.map(|(_, form)| (*form).to_owned()));
        let found =
            if found.is_empty() { "text alone".to_owned() } else { found.into_iter().collect::<Vec<_>>().join(", ") };
        bail!(
            "no tool call that can be read: write OpenAI's tool_calls, or fenced json blocks with `tool` and `arguments`. Found: \
             {found}"
        );
    }
    Ok(calls)
}

/// Returns the info string and the text of each fenced block.
fn fenced(text: &str) -> Vec<(String, String)> {
    let (mut blocks, mut open) = (Vec::new(), None::<(String, String)>);
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                open = Some((info.into_string(), String::new()))
            }
            Event::Text(text) => {
                if let Some((_, code)) = &mut open {
                    code.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            _ => {}
        }
    }
    blocks
}

/// Adds the calls in a value, or what else it is.
fn read(
    value: &RawValue,
    depth: usize,
    calls: &mut Vec<WrittenCall>,
    found: &mut BTreeSet<String>,
) -> anyhow::Result<()> {
    if depth == 0 {
        return Ok(());
    }
    if let Ok(items) = serde_json::from_str::<Vec<Box<RawValue>>>(value.get()) {
        return items.iter().try_for_each(|item| read(item, depth - 1, calls, found));
    }
    let Ok(object) = RawObject::parse(value.get()) else { return Ok(()) };
    let inner = ["choices", "message", "tool_calls"].into_iter().find_map(|member| object.get(member));
    let function = object.get("function").and_then(|function| RawObject::parse(function.get()).ok());
    if let Some(inner) = inner {
        read(inner, depth - 1, calls, found)
    } else if let Some((function, tool)) =
        function.and_then(|function| function.get_str("name").map(|tool| (function, tool)))
    {
        calls.push(WrittenCall { server: None, arguments: arguments(&function, &tool)?, tool });
        Ok(())
    } else if let Some(tool) = object.get_str("tool") {
        calls.push(WrittenCall { server: object.get_str("server"), arguments: arguments(&object, &tool)?, tool });
        Ok(())
    } else {
        let names: Vec<_> = object.iter().map(|(name, _)| name).take(5).collect();
        found.insert(format!("a JSON object with {}", Quoted(&names.join(", "), 80)));
        Ok(())
    }
}

/// Returns the arguments of a call: an object, or an object in a string. Without the member, there are none.
fn arguments(call: &RawObject, tool: &str) -> anyhow::Result<Box<RawValue>> {
    let given: Box<RawValue> = match (call.get("arguments"), call.get_str("arguments")) {
        (_, Some(text)) if text.trim().is_empty() => return Ok(to_raw(&serde_json::json!({}))),
        (_, Some(text)) => {
            serde_json::from_str(&text).with_context(|| format!("{tool:.80}: the arguments are not JSON"))?
        }
        (Some(given), None) => given.to_owned(),
        (None, None) => return Ok(to_raw(&serde_json::json!({}))),
    };
    if !given.get().starts_with('{') {
        bail!("{tool:.80}: the arguments must be a JSON object, not {:.80}", given.get());
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> Vec<String> {
        let shown = |call: WrittenCall| format!("{:?} {} {}", call.server, call.tool, call.arguments.get());
        calls(text).unwrap().into_iter().map(shown).collect()
    }

    #[test]
    fn the_forms_that_models_write_are_read() {
        let function = r#"{"id":"c1","type":"function","function":{"name":"files__read","arguments":"{\"n\":12345678901234567890123}"}}"#;
        let expected = [r#"None files__read {"n":12345678901234567890123}"#];
        for text in [
            format!(r#"{{"tool_calls":[{function}]}}"#),
            format!(r#"{{"choices":[{{"message":{{"role":"assistant","content":null,"tool_calls":[{function}]}}}}]}}"#),
            format!("[{function}]"),
            format!("I will read.\n\n```json\n{function}\n```\n"),
        ] {
            assert_eq!(read_all(&text), expected, "{text}");
        }
        let blocks = "First:\n```json\n{\"tool\": \"a\", \"arguments\": {\"b\": 1.0}}\n```\nThen:\n```json\n{\"server\": \"s\", \"tool\": \"c\"}\n```\n";
        assert_eq!(read_all(blocks), [r#"None a {"b": 1.0}"#, r#"Some("s") c {}"#]);
    }

    #[test]
    fn what_is_found_instead_is_said() {
        for (text, said) in [
            ("I cannot do that.", "Found: text alone"),
            (r#"{"content":[{"type":"tool_use","name":"a","input":{}}]}"#, "Anthropic's tool_use blocks"),
            ("<tool_call>{}</tool_call>", "<tool_call> tags"),
            ("```python\nprint()\n```", "a fenced block \"python\" that is not JSON"),
            ("```json\n{\"name\": \"a\", \"x\": 1}\n```", "a JSON object with \"name, x\""),
            (r#"{"tool":"a","arguments":[1]}"#, "must be a JSON object, not [1]"),
            (r#"{"tool":"a","arguments":"{"}"#, "the arguments are not JSON"),
        ] {
            let error = format!("{:#}", calls(text).unwrap_err());
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
