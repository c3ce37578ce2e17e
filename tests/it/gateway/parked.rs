//! Calls of clients without a session that wait for input, and are continued when they are sent once more.

use hyper::Method;
use serde_json::{Value, json};

use super::asked::{Asking, call_with};
use super::http::{Http, call_headers};

#[tokio::test]
async fn a_parked_call_is_continued_once_and_by_the_same_call() {
    let asking = Asking::start("").await;
    let (http, url) = (Http::new(), asking.gateway.url());
    let send = async |tool: &str, arguments: &Value, more: &Value| call_with(&http, &url, tool, arguments, more).await;
    let asked = send("asking__elicit", &json!({}), &json!({})).await;
    assert_eq!(asked.status, 200);
    let asked = asked.json();
    assert_eq!((&asked["id"], &asked["result"]["resultType"]), (&json!("é"), &json!("input_required")), "{asked}");
    let question = &asked["result"]["inputRequests"]["input-1"];
    assert_eq!((&question["method"], &question["params"]["message"]), (&json!("elicitation/create"), &json!("Who?")));
    let state = &asked["result"]["requestState"];
    let answer = json!({"action": "accept", "content": {"name": "Ann"}});
    let round = json!({"requestState": state, "inputResponses": {"input-1": answer}});

    // Another call, another state: refused, and the parked call waits on. A state that is not of this gateway would be the
    // server's, which has none.
    for (tool, arguments, round) in [
        ("asking__roots", json!({}), &round),
        ("asking__elicit", json!({"apart": false}), &round),
        ("asking__elicit", json!({}), &json!({"requestState": "hawsepipe-0", "inputResponses": {}})),
    ] {
        let refused = send(tool, &arguments, round).await.json();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    // Without the answer it asks again, under another state.
    let again = send("asking__elicit", &json!({}), &json!({"requestState": state})).await.json();
    assert_eq!(again["result"]["inputRequests"], asked["result"]["inputRequests"], "{again}");
    assert_ne!(again["result"]["requestState"], *state);
    let round = json!({"requestState": again["result"]["requestState"], "inputResponses": {"input-1": answer}});
    let done = send("asking__elicit", &json!({}), &round).await.json();
    assert_eq!(
        done["result"]["content"][0]["text"].as_str().map(serde_json::from_str::<Value>).unwrap().unwrap(),
        answer
    );
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    let twice = send("asking__elicit", &json!({}), &round).await.json();
    assert_eq!(twice["error"]["code"], -32602, "{twice}");
}

#[tokio::test]
async fn a_parked_call_is_continued_with_the_headers_that_repeat_its_arguments() {
    let asking = Asking::start("").await;
    let (http, url) = (Http::new(), asking.gateway.url());
    let send = async |place: Option<&str>, more: Value| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        });
        let mut params = json!({"name": "asking__visit", "arguments": {"place": "Rome"}, "_meta": meta});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let place = place.map(|place| ("mcp-param-place", place));
        let headers: Vec<_> = call_headers("asking__visit").into_iter().chain(place).collect();
        http.send(Method::POST, &url, &headers, body).await
    };
    let asked = send(Some("Rome"), json!({})).await.json();
    let answer = json!({"action": "accept", "content": {"name": "Ann"}});
    let round = json!({"requestState": asked["result"]["requestState"], "inputResponses": {"input-1": answer}});
    for place in [Some("Oslo"), None] {
        for round in [&json!({}), &round] {
            let refused = send(place, round.clone()).await;
            assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!(-32020)), "{}", refused.body);
        }
    }
    let done = send(Some("Rome"), round).await.json();
    assert_eq!(done["result"]["content"][0]["text"], "Rome Ann", "{done}");
}
