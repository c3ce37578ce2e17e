//! Clients whose requests are spread over several processes of their gateway, as a load balancer without affinity does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::{Router, serve};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::asked::{ANSWERS, answer, call_with, question};
use super::harness::{Folder, Gateway, SOON};
use super::http::{Http, Session};
use super::parts::{SDKS, asking_http, external, tools_of};
use super::replicas::{KEY, at};
use super::resumed::{call, events, go_on};
use crate::upstream::Running;

/// Processes of one gateway with one key, on the server whose tools ask the client.
pub(super) struct Spread {
    pub(super) replicas: Vec<Gateway>,
    manifests: Folder,
    keys: Folder,
    _server: Running,
}

impl Spread {
    async fn start(count: usize) -> Self {
        Self::start_at("", &vec![&[] as &[&str]; count]).await
    }

    /// The same with more manifests, and with more arguments of each process.
    pub(super) async fn start_at(more: &str, arguments: &[&[&str]]) -> Self {
        let (manifests, keys) = (Folder::new(), Folder::new());
        let (server, url) = asking_http(&manifests.path().join("log"));
        manifests.write("manifests.yaml", &(external("asking", &url) + more));
        keys.write("key", KEY);
        let mut spread = Self { replicas: Vec::new(), manifests, keys, _server: server };
        for arguments in arguments {
            let gateway = spread.process(arguments).await;
            spread.replicas.push(gateway);
        }
        spread
    }

    /// One more process of the gateway.
    pub(super) async fn process(&self, arguments: &[&str]) -> Gateway {
        let key = self.keys.path().join("key");
        let arguments = [arguments, &["--seal-key-file", key.to_str().unwrap()]].concat();
        let gateway = Gateway::start_with(&self.manifests, &arguments);
        tools_of(&gateway, &["asking"]).await;
        gateway
    }

    /// A session begun at the first, as it is used at each.
    pub(super) async fn sessions(&self) -> Vec<Session> {
        let begun = Http::new().initialize_with(&self.replicas[0].url(), &json!({"elicitation": {}})).await;
        self.replicas.iter().map(|replica| at(&begun, replica)).collect()
    }
}

/// A proxy that sends each request to a process chosen at random. Gives its URL, and how many each process got.
async fn balancer(replicas: &[Gateway]) -> (String, Arc<Vec<AtomicUsize>>, AbortOnDropHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let addresses: Vec<_> = replicas.iter().map(Gateway::address).collect();
    let counts: Arc<Vec<_>> = Arc::new(addresses.iter().map(|_| AtomicUsize::new(0)).collect());
    let (client, counted) = (Client::builder(TokioExecutor::new()).build_http::<Body>(), Arc::clone(&counts));
    let pass = move |mut request: Request| {
        let chosen = usize::from(uuid::Uuid::new_v4().as_bytes()[0]) % addresses.len();
        counted[chosen].fetch_add(1, Ordering::Relaxed);
        let path = request.uri().path_and_query().unwrap().clone();
        *request.uri_mut() = format!("http://{}{path}", addresses[chosen]).parse().unwrap();
        let answered = client.request(request);
        async move {
            match answered.await {
                Ok(answer) => answer.map(Body::new),
                Err(_) => StatusCode::BAD_GATEWAY.into_response(),
            }
        }
    };
    let router = Router::new().fallback(pass);
    let task = tokio::spawn(async move { serve(listener, router).await.unwrap() });
    (url, counts, AbortOnDropHandle::new(task))
}

/// Reads a response to its end.
pub(super) async fn rest(stream: Response<Incoming>) -> String {
    let read = tokio::time::timeout(SOON, stream.into_body().collect()).await.expect("it waits on").unwrap();
    String::from_utf8(read.to_bytes().to_vec()).unwrap()
}

/// Calls the tool that asks the client for a name, and gives its stream and the id of the question.
pub(super) async fn asked(session: &Session, id: u64) -> (Response<Incoming>, Value) {
    let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "asking__elicit"}});
    let mut stream = session.http.open(Method::POST, &session.url, &session.headers(), call.to_string()).await;
    let id = question(&mut stream).await["id"].clone();
    (stream, id)
}

