//! Sections of documents that are bound to an upstream (document 003, SectionBinding).

mod documents;
mod lines;
mod page;
#[path = "../../sections/runbook.rs"]
mod runbook;
mod settings;

use hyper::Method;
use serde_json::{Value, json};

use self::runbook::SERVERS;
use super::harness::{Folder, Gateway, run};
use super::http::{Http, JSON};
use super::parts::{object, raw_stdio, tools_of, until};

/// Manifests of the three servers, and a folder for their logs.
fn servers(folder: &Folder) -> String {
    SERVERS.iter().map(|name| raw_stdio(name, &folder.path().join(format!("{name}.log")))).collect()
}

/// A binding of what `part` names in the documents of `glob`.
fn binding(name: &str, glob: &str, part: &str, upstream: &str) -> String {
    object("SectionBinding", name, &format!("document: {{glob: {glob:?}}}, {part}, upstream: {{name: {upstream}}}"))
}

/// A request of a client of the modern era, with the place in its `_meta`.
async fn ask(url: &str, method: &str, params: &Value, section: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "hawsepipe.dev/section": section,
    });
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![JSON[0], JSON[1], ("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend((!name.is_empty()).then_some(("mcp-name", &*name)));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    Http::new().send(Method::POST, url, &headers, body.to_string()).await.json()
}

/// The servers whose tools a client at this place sees, of `SERVERS`.
async fn visible(gateway: &Gateway, section: &Value) -> Vec<String> {
    let listed = ask(&gateway.url(), "tools/list", &json!({}), section).await;
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let is_listed = |server: &&&str| tools.iter().any(|tool| tool["name"] == format!("{server}__exact"));
    SERVERS.iter().filter(is_listed).map(|server| (*server).to_owned()).collect()
}

/// The result of a call of the tool `args` of a server.
async fn call(gateway: &Gateway, server: &str, section: &Value) -> Value {
    let params = json!({"name": format!("{server}__args"), "arguments": {}});
    ask(&gateway.url(), "tools/call", &params, section).await
}

fn place(document: &str, headings: &[(&str, u32)]) -> Value {
    let path: Vec<_> = headings.iter().map(|(text, level)| json!({"text": text, "level": level})).collect();
    json!({"document": document, "headings": path})
}

#[tokio::test]
async fn spec_of_a_section_binding_narrows_what_its_section_sees_and_calls() {
    let folder = Folder::new();
    let deploy = "heading: {text: Deploy, level: 2}, inheritToChildren: true";
    let manifests = servers(&folder) + &binding("deploy", "runbooks/**/*.md", deploy, "kubernetes");
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &SERVERS).await;

    let inside = place("runbooks/a.md", &[("A", 1), ("Deploy", 2), ("Database", 3)]);
    let outside = place("notes.md", &[("A", 1), ("Deploy", 2)]);
    assert_eq!(visible(&gateway, &inside).await, ["kubernetes"]);
    assert_eq!(visible(&gateway, &outside).await, SERVERS);
    assert_eq!(visible(&gateway, &Value::Null).await, SERVERS);
    let scope = async |section: &Value| {
        ask(&gateway.url(), "tools/list", &json!({}), section).await["result"]["cacheScope"].clone()
    };
    assert_eq!(scope(&inside).await, "private");

    assert_eq!(call(&gateway, "kubernetes", &inside).await["result"]["isError"], Value::Null);
    let refused = call(&gateway, "postgres", &inside).await;
    assert_eq!(refused["result"]["_meta"]["hawsepipe.dev/refused"]["reason"], "OutsideSection", "{refused}");
    let text = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("SectionBinding default/deploy (## Deploy in runbooks/**/*.md)"), "{text}");
    assert_eq!(call(&gateway, "postgres", &outside).await["result"]["isError"], Value::Null);
    let calls = std::fs::read_to_string(folder.path().join("postgres.log")).unwrap();
    assert_eq!(calls.matches("\"tools/call\"").count(), 1, "the refused call was not sent: {calls}");

    for (section, member) in [
        (json!("runbooks/a.md"), " must be an object"),
        (json!({"document": "a.md", "line": "17"}), ".line must be"),
        (json!({"document": "a.md", "headings": [{"text": "A"}]}), ".headings[0].level is missing"),
        (json!({"document": "a.md", "heading": "A"}), " has no member \"heading\""),
    ] {
        for method in ["tools/list", "tools/call", "prompts/list"] {
            let params = if method == "tools/call" { json!({"name": "postgres__args"}) } else { json!({}) };
            let refused = ask(&gateway.url(), method, &params, &section).await;
            let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
            assert!(message.starts_with(&format!("_meta[\"hawsepipe.dev/section\"]{member}")), "{message}");
        }
    }
}

