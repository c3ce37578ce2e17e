//! The JSON of tasks: flat in the modern era (SEP-2663), and in the legacy era a member of the result that begins a task
//! (MCP 2025-11-25, tasks).

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::json;
use serde_json::value::RawValue;

use super::tool_result::{set_members, with_meta, with_meta_changed};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::skim::Skim;

/// The key in `_meta` of what belongs to a task (MCP 2025-11-25, tasks).
const RELATED: &str = "io.modelcontextprotocol/related-task";
/// The states of tasks.
const STATES: [&str; 5] = ["working", "input_required", "completed", "failed", "cancelled"];

/// Members of a task that are no free text, and how each is checked.
type PlainMember = (&'static str, fn(&RawValue) -> bool);
const PLAIN: [PlainMember; 9] = [
    ("taskId", |value| text(value).is_some()),
    ("status", |value| text(value).is_some_and(|status| STATES.contains(&&*status))),
    ("createdAt", is_time),
    ("lastUpdatedAt", is_time),
    ("ttlMs", is_number),
    ("pollIntervalMs", is_number),
    ("ttl", is_number),
    ("pollInterval", is_number),
    ("resultType", |value| text(value).is_some_and(|kind| matches!(&*kind, "task" | "complete"))),
];

/// Returns the id of the task that a result of the legacy era begins; `None` if it is an ordinary result.
pub(in crate::engine) fn legacy_id(result: &RawValue) -> Option<String> {
    let result = Skim::from(result);
    if result.member("content").is_some() { None } else { id_of(result.member("task")?) }
}

/// Returns the id of a task.
pub(in crate::engine) fn id_of<'a>(task: impl Into<Skim<'a>>) -> Option<String> {
    task.into().member("taskId")?.text().map(Cow::into_owned)
}

/// Sets the id of a task, if it has one. Everything else keeps its bytes.
pub(in crate::engine) fn set_id(task: &mut Box<RawValue>, id: &str) {
    if Skim::from(&**task).member("taskId").is_some() {
        set_members(task, &[("taskId", &json!(id).to_string())]);
    }
}

/// Sets the id of the task that a result of the legacy era begins.
pub(in crate::engine) fn set_legacy_id(result: &mut Box<RawValue>, id: &str) {
    let task = Skim::from(&**result).member("task").map(|task| task.get().to_owned());
    let Some(mut task) = task.and_then(|task| RawValue::from_string(task).ok()) else { return };
    set_id(&mut task, id);
    set_members(result, &[("task", task.get())]);
}

/// Returns a task with the members alone that can hold no content: a Guard is on the call and sees only its result.
/// `with_message` keeps the message about the state. The error says what is wrong with the task.
pub(in crate::engine) fn plain(task: &RawValue, with_message: bool) -> Result<RawObject, &'static str> {
    let task = RawObject::parse(task.get()).map_err(|_| "its task is not a JSON object")?;
    let mut plain = RawObject::default();
    for (name, is_valid) in PLAIN {
        let Some(value) = task.get(name) else { continue };
        if !is_valid(value) {
            return Err("a member of its task is not what the protocol says");
        }
        plain.set(name, value.to_owned());
    }
    if let Some(message) = task.get("statusMessage").filter(|message| with_message && text(message).is_some()) {
        plain.set("statusMessage", message.to_owned());
    }
    Ok(plain)
}

/// Returns the wish of a client that its call goes on as a task (`params.task`), with nothing that could be content: plugins
/// that check the request do not see it.
pub(in crate::engine) fn plain_wish(task: &RawValue) -> Box<RawValue> {
    let mut plain = RawObject::default();
    let ttl = RawObject::parse(task.get()).ok().and_then(|task| task.get("ttl").map(RawValue::to_owned));
    if let Some(ttl) = ttl.filter(|ttl| is_short_number(ttl)) {
        plain.set("ttl", ttl);
    }
    plain.to_raw()
}

/// Returns a result, or the parameters of a message, without the note to which task it belongs.
pub(in crate::engine) fn without_related(object: &RawValue) -> Box<RawValue> {
    with_meta_changed(object, &[(RELATED, None)])
}

/// Returns a result with the note that it belongs to the task with this id.
pub(crate) fn with_related(object: &RawValue, id: &str) -> Box<RawValue> {
    with_meta(object, RELATED, &related(id))
}

