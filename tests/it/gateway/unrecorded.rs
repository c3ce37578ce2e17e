//! What plugins throw is content: without `history.payloads`, it is in no log, record, store, metric and trace.

use serde_json::{Value, json};

use super::collector::Receiver;
use super::harness::{Folder, Gateway};
use super::http::Http;
use super::manifests::{chain, gateway, object, plugin, raw_server, yaml};
use super::parts::until;
use super::pipelines::{models, secret, stand_in};

const CANARY: &str = "c4nary-of-content";
/// Ways to throw content during a call. Each is the name of a plugin and of a tool.
const WAYS: [(&str, &str, &str); 26] = [
    ("error", "", "throw new Error(rawContent);"),
    ("own-class", "", "throw new (class Own extends TypeError {})(rawContent);"),
    ("names", "", "throw Object.assign(new Error('x'), { name: rawContent, code: rawContent, path: rawContent });"),
    ("text", "", "throw rawContent;"),
    ("value", "", "throw { rawContent };"),
    ("cause", "", "throw new TypeError('fetch failed', { cause: new Error(rawContent) });"),
    ("aggregate", "", "throw new AggregateError([new Error(rawContent)], rawContent);"),
    ("stack", "", "throw Object.assign(new Error('x'), { stack: `Error: x\\n    at ${rawContent} (/a/b.mjs:1:2)` });"),
    ("frames", "", "throw new Error(`x\\n    at ${rawContent} (node:internal/x:1:2)`);"),
    ("changed", "", "const e = new Error(`x\\n    at ${rawContent} (${rawContent}:1:2)`); e.message = 'y'; throw e;"),
    ("parse", "", "JSON.parse(`x${rawContent}`);"),
    ("pattern", "", "new RegExp(`(${rawContent}`);"),
    ("abort", "", "throw new DOMException(rawContent, rawContent);"),
    ("getter", "", "return { get text() { throw new Error(rawContent); } };"),
    (
        "metadata",
        "",
        "return { text: rawContent, continue: true, metadata: { toJSON() { throw new Error(rawContent); } } };",
    ),
    ("shape", "", "return { text: 1, continue: rawContent };"),
    ("no-object", "", "return { text: rawContent, continue: rawContent };"),
    ("timer", "", "setTimeout(() => { throw new Error(rawContent); }); await new Promise(() => {});"),
    ("rejected", "", "Promise.reject(new Error(rawContent)); await new Promise(() => {});"),
    ("rejected-text", "", "Promise.reject(rawContent); await new Promise(() => {});"),
    (
        "tool",
        "",
        "await ctx.callTool('up__args', { rawContent }).then((result) => { throw new Error(JSON.stringify(result)); });",
    ),
    ("once", "Once", "throw new Error(rawContent);"),
    ("once-rejected", "Once", "Promise.reject(rawContent);"),
    ("once-prints", "Once", "console.log(`x${rawContent}`);"),
    ("reuse", "Reuse", "throw new Error(rawContent);"),
    ("lines", "Lines", "throw new Error(rawContent);"),
];

fn code_of(protocol: &str, body: &str) -> String {
    let read = "const { rawContent } = JSON.parse(require('fs').readFileSync(0, 'utf8'));";
    match protocol {
        "" => format!("export default async ({{ rawContent }}, ctx) => {{ {body} }};"),
        "Lines" => format!(
            "require('readline').createInterface({{ input: process.stdin }}).on('line', (line) => {{ \
             const {{ rawContent }} = JSON.parse(line); {body} }});"
        ),
        _ => format!("{read}\n{body}"),
    }
}

/// A plugin of each way, each role and each phase in turn, with its chain.
fn ways() -> Vec<Value> {
    let roles = ["Guard", "Transform", "Observe"];
    let objects = WAYS.iter().enumerate().flat_map(|(index, (name, protocol, body))| {
        let mut spec = json!({"role": roles[index % 3], "pool": {"size": 1}});
        match *protocol {
            "" => {}
            "Reuse" => (spec["protocol"], spec["reuse"]) = (json!("Once"), json!(true)),
            protocol => spec["protocol"] = json!(protocol),
        }
        let phase = if index % 2 == 0 { "Request" } else { "Response" };
        [plugin(name, &code_of(protocol, body), &spec), chain(name, phase, name, &[json!({"name": name})])]
    });
    objects.collect()
}