/// What is wrong with the plan: the name of each object, the reason and the message.
async fn problems(gateway: &Gateway) -> Vec<(String, String, String)> {
    let plan = Http::new().get(&format!("http://{}/api/v1/plan", gateway.admin())).await.json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let problems = plan["problems"].as_array().unwrap().iter();
    problems.map(|it| (text(&it["object"]["name"]), text(&it["reason"]), text(&it["message"]))).collect()
}

/// Percent-encodes a section for a query.
fn query(section: &Value) -> String {
    section.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// What the admin API answers about a place.
async fn admin(gateway: &Gateway, resource: &str, section: &Value) -> Value {
    let url = format!("http://{}/api/v1/{resource}?section={}", gateway.admin(), query(section));
    Http::new().get(&url).await.json()
}

#[tokio::test]
async fn what_a_section_does_not_see_is_not_found_by_a_search_either() {
    let folder = Folder::new();
    let manifests = object("MCPGateway", "g", "authentication: {anonymous: {}}, upstreams: {toolDiscovery: Search}")
        + &servers(&folder)
        + &binding("deploy", "*.md", "block: {id: deploy}", "kubernetes")
        + &binding("gone", "*.md", "block: {id: gone}", "nobody");
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &SERVERS).await;
    let at = |block: &str| json!({"document": "a.md", "block": block});
    let tool = async |name: &str, arguments: Value, block: &str| {
        ask(&gateway.url(), "tools/call", &json!({"name": name, "arguments": arguments}), &at(block)).await["result"]
            .clone()
    };
    let found = async |block: &str| {
        let result = tool("search_tools", json!({"query": "exact", "limit": 20}), block).await;
        let tools = result["structuredContent"]["tools"].as_array().unwrap_or_else(|| panic!("{result}")).clone();
        let is_found = |server: &&str| tools.iter().any(|tool| tool["name"] == format!("{server}__exact"));
        SERVERS.into_iter().filter(is_found).collect::<Vec<_>>()
    };
    until("the index is built", async || found("none").await == SERVERS).await;
    assert_eq!(found("deploy").await, ["kubernetes"]);
    let called = async |server: &str, block: &str| {
        let result = tool("call_tool", json!({"name": format!("{server}__args")}), block).await;
        result["_meta"]["hawsepipe.dev/refused"]["reason"].clone()
    };
    assert_eq!(called("kubernetes", "deploy").await, Value::Null);
    assert_eq!(called("postgres", "deploy").await, "OutsideSection");
    assert_eq!(called("kubernetes", "gone").await, "UpstreamNotFound");
    let search = tool("search_tools", json!({"query": "exact"}), "gone").await;
    assert_eq!(search["_meta"]["hawsepipe.dev/refused"]["reason"], "UpstreamNotFound", "{search}");
    // A slip of the pen does not bring out the names of others.
    let slip = ask(&gateway.url(), "tools/call", &json!({"name": "postgres__arg"}), &at("deploy")).await;
    let message = slip["error"]["message"].as_str().unwrap();
    assert_eq!(message, "Unknown tool: postgres__arg (in this section, only what upstream kubernetes offers is there)");
}

#[tokio::test]
async fn a_binding_that_cannot_be_resolved_opens_nothing() {
    let folder = Folder::new();
    let manifests = servers(&folder)
        + &binding("gone", "*.md", "block: {id: gone}", "postgre")
        + &binding("broken", "[", "block: {id: broken}", "search")
        + &binding("first", "*.md", "heading: {text: Deploy}", "kubernetes")
        + &binding("second", "*.md", "heading: {text: Deploy}", "postgres");
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &SERVERS).await;
    let problems = problems(&gateway).await;
    for (name, reason, message) in [
        ("gone", "UpstreamNotFound", "there is no MCPUpstream default/postgre; did you mean postgres?"),
        ("broken", "InvalidPattern", "\"[\" is not a glob"),
        ("second", "Conflicted", "SectionBinding default/first covers Deploy of the same documents too"),
    ] {
        let is_it = |it: &(String, String, String)| it.0 == name && it.1 == reason && it.2.starts_with(message);
        assert!(problems.iter().any(is_it), "{name}: {problems:?}");
    }
    assert_eq!(problems.len(), 3, "{problems:?}");
    for (document, block, reason) in [("a.md", "gone", "UpstreamNotFound"), ("x/y.md", "broken", "InvalidPattern")] {
        let section = json!({"document": document, "block": block});
        assert_eq!(visible(&gateway, &section).await, [""; 0], "{block}");
        for server in SERVERS {
            let refused = call(&gateway, server, &section).await;
            assert_eq!(refused["result"]["_meta"]["hawsepipe.dev/refused"]["reason"], reason, "{refused}");
        }
    }
    assert_eq!(visible(&gateway, &place("a.md", &[("Deploy", 1)])).await, ["kubernetes"]);
    let status = Http::new().get(&format!("http://{}/api/v1/status", gateway.admin())).await.json();
    let states = status["sections"].as_array().unwrap().iter().map(|it| (&it["binding"], &it["state"]));
    let states: Vec<_> =
        states.map(|(name, state)| format!("{} {}", name.as_str().unwrap(), state.as_str().unwrap())).collect();
    let expected = ["gone UpstreamNotFound", "broken InvalidPattern", "first Ready", "second Conflicted"];
    assert_eq!(states, expected.map(|expected| format!("default/{expected}")));
    let validated = run(&["validate", folder.path().to_str().unwrap()]);
    let said = String::from_utf8(validated.stdout).unwrap();
    assert!(!validated.status.success() && said.contains("(UpstreamNotFound)"), "{said}");
}