/// Returns the `_meta` that has nothing but the note about the task with this id, if `meta` has such a note.
pub(in crate::engine) fn task_note(meta: &RawValue, id: &str) -> Option<Box<RawValue>> {
    RawObject::parse(meta.get()).ok()?.get(RELATED)?;
    let mut note = RawObject::default();
    note.set(RELATED, related(id));
    Some(note.to_raw())
}

fn related(id: &str) -> Box<RawValue> {
    to_raw(&json!({"taskId": id}))
}

/// Returns the parameters of a message, which names this id if it names a task.
pub(in crate::engine) fn related_to(params: Box<RawValue>, id: &str) -> Box<RawValue> {
    if params.get().contains("related-task") { with_related(&params, id) } else { params }
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// The maximum number of bytes of a time. Annotations in brackets (RFC 9557) could be free text.
const MAX_TIME: usize = 64;
/// The maximum number of bytes of a number. Longer ones could be text in digits; none that a computer writes is.
const MAX_NUMBER: usize = 24;

fn is_time(value: &RawValue) -> bool {
    text(value).is_some_and(|time| time.len() <= MAX_TIME && !time.contains('[') && time.parse::<Timestamp>().is_ok())
}

fn is_number(value: &RawValue) -> bool {
    let text = value.get();
    text == "null" || is_short_number(value)
}

/// Whether this is a number of ordinary length.
pub(in crate::engine) fn is_short_number(value: &RawValue) -> bool {
    let text = value.get();
    text.len() <= MAX_NUMBER && text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    #[test]
    fn ids_are_set_and_everything_else_keeps_its_bytes() {
        let mut flat = raw(r#"{"taskId": "a","n": 1.0,"x":{"taskId":"a"}}"#);
        set_id(&mut flat, "z");
        assert_eq!(flat.get(), r#"{"taskId": "z","n": 1.0,"x":{"taskId":"a"}}"#);
        let mut nested = raw(r#"{"task":{"taskId":"a", "ttl": 1e3},"_meta":{ }}"#);
        assert_eq!(legacy_id(&nested).as_deref(), Some("a"));
        set_legacy_id(&mut nested, "z");
        assert_eq!(nested.get(), r#"{"task":{"taskId":"z", "ttl": 1e3},"_meta":{ }}"#);
        let mut without = raw(r#"{"resultType":"complete"}"#);
        set_id(&mut without, "z");
        assert_eq!(without.get(), r#"{"resultType":"complete"}"#);
        assert_eq!(legacy_id(&raw(r#"{"content":[],"task":{"taskId":"a"}}"#)), None);
    }

    #[test]
    fn what_can_hold_content_is_left_out_of_a_guarded_task() {
        let task = raw(
            r#"{"taskId":"a","status":"working","createdAt":"2026-01-01T00:00:00Z","ttlMs":null,"statusMessage":"secret","x":"secret","_meta":{"y":"secret"}}"#,
        );
        let plain_text = r#"{"taskId":"a","status":"working","createdAt":"2026-01-01T00:00:00Z","ttlMs":null}"#;
        assert_eq!(plain(&task, false).unwrap().to_raw().get(), plain_text);
        assert!(plain(&task, true).unwrap().to_raw().get().ends_with(r#""statusMessage":"secret"}"#));
        for wrong in [
            r#"{"status":"secret"}"#,
            r#"{"createdAt":"secret"}"#,
            r#"{"createdAt":"2026-01-01T00:00:00Z[secret]"}"#,
            r#"{"ttlMs":"secret"}"#,
            r#"{"ttlMs":4111111111111111111111111}"#,
            r#"{"pollInterval":["secret"]}"#,
            r#"{"resultType":"secret"}"#,
            "[]",
        ] {
            assert!(plain(&raw(wrong), false).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_can_hold_content_is_left_out_of_the_wish_for_a_task() {
        for (wish, plain) in [
            (r#"{"ttl": 1.0,"x":"secret"}"#, r#"{"ttl":1.0}"#),
            (r#"{"ttl":"secret"}"#, "{}"),
            (r#"{"ttl":4111111111111111111111111}"#, "{}"),
            ("[]", "{}"),
        ] {
            assert_eq!(plain_wish(&raw(wish)).get(), plain);
        }
    }

    #[test]
    fn the_note_of_a_task_is_taken_out_and_put_in() {
        let result = raw(r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}"#);
        assert_eq!(without_related(&result).get(), r#"{"content":[]}"#);
        let noted = related_to(result, "z");
        assert_eq!(noted.get(), r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"z"}}}"#);
        assert_eq!(related_to(raw(r#"{"n": 1.0}"#), "z").get(), r#"{"n": 1.0}"#);
    }
}
