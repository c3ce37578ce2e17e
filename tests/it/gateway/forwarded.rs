//! What processes of one gateway forward to each other, where something else is between them or in the place of one.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, serve};
use http_body_util::BodyExt;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::asked::{answer, call_with};
use super::harness::Gateway;
use super::http::{Http, Session};
use super::parts::{object, until};
use super::resumed::{call, events, go_on};
use super::spread::{Spread, asked, rest};

/// The address at which a process says that it can be reached. Without [`Between`], nobody is there.
const ELSEWHERE: &[&str] = &["--advertise", "127.0.0.2"];
/// Sessions that are idle soon, so that processes often tell each other that they use one.
const OFTEN: &str = "authentication: {anonymous: {}}, sessions: {idleSeconds: 2}";

/// The arguments of a tool that does nothing.
const NOTHING: &str = r#"{"count":0}"#;

/// What is at the address of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The process.
    Process,
    /// The process, which gets "Bob" for "Ann".
    Changed,
    /// The process, but its answers to POST are replaced.
    Answered,
    /// A server that answers everything, whatever its path. No real one does, but it is the worst one.
    Server,
    /// A server that takes everything and answers nothing.
    Silent,
    /// The process, which gets the end of a session only once it has another place.
    Held,
    /// The process, which is about to close the connection whenever it has to prove itself.
    Closing,
}

/// A request as it came: its method, its path and its body, and everything as text.
type Got = (Method, String, String);
/// An answer of the process that was passed on: the method of its request, its status, and whether the connection closes.
type Passed = (Method, u16, bool);

/// Takes what is sent to the address at which a process says that it can be reached.
struct Between {
    seen: Arc<Seen>,
    _task: AbortOnDropHandle<()>,
}

/// What was seen there.
struct Seen {
    place: Mutex<Place>,
    got: Mutex<Vec<Got>>,
    passed: Mutex<Vec<Passed>>,
}

impl Between {
    async fn start(process: &Gateway, place: Place) -> Self {
        let to = process.address();
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), to.port())).await.unwrap();
        let seen = Seen { place: Mutex::new(place), got: Mutex::default(), passed: Mutex::default() };
        let seen = Arc::new(seen);
        let taken = Arc::clone(&seen);
        let take = move |request: Request| take(request, to, Arc::clone(&taken));
        let task = tokio::spawn(async move { serve(listener, Router::new().fallback(take)).await.unwrap() });
        Self { seen, _task: AbortOnDropHandle::new(task) }
    }

    fn set(&self, place: Place) {
        *self.seen.place.lock().unwrap() = place;
    }

    fn got(&self) -> Vec<Got> {
        self.seen.got.lock().unwrap().clone()
    }

    fn passed(&self) -> Vec<Passed> {
        self.seen.passed.lock().unwrap().clone()
    }
}

