//! Servers whose era changes while the gateway is connected to them, and errors that are about the gateway's own hop.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::Response;
use hawsepipe::domain::log_level::LogLevel;
use hawsepipe::domain::plan::EraSetting;
use hawsepipe::domain::version::Era;
use serde_json::json;

use super::fake::{Fake, Seen, answer, answer_text, events, legacy_or, status, typed};
use super::*;

fn error(seen: &Seen, http: u16, code: i64) -> Response<Body> {
    let data = json!({"supported": ["2026-07-28"]});
    let body = json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": {"code": code, "message": "m", "data": data}});
    typed(http, "application/json", body.to_string())
}

/// A modern server that takes nothing else.
fn modern(seen: &Seen) -> Response<Body> {
    match (seen.header("mcp-protocol-version"), seen.rpc()) {
        (version, _) if version != "2026-07-28" => error(seen, 400, -32022),
        (_, "server/discover") => answer(seen, r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#),
        (_, "tools/call") => answer(seen, r#"{"era":"modern"}"#),
        _ => error(seen, 404, -32601),
    }
}

/// A legacy server that takes nothing else: without a session there is nothing but `initialize`.
fn legacy(seen: &Seen) -> Response<Body> {
    match seen.rpc() {
        "initialize" | "server/discover" => legacy_or(seen, &|_| status(500)),
        _ if seen.header("mcp-session-id").is_empty() => status(400),
        _ => legacy_or(seen, &|seen| answer(seen, r#"{"era":"legacy"}"#)),
    }
}

/// A server that is legacy until it is told to be modern, or the other way round.
async fn changing(first: Era) -> (Fake, Arc<AtomicBool>) {
    let is_modern = Arc::new(AtomicBool::new(first == Era::Modern));
    let now = Arc::clone(&is_modern);
    let serve = move |seen: &Seen| if now.load(Ordering::SeqCst) { modern(seen) } else { legacy(seen) };
    (Fake::start(serve).await, is_modern)
}

#[tokio::test]
async fn a_probe_finds_that_the_era_changed() {
    for (first, then) in [(Era::Legacy, Era::Modern), (Era::Modern, Era::Legacy)] {
        let (fake, is_modern) = changing(first).await;
        let upstreams = started(external(&fake.url));
        assert_eq!(upstreams.probe(PATIENCE).await.unwrap().era, first);
        is_modern.store(then == Era::Modern, Ordering::SeqCst);
        assert_eq!(upstreams.probe(PATIENCE).await.unwrap().era, then);
        let said = result_of(&upstreams, out("x", "{}")).await;
        assert_eq!(said, format!(r#"{{"era":"{}"}}"#, then.as_str()));
    }
}

#[tokio::test]
async fn a_call_that_meets_another_era_negotiates_anew() {
    let (fake, is_modern) = changing(Era::Legacy).await;
    let upstreams = started(external(&fake.url));
    let answered = async || upstreams.call(&upstreams.target(), &out("x", "{}"), &Listener::default()).await.unwrap();
    assert_eq!(upstreams.probe(PATIENCE).await.unwrap().era, Era::Legacy);
    for era in [Era::Legacy, Era::Modern] {
        is_modern.store(era == Era::Modern, Ordering::SeqCst);
        let ServerAnswer { era: said, answer } = answered().await;
        assert_eq!(said, era);
        let expected = format!(r#"{{"era":"{}"}}"#, era.as_str());
        assert!(matches!(&answer, Answer::Result(result) if result.get() == expected), "{answer:?}");
    }
}

#[tokio::test]
async fn the_state_of_a_result_is_not_sent_to_a_legacy_server_and_answers_without_one_begin_a_new_call() {
    let fake = Fake::legacy(|seen| answer(seen, "{}")).await;
    let upstreams = started(external(&fake.url));
    let with = |responses: Option<&str>, state: Option<&str>| {
        let round = InputRound { responses: responses.map(raw), state: state.map(raw) };
        OutCall { round, ..out("x", "{}") }
    };
    for responses in [None, Some("{}")] {
        let error = call(&upstreams, with(responses, Some("\"s\""))).await.unwrap_err();
        assert_eq!(error, UpstreamError::NeverAsked);
    }
    assert!(fake.seen("tools/call").is_empty());
    call(&upstreams, with(Some("{}"), None)).await.unwrap();
    let [sent] = &fake.seen("tools/call")[..] else { panic!("sent once") };
    assert!(sent.body["params"]["inputResponses"].is_null(), "{}", sent.body);
}

#[tokio::test]
async fn errors_about_the_hop_to_the_server_are_no_answers() {
    for code in [-32020, -32022] {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let fake = Fake::start(move |seen| match seen.rpc() {
            "tools/call" => {
                count.fetch_add(1, Ordering::SeqCst);
                error(seen, 400, code)
            }
            _ => modern(seen),
        })
        .await;
        let upstreams = started(external(&fake.url));
        let failed = call(&upstreams, out("x", "{}")).await.unwrap_err();
        assert_eq!(failed.reason().as_str(), "ProtocolError", "{failed}");
        assert!(failed.to_string().contains(&code.to_string()), "{failed}");
        assert_eq!(calls.load(Ordering::SeqCst), 2, "{code}");
    }
}

#[tokio::test]
async fn a_capability_that_a_server_wants_is_wanted_of_the_client() {
    for status in [200, 400] {
        let fake = Fake::start(move |seen| match seen.rpc() {
            "tools/call" => error(seen, status, -32021),
            _ => modern(seen),
        })
        .await;
        let upstreams = started(external(&fake.url));
        let answer = call(&upstreams, out("x", "{}")).await;
        assert!(matches!(&answer, Ok(Answer::Error(said)) if said.get().contains("-32021")), "{answer:?}");
        assert_eq!(fake.seen("tools/call").len(), 1, "it is not asked again");
    }
}

#[tokio::test]
async fn an_error_that_a_tool_may_have_made_is_never_asked_for_again() {
    for code in [-32020, -32021, -32022] {
        let answered = async |fake: Fake| {
            let answer = call(&started(external(&fake.url)), out("x", "{}")).await;
            (answer, fake.seen("tools/call").len())
        };
        // A legacy server does not know these codes: they are its tool's own.
        let (answer, sent) = answered(Fake::legacy(move |seen| error(seen, 200, code)).await).await;
        let Ok(Answer::Error(said)) = answer else { panic!("{answer:?}") };
        assert!(said.get().contains(&code.to_string()) && sent == 1, "{said}, sent {sent} times");
        if code == -32021 {
            continue;
        }
        // A modern one does, but says with its status that nothing ran.
        let fake = Fake::start(move |seen| match seen.rpc() {
            "tools/call" => error(seen, 200, code),
            _ => modern(seen),
        });
        let (answer, sent) = answered(fake.await).await;
        assert_eq!((answer.unwrap_err().reason().as_str(), sent), ("ProtocolError", 1), "{code}");
    }
}

#[tokio::test]
async fn an_error_of_a_process_is_its_tools_own_whatever_its_code() {
    for code in ["-32020", "-32021", "-32022"] {
        let log = std::env::temp_dir().join(super::life::marker(&format!("hawsepipe-hop{code}")));
        let script = r#"read -r _; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}'
            read -r _; read -r _; echo call >> "$LOG"
            echo '{"jsonrpc":"2.0","id":2,"error":{"code":'"$0"',"message":"m"}}'; read -r _"#;
        let mut target = process("sh", &["-c", script, code]);
        target.values = vec![secret("LOG", &log.to_string_lossy())];
        target.plan.era = EraSetting::Legacy;
        let upstreams = started(target);
        let answer = call(&upstreams, out("x", "{}")).await;
        assert!(matches!(&answer, Ok(Answer::Error(said)) if said.get().contains(code)), "{answer:?}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "call\n");
        upstreams.shutdown().await;
        std::fs::remove_file(&log).unwrap();
    }
}

#[tokio::test]
async fn another_word_of_enable_negotiates_anew() {
    let fake = Fake::legacy(|seen| answer(seen, "{}")).await;
    let upstreams = started(external(&fake.url));
    upstreams.probe(PATIENCE).await.unwrap();
    let mut again = external(&fake.url);
    again.plan.enable = Some("again".into());
    upstreams.replace(again);
    upstreams.probe(PATIENCE).await.unwrap();
    assert_eq!(fake.seen("server/discover").len(), 2);
}

#[tokio::test]
async fn log_messages_of_a_call_reach_its_client_where_they_are_asked_for() {
    let fake = Fake::legacy(|seen| {
        let said = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data": 1.0}}"#;
        events(&[said.to_owned(), answer_text(seen, "{}")])
    })
    .await;
    let upstreams = started(external(&fake.url));
    for (log_level, heard) in [(None, vec![]), (Some(LogLevel::Debug), vec![r#"{"level":"info","data": 1.0}"#])] {
        let client = Listener::default();
        call_heard(&upstreams, OutCall { log_level, ..out("x", "{}") }, &client).await.unwrap();
        assert_eq!(*client.0.lock().unwrap(), heard);
    }
}

#[tokio::test]
async fn progress_gives_a_call_its_time_again() {
    let script = fixtures::fixture("servers/modern.py");
    let target = || process(fixtures::python().to_string_lossy(), &[&script.to_string_lossy(), "--stdio"]);
    // Ten steps in 3 s; no step takes as long as an answer may.
    let slow = |wants_progress, extend_on_progress| OutCall {
        wants_progress,
        extend_on_progress,
        timeout: Duration::from_millis(1500),
        ..out("slow", r#"{"seconds":3,"steps":10}"#)
    };
    let upstreams = started(target());
    upstreams.probe(PATIENCE).await.unwrap();
    let answered = call(&upstreams, slow(true, true)).await;
    assert!(matches!(answered, Ok(Answer::Result(_))), "{answered:?}");
    for (wants, extends) in [(true, false), (false, true)] {
        let late = call(&upstreams, slow(wants, extends)).await.unwrap_err();
        assert_eq!(late, UpstreamError::Timeout(Duration::from_millis(1500)), "{wants} {extends}");
    }
    upstreams.shutdown().await;
}

/// A server that does not take the first level.
#[tokio::test]
async fn a_level_of_one_client_silences_no_other_client_of_the_connection() {
    let asked = Arc::new(AtomicUsize::new(0));
    let fake = Fake::start(move |seen| match seen.rpc() {
        "initialize" => answer(seen, r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}}}"#),
        "logging/setLevel" if asked.fetch_add(1, Ordering::SeqCst) == 0 => status(503),
        "logging/setLevel" => answer(seen, "{}"),
        "tools/call" => answer(seen, r#"{"content":[]}"#),
        _ => status(405),
    })
    .await;
    let upstreams = started(external(&fake.url));
    for level in [LogLevel::Emergency, LogLevel::Emergency, LogLevel::Debug, LogLevel::Error] {
        result_of(&upstreams, OutCall { asked_log_level: Some(level), ..out("x", "{}") }).await;
    }
    let levels: Vec<_> =
        fake.seen("logging/setLevel").iter().map(|seen| seen.body["params"]["level"].clone()).collect();
    assert_eq!(levels, ["info", "info", "debug"]);
}
