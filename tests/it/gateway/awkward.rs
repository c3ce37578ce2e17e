//! Servers that are unusual and that SDK clients can use directly: they are used through the gateway, too.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use hyper::Method;
use hyper::body::Bytes;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::parts::{SDKS, announced, chain, external, modern_stdio, object, plugin, process, tools_of, until};
use crate::fixtures::{fixture, python};
use crate::upstream::Running;

/// The servers of `fixtures/awkward/servers.py`.
const CASES: [&str; 13] = [
    "nulltools",
    "nomember",
    "toolsfail",
    "nullmembers",
    "unannounced",
    "endless",
    "textids",
    "gzip",
    "deflate",
    "mark",
    "arrays",
    "coerced",
    "long",
];

/// The servers, and their URL.
fn servers() -> (Running, String) {
    let mut command = Command::new(python());
    command.arg(fixture("awkward/servers.py"));
    announced(command)
}

/// Those that can be the same over stdio. SDK clients do not read a byte order mark there.
const OVER_STDIO: [&str; 6] = ["nulltools", "nomember", "nullmembers", "unannounced", "textids", "arrays"];

/// One of the servers over stdio.
fn over_stdio(name: &str) -> String {
    process(name, &python(), &[fixture("awkward/servers.py").to_str().unwrap(), "--stdio", name])
}

/// The problems of a gateway: the name of each object, and the message.
async fn problems(gateway: &Gateway) -> Vec<(String, String)> {
    let plan = Http::new().get(&format!("http://{}/api/v1/plan", gateway.admin())).await.json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let problems = plan["problems"].as_array().unwrap().iter();
    problems.map(|problem| (text(&problem["object"]["name"]), text(&problem["message"]))).collect()
}

#[tokio::test]
async fn what_the_sdk_can_use_directly_it_can_use_through_the_gateway() {
    let (_servers, url) = servers();
    let manifests: String = CASES.iter().map(|name| external(name, &format!("{url}/{name}"))).collect();
    let folder = Folder::with(&manifests);
    let gateway = Gateway::start(&folder);
    tools_of(
        &gateway,
        &["nullmembers", "unannounced", "endless", "textids", "gzip", "deflate", "mark", "arrays", "coerced"],
    )
    .await;
    let compared = Command::new(python())
        .arg(fixture("awkward/compare.py"))
        .args(["--direct", &url, "--gateway", &gateway.url().replace("/mcp", "/{name}/mcp")])
        .output()
        .unwrap();
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
    let compared = Command::new("node")
        .arg(fixture("awkward/compare.mjs"))
        .args(["--direct", &url, "--gateway", &gateway.url().replace("/mcp", "/{name}/mcp")])
        .args(CASES.iter().filter(|name| **name != "endless"))
        .output()
        .unwrap();
    assert!(compared.status.success(), "{compared:?}");

    let answer = Http::new().call(&gateway.url(), "mark__t", &json!({"a": 1}), &json!({})).await;
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"a": 1}"#, "{answer}");
}

#[tokio::test]
async fn what_the_sdk_can_use_over_stdio_it_can_use_through_the_gateway() {
    let manifests: String = OVER_STDIO.iter().chain(&["mark"]).map(|name| over_stdio(name)).collect();
    let folder = Folder::with(&manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["nullmembers", "unannounced", "textids", "arrays", "mark"]).await;
    let compared = Command::new(python())
        .arg(fixture("awkward/compare.py"))
        .args(["--stdio", "--gateway", &gateway.url().replace("/mcp", "/{name}/mcp")])
        .args(OVER_STDIO)
        .output()
        .unwrap();
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
    for name in ["nulltools", "nomember"] {
        let message = "its answer to tools/list has no `tools`, which counts as empty";
        let said = problems(&gateway).await;
        assert!(said.iter().any(|(of, said)| of == name && said.contains(message)), "{name}: {said:?}");
    }
    let answer = Http::new().call(&gateway.url(), "mark__t", &json!({"a": 1}), &json!({})).await;
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"a": 1}"#, "{answer}");
}

#[tokio::test]
async fn a_list_that_is_unusual_has_a_problem() {
    let (_servers, url) = servers();
    let manifests: String = CASES.iter().map(|name| external(name, &format!("{url}/{name}"))).collect();
    let folder = Folder::with(&manifests);
    let gateway = Gateway::start(&folder);
    let wanted = [
        ("nulltools", "its answer to tools/list has no `tools`, which counts as empty"),
        ("nomember", "its answer to tools/list has no `tools`, which counts as empty"),
        ("toolsfail", "tools/list is not read anew: ProtocolError"),
        ("unannounced", "it lists tools, which its capabilities do not announce"),
        ("endless", "its answer to tools/list has more than 50 pages: the first 50 items are offered"),
    ];
    for (name, message) in wanted {
        until(message, async || problems(&gateway).await.iter().any(|(of, said)| of == name && said.contains(message)))
            .await;
    }
}

