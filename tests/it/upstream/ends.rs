//! What is said of a server that ends before it is connected, does not connect in time, or refuses the gateway.

use hawsepipe::domain::plan::EraSetting;
use serde_json::json;

use super::fake::{Fake, answer, legacy_or, status, typed};
use super::life::marker;
use super::*;

/// A line that may be an answer, which no message may quote.
const ANSWER: &str = r#"[{"result":"a secret"}"#;

/// Fails to connect to a process that runs this script with a secret in its environment.
async fn fails(script: &str, era: EraSetting) -> UpstreamError {
    let mut target = process("sh", &["-c", script]);
    (target.plan.era, target.values) = (era, vec![secret("TOKEN", "swordfish")]);
    let upstreams = started(target);
    let error = upstreams.probe(PATIENCE).await.unwrap_err();
    upstreams.shutdown().await;
    error
}

#[tokio::test]
async fn a_process_that_ends_before_or_in_its_handshake_says_how_and_its_last_lines() {
    let discovered = r#"read -r _; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'"#;
    for (script, how, wrote) in [
        (
            "printf 'no package\\n\\nfor \\033[1m%s\\n' $TOKEN >&2; exit 7",
            "exit status: 7",
            "no package | for  [1m[secret]",
        ),
        ("exit 0", "exit status: 0", ""),
        // As a command line tool does that lacks an argument.
        ("echo Usage: server FOLDER $TOKEN; exit 2", "exit status: 2", "Usage: server FOLDER [secret]"),
        (&format!("echo '{ANSWER}'; exit 2"), "exit status: 2", ""),
        ("echo full >&2; kill -9 $$", "signal: 9 (SIGKILL), which the kernel sends if memory runs out", "full"),
        (&format!("{discovered}; echo bye >&2; exit 5"), "exit status: 5", "bye"),
        ("exec >&-; echo shut >&2; read -r _; read -r _; sleep 9", "it had closed its stdin or stdout", "shut"),
    ] {
        for era in [EraSetting::Auto, EraSetting::Legacy, EraSetting::Modern] {
            if era != EraSetting::Auto && script.starts_with(discovered) {
                continue;
            }
            let error = fails(script, era).await;
            let expected = UpstreamError::Exited { how: how.into(), wrote: wrote.into() };
            assert_eq!(error, expected, "{script} {era:?}");
            let tail = if wrote.is_empty() { String::new() } else { format!("; it wrote last: {wrote}") };
            assert_eq!(error.to_string(), format!("its process ended ({how}){tail}"));
            // No Guard has checked what the server wrote.
            assert_eq!(error.to_client(), format!("its process ended ({how}); the gateway's log says why"));
            assert_eq!(error.reason().as_str(), "ConnectFailed");
        }
    }
}

#[tokio::test]
async fn a_process_that_writes_much_as_it_ends_is_quoted_within_bounds() {
    let error = fails("yes 'a long line of a log' | head -n 100000 >&2; echo last >&2; exit 1", EraSetting::Auto).await;
    let said = error.to_string();
    assert!(said.ends_with(" | last") && said.len() < 1200, "{said}");
}

#[tokio::test]
async fn a_process_that_is_late_names_the_setting_and_its_last_lines() {
    let once = std::env::temp_dir().join(marker("hawsepipe-once"));
    // It connects once, since a first start may take longer. The second one waits for something.
    let init = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
    let script = format!(
        "if [ -e \"$0\" ]; then echo 'ok to proceed?' >&2; sleep 60; fi; read -r _; echo '{init}'; touch \"$0\"; read -r _"
    );
    let mut target = process("sh", &["-c", &script, &once.to_string_lossy()]);
    (target.plan.era, target.plan.connect_timeout_ms) = (EraSetting::Legacy, 700);
    let upstreams = started(target);
    upstreams.probe(PATIENCE).await.unwrap();
    until("the first one ended", || once.exists()).await;
    let mut said = String::new();
    while !said.contains("no handshake") {
        said = upstreams.probe(PATIENCE).await.map_or_else(|error| error.to_string(), |_| String::new());
    }
    let expected = "cannot be reached: no handshake within 700ms (spec.timeouts.connectMs is 700); it wrote \
                    last: ok to proceed?";
    assert_eq!(said, expected);
    upstreams.shutdown().await;
    std::fs::remove_file(&once).unwrap();
}

#[tokio::test]
async fn an_http_server_that_is_late_names_the_setting() {
    // It takes connections and never reads.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for era in [EraSetting::Auto, EraSetting::Legacy, EraSetting::Modern] {
        let mut target = external(format!("http://{}/mcp", listener.local_addr().unwrap()));
        (target.plan.era, target.plan.connect_timeout_ms) = (era, 300);
        let error = started(target).probe(PATIENCE).await.unwrap_err();
        let expected = "cannot be reached: no handshake within 300ms (spec.timeouts.connectMs is 300)";
        assert_eq!(error.to_string(), expected, "{era:?}");
    }
}

#[tokio::test]
async fn what_a_server_says_as_it_refuses_the_gateway_is_kept_for_the_log() {
    let refusal = |seen: &fake::Seen| {
        let error = json!({"code": -32603, "message": "no key:\nswordfish"});
        typed(200, "application/json", json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}).to_string())
    };
    let of = |fake: &Fake| UpstreamTarget { values: vec![secret("x-key", "swordfish")], ..external(&fake.url) };
    let fake = Fake::start(move |seen| refusal(seen)).await;
    let connecting = started(of(&fake)).probe(PATIENCE).await.unwrap_err();
    let fake = Fake::start(move |seen| match seen.rpc() {
        "tools/list" => refusal(seen),
        _ => legacy_or(seen, &|seen| answer(seen, "{}")),
    })
    .await;
    let listing = started(of(&fake)).list_tools(PATIENCE).await.unwrap_err();
    for (error, method) in [(connecting, "initialize"), (listing, "tools/list")] {
        let what = format!("protocol error: it answered {method} with error -32603; ");
        assert_eq!(error.to_string(), format!("{what}it says: no key: [secret]"));
        assert_eq!(error.to_client(), format!("{what}the gateway's log says why"));
        assert_eq!(error.reason().as_str(), "ProtocolError");
    }
}

