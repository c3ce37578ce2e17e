//! What has to be true of an answer.

use std::sync::Arc;

use serde_json::{Value, json};

use super::clients::Client;

/// Says whether the answer to a line is right.
pub type Check = Arc<dyn Fn(&Value) -> bool + Send + Sync>;
/// Says whether the log of a server has what it should have of a client.
pub type Heard = fn(&str, Client) -> bool;

fn check(holds: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Check {
    Arc::new(holds)
}

/// The value at a place of the answer.
pub fn at(pointer: &'static str, wanted: Value) -> Check {
    check(move |line| line.pointer(pointer) == Some(&wanted))
}

/// What the text at a place of the answer has in it.
pub fn says(pointer: &'static str, wanted: &'static str) -> Check {
    check(move |line| line.pointer(pointer).and_then(Value::as_str).is_some_and(|text| text.contains(wanted)))
}

/// All of them.
pub fn all(checks: impl IntoIterator<Item = Check>) -> Check {
    let checks: Vec<_> = checks.into_iter().collect();
    check(move |line| checks.iter().all(|check| check(line)))
}

/// A result whose first content is this text.
pub fn text(wanted: &'static str) -> Check {
    all([says("/result/content/0/text", wanted), check(|line| line["result"]["isError"] != true)])
}

/// A PNG as the content at this place.
pub fn image(pointer: &'static str) -> Check {
    check(move |line| {
        let block = line.pointer(pointer).cloned().unwrap_or_default();
        let data = block["data"].as_str().unwrap_or_default();
        block["type"] == "image" && block["mimeType"] == "image/png" && data.starts_with("iVBORw0KGgo")
    })
}

/// A result that is an error with this text.
pub fn failed(wanted: &'static str) -> Check {
    all([says("/result/content/0/text", wanted), at("/result/isError", json!(true))])
}

/// An error of the protocol with this code or, in the older era, that one.
pub fn refused(codes: [i64; 2], wanted: &'static str) -> Check {
    all([
        says("/error/message", wanted),
        check(move |line| line["error"]["code"].as_i64().is_some_and(|code| codes.contains(&code))),
    ])
}

/// These items are in a list, by this member.
pub fn lists(member: &'static str, wanted: &'static [&'static str]) -> Check {
    check(move |line| {
        let items = line["result"]["items"].as_array();
        let names: Vec<_> = items.into_iter().flatten().filter_map(|item| item[member].as_str()).collect();
        wanted.iter().all(|wanted| names.iter().filter(|name| *name == wanted).count() == 1)
    })
}

/// Progress that came in this order, and the answer after it.
pub fn progress(wanted: [f64; 3], total: f64) -> Check {
    check(move |line| {
        let steps: Vec<_> = line["progress"].as_array().into_iter().flatten().collect();
        let values = steps.iter().filter_map(|step| step["progress"].as_f64());
        values.eq(wanted)
            && steps.iter().all(|step| step["total"].as_f64() == Some(total))
            && line["result"].is_object()
    })
}

/// Log messages of these levels, in this order.
pub fn logs(wanted: &'static [&'static str]) -> Check {
    check(move |line| {
        let messages = line["logs"].as_array().into_iter().flatten();
        messages.filter_map(|message| message["level"].as_str()).eq(wanted.iter().copied())
            && line["result"].is_object()
    })
}

/// No log message below errors.
pub fn logs_errors_alone() -> Check {
    let severe = ["error", "critical", "alert", "emergency"];
    check(move |line| {
        let mut messages = line["logs"].as_array().into_iter().flatten();
        messages.all(|message| message["level"].as_str().is_some_and(|level| severe.contains(&level)))
            && line["result"].is_object()
    })
}

/// What was heard while the client listened, and nothing after.
pub fn changes(wanted: Value) -> Check {
    check(move |line| {
        let result = &line["result"];
        let mut heard = result["heard"].as_array().into_iter().flatten().peekable();
        let after = result["after"].as_array();
        heard.peek().is_some() && heard.all(|change| *change == wanted) && after.is_none_or(Vec::is_empty)
    })
}

/// A result, whatever is in it.
pub fn answered() -> Check {
    check(|line| line["result"].is_object() && line["error"].is_null())
}
