//! Real servers of both eras over both transports.

use hawsepipe::domain::plan::EraSetting;
use hawsepipe::domain::version::Era;

use super::*;

async fn speaks_everything(target: UpstreamTarget) -> Adapter {
    let upstreams = started(target);
    let facts = upstreams.probe(PATIENCE).await.unwrap();
    assert_eq!((facts.era, facts.version.as_str(), facts.has_tools), (Era::Legacy, "2025-11-25", true));
    assert!(facts.server_name.is_some());
    assert_eq!(upstreams.probe(PATIENCE).await.unwrap(), facts, "a ping");
    let tools = upstreams.list_tools(PATIENCE).await.unwrap();
    assert!(tools.iter().any(|t| t.name == "echo" && t.input_schema.is_some()), "{tools:?}");
    let echoed = result_of(&upstreams, out("echo", "{\n \"message\":\r\n\"hi\"}")).await;
    assert_eq!(echoed, r#"{"content":[{"type":"text","text":"Echo: hi"}]}"#);
    let heard = Listener::default();
    let long =
        OutCall { wants_progress: true, ..out("trigger-long-running-operation", r#"{"duration":0.1,"steps":2}"#) };
    assert!(matches!(call_heard(&upstreams, long, &heard).await, Ok(Answer::Result(_))));
    let expected = [r#"{"progress":1,"total":2}"#, r#"{"progress":2,"total":2}"#];
    assert_eq!(*heard.0.lock().unwrap(), expected);
    upstreams
}

#[tokio::test]
async fn server_everything_over_stdio() {
    let upstreams = speaks_everything(everything("plain")).await;
    upstreams.shutdown().await;
}

#[tokio::test]
async fn server_everything_over_http_and_its_restart() {
    let port = free_port();
    let running = everything_http(port);
    let upstreams = speaks_everything(external(format!("http://127.0.0.1:{port}/mcp"))).await;
    drop(running);
    let down = call(&upstreams, out("echo", r#"{"message":"x"}"#)).await.unwrap_err();
    assert!(matches!(down, UpstreamError::Connect(_) | UpstreamError::Lost(_)), "{down:?}");
    let _running = everything_http(port);
    // The new process does not know the session: it is renewed within the call.
    let echoed = result_of(&upstreams, out("echo", r#"{"message":"again"}"#)).await;
    assert!(echoed.contains("Echo: again"));
    upstreams.shutdown().await;
}

async fn speaks_python(target: UpstreamTarget, era: Era) {
    let upstreams = started(target);
    let facts = upstreams.probe(PATIENCE).await.unwrap();
    assert_eq!(facts.era, era);
    assert_eq!(facts.server_name.as_deref(), Some("modern"));
    assert_eq!(upstreams.probe(PATIENCE).await.unwrap(), facts);
    let tools = upstreams.list_tools(PATIENCE).await.unwrap();
    assert!(tools.iter().any(|t| t.name == "mixed"));
    let mixed = result_of(&upstreams, out("mixed", "{}")).await;
    assert!(mixed.contains("12345678901234567890123") && mixed.contains(r#""one":1.0,"more":1"#), "{mixed}");
    let heard = Listener::default();
    let slow = OutCall { wants_progress: true, ..out("slow", r#"{"seconds":0.1,"steps":2}"#) };
    assert!(matches!(call_heard(&upstreams, slow, &heard).await, Ok(Answer::Result(_))));
    let heard = heard.0.lock().unwrap().clone();
    assert_eq!(heard.len(), 2);
    assert!(heard[1].contains(r#""message":"step 2""#) && !heard[1].contains("progressToken"), "{heard:?}");
    let late = OutCall { timeout: Duration::from_millis(100), ..out("slow", r#"{"seconds":20}"#) };
    assert_eq!(call(&upstreams, late).await.unwrap_err(), UpstreamError::Timeout(Duration::from_millis(100)));
    assert!(result_of(&upstreams, out("echo", r#"{"message":"still here"}"#)).await.contains("still here"));
    upstreams.shutdown().await;
}

fn python_stdio() -> UpstreamTarget {
    let script = fixtures::fixture("servers/modern.py");
    process(fixtures::python().to_string_lossy(), &[&script.to_string_lossy(), "--stdio"])
}

fn legacy(mut target: UpstreamTarget) -> UpstreamTarget {
    target.plan.era = EraSetting::Legacy;
    target
}

#[tokio::test]
async fn python_over_stdio_in_both_eras() {
    tokio::join!(speaks_python(python_stdio(), Era::Modern), speaks_python(legacy(python_stdio()), Era::Legacy));
}

#[tokio::test]
async fn python_over_http_in_both_eras() {
    let (_running, url) = python_http(&[]);
    tokio::join!(speaks_python(external(&url), Era::Modern), speaks_python(legacy(external(&url)), Era::Legacy));
}

#[tokio::test]
async fn a_process_has_a_clean_environment() {
    let mut target = everything("environment");
    target.values = vec![secret("API_KEY", "swordfish")];
    let upstreams = started(target);
    let result: serde_json::Value = serde_json::from_str(&result_of(&upstreams, out("get-env", "{}")).await).unwrap();
    let text = result["content"][0]["text"].as_str().unwrap();
    let variables: std::collections::BTreeMap<String, String> = serde_json::from_str(text).unwrap();
    assert_eq!(variables["API_KEY"], "swordfish");
    let allowed = ["PATH", "HOME", "USER", "LANG", "TMPDIR", "API_KEY"];
    let foreign: Vec<_> = variables.keys().filter(|name| !allowed.contains(&name.as_str())).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    upstreams.shutdown().await;
}