#[tokio::test]
async fn clients_of_both_eras_answer_what_is_asked_whichever_process_they_reach() {
    let spread = Spread::start(2).await;
    let (url, counts, _proxy) = balancer(&spread.replicas).await;
    let answers: Value = serde_json::from_str(ANSWERS).unwrap();
    for (tool, capability) in [("sample", "sampling"), ("elicit", "elicitation"), ("roots", "roots")] {
        for sdk in [SDKS[2], SDKS[3]] {
            let (url, name) = (url.clone(), format!("asking__{tool}"));
            let run = move || sdk.run(&url, &["call", &name, "{}", "--answers", ANSWERS, "--repeat", "6"], "");
            let lines = tokio::task::spawn_blocking(run).await.unwrap();
            assert_eq!(lines.len(), 6);
            for line in lines {
                let text = line["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{sdk:?} {line}"));
                assert_eq!(serde_json::from_str::<Value>(text).unwrap(), answers[capability], "{sdk:?} {tool}");
            }
        }
    }
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) > 10), "{counts:?}");
}

#[tokio::test]
async fn questions_and_cut_streams_of_a_call_go_on_at_another_process() {
    let spread = Spread::start(2).await;
    let sessions = spread.sessions().await;
    for (home, other) in [(&sessions[0], &sessions[1]), (&sessions[1], &sessions[0])] {
        let (stream, id) = asked(home, 1).await;
        assert!(id.as_str().unwrap().len() < 120, "{id}");
        assert_eq!(answer(other, &id, "Ann").await, 202);
        let body = rest(stream).await;
        assert!(body.contains("Ann"), "{body}");

        let (mut all, mut ended) = events(call(home, 2, 20).await, 3).await;
        for session in [other, home].into_iter().cycle() {
            if ended {
                break;
            }
            let last = all.last().unwrap().0.clone();
            assert!(last.len() < 120, "{last}");
            let stream = go_on(session, &last).await;
            assert_eq!(stream.status(), 200);
            assert_eq!(stream.headers()["content-type"], "text/event-stream");
            let (more, done) = events(stream, 4).await;
            ended = done || more.last().is_some_and(|(_, message)| message["result"].is_object());
            all.extend(more);
        }
        let (answer, steps) = all.split_last().unwrap();
        assert_eq!(answer.1["result"]["content"][0]["text"], "20 steps", "{answer:?}");
        let steps: Vec<_> = steps.iter().map(|(_, step)| step["params"]["progress"].as_u64().unwrap()).collect();
        assert!(steps.iter().copied().eq(1..=20), "{steps:?}");
        assert_eq!(go_on(other, &answer.0).await.status(), 204, "nothing comes after the answer");

        let foreign = spread.sessions().await;
        for session in &foreign {
            assert_eq!(go_on(session, &answer.0).await.status(), 400, "the stream is of another session");
        }
    }
}

