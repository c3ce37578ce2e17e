//! What is told of the connection that clients share, and not of those that are each for one client.

use axum::body::Body;
use futures_util::FutureExt;
use hawsepipe::domain::capabilities::ClientCapabilities;
use hawsepipe::domain::upstream::UpstreamEvent;

use super::fake::{Fake, Seen, answer, legacy_or, typed};
use super::life::echo;
use super::*;

/// A server with sessions that offers a stream to those of clients that answer questions, or to all others. It ends with its
/// runtime.
async fn with_streams_for(answer_questions: bool) -> (tokio::runtime::Runtime, Fake) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let serving = Fake::start(move |seen| {
        let name = |answers: bool| if answers { "answers" } else { "does-not" };
        if seen.method == "GET" && seen.header("mcp-session-id") == name(answer_questions) {
            let never = futures_util::stream::pending::<std::io::Result<&str>>;
            return typed(200, "text/event-stream", Body::from_stream(never()));
        }
        let mut response = legacy_or(seen, &|seen| answer(seen, "{\"content\":[]}"));
        if seen.rpc() == "initialize" {
            let session = name(seen.body["params"]["capabilities"]["elicitation"].is_object());
            response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        }
        response
    });
    let fake = runtime.spawn(serving).await.unwrap();
    (runtime, fake)
}

#[tokio::test]
async fn the_end_of_a_session_of_one_client_is_not_told_of_as_that_of_the_upstream() {
    let (of_one, server_of_one) = with_streams_for(true).await;
    let (of_all, server_of_all) = with_streams_for(false).await;
    let (own, shared) = (started(external(&server_of_one.url)), started(external(&server_of_all.url)));
    let capabilities = ClientCapabilities::read(Some(&raw(r#"{"elicitation":{}}"#)));
    let client = ClientKey { capabilities, session: "a".to_owned(), ..ClientKey::default() };
    let calling = OutCall { client, ..echo("x") };
    assert!(matches!(call(&own, calling).await, Ok(Answer::Result(_))));
    shared.probe(PATIENCE).await.unwrap();
    for (server, session) in [(&server_of_one, "answers"), (&server_of_all, "does-not")] {
        let asks = |seen: &Seen| seen.method == "GET" && seen.header("mcp-session-id") == session;
        until("the stream is open", || server.all().iter().any(asks)).await;
    }
    of_one.shutdown_background();
    of_all.shutdown_background();
    while shared.next_event().await != UpstreamEvent::Disconnected(key()) {}
    // The other stream ended earlier.
    tokio::time::sleep(Duration::from_millis(200)).await;
    while let Some(event) = own.next_event().now_or_never() {
        assert_ne!(event, UpstreamEvent::Disconnected(key()));
    }
    tokio::join!(own.shutdown(), shared.shutdown());
}