#[tokio::test]
async fn what_cannot_be_run_is_said_with_its_cause() {
    let upstreams = started(process("npx -y @scope/server", &[]));
    let error = upstreams.probe(PATIENCE).await.unwrap_err();
    let words = "no program has this name with the spaces in it: give its arguments apart from it (args)";
    assert_eq!(error.to_client(), format!("cannot be started: npx: {words}"));

    let script = std::env::temp_dir().join(marker("hawsepipe-script"));
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let error = started(process(script.to_string_lossy(), &[])).probe(PATIENCE).await.unwrap_err();
    std::fs::remove_file(&script).unwrap();
    let (said, script) = (error.to_string(), script.display());
    assert!(said.starts_with("its process ended (exit status: 126)"), "{said}");
    assert!(said.contains(&format!("cannot run {script}: ")) && said.ends_with("loader that it names"), "{said}");
}

#[tokio::test]
async fn a_status_that_no_endpoint_answers_with_has_its_cause() {
    for (code, cause) in [
        (
            302,
            ": of redirects only 307 and 308 to the same origin are followed, so its URL must be where this one leads to",
        ),
        (500, ""),
    ] {
        let fake = Fake::start(move |_| status(code)).await;
        let error = started(external(&fake.url)).probe(PATIENCE).await.unwrap_err();
        assert_eq!(error.to_string(), format!("protocol error: HTTP {code}{cause}"));
    }
}

#[tokio::test]
async fn a_server_that_neither_transport_fits_says_what_each_of_them_met() {
    let path = ": the path of its URL may not be that of its MCP endpoint";
    for code in [404, 405] {
        let fake = Fake::start(move |_| status(code)).await;
        let error = started(external(&fake.url)).probe(PATIENCE).await.unwrap_err();
        let words = format!(
            "no MCP server over Streamable HTTP: protocol error: HTTP {code}{path}; nor over HTTP+SSE (2024-11-05): protocol \
             error: it answers GET with HTTP {code}"
        );
        assert_eq!(
            (error.to_string(), error.to_client(), error.reason().as_str()),
            (words.clone(), words, "ProtocolError")
        );
    }
    // What a server says is for the operator alone, and has a bound.
    let fake = Fake::start(|seen| match seen.method.as_str() {
        "GET" => typed(200, "text/event-stream", "event: endpoint\ndata: SECRETS\n\n"),
        _ => {
            let error = json!({"code": -32600, "message": format!("SECRET {}", "x".repeat(5000))});
            typed(400, "application/json", json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}).to_string())
        }
    });
    let error = started(external(&fake.await.url)).probe(PATIENCE).await.unwrap_err();
    let (said, told) = (error.to_string(), error.to_client());
    assert!(said.contains("SECRET xxx") && said.contains("HTTP+SSE") && said.len() < 1500, "{said}");
    assert!(!told.contains("SECRET") && told.contains("-32600") && told.contains("nor over HTTP+SSE"), "{told}");
}

#[tokio::test]
async fn a_call_that_is_too_many_has_the_words_of_the_server_and_the_time_to_wait() {
    let fake = Fake::legacy(|seen| {
        let (name, id) = (seen.body["params"]["name"].as_str().unwrap(), &seen.body["id"]);
        let error = |data: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"m"{data}}}}}"#);
        let mut response = match name {
            "text" | "unknown" => typed(429, "text/plain", "slow down"),
            "bare" => typed(429, "application/json", error("")),
            "data" => typed(429, "application/json", error(r#","data":{"a":1.0}"#)),
            "own" => typed(429, "application/json", error(r#","data":{"retryAfterMs":5}"#)),
            _ => typed(429, "application/json", error(r#","data":[1]"#)),
        };
        if name != "unknown" {
            response.headers_mut().insert("retry-after", "7".parse().unwrap());
        }
        response
    })
    .await;
    let upstreams = started(external(&fake.url));
    for (name, seconds, ms) in [("text", Some(7), 7000), ("unknown", None, 1000)] {
        let error = call(&upstreams, out(name, "{}")).await.unwrap_err();
        let retry_after = seconds.map(Duration::from_secs);
        assert_eq!(error, UpstreamError::RateLimited { said: "slow down".into(), retry_after });
        assert_eq!((error.reason().as_str(), error.retry_after_ms()), ("RateLimited", Some(ms)));
        assert!(error.to_string().contains("slow down") && !error.to_client().contains("slow down"));
    }
    for (name, data) in [
        ("bare", r#","data":{"retryAfterMs":7000}"#),
        ("data", r#","data":{"a":1.0,"retryAfterMs":7000}"#),
        ("own", r#","data":{"retryAfterMs":5}"#),
        ("list", r#","data":[1]"#),
    ] {
        let Ok(Answer::Error(error)) = call(&upstreams, out(name, "{}")).await else { panic!("{name}") };
        assert_eq!(error.get(), format!(r#"{{"code":1,"message":"m"{data}}}"#), "{name}");
    }
    assert_eq!(fake.seen("initialize").len(), 1, "the session stays");
}