#[tokio::test]
async fn a_call_and_a_session_are_ended_at_every_process_that_has_them() {
    let spread = Spread::start(3).await;
    let sessions = spread.sessions().await;
    for session in &sessions[1..] {
        assert_eq!(session.call_raw(9, "asking__steps", r#"{"count":0}"#).await.status, 200);
    }
    for (id, (caller, canceller)) in (1..).zip([(0, 1), (1, 0), (1, 2), (2, 1)]) {
        let (stream, _) = asked(&sessions[caller], id).await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        assert_eq!(sessions[canceller].send(cancel.to_string()).await.status, 202);
        let body = rest(stream).await;
        assert!(body.contains("Request cancelled"), "{caller} {canceller}: {body}");
    }
    let kept = spread.sessions().await;
    let delete = |session: &Session| {
        let session = session.clone();
        async move { session.http.send(Method::DELETE, &session.url, &session.headers(), "").await.status }
    };
    assert_eq!(delete(&sessions[1]).await, 204);
    for session in &sessions {
        assert_eq!(session.call_raw(7, "asking__steps", r#"{"count":0}"#).await.status, 404, "{}", session.url);
    }
    // One that the others have never heard of ends at all of them too.
    assert_eq!(delete(&kept[0]).await, 204);
    assert_eq!(kept[2].call_raw(7, "asking__steps", r#"{"count":0}"#).await.status, 404);
}

#[tokio::test]
async fn a_call_that_waits_for_input_goes_on_at_another_process_as_the_same_call_alone() {
    let spread = Spread::start(2).await;
    let http = Http::new();
    let [home, other] = [0, 1].map(|n| spread.replicas[n].url());
    let send = async |url: &str, arguments: &Value, more: &Value| {
        call_with(&http, url, "asking__elicit", arguments, more).await.json()
    };
    let first = send(&home, &json!({}), &json!({})).await;
    let state = first["result"]["requestState"].as_str().unwrap_or_else(|| panic!("{first}")).to_owned();
    let round = |state: &str| {
        let answers = json!({"input-1": {"action": "accept", "content": {"name": "Ann"}}});
        json!({"requestState": state, "inputResponses": answers})
    };
    let forged = format!("{}{}", if state.starts_with('A') { "B" } else { "A" }, &state[1..]);
    let (cut, own) = (&state[..state.len() - 1], spread.replicas[1].url_of("asking"));
    for (url, arguments, state, reason) in [
        (other.as_str(), json!({"apart": false}), state.as_str(), Value::Null),
        (own.as_str(), json!({}), state.as_str(), Value::Null),
        (other.as_str(), json!({}), forged.as_str(), json!("UnknownRequestState")),
        (other.as_str(), json!({}), cut, json!("UnknownRequestState")),
        (home.as_str(), json!({}), "hawsepipe-0", json!("UnknownRequestState")),
    ] {
        let tool = if url == own { "elicit" } else { "asking__elicit" };
        let refused = call_with(&http, url, tool, &arguments, &round(state)).await.json();
        let error = &refused["error"];
        assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32602), &reason), "{refused}");
    }
    let done = send(&other, &json!({}), &round(&state)).await;
    assert!(done["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("Ann")), "{done}");
    let twice = send(&other, &json!({}), &round(&state)).await;
    assert_eq!(twice["error"]["code"], -32602, "{twice}");
}

#[tokio::test]
async fn what_is_at_a_process_that_is_gone_is_an_error_and_the_session_goes_on() {
    let mut spread = Spread::start(2).await;
    let sessions = spread.sessions().await;
    let (stream, _) = asked(&sessions[0], 1).await;
    let (read, _) = events(call(&sessions[0], 2, 3).await, 1).await;
    let http = Http::new();
    let parked = call_with(&http, &sessions[0].url, "asking__elicit", &json!({}), &json!({})).await.json();
    let state = parked["result"]["requestState"].clone();
    let home = spread.replicas.remove(0);
    home.signal(Signal::KILL);
    assert!(!home.ended().await);
    drop(stream);

    let gone = go_on(&sessions[1], &read[0].0).await;
    assert_eq!(gone.status(), 502);
    let why = rest(gone).await;
    assert!(why.contains("cannot be reached"), "{why}");
    let gone = call_with(&http, &sessions[1].url, "asking__elicit", &json!({}), &json!({"requestState": state})).await;
    assert_eq!(gone.json()["error"]["data"]["reason"], "ReplicaGone", "{}", gone.body);
    let next = sessions[1].call_raw(3, "asking__steps", r#"{"count":1}"#).await;
    assert_eq!(next.json()["result"]["content"][0]["text"], "1 steps", "{}", next.body);
}

#[tokio::test]
async fn nobody_but_a_replica_forwards() {
    let spread = Spread::start(1).await;
    let sessions = spread.sessions().await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for token in ["", "x", &sessions[0].id] {
        let mut headers = sessions[0].headers().to_vec();
        headers.push(("hawsepipe-forwarded", token));
        let refused = sessions[0].http.send(Method::POST, &sessions[0].url, &headers, Bytes::from(ping)).await;
        assert_eq!(refused.status, 403, "{}", refused.body);
    }
}
