//! Content that no plugin changed is forwarded unchanged, apart from members that the gateway itself adds or removes.

use super::*;
use crate::domain::upstream::{Probed, ServerFacts};

const EXACT: &str = r#"{"content":[{"type":"text","text":"a\u0062","x": 1.0},{"type":"image","data":"aGk=","mimeType":"image/png"}], "structuredContent":{"one":1.0,"also":1,"big":12345678901234567890123,"e":1E2},"unknown":{"z":1,"a":[ ]}}"#;

async fn through(inputs: &Inputs, era: Era, answer: &str) -> String {
    let engine = start(inputs).await;
    *engine.server.answers.lock().unwrap() = Ok(Answer::Result(raw(answer)));
    let text = call_as(&engine, &caller(era), r#"{"n": 1.0}"#, None, &Heard::default()).await;
    assert_eq!(sent(&engine), [r#"up/read {"n": 1.0}"#]);
    text
}

fn chains_that_change_nothing() -> Inputs {
    let mut inputs = bare();
    scripts(&mut inputs, "q", Phase::Request, &[(Role::Guard, "same"), (Role::Transform, "stop")]);
    scripts(&mut inputs, "r", Phase::Response, &[(Role::Guard, "same"), (Role::Transform, "fail Crashed")]);
    inputs
}

#[tokio::test]
async fn bytes_stay() {
    for inputs in [bare(), chains_that_change_nothing()] {
        assert_eq!(through(&inputs, Era::Legacy, EXACT).await, format!(r#"{{"result":{EXACT}}}"#));
    }
}

#[tokio::test]
async fn an_upstreams_error_stays() {
    let engine = start(&chains_that_change_nothing()).await;
    let error = r#"{"code":-32042,"message":"m","data":{"n": 1.0}}"#;
    *engine.server.answers.lock().unwrap() = Ok(Answer::Error(raw(error)));
    let text = call_as(&engine, &caller(Era::Legacy), "{}", None, &Heard::default()).await;
    assert_eq!(text, format!(r#"{{"error":{error}}}"#));
}

#[tokio::test]
async fn a_modern_client_is_told_that_a_result_is_complete() {
    let modern = |answer: &'static str| async move { through(&bare(), Era::Modern, answer).await };
    let told = r#"{"result":{"content":[],"resultType":"complete"}}"#;
    assert_eq!(modern(r#"{"content":[]}"#).await, told);
    assert_eq!(modern(r#"{ "content":[] }"#).await, r#"{"result":{ "content":[] ,"resultType":"complete"}}"#);
    assert_eq!(modern("{}").await, r#"{"result":{"resultType":"complete"}}"#);
    // A `resultType` that the server sent is not added again, because parsers differ in which of two equal keys they
    // use.
    for own in [r#"{"content":[],"resultType":"complete"}"#, r#"{"content":[],"resultType":null}"#] {
        assert_eq!(modern(own).await, format!(r#"{{"result":{own}}}"#));
    }
}

/// Returns a server of the modern era.
fn modern_server() -> Server {
    let server = Server::default();
    let facts = ServerFacts { has_tools: true, ..ServerFacts::new(Era::Modern, "2026-07-28") };
    server.probes.lock().unwrap().push_back(Ok(Probed::Up(facts)));
    *server.era.lock().unwrap() = Era::Modern;
    server
}

#[tokio::test]
async fn the_type_of_a_result_is_left_out_for_a_legacy_client_where_a_chain_changed_the_result() {
    const TYPED: &str = r#"{"content":[{"type":"text","text":"a"}],"resultType":"complete"}"#;
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Transform, "put b")]);
    for (inputs, era, expected) in [
        (bare(), Era::Legacy, TYPED),
        (inputs.clone(), Era::Legacy, r#"{"content":[{"type":"text","text":"b"}]}"#),
        (inputs, Era::Modern, r#"{"content":[{"type":"text","text":"b"}],"resultType":"complete"}"#),
    ] {
        let engine = start_with(&inputs, modern_server()).await;
        *engine.server.answers.lock().unwrap() = Ok(Answer::Result(raw(TYPED)));
        let text = call_as(&engine, &caller(era), "{}", None, &Heard::default()).await;
        assert_eq!(text, format!(r#"{{"result":{expected}}}"#), "{era:?}");
    }
}

#[tokio::test]
async fn a_modern_server_says_by_a_string_what_its_result_is() {
    let server = modern_server();
    *server.answers.lock().unwrap() = Ok(Answer::Result(raw(r#"{"content":[],"resultType":{"kind":"complete"}}"#)));
    let engine = start_with(&bare(), server).await;
    let value = call(&engine, "{}").await;
    assert_eq!(value["error"]["data"]["reason"], "ProtocolError");
    assert!(value["error"]["message"].as_str().unwrap().contains("resultType"), "{value}");
}

#[tokio::test]
async fn a_server_that_asks_back_is_passed_on_unless_a_guard_would_not_see_it() {
    for answer in [
        r#"{"resultType":"input_required","requestState":"s", "n": 1.0}"#,
        r#"{"isError":3,"resultType":"input\u005frequired","requestState":"s"}"#,
    ] {
        let text = through(&bare(), Era::Modern, answer).await;
        assert_eq!(text, format!(r#"{{"result":{answer}}}"#));
        for phase in [Phase::Request, Phase::Response] {
            let mut inputs = bare();
            scripts(&mut inputs, "g", phase, &[(Role::Guard, "same")]);
            let text = through(&inputs, Era::Modern, answer).await;
            let value: Value = serde_json::from_str(&text).unwrap();
            let members: Vec<_> = value["result"].as_object().unwrap().keys().collect();
            assert_eq!(members, ["requestState", "resultType"], "{text}");
            assert!(
                value["result"]["requestState"].as_str().unwrap().len() > 20,
                "the server's state is sealed: {text}"
            );
        }
    }
    let elicits = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"secret"}}}}"#;
    // A Transform that must run on the response is passed by too.
    for (phase, role) in
        [(Phase::Request, Role::Guard), (Phase::Response, Role::Guard), (Phase::Response, Role::Transform)]
    {
        let mut inputs = bare();
        let chain = scripts(&mut inputs, "g", phase, &[(role, "same")]);
        chain.entries[0].failure_policy = Some(FailurePolicy::Fail);
        let text = through(&inputs, Era::Modern, elicits).await;
        assert!(text.contains("GuardedInput") && !text.contains("secret"), "{phase:?} {role:?}: {text}");
        assert!(text.contains("name elicitation/create in spec.methods"), "{text}");
    }
    let asks = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}"#;
    // A server of the legacy era has executed the call, which is not sent again.
    assert_eq!(through(&bare(), Era::Legacy, asks).await, format!(r#"{{"result":{asks}}}"#));
    let server = modern_server();
    *server.answers.lock().unwrap() = Ok(Answer::Result(raw(asks)));
    let engine = start_with(&bare(), server).await;
    let text = call_as(&engine, &caller(Era::Legacy), "{}", None, &Heard::default()).await;
    assert!(text.contains("The server asks for input (roots/list), which the client does not give"), "{text}");
}

#[tokio::test]
async fn progress_of_a_guarded_call_is_numbers() {
    let all = r#"{"progress":1,"total":2.0,"message":"secret","_meta":{"x":1},"more":"secret"}"#;
    let numbers = r#"{"progress":1,"total":2.0}"#;
    for (role, pass, expected) in
        [(Role::Guard, false, numbers), (Role::Guard, true, all), (Role::Transform, false, all)]
    {
        let mut inputs = bare();
        scripts(&mut inputs, "r", Phase::Response, &[(role, "same")]).notifications_pass = pass;
        let (engine, heard) = (start(&inputs).await, Heard::default());
        call_as(&engine, &caller(Era::Legacy), "{}", None, &heard).await;
        assert_eq!(*heard.0.lock().unwrap(), [expected]);
    }
}

#[tokio::test]
async fn a_state_of_a_server_that_is_too_large_to_seal_is_the_servers_error() {
    let mut inputs = bare();
    scripts(&mut inputs, "g", Phase::Request, &[(Role::Guard, "same")]);
    let asks = |bytes: usize| json!({"resultType": "input_required", "requestState": "s".repeat(bytes)}).to_string();
    let text = through(&inputs, Era::Modern, &asks(780_000)).await;
    assert!(text.contains("hawsepipe.input."), "{text:.500}");
    let text = through(&inputs, Era::Modern, &asks(790_000)).await;
    let value: Value = serde_json::from_str(&text).unwrap();
    let (code, message) = (&value["error"]["code"], value["error"]["message"].as_str().unwrap());
    assert_eq!(value["error"]["data"]["reason"], "ProtocolError", "{code} {message}");
    assert!(message.contains("`requestState`") && message.contains("at most 786404"), "{message}");
}
