//! Calls that wait for their clients while a rule, a Guard or the stop switch comes into force, or while the client gets another
//! token.

use serde_json::{Value, json};

use super::asked::{answer, call_with};
use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::identity::issuer::{KeyServer, SigningKey};
use super::parts::{asking_http, chain, external, object, plugin, until};
use super::replicas::at;
use super::spread::{Spread, asked, rest};

/// Shows that it has seen an answer.
const MARKS: &str =
    "export default ({ rawContent }) => ({ text: rawContent.replace('Ann', '<Ann>'), continue: true });";

fn gateway(spec: &str) -> String {
    object("MCPGateway", "main", spec)
}

/// Parks a call and returns the round that answers it.
async fn parked(http: &Http, url: &str) -> Value {
    let asked = call_with(http, url, "asking__elicit", &json!({}), &json!({})).await.json();
    let state = &asked["result"]["requestState"];
    assert!(state.is_string(), "{asked}");
    let answer = json!({"action": "accept", "content": {"name": "Ann"}});
    json!({"requestState": state, "inputResponses": {"input-1": answer}})
}

#[tokio::test]
async fn a_parked_call_is_checked_again_when_its_client_answers() {
    let folder = Folder::new();
    let (_server, url) = asking_http(&folder.path().join("capabilities.log"));
    let write = |more: String| folder.write("manifests.yaml", &(external("asking", &url) + &more));
    let denies = r#"authentication: {anonymous: {}}, authorization: {default: Allow, rules: [{name: no, effect: Deny,
        when: 'tool.name.endsWith("elicit")'}]}"#;
    let guarded =
        plugin("marks", MARKS, "protocol: Module, role: Guard") + &chain("late", "Response", &["asking"], &["marks"]);
    write(gateway("authentication: {anonymous: {}}"));
    let process = Gateway::start(&folder);
    super::parts::tools_of(&process, &["asking"]).await;
    let (http, at) = (Http::new(), process.url());
    let answered = async |round: &Value| call_with(&http, &at, "asking__elicit", &json!({}), round).await.json();

    let round = parked(&http, &at).await;
    write(gateway("authentication: {anonymous: {}}") + &guarded);
    until("the Guard is in force", async || {
        http.get(&format!("http://{}/api/v1/chains", process.admin())).await.body.contains("default/late")
    })
    .await;
    let seen = answered(&round).await;
    let text = seen["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{seen}"));
    assert!(text.contains("<Ann>"), "the Guard did not see the answer: {seen}");

    write(gateway("authentication: {anonymous: {}}"));
    until("the Guard is gone", async || {
        !http.get(&format!("http://{}/api/v1/chains", process.admin())).await.body.contains("default/late")
    })
    .await;
    let round = parked(&http, &at).await;
    write(gateway(denies));
    until("the rule is in force", async || {
        answered(&json!({})).await["result"]["_meta"]["hawsepipe.dev/denied"]["rule"] == "no"
    })
    .await;
    let denied = answered(&round).await;
    assert_eq!(denied["result"]["_meta"]["hawsepipe.dev/denied"]["rule"], "no", "{denied}");

    write(gateway("authentication: {anonymous: {}}"));
    until("the rule is gone", async || answered(&json!({})).await["result"]["requestState"].is_string()).await;
    let round = parked(&http, &at).await;
    assert!(run(&["stop", "--admin", &process.admin()]).status.success());
    let stopped = answered(&round).await;
    assert_eq!(stopped["error"]["data"]["reason"], "Stopped", "{stopped}");
}

/// Two processes of a gateway with these rules, each of which accepts tokens of the issuer.
async fn spread(keys: &KeyServer, authorization: &Value) -> Spread {
    let spec = json!({"authentication": keys.authentication(), "authorization": authorization});
    let spec = spec.to_string();
    Spread::start_at(&gateway(&spec[1..spec.len() - 1]), &[&[], &[]]).await
}

#[tokio::test]
async fn the_rules_read_the_whole_identity_of_a_client_that_answers_at_another_process() {
    let key = SigningKey::new("one");
    let keys = KeyServer::start(&[&key]);
    let when = |groups: &str| format!("{groups:?} in identity.groups");
    for (authorization, allowed, denied) in [
        (json!({"default": "Allow", "rules": [{"name": "no", "effect": "Deny", "when": when("out")}]}), "in", "out"),
        (json!({"default": "Deny", "rules": [{"name": "yes", "effect": "Allow", "when": when("in")}]}), "in", "out"),
    ] {
        let spread = spread(&keys, &authorization).await;
        let [may, may_not] = [allowed, denied].map(|group| Http::bearing(&key.token(&json!({"groups": [group]}))));
        let [home, other] = [0, 1].map(|n| spread.replicas[n].url());
        for (client, passes) in [(&may, true), (&may_not, false)] {
            // Without a session, the client sends its call once more.
            let round = parked(&may, &home).await;
            let said = call_with(client, &other, "asking__elicit", &json!({}), &round).await.json();
            assert_eq!(said.to_string().contains("Ann"), passes, "{authorization}: {said}");
            // In a session, it answers the question.
            let begun = may.initialize_with(&home, &json!({"elicitation": {}})).await;
            let (stream, id) = asked(&begun, 1).await;
            let there = super::http::Session { http: client.clone(), ..at(&begun, &spread.replicas[1]) };
            assert_eq!(answer(&there, &id, "Ann").await, 202);
            let body = rest(stream).await;
            assert_eq!(body.contains("Ann"), passes, "{authorization}: {body}");
        }
    }
}
