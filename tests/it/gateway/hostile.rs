//! What comes from outside and means no good: requests, answers, plugins, manifests. Each gets a clear error, and the
//! gateway serves on.

use hyper::Method;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::harness::{Folder, Gateway, SOON};
use super::http::{Http, JSON, Session, call_body, call_headers};
use super::parts::{ECHO_MODULE, chain, external, object, plugin, raw_http, raw_stdio, tools_of};

/// A call that must work after all that went before.
async fn serves_on(session: &Session, tool: &str, after: &str) {
    let answer = session.call_raw(99, tool, r#"{"still":"here"}"#).await;
    let text = &answer.json()["result"]["content"][0]["text"];
    assert_eq!(text, r#"{"still":"here"}"#, "after {after}: {}", answer.body);
}

/// The same upstream with more in its spec.
fn with(manifest: &str, more: &str) -> String {
    manifest.replace("spec: {", &format!("spec: {{{more}, "))
}

/// What a hostile answer comes to: a result that holds words, or an error of this code that does.
enum Comes {
    Result(&'static str),
    Error(i64, &'static str),
}
use Comes::{Error, Result};

async fn provoke(session: &Session, upstream: &str, tool: &str, arguments: &str, comes: &Comes) {
    let answer = session.call_raw(5, &format!("{upstream}__{tool}"), arguments).await;
    assert_eq!(answer.status, 200, "{upstream} {tool}");
    match comes {
        Result(words) => {
            let result = answer.result();
            assert!(result.contains(words), "{upstream} {tool}: {result:.300}");
        }
        Error(code, words) => {
            let error = &answer.json()["error"];
            let message = error["message"].as_str().unwrap_or_default();
            assert!(error["code"] == *code && message.contains(words), "{upstream} {tool}: {:.300}", answer.body);
        }
    }
    serves_on(session, &format!("{upstream}__args"), tool).await;
}

/// The server without manners over stdio and over HTTP, with this in both specs.
fn hostile(folder: &Folder, url: &str, name: &str, more: &str) -> [String; 2] {
    let stdio = format!("{name}stdio");
    let log = folder.path().join(&stdio);
    [with(&raw_stdio(&stdio, &log), more), with(&external(&format!("{name}http"), url), more)]
}

#[tokio::test]
async fn answers_of_hostile_servers() {
    let folder = Folder::new();
    let (_server, url) = raw_http(&folder.path().join("http"));
    folder.write("manifests.yaml", &hostile(&folder, &url, "", "limits: {maxResponseSize: 1Mi}").concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["stdio", "http"]).await;
    let session = Http::new().initialize(&gateway.url()).await;
    let fits = r#"{"content":[],"structuredContent":{"a":[[[[[["#;
    let both = [
        ("nested", r#"{"depth":120}"#, Result(fits)),
        ("nested", r#"{"depth":10000}"#, Error(-32603, "a message nests deeper than 128 levels")),
        ("result", r#"{"depth":20000}"#, Error(-32603, "a message nests deeper than 128 levels")),
        ("huge", r#"{"size":2000000}"#, Error(-32603, "its answer is larger than 1048576 bytes")),
        ("broken", "{}", Result(r#"{"content":"no list"}"#)),
        ("error", "{}", Error(-32042, "no, ann@example.com")),
    ];
    for (tool, arguments, comes) in &both {
        for upstream in ["stdio", "http"] {
            provoke(&session, upstream, tool, arguments, comes).await;
        }
    }
    for (tool, arguments, comes) in [
        ("garbage", "{}", Result("after garbage")),
        ("wrong-id", "{}", Result("the right one")),
        ("twice", "{}", Result("once")),
        ("flood", r#"{"lines":20000}"#, Result("flooded")),
        ("die", "{}", Error(-32603, "its process ended (exit status: 3)")),
    ] {
        provoke(&session, "stdio", tool, arguments, &comes).await;
    }
    for tool in ["garbage", "wrong-id", "twice"] {
        provoke(&session, "http", tool, "{}", &Error(-32603, "protocol error")).await;
    }
    // A server that is gone.
    let gone = session.call_raw(6, "http__die", "{}").await.json();
    assert_eq!((&gone["error"]["code"], &gone["error"]["data"]["reason"]), (&json!(-32603), &json!("ConnectFailed")));
    serves_on(&session, "stdio__args", "the end of another server").await;
}

#[tokio::test]
async fn servers_that_never_answer() {
    let folder = Folder::new();
    let (_server, url) = raw_http(&folder.path().join("log"));
    let hasty = hostile(&folder, &url, "hasty-", "timeouts: {callMs: 500}");
    folder.write("manifests.yaml", &[hasty, hostile(&folder, &url, "", "enabled: true")].concat().concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["stdio", "http", "hasty-stdio", "hasty-http"]).await;
    let session = Http::new().initialize(&gateway.url()).await;
    for (upstream, other) in [("hasty-stdio", "stdio__args"), ("hasty-http", "http__args")] {
        let late = session.call_raw(5, &format!("{upstream}__silent"), "{}").await.json();
        let field = format!("spec.timeouts.callMs of MCPUpstream default/{upstream}");
        let words = format!("upstream {upstream}: no answer within 500ms; {field} sets how long it may take");
        assert_eq!((&late["error"]["code"], &late["error"]["message"]), (&json!(-32001), &json!(words)), "{late}");
        serves_on(&session, other, "silence").await;
    }
}

/// A request and what it gets.
struct Bad {
    what: &'static str,
    method: Method,
    path: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    status: u16,
    code: i64,
    words: &'static str,
}

impl Bad {
    /// A POST with the headers of both eras.
    fn post(what: &'static str, body: impl Into<Bytes>, status: u16, code: i64, words: &'static str) -> Self {
        let headers = JSON.map(|(name, value)| (name, value.to_owned())).into();
        Self { what, method: Method::POST, path: "/mcp", headers, body: body.into(), status, code, words }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    fn at(self, method: Method, path: &'static str) -> Self {
        Self { method, path, ..self }
    }
}

/// A stateless call of `args` that is right but for what a case changes.
fn modern(what: &'static str, status: u16, code: i64, words: &'static str) -> Bad {
    let mut bad = Bad::post(what, call_body("raw__args", "{}", &json!({})), status, code, words);
    bad.headers = call_headers("raw__args").map(|(name, value)| (name, value.to_owned())).into();
    bad
}

fn modern_requests() -> Vec<Bad> {
    let version = "io.modelcontextprotocol/protocolVersion";
    let body = |meta: Value| call_body("raw__args", "{}", &meta);
    let of_2099 = Bytes::from(body(json!({version: "2099-01-01"})));
    let without_meta = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
    let incomplete =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {version: "2026-07-28"}}});
    let listing = |what, body: String, words| {
        let mut bad = modern(what, 400, -32602, words).with("mcp-method", "tools/list").without("mcp-name");
        bad.body = body.into();
        bad
    };
    let mut unknown = modern("a method that nobody knows", 404, -32601, "Method not found: tools/eat");
    unknown.body = body(json!({})).replace("tools/call", "tools/eat").into();
    let mut newer = modern("a version to come", 400, -32022, "Unsupported protocol version");
    newer.body = of_2099;
    let mut twice = modern("a header twice", 400, -32020, "mcp-name header stands more than once");
    twice.headers.push(("mcp-name", "raw__exact".to_owned()));
    vec![
        modern("no Mcp-Method", 400, -32020, "mcp-method header is missing").without("mcp-method"),
        modern("another Mcp-Method", 400, -32020, "mcp-method header does not match").with("mcp-method", "tools/list"),
        modern("no Mcp-Name", 400, -32020, "mcp-name header is missing").without("mcp-name"),
        modern("another Mcp-Name", 400, -32020, "mcp-name header does not match").with("mcp-name", "raw__exact"),
        modern("no version header", 400, -32020, "mcp-protocol-version header").without("mcp-protocol-version"),
        modern("an older version header", 400, -32020, "mcp-protocol-version header")
            .with("mcp-protocol-version", "2025-11-25"),
        newer.with("mcp-protocol-version", "2099-01-01"),
        listing("no envelope", without_meta.to_owned(), "_meta"),
        listing("no capabilities", incomplete.to_string(), "clientCapabilities"),
        twice,
        unknown.with("mcp-method", "tools/eat"),
        modern("GET", 405, -32600, "serves POST").at(Method::GET, "/mcp"),
        modern("DELETE", 405, -32600, "serves POST").at(Method::DELETE, "/mcp"),
    ]
}

fn legacy_requests(session: &Session) -> Vec<Bad> {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let inside = |what, body: &str, code, words| {
        Bad::post(what, body.to_owned(), 200, code, words).with("mcp-session-id", &session.id)
    };
    let no_object = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"raw__args","arguments":[]}}"#;
    let cursor = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"!"}}"#;
    vec![
        Bad::post("no session", ping, 400, -32600, "begin with initialize"),
        Bad::post("a session of nobody", ping, 404, -32600, "Session not found").with("mcp-session-id", "x"),
        Bad::post("a version before all in a session", ping, 400, -32600, "Unsupported protocol version")
            .with("mcp-session-id", &session.id)
            .with("mcp-protocol-version", "2024-10-07"),
        Bad::post("a session at another endpoint", ping, 404, -32600, "Session not found")
            .with("mcp-session-id", &session.id)
            .at(Method::POST, "/raw/mcp"),
        inside("a method that nobody knows", &ping.replace("ping", "eat"), -32601, "Method not found: eat"),
        inside("arguments that are a list", no_object, -32602, "`arguments` must be an object"),
        inside("a cursor of nobody", cursor, -32602, "cursor"),
    ]
}

fn bad_messages() -> Vec<Bad> {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let brackets = "[".repeat(10_000) + &"]".repeat(10_000);
    let deep = call_body("raw__args", &format!(r#"{{"a":{brackets}}}"#), &json!({}));
    let large = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(5 << 20));
    vec![
        Bad::post("no JSON", "{\"jsonrpc\":", 400, -32700, "not valid JSON"),
        Bad::post("nothing", "", 400, -32700, "not valid JSON"),
        Bad::post(
            "no UTF-8",
            &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"[..],
            400,
            -32700,
            "not valid JSON",
        ),
        Bad::post("a batch", format!("[{ping}]"), 400, -32600, "MCP has removed batches: send each message"),
        Bad::post("10,000 brackets", brackets, 400, -32600, "nests deeper than 128 levels"),
        Bad::post("10,000 brackets in arguments", deep, 400, -32600, "nests deeper than 128 levels"),
        Bad::post("an id that is none", ping.replace('1', "{}"), 400, -32600, "`id` must be"),
        Bad::post("no JSON-RPC", r#"{"id":1,"method":"ping"}"#, 400, -32600, "`jsonrpc` must be"),
        Bad::post("5 MiB", large, 413, -32600, "larger than 4194304 bytes"),
        Bad::post("a form", ping, 415, -32600, "application/json")
            .with("content-type", "application/x-www-form-urlencoded"),
        Bad::post("a browser's Accept", ping, 406, -32600, "Accept must name").with("accept", "text/html"),
        Bad::post("a page's Origin", ping, 403, -32600, "allowedOrigins").with("origin", "https://evil.example"),
        Bad::post("a rebound Host", ping, 403, -32600, "Host is not served").with("host", "evil.example"),
        Bad::post("PUT", ping, 405, -32600, "GET, POST, DELETE").at(Method::PUT, "/mcp"),
        Bad::post("another path", ping, 404, -32600, "MCP is spoken at /mcp").at(Method::POST, "/other"),
        Bad::post("no such upstream", ping, 404, -32600, "no upstream").at(Method::POST, "/nobody/mcp"),
    ]
}

#[tokio::test]
async fn requests_of_hostile_clients() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &raw_stdio("raw", &folder.path().join("log")));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["raw"]).await;
    let http = Http::new();
    let session = http.initialize(&gateway.url()).await;
    serves_on(&session, "raw__args", "nothing").await;
    let all = modern_requests().into_iter().chain(legacy_requests(&session)).chain(bad_messages());
    for Bad { what, method, path, headers, body, status, code, words } in all {
        let url = gateway.url().replace("/mcp", path);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = http.send(method, &url, &headers, body).await;
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
        let error = &answer.json()["error"];
        let message = error["message"].as_str().unwrap_or_default();
        assert!(error["code"] == code && message.contains(words), "{what}: {}", answer.body);
        serves_on(&session, "raw__args", what).await;
    }
    let newer = http
        .send(Method::POST, &gateway.url(), &[JSON[0], ("mcp-protocol-version", "2099-01-01")], {
            call_body("x", "{}", &json!({"io.modelcontextprotocol/protocolVersion": "2099-01-01"}))
        })
        .await;
    assert_eq!(newer.status, 400, "{}", newer.body);
}

/// A line of `/proc/PID/status`, in KiB.
fn memory(gateway: &Gateway, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Sends a head and then 100 MB, for as long as somebody takes them. Gives the answer.
async fn flood(gateway: &Gateway, head: &str, chunk: &[u8]) -> String {
    let address = gateway.url().replace("http://", "").replace("/mcp", "");
    let (mut reader, mut writer) = TcpStream::connect(address).await.unwrap().into_split();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n{head}\r\n\r\n"
    );
    let chunk = chunk.to_vec();
    let sending = tokio::spawn(async move {
        writer.write_all(head.as_bytes()).await?;
        for _ in 0..100 {
            writer.write_all(&chunk).await?;
        }
        std::io::Result::Ok(())
    });
    let mut answer = String::new();
    let read = async {
        let mut buffer = [0; 4096];
        while !answer.contains('}') {
            let read = reader.read(&mut buffer).await.unwrap();
            assert_ne!(read, 0, "closed without a whole answer: {answer}");
            answer.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
    };
    tokio::time::timeout(SOON, read).await.unwrap();
    sending.abort();
    answer
}

#[tokio::test]
async fn a_body_of_100_mb_is_cut_early() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &raw_stdio("raw", &folder.path().join("log")));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["raw"]).await;
    let session = Http::new().initialize(&gateway.url()).await;
    serves_on(&session, "raw__args", "nothing").await;
    let before = memory(&gateway, "VmRSS:");
    let megabyte = vec![b'['; 1 << 20];
    let chunked = [b"100000\r\n", &megabyte[..], b"\r\n"].concat();
    for (head, chunk) in [("Content-Length: 104857600", &megabyte), ("Transfer-Encoding: chunked", &chunked)] {
        let answer = flood(&gateway, head, chunk).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("larger than 4194304 bytes"), "{answer}");
        serves_on(&session, "raw__args", head).await;
    }
    let peak = memory(&gateway, "VmHWM:");
    assert!(peak < before + 48 * 1024, "the peak is {peak} KiB, from {before} KiB");
}

/// Each upstream has the chain of its own name.
fn hostile_manifests(url: &str) -> String {
    let once = "protocol: Once, role: Guard, limits: {maxOutputSize: 64Ki}";
    let module = "protocol: Module, role: Guard, limits: {maxOutputSize: 64Ki}";
    let huge = "console.log(JSON.stringify({ text: 'x'.repeat(20_000_000), continue: true }));";
    let huge_module = "export default () => ({ text: 'x'.repeat(20_000_000), continue: true });";
    let parentheses = "(".repeat(5000) + &")".repeat(5000);
    let mut manifests = external("good", url);
    for (name, code, more) in [
        ("garbage", "console.log('this is {no JSON');", once),
        ("huge", huge, once),
        ("huge-module", huge_module, module),
        ("nonsense-module", "export default () => 7;", module),
        ("parentheses", &*parentheses, once),
    ] {
        manifests += &external(name, url);
        manifests += &plugin(name, code, more);
        manifests += &chain(name, "Response", &[name], &[name]);
    }
    let long = format!("content.size > 0{}", " && content.size > 0".repeat(500));
    let entries = format!("entries: [{{name: echo, when: {long:?}}}]");
    manifests += &external("when", url);
    manifests += &plugin("echo", ECHO_MODULE, "");
    manifests + &object("PluginChain", "when", &format!("phase: Response, upstreams: {{names: [when]}}, {entries}"))
}

#[tokio::test]
async fn plugins_and_expressions_that_mean_no_good() {
    let folder = Folder::new();
    let (_server, url) = raw_http(&folder.path().join("log"));
    folder.write("manifests.yaml", &hostile_manifests(&url));
    let gateway = Gateway::start(&folder);
    let all = ["good", "garbage", "huge", "huge-module", "nonsense-module", "parentheses", "when"];
    tools_of(&gateway, &all).await;
    let session = Http::new().initialize(&gateway.url()).await;
    for (upstream, key, reason) in [
        ("garbage", "hawsepipe.dev/failed", "InvalidOutput"),
        ("huge", "hawsepipe.dev/failed", "TooLarge"),
        ("huge-module", "hawsepipe.dev/failed", "TooLarge"),
        ("nonsense-module", "hawsepipe.dev/failed", "InvalidOutput"),
        ("parentheses", "hawsepipe.dev/refused", "PluginNotAccepted"),
        ("when", "hawsepipe.dev/refused", "InvalidObject"),
    ] {
        let answer = session.call_raw(1, &format!("{upstream}__args"), r#"{"a":1}"#).await;
        let result = &answer.json()["result"];
        assert_eq!(result["isError"], true, "{upstream}: {:.400}", answer.body);
        let detail = &result["_meta"][key];
        assert_eq!(
            (&detail["chain"], &detail["reason"]),
            (&json!(format!("default/{upstream}")), &json!(reason)),
            "{result}"
        );
        serves_on(&session, "good__args", upstream).await;
    }
    for (reason, words) in [("SyntaxError", "default/parentheses"), ("InvalidObject", "at most 1024 characters")] {
        let said = gateway.logged(|line| line["reason"] == reason);
        assert!(said["message"].as_str().unwrap().contains(words), "{said}");
        assert!(said["file"].as_str().unwrap().ends_with("manifests.yaml"), "{said}");
    }
}
