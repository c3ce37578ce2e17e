//! What server-everything has, over stdio and in the older era.

use serde_json::{Value, json};

use super::cells::Row;
use super::checks::{Check, at, changes, failed, image, lists, logs_errors_alone, progress, refused, says, text};
use super::clients::Client;

const NAME: &str = "everything";
const ASKS_NOBODY: &str = "it has tools that ask for clients alone that say at the start that they answer, and the \
                           gateway's own connection, which lists, is none";
const SHARED: &str = "clients share the process, which does not say whom its log messages are for";
const DOCUMENT: &str = "demo://resource/static/document/features.md";

pub fn rows() -> Vec<Row> {
    [tools(), during_calls(), prompts_and_resources(), completions(), changing()].concat()
}

fn row(feature: &'static str, line: Value, check: Check) -> Row {
    Row::of(NAME, feature, line, check)
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({"tool": format!("everything__{tool}"), "arguments": arguments})
}

fn tools() -> Vec<Row> {
    vec![
        row("tools/list", json!({"list": "tools"}), lists("name", &["everything__echo", "everything__get-sum"])),
        row("tools/call: text", call("echo", json!({"message": "ü"})), text("Echo: ü")),
        row("tools/call: image", call("get-tiny-image", json!({})), image("/result/content/1")),
        row(
            "tools/call: structured content",
            call("get-structured-content", json!({"location": "Chicago"})),
            at("/result/structuredContent/conditions", json!("Light rain / drizzle")),
        ),
        row(
            "tools/call: the tool's error",
            call("gzip-file-as-resource", json!({"name": "x", "data": "ftp://nowhere/x"})),
            failed("Unsupported URL protocol"),
        ),
        row(
            "tools/call: unknown tool",
            call("nothing", json!({})),
            refused([-32602; 2], "Unknown tool: everything__nothing"),
        ),
        row(
            "tools/call: invalid arguments",
            call("echo", json!({"message": 1})),
            failed("do not fit the input schema"),
        ),
    ]
}

fn during_calls() -> Vec<Row> {
    let mut steps = call("trigger-long-running-operation", json!({"duration": 0.1, "steps": 3}));
    steps["steps"] = json!(3);
    let mut cancelled = call("trigger-long-running-operation", json!({"duration": 20, "steps": 200, "of": "$CLIENT"}));
    cancelled["cancel"] = json!(true);
    let toggle = call("toggle-simulated-logging", json!({}));
    let mut quiet = toggle.clone();
    quiet["level"] = json!("error");
    vec![
        row("progress", steps, progress([1.0, 2.0, 3.0], 3.0)),
        Row::lacks(NAME, "log messages from a level on", SHARED),
        row("no log message below the level", quiet, logs_errors_alone()).then(toggle),
        row("cancellation", cancelled, at("/result/cancelled", json!(true))).heard(was_cancelled),
        Row::lacks(NAME, "sampling", ASKS_NOBODY),
        Row::lacks(NAME, "elicitation", ASKS_NOBODY),
        Row::lacks(NAME, "roots", ASKS_NOBODY),
    ]
}

/// Whether the call of this client was cancelled, in what the server was sent.
fn was_cancelled(log: &str, client: Client) -> bool {
    let messages: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let call =
        messages.iter().find(|message| message.pointer("/params/arguments/of") == Some(&json!(client.to_string())));
    call.is_some_and(|call| {
        messages.iter().any(|message| {
            message["method"] == "notifications/cancelled" && message.pointer("/params/requestId") == call.get("id")
        })
    })
}

fn prompts_and_resources() -> Vec<Row> {
    let templates = &["demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/blob/{resourceId}"];
    vec![
        row("prompts/list", json!({"list": "prompts"}), lists("name", &["everything__simple-prompt"])),
        row(
            "prompts/get",
            json!({"prompt": "everything__args-prompt", "arguments": {"city": "Oslo"}}),
            at("/result/messages/0/content/text", json!("What's weather in Oslo?")),
        ),
        row("resources/list", json!({"list": "resources"}), lists("uri", &[DOCUMENT])),
        row("resources/templates/list", json!({"list": "templates"}), lists("uriTemplate", templates)),
        row("resources/read: text", json!({"read": DOCUMENT}), says("/result/contents/0/text", "# Everything Server")),
        row(
            "resources/read: blob",
            json!({"read": "demo://resource/dynamic/blob/3"}),
            // "Resource 3" in base64
            says("/result/contents/0/blob", "UmVzb3VyY2UgM"),
        ),
        row(
            "resources/read: by a template",
            json!({"read": "demo://resource/dynamic/text/4"}),
            says("/result/contents/0/text", "Resource 4"),
        ),
        row("resources/read: unknown", json!({"read": "demo://nothing"}), refused([-32602, -32002], "demo://nothing")),
    ]
}

fn completions() -> Vec<Row> {
    let prompt = json!({"type": "ref/prompt", "name": "everything__completable-prompt"});
    let template = json!({"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"});
    vec![
        row(
            "completion of a prompt",
            json!({
                "complete": prompt,
                "argument": {"name": "name", "value": "A"},
                "context": {"department": "Engineering"}
            }),
            at("/result/completion/values", json!(["Alice"])),
        ),
        row(
            "completion of a template",
            json!({"complete": template, "argument": {"name": "resourceId", "value": "3"}}),
            at("/result/completion/values", json!(["3"])),
        ),
    ]
}

fn changing() -> Vec<Row> {
    let mut updates = call("toggle-subscriber-updates", json!({}));
    updates["watch"] = json!({"resourceSubscriptions": [DOCUMENT]});
    let mut another = call("gzip-file-as-resource", json!({"name": "$CLIENT.gz", "data": "data:,hello"}));
    another["watch"] = json!({"resourcesListChanged": true});
    vec![
        row(
            "changes of a resource",
            updates,
            changes(json!({"method": "notifications/resources/updated", "uri": DOCUMENT})),
        )
        .then(call("toggle-subscriber-updates", json!({}))),
        Row::lacks(NAME, "changes of the tools", "its tools do not change"),
        Row::lacks(NAME, "changes of the prompts", "its prompts do not change"),
        row("changes of the resources", another, changes(json!({"method": "notifications/resources/list_changed"}))),
    ]
}
