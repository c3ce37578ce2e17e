//! What requests of both eras say over the wire.

use std::time::Duration;

use super::*;
use crate::domain::upstream::{ClientKey, OutTask, QuestionWatch};

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

fn call() -> OutCall {
    OutCall {
        kind: ItemKind::Tool,
        name: "echo".into(),
        members: vec![("arguments".into(), raw(r#"{"n": 1.0}"#))],
        meta: vec![("traceparent".into(), raw("\"00-1\"")), ("progressToken".into(), raw("9"))],
        wants_progress: true,
        log_level: Some(LogLevel::Warning),
        timeout: Duration::from_secs(1),
        extend_on_progress: true,
        client: ClientKey::default(),
        watch: QuestionWatch::None,
        account: None,
        token: None,
        round: InputRound::default(),
        asked_log_level: None,
        task: None,
        task_wish: None,
    }
}

fn text(request: McpRequest<'_>, era: Era) -> String {
    String::from_utf8(request.render(era, 7)).unwrap()
}

#[test]
fn a_call_carries_its_arguments_as_they_came_and_our_own_token() {
    let call = call();
    assert_eq!(
        text(McpRequest::Use(&call), Era::Legacy),
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"n": 1.0},"_meta":{"progressToken":7,"traceparent":"00-1"}}}"#
    );
}

#[test]
fn a_modern_request_says_who_asks() {
    let value: serde_json::Value =
        serde_json::from_str(&text(McpRequest::List(ItemKind::Tool, None), Era::Modern)).unwrap();
    let meta = &value["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], MODERN_VERSION);
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "hawsepipe");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], serde_json::json!({}));
}

#[test]
fn a_modern_call_says_which_log_messages_are_wanted() {
    let value: serde_json::Value = serde_json::from_str(&text(McpRequest::Use(&call()), Era::Modern)).unwrap();
    assert_eq!(value["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
}

#[test]
fn a_modern_call_that_is_repeated_carries_what_was_asked() {
    let round = InputRound { responses: Some(raw(r#"{"a": {"n": 1.0}}"#)), state: Some(raw("\"s\"")) };
    let call = OutCall { round, ..call() };
    let sent = text(McpRequest::Use(&call), Era::Modern);
    assert!(sent.contains(r#","inputResponses":{"a": {"n": 1.0}},"requestState":"s","_meta":{"#), "{sent}");
    assert!(!text(McpRequest::Use(&call), Era::Legacy).contains("requestState"));
}

#[test]
fn a_wish_for_a_task_is_for_legacy_servers() {
    let call = OutCall { task_wish: Some(raw(r#"{"ttl": 1.0}"#)), ..call() };
    assert!(text(McpRequest::Use(&call), Era::Legacy).contains(r#"{"n": 1.0},"task":{"ttl": 1.0},"_meta":{"#));
    assert!(!text(McpRequest::Use(&call), Era::Modern).contains("ttl"));
}

#[test]
fn a_request_for_completions_carries_its_members_as_they_came() {
    let members = ["ref", "argument"].map(|name| (name.into(), raw(r#"{"a": 1.0}"#)));
    let meta = vec![("traceparent".into(), raw("\"00-1\""))];
    let completion = OutCompletion { members: members.into(), meta, timeout: Duration::from_secs(1) };
    assert_eq!(
        text(McpRequest::Complete(&completion), Era::Legacy),
        r#"{"jsonrpc":"2.0","id":7,"method":"completion/complete","params":{"ref":{"a": 1.0},"argument":{"a": 1.0},"_meta":{"traceparent":"00-1"}}}"#
    );
}

#[test]
fn a_request_about_a_task_names_the_task() {
    let task = Some(OutTask { method: Method::GetTask, id: "t\"1".into() });
    let call = OutCall { task, members: Vec::new(), meta: Vec::new(), wants_progress: false, ..call() };
    assert_eq!(
        text(McpRequest::Use(&call), Era::Legacy),
        r#"{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"taskId":"t\"1"}}"#
    );
}

#[test]
fn legacy_requests_without_meta_have_none() {
    assert_eq!(text(McpRequest::Ping, Era::Legacy), r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{}}"#);
    assert_eq!(
        text(McpRequest::List(ItemKind::Tool, Some("a\"b")), Era::Legacy),
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"a\"b"}}"#
    );
    let value: serde_json::Value =
        serde_json::from_str(&text(McpRequest::Initialize(&ClientCapabilities::default()), Era::Legacy)).unwrap();
    assert_eq!(value["params"]["protocolVersion"], LEGACY_VERSIONS[0]);
}

#[test]
fn pings_are_answered_and_all_else_refused() {
    assert_eq!(reply(&raw("\"a\""), "ping"), r#"{"jsonrpc":"2.0","id":"a","result":{}}"#);
    assert!(reply(&raw("1"), "sampling/createMessage").contains("-32601"));
}