#[tokio::test]
async fn a_list_as_structured_content_can_be_redacted_and_legacy_clients_get_the_text() {
    let (_servers, url) = servers();
    let redact = "export default ({ rawContent }) =>
        ({ text: rawContent.replace(/\\w+@example\\.com/g, '[mail]'), continue: true });";
    let manifests = external("plain", &format!("{url}/arrays"))
        + &external("guarded", &format!("{url}/arrays"))
        + &plugin("redact", redact, "role: Guard")
        + &chain("r", "Response", &["guarded"], &["redact"]);
    let folder = Folder::with(&manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["plain", "guarded"]).await;
    for sdk in SDKS {
        let listed = sdk.run(&gateway.url(), &["list"], "");
        let schema = |name: &str| {
            let tool = listed.iter().find(|tool| tool["name"] == name).unwrap();
            tool.get("outputSchema").map(|schema| schema["type"].clone())
        };
        let is_modern = sdk.version == "2026-07-28";
        assert_eq!(schema("plain__t"), is_modern.then(|| json!("array")), "{sdk:?}");
        assert_eq!(schema("guarded__t"), None, "plugins can change what it describes: {sdk:?}");
        for (name, mail) in [("plain__t", "ann@example.com"), ("guarded__t", "[mail]")] {
            let answer = sdk.run(&gateway.url(), &["call", name, "{}"], "")[0].clone();
            let result = &answer["result"];
            let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!(text[0]["mail"], mail, "{sdk:?} {answer}");
            let structured = result.get("structuredContent").map(|rows| rows[0]["mail"].clone());
            assert_eq!(structured, is_modern.then(|| json!(mail)), "{sdk:?} {answer}");
        }
    }
}