/// Tools whose parts throw what they get: a step, a customizer, what makes tools, and agents whose model answers nonsense.
fn pipelines(url: &str) -> String {
    let step = |name: &str| json!([{"name": "main", "type": "custom", "plugin": {"name": name}}]);
    let tool = |name: &str, declared: Value| {
        let spec = json!({"tool": {"name": name, "description": "A test."}, "declared": declared});
        object("ToolPipeline", name, &spec)
    };
    let throws = "export const execute = ({ query }) => { throw new Error(query); };";
    // It gets no content, but can have kept some.
    let customizes =
        "export const getPipelineConfig = () => { throw new Error(['c4nary', 'of', 'content'].join('-')); };";
    let makes = "export const getTools = () => ['execute', 'validate'].map((name) => ({ name, description: 'A test.', parameters: {} }));
      export const validateArguments = (name, given) => { if (name === 'validate') throw new Error(JSON.stringify(given)); return []; };
      export const execute = (name, given) => { throw new Error(JSON.stringify(given)); };";
    let asks = "export const execute = async ({ query }, ctx) => {
      const { text } = await ctx.llm('complex').complete({ messages: [{ role: 'user', content: query }] });
      throw new Error(text);
    };";
    let objects = [
        plugin("throws", throws, &json!({"type": "phase"})),
        plugin("customizes", customizes, &json!({"type": "pipeline-customizer"})),
        plugin("makes", makes, &json!({"type": "tool-provider"})),
        plugin("asks", asks, &json!({"type": "phase"})),
        tool("step", json!({"startAgent": "main", "agents": step("throws")})),
        tool(
            "customizer",
            json!({"startAgent": "main", "agents": step("throws"), "customizers": [{"name": "customizes"}]}),
        ),
        object("MCPUpstream", "kit", &json!({"plugin": {"name": "makes"}})),
    ];
    let model = format!(
        "---\napiVersion: hawsepipe.dev/v1alpha1\nkind: ToolPipeline\nmetadata: {{name: model}}\nspec: {{tool: {{name: model, \
         description: A test.}}, declared: {{startAgent: main, agents: {}}}, {}}}\n",
        step("asks"),
        models(url, &["complex"])
    );
    yaml(&objects) + &secret() + &model
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one gateway shows all of it")]
async fn what_plugins_tools_and_models_say_or_throw_is_nowhere_without_payloads() {
    let (folder, receiver) = (Folder::new(), Receiver::start().await);
    let names: Vec<_> = WAYS.iter().map(|(name, ..)| *name).collect();
    folder.write("tools.json.txt", &json!(names).to_string());
    let (tools, store) = (folder.path().join("tools.json.txt"), folder.path().join("history.db"));
    let script = json!([{"match": "fails", "status": 500, "error": CANARY}, {"answer": CANARY, "repeat": true}]);
    let (_model, url) = stand_in(&folder, &script);
    let patient = json!({"plugins": {"queueTimeoutMs": 30_000, "poolSizePerPlugin": 1}, "audit": {"mode": "Required"}});
    let mut objects = vec![gateway(&patient), raw_server("up", &["--also", tools.to_str().unwrap()])];
    objects.extend(ways());
    folder.write("manifests.yaml", &(yaml(&objects) + &pipelines(&url)));
    let variables = [
        ("HAWSEPIPE_LOG", "debug"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ];
    let running = Gateway::start_in(&folder, &["--store", store.to_str().unwrap()], &variables);
    let (http, endpoint) = (Http::new(), running.url());
    super::parts::tools_of(&running, &["up", "kit", "step", "customizer", "model"]).await;
    let mut asked: Vec<_> = names.iter().map(|name| (format!("up__{name}"), CANARY)).collect();
    for tool in ["step", "customizer", "kit__execute", "kit__validate", "model"] {
        asked.push((tool.to_owned(), CANARY));
    }
    asked.push(("model".to_owned(), "fails c4nary-of-content"));
    let calls = asked.iter().map(|(tool, text)| {
        let (http, endpoint) = (http.clone(), endpoint.clone());
        async move { http.call(&endpoint, tool, &json!({"prompt": text}), &json!({})).await }
    });
    let answers = futures_util::future::join_all(calls).await;

    let admin = |path: &str| format!("http://{}{path}", running.admin());
    let executions = || async { http.get(&admin("/api/v1/executions?limit=1000")).await.json()["items"].clone() };
    let message = |items: &Value, plugin: &str| {
        let of = items.as_array().unwrap().iter().find(|item| item["plugin"] == format!("default/{plugin}"));
        of.and_then(|item| item["errorMessage"].as_str()).map(str::to_owned)
    };
    let throwing = names.iter().copied().chain(["throws", "customizes", "makes", "asks"]);
    let all: Vec<_> = throwing.collect();
    until("each has failed", async || {
        let items = executions().await;
        all.iter().all(|plugin| message(&items, plugin).is_some())
    })
    .await;
    let items = executions().await;
    for (plugin, begins) in [
        ("error", "reported error: Error with a message of "),
        ("own-class", "reported error: Own with a message of "),
        ("timer", "ended before it answered (exit status: 1): Error with a message of "),
        ("once", "exited with code 1: Error with a message of "),
        ("reuse", "exited with code 1: Error with a message of "),
        ("lines", "exited with code 1: Error with a message of "),
        ("throws", "reported error: Error with a message of 17 characters, at index.mjs:1:"),
        ("shape", "its `text` is not a string"),
    ] {
        let found = message(&items, plugin).unwrap();
        assert!(found.starts_with(begins), "{plugin}: {found}");
    }
    let told = answers.iter().filter(|answer| answer.to_string().contains(CANARY)).count();
    assert!(told > 5, "clients get the content: {answers:?}");

    until("the calls are spans", async || {
        receiver.spans().iter().filter(|span| span.name.starts_with("tools/call ")).count() >= asked.len()
    })
    .await;
    let mut places = vec![("the traces".to_owned(), format!("{:?}", receiver.spans()))];
    for path in ["calls?limit=1000", "executions?limit=1000", "runs", "status", "upstreams", "plugins", "invocations"] {
        places.push((path.to_owned(), http.get(&admin(&format!("/api/v1/{path}"))).await.body));
    }
    places.push(("the metrics".to_owned(), http.get(&admin("/metrics")).await.body));
    let lines = running.lines();
    assert!(running.end().1);
    places.push(("the log".to_owned(), lines.lock().unwrap().join("\n")));
    for end in ["", "-wal"] {
        let file = std::fs::read(format!("{}{end}", store.display())).unwrap_or_default();
        places.push((format!("the store{end}"), String::from_utf8_lossy(&file).into_owned()));
    }
    for (place, text) in places {
        if let Some(at) = text.find(CANARY) {
            let from = text.floor_char_boundary(at.saturating_sub(400));
            panic!("{place}: {}", &text[from..text.floor_char_boundary(at + 100)]);
        }
    }
}
