//! What the bridge says of a server that ends, or that writes to its stdout what is no message.

use super::*;

const INIT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;

/// A bridge before this script, which has a secret in its environment.
fn script(options: &[&str], script: &str) -> Bridge {
    let mut command = Command::new(program());
    command.env("API_KEY", "swordfish");
    Bridge::start_as(command, options, &["sh", "-c", script])
}

#[tokio::test]
async fn a_server_that_ends_at_its_start_says_how_and_its_last_lines() {
    for mode in ["--session=PerSession", "--session=Shared"] {
        let bridge = script(&[mode], r#"printf 'no package\nfor\t%s\n' "$API_KEY" >&2; exit 4"#);
        let refused = begin(&Http::new(), &bridge.url(), "2025-11-25").await;
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("the server's process has ended (exit status: 4)"), "{message}");
        assert!(message.ends_with("; it wrote last: no package | for\t[secret]"), "{message}");
        bridge.logged("the server's process has ended (exit status: 4)");
    }
}

#[tokio::test]
async fn a_server_that_prints_its_usage_and_ends_is_quoted() {
    let bridge = script(&[], r#"echo "Usage: server FOLDER $API_KEY"; exit 2"#);
    let refused = begin(&Http::new(), &bridge.url(), "2025-11-25").await;
    assert!(
        refused.body.contains("(exit status: 2); it wrote last: Usage: server FOLDER [secret]"),
        "{}",
        refused.body
    );
}

#[tokio::test]
async fn a_server_that_ends_when_it_is_asked_for_its_era_says_so() {
    let bridge = script(&[], "echo 'no package' >&2; exit 4");
    let http = Http::new();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}}}});
    let headers = [JSON[0], JSON[1], ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "server/discover")];
    for _ in 0..2 {
        let answer = http.send(Method::POST, &bridge.url(), &headers, body.to_string()).await;
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("begin a session") && message.contains("exit status: 4"), "{message}");
        assert!(message.contains("it wrote last: no package"), "{message}");
    }
}

#[tokio::test]
async fn a_call_whose_process_ends_is_not_told_what_that_wrote() {
    let then = "read -r _; read -r call; echo 'out of ink' >&2; exit 3";
    let bridge = script(&[], &format!("read -r _; echo '{INIT}'; {then}"));
    let session = Http::new().initialize(&bridge.url()).await;
    let answer = session.call_raw(1, "print", "{}").await;
    assert!(answer.body.contains("(exit status: 3)") && !answer.body.contains("ink"), "{}", answer.body);
    let line = bridge.logged("the server's process has ended (exit status: 3)");
    assert!(line.starts_with("hawsepipe-bridge: ["), "it names the session: {line}");
    bridge.logged("] out of ink");
}

#[tokio::test]
async fn a_process_that_is_told_to_end_is_not_logged() {
    let bridge = script(&[], &format!("read -r _; echo '{INIT}'; while read -r _; do :; done"));
    let session = Http::new().initialize(&bridge.url()).await;
    assert_eq!(session.http.send(Method::DELETE, &session.url, &session.headers(), Bytes::new()).await.status, 204);
    until("its process is gone", async || children_of(bridge.child.id()).is_empty()).await;
    assert!(!bridge.log().iter().any(|line| line.contains("has ended")), "{:?}", bridge.log());
}

#[tokio::test]
async fn stdout_that_is_no_message_is_logged_once() {
    for (stray, shown) in [
        (r#"echo "Server ready, key $API_KEY"; echo; echo more"#, "stderr: Server ready, key [secret]"),
        (r#"echo 'sent {"id":1,"result":{"text":"a secret"}}'"#, "stderr: a message is not a JSON object"),
    ] {
        let bridge = script(&[], &format!("{stray}; read -r _; echo '{INIT}'; while read -r _; do :; done"));
        let http = Http::new();
        let _sessions = (http.initialize(&bridge.url()).await, http.initialize(&bridge.url()).await);
        let line = bridge.logged("is not an MCP message");
        assert!(line.contains("must log to stderr") && line.ends_with(shown), "{line}");
        let lines = bridge.log();
        assert_eq!(lines.iter().filter(|line| line.contains("is not an MCP message")).count(), 1, "{lines:?}");
        assert!(!lines.concat().contains("swordfish") && !lines.concat().contains("a secret"), "{lines:?}");
    }
}
