//! Answers of modern clients to what a server asks in a result, where chains see both.

use serde_json::{Value, json};

use super::asked::{MASK, call_with, guarded};
use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{external, interview_http, tools_of};

#[tokio::test]
async fn answers_are_taken_for_what_was_asked_and_of_the_same_call_alone() {
    let (_server, up) = interview_http();
    let folder = Folder::with(&(external("up", &up) + &guarded("up", MASK)));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let (http, url) = (Http::new(), gateway.url());
    let send =
        async |arguments: &Value, more: &Value| call_with(&http, &url, "up__interview", arguments, more).await.json();
    let asked = send(&json!({}), &json!({})).await;
    assert_eq!(asked["result"]["inputRequests"]["input-1"]["params"]["message"], "***?", "{asked}");
    let state = &asked["result"]["requestState"];
    assert!(!state.as_str().unwrap().contains("first"), "the server's state is sealed: {asked}");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    let forged = format!("{}A", state.as_str().unwrap());
    for (arguments, round) in [
        (json!({"asks": true}), json!({"requestState": state, "inputResponses": {"input-1": answer}})),
        (json!({}), json!({"requestState": forged, "inputResponses": {"input-1": answer}})),
        (json!({}), json!({"requestState": "first", "inputResponses": {"input-1": answer}})),
    ] {
        let refused = send(&arguments, &round).await;
        assert_eq!(refused["error"]["data"]["reason"], "ForeignInput", "{round}: {refused}");
    }
    // Who answers what was not asked is asked again.
    for round in [json!({"inputResponses": {"other": answer}}), json!({"inputResponses": {"who": answer}})] {
        let again = send(&json!({}), &round).await;
        assert_eq!(again["result"]["inputRequests"], asked["result"]["inputRequests"], "{round}: {again}");
    }
    let next = send(&json!({}), &json!({"requestState": state, "inputResponses": {"input-1": answer}})).await;
    let asks: Vec<_> = next["result"]["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(asks, ["input-1", "input-2"], "{next}");
}

#[tokio::test]
async fn answers_without_a_state_pass_the_chains_of_what_they_answer() {
    let (_server, up) = interview_http();
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    for (role, who, [folders, sentence]) in
        [("Guard", "input-1", ["input-1", "input-2"]), ("Transform", "who", ["folders", "sentence"])]
    {
        let manifests = external("up", &up) + &guarded("up", MASK).replace("role: Guard", &format!("role: {role}"));
        let folder = Folder::with(&manifests);
        let gateway = Gateway::start(&folder);
        tools_of(&gateway, &["up"]).await;
        let (http, url) = (Http::new(), gateway.url());
        let send = async |more: &Value| {
            call_with(&http, &url, "up__interview", &json!({}), more).await.json()["result"].clone()
        };
        let asked = send(&json!({})).await;
        assert_eq!(asked["inputRequests"][who]["params"]["message"], "***?", "{role}: {asked}");
        let next = send(&json!({"inputResponses": {who: answer, "other": answer}})).await;
        assert_eq!(next["inputRequests"][folders]["method"], "roots/list", "{role}: {next}");
        let said = json!({"role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "m"});
        let answers = json!({folders: {"roots": []}, sentence: said});
        let done = send(&json!({"requestState": next["requestState"], "inputResponses": answers})).await;
        let text = done["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{role}: {done}"));
        assert!(text.contains("***") && !text.contains("Ada") && !text.contains("forty-two"), "{role}: {text}");
    }
}
