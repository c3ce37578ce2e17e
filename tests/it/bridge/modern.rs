//! Requests without a session.

use super::*;
use crate::gateway::http::{call_body, call_headers};

const HEADERS: [(&str, &str); 4] =
    [JSON[0], JSON[1], ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "server/discover")];

fn discover() -> String {
    call_body("x", "{}", &json!({})).replace("tools/call", "server/discover")
}

fn modern() -> Bridge {
    let (python, script) = (python(), fixture("servers/modern.py"));
    Bridge::start(&[], &[python.to_str().unwrap(), script.to_str().unwrap(), "--stdio"])
}

#[tokio::test]
async fn requests_without_a_session_are_for_servers_of_the_modern_era() {
    for mode in ["PerSession", "Shared"] {
        let bridge = Bridge::asking(&[&format!("--session={mode}")], "legacy-only");
        let (http, url) = (Http::new(), bridge.url());
        let call = call_body("pid", "{}", &json!({}));
        for (headers, body) in [(&HEADERS[..], &discover()), (&call_headers("pid"), &call)] {
            // So clients fall back to the legacy era. The second time the server is not even asked.
            let answer = http.send(Method::POST, &url, headers, body.clone()).await;
            assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32601)), "{}", answer.body);
            assert_eq!(answer.json()["id"], 7);
        }
        text_of(&http.initialize(&url).await, "pid", "{}").await;
        // Of the processes that the bridge started, the first was asked, and the second is that of the session.
        let pid = bridge.child.id();
        let second = format!("HAWSEPIPE_BRIDGE_PROCESS={pid}-1");
        let is_second = |child: &i32| {
            let environment = std::fs::read_to_string(format!("/proc/{child}/environ")).unwrap_or_default();
            environment.split('\0').any(|variable| variable == second)
        };
        assert!(mode == "Shared" || children_of(pid).iter().any(is_second), "the second request started another");
    }
}

#[tokio::test]
async fn a_server_that_exits_at_discovery_is_of_the_legacy_era() {
    let (python, script) = (python(), fixture("servers/asking.py"));
    let command = [python.to_str().unwrap(), script.to_str().unwrap(), "--strict"];
    let try_in = async |mode: &str| {
        let bridge = Bridge::start(&[&format!("--session={mode}")], &command);
        let (http, url) = (Http::new(), bridge.url());
        let session = http.initialize(&url).await;
        // So long that the pauses between starts add up.
        let deadline = Instant::now() + std::time::Duration::from_secs(6);
        while Instant::now() < deadline {
            let answer = http.send(Method::POST, &url, &HEADERS, discover()).await;
            assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32601)), "{}", answer.body);
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        text_of(&session, "pid", "{}").await;
    };
    tokio::join!(try_in("PerSession"), try_in("Shared"));
}

#[tokio::test]
async fn a_faulty_request_of_one_client_changes_nothing_for_the_others() {
    let bridge = modern();
    let (http, url) = (Http::new(), bridge.url());
    let (other, other_url) = (http.clone(), url.clone());
    let slow = call_body("slow", r#"{"seconds":2}"#, &json!({}));
    let calling = tokio::spawn(async move { other.send(Method::POST, &other_url, &call_headers("slow"), slow).await });
    let capabilities = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
    let faulty = discover().replace(capabilities, r#""x":{}"#);
    assert!(!faulty.contains("clientCapabilities"));
    assert!(http.send(Method::POST, &url, &HEADERS, faulty).await.json()["error"].is_object());
    let answer = http.send(Method::POST, &url, &HEADERS, discover()).await;
    assert!(answer.json()["result"]["supportedVersions"].is_array(), "{}", answer.body);
    let answer = calling.await.unwrap().json();
    assert_eq!(answer["result"]["content"][0]["text"], "slept 2.0 s", "{answer}");
}

#[tokio::test]
async fn headers_that_differ_from_the_body_are_refused() {
    let bridge = modern();
    let (http, url) = (Http::new(), bridge.url());
    let body = call_body("echo", r#"{"message":"hi"}"#, &json!({}));
    let [_, _, version, method, name] = call_headers("echo");
    let twice = body.replacen(r#"{"name":"echo","#, r#"{"name":"echo","name":"fail","#, 1);
    assert_ne!(twice, body);
    for (headers, body, code) in [
        (vec![version, method], &body, -32020),
        (vec![version, name], &body, -32020),
        (vec![version, method, ("mcp-name", "fail")], &body, -32020),
        (vec![version, ("mcp-method", "tools/list"), name], &body, -32020),
        (vec![method, name], &body, -32020),
        (vec![("mcp-protocol-version", "2027-01-01"), method, name], &body, -32020),
        (vec![("mcp-protocol-version", "2027-01-01"), method, name], &body.replace("2026-07-28", "2027-01-01"), -32022),
        (vec![version, method, name], &twice, -32602),
    ] {
        let headers = [vec![JSON[0], JSON[1]], headers].concat();
        let answer = http.send(Method::POST, &url, &headers, body.clone()).await;
        let message = answer.json();
        assert_eq!(
            (answer.status, &message["error"]["code"], &message["id"]),
            (400, &json!(code), &json!(7)),
            "{message}"
        );
        if code == -32022 {
            assert_eq!(message["error"]["data"]["supported"], json!(["2026-07-28"]), "{message}");
        }
    }
    // A session is of the legacy era, so a request of the modern era belongs to none.
    let headers = [JSON[0], JSON[1], version, method, name, ("mcp-session-id", "0123456789abcdef")];
    let answer = http.send(Method::POST, &url, &headers, body).await.json();
    assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");
}

#[tokio::test]
async fn a_process_that_the_bridge_ended_is_started_again_at_once() {
    let marker = marker("idle-modern");
    let script = fixture("servers/raw.mjs");
    let command = ["node", script.to_str().unwrap(), "--stdio", "--modern", "--log", &marker];
    let bridge = Bridge::start(&["--idle-seconds=1"], &command);
    let (http, url) = (Http::new(), bridge.url());
    let body = call_body("args", "{}", &json!({}));
    for round in 0..6 {
        let answer = http.send(Method::POST, &url, &call_headers("args"), body.clone()).await;
        assert_eq!(answer.status, 200, "round {round}: {}", answer.body);
        until("its process is gone", async || running(&marker) == 1).await;
    }
    let _ = std::fs::remove_file(&marker);
}