#[tokio::test]
async fn what_a_shaper_leaves_of_structured_content_reaches_clients_that_check_schemas() {
    let shape = "export default ({ rawContent }) => {
        const { city } = JSON.parse(rawContent);
        return { text: JSON.stringify({ city }), continue: true };
    };";
    let cut = "export default ({ rawContent }) => ({ text: rawContent.slice(0, 9), continue: true });";
    let manifests = modern_stdio("shaped")
        + &modern_stdio("cut")
        + &plugin("shape", shape, "")
        + &plugin("cut", cut, "")
        + &chain("s", "Response", &["shaped"], &["shape"])
        + &chain("c", "Response", &["cut"], &["cut"]);
    let folder = Folder::with(&manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["shaped", "cut"]).await;
    for sdk in SDKS {
        let call = |name: &str| sdk.run(&gateway.url(), &["call", name, r#"{"city":"Oslo"}"#], "")[0]["result"].clone();
        let shaped = call("shaped__structured");
        assert_eq!(shaped["structuredContent"], json!({"city": "Oslo"}), "{sdk:?} {shaped}");
        let cut = call("cut__structured");
        assert!(cut["content"][0]["text"].is_string() && cut.get("structuredContent").is_none(), "{sdk:?} {cut}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_host_is_quoted_and_gets_the_host_that_it_wants() {
    let (_servers, url) = servers();
    let with_host = format!("external: {{url: '{url}/checkshost', hostHeader: mcp.example}}");
    let manifests = external("wrong", &format!("{url}/checkshost"))
        + &external("forbids", &format!("{url}/forbids"))
        + &object("MCPUpstream", "right", &with_host);
    let folder = Folder::with(&manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["right"]).await;
    let errors = async || {
        let answer = Http::new().get(&format!("http://{}/api/v1/upstreams", gateway.admin())).await.json();
        let items = answer["items"].as_array().unwrap();
        let of = |name: &str| items.iter().find(|item| item["name"] == name).unwrap()["error"].to_string();
        [of("wrong"), of("forbids")]
    };
    until("both are refused", async || errors().await.iter().all(|error| error != "null")).await;
    let [wrong, forbids] = errors().await;
    for words in ["HTTP 421", "spec.external.hostHeader", "it says: Invalid Host header"] {
        assert!(wrong.contains(words), "{wrong}");
    }
    assert!(forbids.contains("HTTP 403; it says: Invalid Origin header"), "{forbids}");
    // What the server says is not for clients.
    let answer = Http::new().call(&gateway.url(), "wrong__t", &json!({}), &json!({})).await;
    assert!(!answer.to_string().contains("Invalid Host"), "{answer}");
}

#[tokio::test]
async fn a_call_finds_a_server_that_is_back_at_once() {
    let folder = Folder::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let script = folder.path().join("late.sh");
    let manifests = external("far", &format!("http://127.0.0.1:{port}/unannounced")) + &process("near", &script, &[]);
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    let call = async |name: &str| Http::new().call(&gateway.url(), name, &json!({"a": 1}), &json!({})).await;
    for name in ["far__t", "near__echo"] {
        let answer = call(name).await;
        let data = &answer["error"]["data"];
        assert_eq!((&data["reason"], &data["retryAfterMs"]), (&json!("UpstreamDown"), &json!(1000)), "{answer}");
    }
    // Long enough that the gateway itself waits for many seconds before it tries again.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let mut command = Command::new(python());
    command.arg(fixture("awkward/servers.py")).arg(port.to_string());
    let _servers = announced(command);
    let server = format!("#!/bin/sh\nexec {} {} --stdio\n", python().display(), fixture("servers/modern.py").display());
    folder.write("late.sh", &server);
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let began = Instant::now();
    let answer = call("far__t").await;
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"a": 1}"#, "{answer}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let answer = Http::new().call(&gateway.url(), "near__echo", &json!({"message": "x"}), &json!({})).await;
    assert!(answer["result"]["content"][0]["text"].is_string(), "{answer}");
}

#[tokio::test]
async fn load_balancers_ask_the_port_of_clients_and_a_slash_at_the_end_is_served() {
    let folder = Folder::with(&modern_stdio("up"));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let (http, base) = (Http::new(), gateway.url().replace("/mcp", ""));
    for (path, body) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
        let answer = http.send(Method::GET, &format!("{base}{path}"), &[("host", "10.0.0.7:8080")], Bytes::new()).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, body));
    }
    for path in ["/mcp/", "/up/mcp/"] {
        let listed = SDKS[1].run(&format!("{base}{path}"), &["list"], "");
        assert!(!listed.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn a_standalone_gateway_without_calls_ends_at_once() {
    let folder = Folder::with(&modern_stdio("up"));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let began = Instant::now();
    gateway.signal(Signal::TERM);
    assert!(gateway.ended().await);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test]
async fn spec_upstreams_invalid_tools() {
    let (_servers, url) = servers();
    let names = async |gateway: &Gateway| {
        tools_of(gateway, &["up"]).await;
        let listed = SDKS[0].run(&gateway.url(), &["list"], "");
        listed.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let up = external("up", &format!("{url}/schemas")) + &external("long", &format!("{url}/long"));
    let folder = Folder::with(&up);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["long"]).await;
    let listed = names(&gateway).await;
    let mut control = Command::new("node");
    let control = control.arg(fixture("awkward/schemas.mjs")).arg(format!("{url}/schemas")).output().unwrap();
    let valid = String::from_utf8(control.stdout).unwrap();
    let offered: BTreeSet<_> = listed.iter().filter_map(|name| name.strip_prefix("up__")).collect();
    assert_eq!(offered, valid.lines().collect(), "{:?}", String::from_utf8_lossy(&control.stderr));
    assert!(offered.contains("good") && !offered.contains("null_enum"), "{listed:?}");
    let said = problems(&gateway).await;
    for place in ["/a/type", "/a/exclusiveMinimum", "/a/required", "/a/$ref", "/a/pattern", "/a/enum"] {
        let told = |(name, said): &(String, String)| {
            name == "up" && said.contains(&format!("inputSchema/properties{place}: "))
        };
        assert!(said.iter().any(told), "{place}: {said:?}");
    }
    assert!(
        said.iter().any(|(name, said)| name == "long" && said.contains("providers of models allow 64")),
        "{said:?}"
    );

    let offers = "upstreams: {invalidTools: Offer}, authentication: {anonymous: {}}";
    let folder = Folder::with(&(object("MCPGateway", "main", offers) + &up));
    let gateway = Gateway::start(&folder);
    assert_eq!(names(&gateway).await.len(), 10);
}

#[tokio::test]
async fn spec_upstreams_max_name_length() {
    let (_servers, url) = servers();
    let spec = "upstreams: {maxNameLength: 48}, authentication: {anonymous: {}}";
    let manifests = object("MCPGateway", "main", spec) + &external("long", &format!("{url}/long"));
    let folder = Folder::with(&manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["long"]).await;
    let whole = "long__reads_all_rows_of_the_table_that_was_chosen_and_returns_them_as_text";
    let listed = SDKS[0].run(&gateway.url(), &["list"], "");
    let short = listed[0]["name"].as_str().unwrap();
    assert!(listed.len() == 1 && short.len() == 48 && whole.starts_with(&short[..39]), "{listed:?}");
    let answer = SDKS[0].run(&gateway.url(), &["call", short, r#"{"a": 1}"#], "");
    assert_eq!(answer[0]["result"]["content"][0]["text"], r#"{"a": 1}"#, "{answer:?}");
    let said = problems(&gateway).await;
    assert!(!said.iter().any(|(_, said)| said.contains("providers of models allow 64")), "{said:?}");
    let (admin, path) = (gateway.admin(), folder.path().to_str().unwrap());
    for name in [short, whole, "long/reads_all_rows_of_the_table_that_was_chosen_and_returns_them_as_text"] {
        for place in [["--admin", &admin], ["-f", path]] {
            // Without the gateway, only the whole name says which tool is meant.
            if name == short && place[0] == "-f" {
                continue;
            }
            let explained = run(&[&["explain", name][..], &place].concat());
            let text = String::from_utf8(explained.stdout).unwrap();
            assert!(text.starts_with(short) && text.contains("calls it reads_all_rows_"), "{name} {place:?}: {text}");
        }
    }
}
