//! Answers that are broken as messages: each fails its own call at once, with what is wrong.

use super::fake::{Fake, answer, answer_text, status, typed};
use super::hostile::{GOOD, fake_process};
use super::*;

/// What of a good answer is replaced by what, and a word of the error.
const FAULTS: [(&str, &str, &str); 9] = [
    ("{\"jsonrpc\"", "ok {\"jsonrpc\"", "not a JSON object"),
    ("\"2.0\"", "\"1.0\"", "2.0"),
    ("\"jsonrpc\"", "\"json\"", "2.0"),
    ("\"result\"", "\"result\":{},\"result\"", "twice"),
    ("\"id\"", "\"id\":1,\"id\"", "twice"),
    ("\"result\"", "\"error\":{\"code\":1,\"message\":\"m\"},\"result\"", "a result and an error"),
    (r#""result":{"content":[]}"#, r#""result":null"#, "null"),
    (r#""result":{"content":[]}"#, r#""error":"out of ink""#, "code"),
    (r#""result":{"content":[]}"#, r#""error":{"code":1}"#, "message"),
];

#[tokio::test]
async fn a_broken_answer_over_http_says_what_is_wrong() {
    let fake = Fake::legacy(|seen| {
        let fault: usize = seen.body["params"]["name"].as_str().unwrap().parse().unwrap();
        let (from, to, _) = FAULTS[fault];
        typed(200, "application/json", answer_text(seen, GOOD).replacen(from, to, 1))
    })
    .await;
    let upstreams = started(external(&fake.url));
    for (number, (_, to, words)) in FAULTS.iter().enumerate() {
        let error = call(&upstreams, out(&number.to_string(), "{}")).await.unwrap_err();
        assert!(error.reason().as_str() == "ProtocolError" && error.to_string().contains(words), "{to}: {error}");
    }
}

#[tokio::test]
async fn an_encoded_answer_is_not_asked_for_and_says_so() {
    let fake = Fake::legacy(|seen| {
        let mut response = answer(seen, GOOD);
        response.headers_mut().insert("content-encoding", "x-gzip".parse().unwrap());
        response
    })
    .await;
    let upstreams = started(external(&fake.url));
    let error = call(&upstreams, out("x", "{}")).await.unwrap_err();
    assert!(error.reason().as_str() == "ProtocolError" && error.to_string().contains("x-gzip"), "{error}");
    assert!(!error.to_client().contains("x-gzip"), "no Guard has seen what the server chose");
    assert!(fake.all().iter().all(|seen| seen.header("accept-encoding") == "identity"));
}

#[tokio::test]
async fn a_broken_answer_of_a_process_fails_its_own_call_at_once_and_no_other() {
    for (broken, words) in [
        (r#"{"jsonrpc":"2.0","id":2,"result":{},"error":{"code":1,"message":"m"}}"#, "a result and an error"),
        (r#"{"jsonrpc":"2.0","id":2,"result":{},"result":{}}"#, "twice"),
        (r#"{"jsonrpc":"2.0","id":2,"id":2,"result":{}}"#, "twice"),
        (r#"{"jsonrpc":"2.0","id":2,"result":null}"#, "null"),
        (r#"{"jsonrpc":"1.0","id":2,"result":{}}"#, "2.0"),
        (r#"{"id":2,"result":{}}"#, "2.0"),
        (r#"{"jsonrpc":"2.0","id":2}"#, "neither"),
        (r#"{"jsonrpc":"2.0","id":2,"result":{"#, "not valid"),
        (r#"{"jsonrpc":"2.0","id":2,"result":"\377"}"#, "not valid"),
        (r#"[{"jsonrpc":"2.0","id":2}]"#, "neither"),
    ] {
        // Two calls are in flight; the other one is answered when it is known that the broken one failed.
        let good = format!(r#"echo '{{"jsonrpc":"2.0","id":3,"result":{GOOD}}}'; cat > /dev/null"#);
        let upstreams = started(fake_process(&format!("read -r other; printf '{broken}\n'; read -r last; {good}")));
        upstreams.probe(PATIENCE).await.unwrap();
        let first = async {
            let error = call(&upstreams, out("x", "{}")).await.unwrap_err();
            assert!(
                error.reason().as_str() == "ProtocolError" && error.to_string().contains(words),
                "{broken}: {error}"
            );
            call(&upstreams, out("last", "{}")).await
        };
        tokio::select! {
            biased;
            last = first => panic!("{broken}: {last:?}"),
            other = result_of(&upstreams, out("other", "{}")) => assert_eq!(other, GOOD, "{broken}"),
        }
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn a_broken_line_that_names_no_call_ends_none() {
    for noise in [r#"{"jsonrpc":"2.0","method":"notifications/mess"#, r#"{"level":30,"id":2,"msg"#, r"\377\376"] {
        let upstreams = started(fake_process(&format!(
            r#"printf '{noise}\n'; echo 'sending {{"jsonrpc":"2.0","id":2,"result":{{}}}}'
            echo '{{"jsonrpc":"2.0","id":2,"result":{GOOD}}}'; read -r _"#
        )));
        assert_eq!(result_of(&upstreams, out("x", "{}")).await, GOOD);
        assert_eq!(upstreams.dropped("stray"), 2, "{noise}");
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn a_server_may_answer_in_a_batch() {
    let upstreams = started(fake_process(&format!(
        r#"echo '[{{"jsonrpc":"2.0","method":"x"}},{{"jsonrpc":"2.0","id":2,"result":{GOOD}}}]'; read -r _"#
    )));
    assert_eq!(result_of(&upstreams, out("x", "{}")).await, GOOD);
    upstreams.shutdown().await;

    let fake = Fake::start(|seen| {
        let own = answer_text(seen, GOOD);
        match seen.rpc() {
            "initialize" => answer(seen, r#"{"protocolVersion":"2025-03-26","capabilities":{}}"#),
            "tools/call" if seen.body["params"]["name"] == "twice" => {
                typed(200, "application/json", format!("[{own},{own}]"))
            }
            "tools/call" => typed(200, "application/json", format!("[{own}]")),
            _ => status(405),
        }
    })
    .await;
    let upstreams = started(external(&fake.url));
    assert_eq!(result_of(&upstreams, out("x", "{}")).await, GOOD);
    assert_eq!(call(&upstreams, out("twice", "{}")).await.unwrap_err().reason().as_str(), "ProtocolError");
}
