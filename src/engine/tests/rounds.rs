//! Calls that are repeated with answers: what of them the server gets, and what it is asked again.

use super::questions::{ASKS, Asked, answering, ask, capable, on_questions, send, send_as};
use super::*;

#[tokio::test]
async fn answers_reach_the_server_under_its_own_keys() {
    let mut inputs = bare();
    on_questions(&mut inputs, "q", Phase::Request, &[(Role::Guard, "same")]);
    let engine = answering(&inputs, Era::Modern, Answer::Result(raw(ASKS))).await;
    let state = ask(&engine, Era::Modern).await["requestState"].to_string();
    let responses = r#"{"input-2":{"roots":[]},"input-1":{"action":"accept"}}"#;
    let round = InputRound { responses: Some(raw(responses)), state: Some(raw(&state)) };
    send(&engine, Era::Modern, round, TaskUse::None, &Asked::default()).await;
    let expected = r#"{"r":{"roots":[]},"SECRET":{"action":"accept"}} "SECRET""#;
    assert_eq!(engine.server.rounds.lock().unwrap().last().unwrap(), expected);
}

#[tokio::test]
async fn a_state_of_the_gateways_own_is_never_sent_to_the_server() {
    let mut inputs = bare();
    on_questions(&mut inputs, "q", Phase::Request, &[(Role::Guard, "same")]);
    let asking = async || answering(&inputs, Era::Modern, Answer::Result(raw(ASKS))).await;
    let state_of = async |engine: &Gateway| ask(engine, Era::Modern).await["requestState"].as_str().unwrap().to_owned();
    let engine = asking().await;
    let (own, of_another_gateway) = (state_of(&engine).await, state_of(&asking().await).await);
    apply(&engine, &bare()).await;
    let (caller, other) =
        (capable(Era::Modern), Caller { identity: Identity::forwarded("other", "").into(), ..capable(Era::Modern) });
    let send = async |caller: &Caller, state: &str| {
        let round =
            InputRound { responses: Some(raw(r#"{"r":{"roots":[]}}"#)), state: Some(raw(&format!("{state:?}"))) };
        send_as(&engine, caller, round, TaskUse::None, &Asked::default()).await
    };
    let last_round = || engine.server.rounds.lock().unwrap().last().cloned().unwrap();
    send(&caller, &own).await;
    assert!(last_round().ends_with(r#" "SECRET""#), "no chain watches any more: {}", last_round());
    send(&caller, &of_another_gateway).await;
    assert!(last_round().ends_with(&format!("{of_another_gateway:?}")), "it is the server's: {}", last_round());
    let before = sent(&engine).len();
    for (what, caller, state) in [
        ("of another client's call", &other, own.as_str()),
        ("changed", &caller, &own[..own.len() - 1]),
        ("too old", &caller, &own),
    ] {
        if what == "too old" {
            engine.clock.pass(Duration::from_secs(60 * 60 + 1));
        }
        let refused = send(caller, state).await;
        let told = (&refused["code"], &refused["data"]["reason"]);
        assert_eq!(told, (&json!(-32602), &json!("ForeignInput")), "{what}: {refused}");
    }
    assert_eq!(sent(&engine).len(), before);
}

#[tokio::test]
async fn an_answer_is_of_the_era_of_the_connection_that_it_came_over() {
    let answered_after = async |probed: Era, era: Era, caller: Era, round: InputRound| {
        let engine = answering(&bare(), probed, Answer::Result(raw(ASKS))).await;
        *engine.server.era.lock().unwrap() = era;
        let client = Asked::default();
        let answer = send(&engine, caller, round, TaskUse::None, &client).await;
        let was_asked = client.heard().iter().any(|heard| heard.starts_with("elicitation/create"));
        (answer, was_asked)
    };
    let (ended, was_asked) = answered_after(Era::Legacy, Era::Modern, Era::Legacy, InputRound::default()).await;
    assert!(was_asked && ended["resultType"].is_null(), "it is a question: {ended}");
    let (answer, was_asked) = answered_after(Era::Modern, Era::Legacy, Era::Legacy, InputRound::default()).await;
    assert!(!was_asked && answer["more"] == "SECRET", "it is the result: {answer}");
    let round = || InputRound { responses: None, state: Some(raw("\"s\"")) };
    let (refused, _) = answered_after(Era::Modern, Era::Legacy, Era::Modern, round()).await;
    assert_eq!(refused["data"]["reason"], "UnknownRequestState", "{refused}");
    let (asked, _) = answered_after(Era::Legacy, Era::Modern, Era::Modern, round()).await;
    assert_eq!(asked["resultType"], "input_required", "the server takes it: {asked}");
}