async fn take(request: Request, to: SocketAddr, seen: Arc<Seen>) -> Response {
    let (mut head, body) = request.into_parts();
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let text = format!(
        "{} {body}",
        head.headers.iter().map(|(name, value)| format!("{name}: {value:?} ")).collect::<String>()
    );
    seen.got.lock().unwrap().push((head.method.clone(), head.uri.path().to_owned(), text));
    let unguarded = || {
        let result = json!({"content": [{"type": "text", "text": "unguarded"}]});
        Json(json!({"jsonrpc": "2.0", "id": "é", "result": result})).into_response()
    };
    let place = || *seen.place.lock().unwrap();
    let (method, began) = (head.method.clone(), place());
    match began {
        Place::Server => return unguarded(),
        Place::Silent => return std::future::pending().await,
        Place::Held if method == Method::POST && body.is_empty() => {
            while place() == Place::Held {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        _ => {}
    }
    let body = if began == Place::Changed { body.replace("Ann", "Bob") } else { body };
    head.uri = format!("http://{to}{}", head.uri.path()).parse().unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    match client.request(Request::from_parts(head, Body::from(body))).await {
        Ok(_) if began == Place::Answered && method == Method::POST => unguarded(),
        Ok(mut answer) => {
            let closes = answer.headers().get("connection").is_some_and(|value| value == "close");
            if began == Place::Closing && method == Method::GET {
                answer.headers_mut().insert("connection", HeaderValue::from_static("close"));
            }
            seen.passed.lock().unwrap().push((method, answer.status().as_u16(), closes));
            answer.map(Body::new)
        }
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

/// Calls the tool that asks for a name, at a process, without a session. Gives what the client sends to go on with it.
async fn parked(http: &Http, url: &str, name: &str) -> Value {
    let asked = call_with(http, url, "asking__elicit", &json!({}), &json!({})).await.json();
    assert!(asked["result"]["requestState"].is_string(), "{asked}");
    let answers = json!({"input-1": {"action": "accept", "content": {"name": name}}});
    json!({"requestState": asked["result"]["requestState"], "inputResponses": answers})
}

/// Cancels the request of a session at a process until its stream ends.
async fn cancelled(session: &Session, id: u64, stream: hyper::Response<hyper::body::Incoming>) {
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": id, "reason": "private"}});
    let cancelling = async {
        loop {
            session.send(cancel.to_string()).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        body = rest(stream) => assert!(body.contains("Request cancelled"), "{body}"),
        () = cancelling => {}
    }
}

#[tokio::test]
async fn a_server_at_the_address_of_a_process_gets_nothing_and_answers_nothing() {
    let spread = Spread::start_at("", &[ELSEWHERE, &[]]).await;
    let sessions = spread.sessions().await;
    let (http, other) = (Http::new(), spread.replicas[1].url());
    let round = parked(&http, &sessions[0].url, "sesame").await;
    let (_stream, question) = asked(&sessions[0], 1).await;
    let (read, _) = events(call(&sessions[0], 2, 3).await, 1).await;
    let between = Between::start(&spread.replicas[0], Place::Server).await;

    let refused = call_with(&http, &other, "asking__elicit", &json!({}), &round).await;
    assert_eq!(refused.json()["error"]["data"]["reason"], "ReplicaGone", "{}", refused.body);
    assert_eq!(answer(&sessions[1], &question, "sesame").await, 202);
    let gone = go_on(&sessions[1], &read[0].0).await;
    assert_eq!(gone.status(), StatusCode::BAD_GATEWAY);
    let why = rest(gone).await;
    assert!(why.contains("does not prove to be one"), "{why}");
    let end = http.send(Method::DELETE, &other, &sessions[1].headers(), "").await;
    assert_eq!(end.status, 204);

    let got = between.got();
    assert!(got.len() >= 4, "{got:?}");
    let event = read[0].0.as_str();
    for (method, path, text) in got {
        assert_eq!((method, &*path), (Method::GET, "/hawsepipe/forward"), "{text}");
        let secrets = ["sesame", &sessions[0].id, event, question.as_str().unwrap()];
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
    }
    // The process itself is well.
    between.set(Place::Process);
    let done = call_with(&http, &other, "asking__elicit", &json!({}), &round).await;
    assert!(done.body.contains("sesame"), "{}", done.body);
}

#[tokio::test]
async fn a_request_that_was_changed_on_the_way_is_refused_and_can_be_sent_again() {
    let spread = Spread::start_at("", &[ELSEWHERE, &[]]).await;
    let between = Between::start(&spread.replicas[0], Place::Changed).await;
    let (http, other) = (Http::new(), spread.replicas[1].url());
    let round = parked(&http, &spread.replicas[0].url(), "Ann").await;
    let refused = call_with(&http, &other, "asking__elicit", &json!({}), &round).await;
    let error = &refused.json()["error"];
    assert!(error["data"]["retryAfterMs"].is_u64() && !refused.body.contains("Bob"), "{}", refused.body);
    assert!(between.got().iter().any(|(method, _, text)| method == Method::POST && text.contains("Ann")));
    between.set(Place::Process);
    let done = call_with(&http, &other, "asking__elicit", &json!({}), &round).await;
    assert!(done.body.contains("Ann"), "{}", done.body);
}

#[tokio::test]
async fn an_answer_that_no_process_sealed_is_not_passed_on_and_its_call_may_have_gone_on() {
    let spread = Spread::start_at("", &[ELSEWHERE, &[]]).await;
    let _between = Between::start(&spread.replicas[0], Place::Answered).await;
    let (http, other) = (Http::new(), spread.replicas[1].url());
    let round = parked(&http, &spread.replicas[0].url(), "Ann").await;
    let lost = call_with(&http, &other, "asking__elicit", &json!({}), &round).await;
    let error = &lost.json()["error"];
    assert_eq!(
        (&error["code"], &error["data"]),
        (&json!(-32000), &json!({"reason": "OutcomeUnknown"})),
        "{}",
        lost.body
    );
    assert!(!lost.body.contains("unguarded") && !lost.body.contains("Send the call"), "{}", lost.body);
}

#[tokio::test]
async fn another_call_with_the_state_of_one_that_waits_elsewhere_is_not_sent_there() {
    let spread = Spread::start_at("", &[ELSEWHERE, &[]]).await;
    let between = Between::start(&spread.replicas[0], Place::Process).await;
    let http = Http::new();
    let round = parked(&http, &spread.replicas[0].url(), "Ann").await;
    for (url, tool, arguments) in [
        (spread.replicas[1].url(), "asking__elicit", json!({"apart": false})),
        (spread.replicas[1].url(), "asking__roots", json!({})),
        (spread.replicas[1].url_of("asking"), "elicit", json!({})),
    ] {
        let refused = call_with(&http, &url, tool, &arguments, &round).await;
        assert_eq!(refused.json()["error"]["code"], -32602, "{}", refused.body);
    }
    assert!(between.got().is_empty(), "{:?}", between.got());
}

#[tokio::test]
async fn the_process_that_began_a_session_is_told_again_who_uses_it() {
    let mut spread = Spread::start_at(&object("MCPGateway", "main", OFTEN), &[ELSEWHERE, &[]]).await;
    let sessions = spread.sessions().await;
    // Nobody can be told yet.
    let (first, _) = asked(&sessions[1], 1).await;
    let (second, _) = asked(&sessions[1], 2).await;
    let between = Between::start(&spread.replicas[0], Place::Process).await;
    cancelled(&sessions[0], 1, first).await;
    // A process that was started again knows nothing any more.
    let address = spread.replicas[0].address().to_string();
    let home = spread.replicas.remove(0);
    home.signal(Signal::KILL);
    assert!(!home.ended().await);
    let again = spread.process(&[&["--listen", &address], ELSEWHERE].concat()).await;
    cancelled(&sessions[0], 2, second).await;
    drop((between, again));
}

#[tokio::test]
async fn the_process_that_began_a_session_passes_on_what_another_does_not_know() {
    let unknown: &[&str] = &["--advertise", "127.0.0.3"];
    let spread = Spread::start_at("", &[ELSEWHERE, unknown, &[]]).await;
    let between = Between::start(&spread.replicas[0], Place::Process).await;
    let sessions = spread.sessions().await;
    // The second cannot be told of the third, because nobody reaches it.
    for session in [&sessions[1], &sessions[2]] {
        assert_eq!(session.call_raw(9, "asking__steps", NOTHING).await.status, 200);
    }
    let (stream, _) = asked(&sessions[2], 1).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "private"}});
    assert_eq!(sessions[1].send(cancel.to_string()).await.status, 202);
    let body = rest(stream).await;
    assert!(body.contains("Request cancelled"), "{body}");
    let end = sessions[1].http.send(Method::DELETE, &sessions[1].url, &sessions[1].headers(), "").await;
    assert_eq!(end.status, 204);
    assert_eq!(sessions[2].call_raw(9, "asking__steps", NOTHING).await.status, 404);
    let private: Vec<_> = between.got().into_iter().filter(|(_, _, text)| text.contains("private")).collect();
    assert!(private.is_empty(), "{private:?}");
}

#[tokio::test]
async fn one_session_alone_waits_for_a_process_that_does_not_answer() {
    let spread = Spread::start_at("", &[ELSEWHERE, &[]]).await;
    let between = Between::start(&spread.replicas[0], Place::Silent).await;
    for begun in 0..3 {
        let sessions = spread.sessions().await;
        let next = sessions[1].call_raw(9, "asking__steps", NOTHING).await;
        assert_eq!(next.status, 200, "{begun}: {}", next.body);
    }
    assert_eq!(between.got().len(), 1, "{:?}", between.got());
}

#[tokio::test]
async fn who_uses_a_session_does_not_wait_until_others_know_it() {
    let unknown: &[&str] = &["--advertise", "127.0.0.3"];
    let spread = Spread::start_at("", &[ELSEWHERE, unknown, &[]]).await;
    let between = Between::start(&spread.replicas[0], Place::Process).await;
    // It takes connections and says nothing.
    let address = (Ipv4Addr::new(127, 0, 0, 3), spread.replicas[1].address().port());
    let _silent = TcpListener::bind(address).await.unwrap();
    let sessions = spread.sessions().await;
    for session in [&sessions[1], &sessions[2]] {
        assert_eq!(session.call_raw(9, "asking__steps", NOTHING).await.status, 200);
    }
    let taken = between.passed().into_iter().filter(|(method, status, _)| method == Method::POST && *status == 202);
    assert_eq!(taken.count(), 2, "{:?}", between.passed());
}

#[tokio::test]
async fn the_end_of_a_session_is_told_although_its_client_is_gone() {
    let spread = Spread::start_at("", &[ELSEWHERE, &[]]).await;
    let between = Between::start(&spread.replicas[0], Place::Held).await;
    let sessions = spread.sessions().await;
    let session = sessions[1].clone();
    let end =
        tokio::spawn(async move { session.http.send(Method::DELETE, &session.url, &session.headers(), "").await });
    let is_end = |(method, _, text): &Got| method == Method::POST && text.ends_with(' ');
    until("the end is on its way", async || between.got().iter().any(is_end)).await;
    end.abort();
    assert!(end.await.is_err_and(|error| error.is_cancelled()));
    // The process notices that its client is gone.
    tokio::time::sleep(Duration::from_millis(200)).await;
    between.set(Place::Process);
    let ended = async || sessions[0].call_raw(9, "asking__steps", NOTHING).await.status == 404;
    until("it ends where it was begun", ended).await;
}

#[tokio::test]
async fn a_call_is_not_sent_over_a_connection_that_closes() {
    let spread = Spread::start_at("", &[ELSEWHERE, &[]]).await;
    let between = Between::start(&spread.replicas[0], Place::Closing).await;
    let (http, other) = (Http::new(), spread.replicas[1].url());
    let round = parked(&http, &spread.replicas[0].url(), "Ann").await;
    let gone = call_with(&http, &other, "asking__elicit", &json!({}), &round).await;
    assert_eq!(gone.json()["error"]["data"], json!({"reason": "ReplicaGone"}), "{}", gone.body);
    assert!(between.got().iter().all(|(method, ..)| method == Method::GET), "{:?}", between.got());
}

#[tokio::test]
async fn a_process_that_is_about_to_end_takes_what_waits_for_it_over_connections_that_close() {
    let spread = Spread::start_at("", &[ELSEWHERE, &[]]).await;
    let between = Between::start(&spread.replicas[0], Place::Process).await;
    let (http, other) = (Http::new(), spread.replicas[1].url());
    let round = parked(&http, &spread.replicas[0].url(), "Ann").await;
    spread.replicas[0].signal(Signal::TERM);
    spread.replicas[0].logged(|line| line["message"].as_str().is_some_and(|message| message.starts_with("ending")));
    let done = call_with(&http, &other, "asking__elicit", &json!({}), &round).await;
    assert!(done.body.contains("Ann"), "{}", done.body);
    assert_eq!(between.passed(), [(Method::GET, 204, false), (Method::POST, 200, true)]);
}

#[tokio::test]
async fn nobody_but_a_process_of_the_gateway_forwards() {
    let spread = Spread::start_at("", &[&[]]).await;
    let session = &spread.sessions().await[0];
    let url = format!("http://{}/hawsepipe/forward", spread.replicas[0].address());
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for token in [None, Some(""), Some("x"), Some(&*session.id)] {
        let headers = session.headers().into_iter().chain(token.map(|token| ("hawsepipe-forwarded", token)));
        let refused = session.http.send(Method::POST, &url, &headers.collect::<Vec<_>>(), ping).await;
        assert_eq!((refused.status, refused.headers.get("hawsepipe-answered")), (403, None), "{}", refused.body);
    }
}
