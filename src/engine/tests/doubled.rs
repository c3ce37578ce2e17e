//! Keys that occur twice in an object: such content is refused, so that a Guard sees the same values as the receiver.

use super::*;
use crate::domain::plan::ArgumentValidation;

fn error(value: &Value) -> (i64, &str, &str) {
    let error = &value["error"];
    let reason = error["data"]["reason"].as_str().unwrap_or_default();
    (error["code"].as_i64().unwrap(), reason, error["message"].as_str().unwrap())
}

async fn answering(inputs: &Inputs, answer: Answer) -> Gateway {
    let engine = start(inputs).await;
    *engine.server.answers.lock().unwrap() = Ok(answer);
    engine
}

fn without_schema() -> Server {
    Server::with(r#"[{"name":"read"}]"#)
}

#[tokio::test]
async fn arguments_that_something_looks_at_are_refused() {
    let doubled = r#"{"n":1,"x":{"y":[{"k":"seen last","k":1}]}}"#;
    let by_schema = bare();
    let (mut by_request, mut by_response) = (bare(), bare());
    scripts(&mut by_request, "q", Phase::Request, &[(Role::Transform, "same")]);
    scripts(&mut by_response, "r", Phase::Response, &[(Role::Transform, "same")]);
    for (inputs, server) in
        [(by_schema, Server::default()), (by_request, without_schema()), (by_response, without_schema())]
    {
        let engine = start_with(&inputs, server).await;
        let answer = call(&engine, doubled).await;
        let (code, reason, message) = error(&answer);
        assert_eq!((code, reason), (-32602, "DuplicateKey"));
        assert!(message.starts_with("arguments/x/y/0/k: "), "{message}");
        assert!(sent(&engine).is_empty() && engine.plugins.ran.lock().unwrap().is_empty());
        assert_eq!(last_call(&engine).reason.as_deref(), Some("DuplicateKey"));
    }
    // The arguments are not checked against the schema, but a header that repeats an argument is compared with the
    // argument's last value.
    let mut unchecked = bare();
    unchecked.upstreams[0].plan.argument_validation = ArgumentValidation::Off;
    let marked = r#"[{"name":"read","inputSchema":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}]"#;
    let engine = start_with(&unchecked, Server::with(marked)).await;
    assert_eq!(error(&call(&engine, r#"{"n":1,"n":2}"#).await).1, "DuplicateKey");
    assert!(sent(&engine).is_empty());
    let engine = start_with(&bare(), without_schema()).await;
    call(&engine, doubled).await;
    assert_eq!(sent(&engine), [format!("up/read {doubled}")], "nobody looks at them");
}

#[tokio::test]
async fn a_guarded_answer_is_withheld() {
    let result = r#"{"content":[],"structuredContent":{"SECRET":{"a":"SECRET","a":1}}}"#;
    let failed = r#"{"code":-1,"message":"m","data":[{"SECRET":1,"SECRET":2}]}"#;
    for (answer, place) in [
        (Answer::Result(raw(result)), "/structuredContent/*/*"),
        (Answer::Error(raw(failed)), "/data/0/*"),
        (Answer::Result(raw(r#"{"content":[],"_meta":{},"_meta":{}}"#)), "/_meta"),
    ] {
        let mut inputs = bare();
        scripts(&mut inputs, "r", Phase::Response, &[(Role::Transform, "same"), (Role::Guard, "same")]);
        let engine = answering(&inputs, answer).await;
        let got = call(&engine, "{}").await;
        let (code, reason, message) = error(&got);
        assert_eq!((code, reason), (-32603, "DuplicateKey"));
        assert!(message.contains(&format!("the key at {place} stands twice")), "{message}");
        assert!(!got.to_string().contains("SECRET") && engine.plugins.ran.lock().unwrap().is_empty());
        let record = last_call(&engine);
        let outcomes: Vec<_> = record.entries.iter().map(|entry| entry.outcome.to_string()).collect();
        assert_eq!(outcomes, ["skipped(stopped)", "skipped(stopped)"]);
    }
}

#[tokio::test]
async fn a_guard_on_the_request_alone_is_not_passed_by_a_question_under_a_doubled_key() {
    let asks = r#"{"resultType":"complete","resultType":"input_required","requestState":"SECRET"}"#;
    let mut inputs = bare();
    scripts(&mut inputs, "q", Phase::Request, &[(Role::Guard, "same")]);
    let engine = answering(&inputs, Answer::Result(raw(asks))).await;
    let text = call_as(&engine, &caller(Era::Modern), "{}", None, &Heard::default()).await;
    assert!(text.contains("DuplicateKey") && !text.contains("SECRET"), "{text}");
}

#[tokio::test]
async fn a_guard_is_not_passed_by_a_question_that_another_parser_sees() {
    let asks = r#"{"\ud800":1,"resultType":"input_required","requestState":"SECRET"}"#;
    let mut inputs = bare();
    scripts(&mut inputs, "q", Phase::Request, &[(Role::Guard, "same")]);
    let engine = answering(&inputs, Answer::Result(raw(asks))).await;
    let text = call_as(&engine, &caller(Era::Modern), "{}", None, &Heard::default()).await;
    assert!(text.contains("cannot be decoded") && !text.contains("SECRET"), "{text}");
}

#[tokio::test]
async fn an_answer_that_no_guard_is_on_stays_as_it_came() {
    let doubled = r#"{"content":[],"structuredContent":{"a":1,"a":2}}"#;
    let mut shaped = bare();
    scripts(&mut shaped, "r", Phase::Response, &[(Role::Transform, "same")]);
    for inputs in [bare(), shaped] {
        let engine = answering(&inputs, Answer::Result(raw(doubled))).await;
        let text = call_as(&engine, &caller(Era::Legacy), "{}", None, &Heard::default()).await;
        assert_eq!(text, format!(r#"{{"result":{doubled}}}"#));
    }
}

#[tokio::test]
async fn a_plugin_that_doubles_a_key_fails() {
    for (phase, role, expected) in [
        (Phase::Request, Role::Guard, vec!["failed(InvalidOutput)"]),
        (Phase::Response, Role::Guard, vec!["failed(InvalidOutput)"]),
    ] {
        let mut inputs = bare();
        let code = r#"put {"content":[],"n":1,"n":2}"#;
        scripts(&mut inputs, "c", phase, &[(role, code)]);
        let engine = answering(&inputs, Answer::Result(raw(r#"{"content":[]}"#))).await;
        assert_eq!(traced(&engine, "{}").await.1, expected, "{phase:?}");
    }
    let mut shaped = bare();
    let code = r#"put {"content":[],"n":1,"n":2}"#;
    scripts(&mut shaped, "c", Phase::Response, &[(Role::Transform, code)]);
    let engine = answering(&shaped, Answer::Result(raw(r#"{"content":[]}"#))).await;
    assert_eq!(traced(&engine, "{}").await.1, ["ran"], "no guard reads it");
}

#[tokio::test]
async fn a_shape_that_plugins_gave_the_arguments_is_not_quoted() {
    let mut inputs = bare();
    scripts(&mut inputs, "q", Phase::Request, &[(Role::Transform, r#"put {"n":"sk-SECRET"}"#)]);
    let engine = start(&inputs).await;
    let answer = call(&engine, r#"{"n":1}"#).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("arguments/n: ") && text.contains("plugins changed them"), "{text}");
    assert!(!answer.to_string().contains("SECRET"), "{answer}");
    assert!(sent(&engine).is_empty());
}