#[tokio::test]
async fn a_binding_whose_glob_is_not_valid_any_more_stays_as_it_was() {
    let folder = Folder::new();
    let manifests = servers(&folder) + &binding("broken", "[", "block: {id: broken}", "search");
    folder.write("manifests.yaml", &manifests.replace("glob: \"[\"", "glob: \"*.md\""));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &SERVERS).await;
    let broken = json!({"document": "a.md", "block": "broken"});
    until("the binding is accepted", async || visible(&gateway, &broken).await == ["search"]).await;
    folder.write("manifests.yaml", &manifests);
    until("the edit is refused", async || {
        problems(&gateway).await.iter().any(|it| it.0 == "broken" && it.2.contains("The last accepted form runs on"))
    })
    .await;
    assert_eq!(visible(&gateway, &broken).await, ["search"]);
}

/// `spec.sections` of MCPGateway, `spec.gateways` of SectionBinding, and the consent of the upstream.
#[tokio::test]
async fn spec_sections_selects_the_bindings_of_a_gateway() {
    let folder = Folder::new();
    let of = |namespace: &str, team: &str, more: &str| {
        format!(
            "---\napiVersion: hawsepipe.dev/v1alpha1\nkind: SectionBinding\nmetadata: {{name: {team}, namespace: {namespace}, \
             labels: {{team: {team}}}}}\nspec: {{document: {{glob: '**'}}, block: {{id: {team}}}, {more}}}\n"
        )
    };
    let sections = "namespaces: {from: Names, names: [default, other]}, selector: {matchLabels: {team: a}}";
    let spec = format!("authentication: {{anonymous: {{}}}}, sections: {{{sections}}}");
    let foreign = "upstream: {name: postgres, namespace: default}";
    let named = format!("{foreign}, gateways: [{{name: main, namespace: default}}]");
    let manifests = object("MCPGateway", "main", &spec)
        + &servers(&folder)
        + &of("default", "b", "upstream: {name: search}")
        + &of("other", "a", &named);
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &SERVERS).await;
    let at = |block: &str| json!({"document": "x.md", "block": block});
    assert_eq!(visible(&gateway, &at("b")).await, SERVERS, "the gateway does not take it");
    assert_eq!(visible(&gateway, &at("a")).await, [""; 0], "the upstream is not shared");
    let reasons: Vec<_> = problems(&gateway).await.into_iter().map(|(name, reason, _)| (name, reason)).collect();
    let reason = |name: &str, reason: &str| (name.to_owned(), reason.to_owned());
    assert!(reasons.contains(&reason("a", "RefNotPermitted")), "{reasons:?}");
    assert!(reasons.contains(&reason("b", "NotTaken")), "{reasons:?}");

    let shared = manifests.replace(
        "metadata: {name: postgres}\nspec: {",
        "metadata: {name: postgres}\nspec: {shareWith: {namespaces: {from: All}}, ",
    );
    assert_ne!(shared, manifests);
    folder.write("manifests.yaml", &shared);
    until("the upstream is shared", async || visible(&gateway, &at("a")).await == ["postgres"]).await;
    folder.write("manifests.yaml", &shared.replace(", gateways: [{name: main, namespace: default}]", ""));
    until("the binding does not name the gateway", async || visible(&gateway, &at("a")).await == SERVERS).await;
}
