//! What the server on fastmcp has, over HTTP and in the era that the gateway finds it speaks: 2026-07-28.

use serde_json::{Value, json};

use super::cells::{Row, Who};
use super::checks::{Check, all, answered, at, changes, failed, image, lists, logs, progress, refused, says, text};
use super::clients::Client;

const NAME: &str = "fast";
const NO_SUBSCRIPTIONS: &str = "fastmcp 4.2 serves no subscriptions";

pub fn rows() -> Vec<Row> {
    [tools(), during_calls(), prompts_and_resources(), the_rest()].concat()
}

fn row(feature: &'static str, line: Value, check: Check) -> Row {
    Row::of(NAME, feature, line, check)
}

fn tools() -> Vec<Row> {
    let call = |tool: &str, arguments: Value| json!({"tool": format!("fast__{tool}"), "arguments": arguments});
    let structured = json!({"city": "Oslo", "celsius": 21.5});
    vec![
        row("tools/list", json!({"list": "tools"}), lists("name", &["fast__echo", "fast__more_0", "fast__more_199"])),
        row("tools/call: text", call("echo", json!({"message": "ü"})), text("ü")),
        row("tools/call: image", call("picture", json!({})), image("/result/content/0")),
        row(
            "tools/call: structured content",
            call("structured", json!({"city": "Oslo"})),
            at("/result/structuredContent", structured),
        ),
        row("tools/call: the tool's error", call("fail", json!({"message": "no paper"})), failed("no paper")),
        row(
            "tools/call: unknown tool",
            call("nothing", json!({})),
            refused([-32602; 2], "Unknown tool: fast__nothing"),
        ),
        row(
            "tools/call: invalid arguments",
            call("echo", json!({"message": 1})),
            failed("do not fit the input schema"),
        ),
    ]
}

fn during_calls() -> Vec<Row> {
    let logs_at = |level: &str, count: usize| json!({"tool": "fast__logs", "level": level, "logs": count});
    vec![
        row(
            "progress",
            json!({"tool": "fast__steps", "arguments": {"count": 3}, "steps": 3}),
            progress([1.0, 2.0, 3.0], 3.0),
        ),
        row("log messages from a level on", logs_at("info", 2), logs(&["info", "error"])),
        row("no log message below the level", logs_at("critical", 0), logs(&[])),
        row(
            "cancellation",
            json!({"tool": "fast__wait", "arguments": {"marker": "$CLIENT"}, "cancel": true}),
            at("/result/cancelled", json!(true)),
        )
        .heard(was_cancelled),
        row("sampling", json!({"tool": "fast__sample"}), text("forty-two")),
        row("elicitation", json!({"tool": "fast__elicit"}), text("ada@example.com")),
        row("roots", json!({"tool": "fast__roots"}), text("file:///work")),
    ]
}

/// Whether a call of this client was cancelled, in the log of a server that writes such calls down.
pub fn was_cancelled(log: &str, client: Client) -> bool {
    let wanted = json!({"cancelled": {"marker": client.to_string()}});
    log.lines().any(|line| serde_json::from_str::<Value>(line).is_ok_and(|line| line == wanted))
}

fn prompts_and_resources() -> Vec<Row> {
    let note = [at("/result/contents/0/text", json!("a note")), at("/result/contents/0/uri", json!("fast://note"))];
    vec![
        row("prompts/list", json!({"list": "prompts"}), lists("name", &["fast__greet"])),
        row(
            "prompts/get",
            json!({"prompt": "fast__greet", "arguments": {"name": "Ann"}}),
            at("/result/messages/0/content/text", json!("Greet Ann.")),
        ),
        row("resources/list", json!({"list": "resources"}), lists("uri", &["fast://note", "fast://pixel"])),
        row("resources/templates/list", json!({"list": "templates"}), lists("uriTemplate", &["fast://rows/{table}"])),
        row("resources/read: text", json!({"read": "fast://note"}), all(note)),
        row("resources/read: blob", json!({"read": "fast://pixel"}), says("/result/contents/0/blob", "iVBORw0KGgo")),
        row(
            "resources/read: by a template",
            json!({"read": "fast://rows/users"}),
            at("/result/contents/0/text", json!("rows of users")),
        ),
        row("resources/read: unknown", json!({"read": "fast://nothing"}), refused([-32602, -32002], "fast://nothing")),
    ]
}

fn the_rest() -> Vec<Row> {
    let prompt = json!({"type": "ref/prompt", "name": "fast__greet"});
    let template = json!({"type": "ref/resource", "uri": "fast://rows/{table}"});
    let changed = |of: &str| changes(json!({"method": format!("notifications/{of}/list_changed")}));
    let watch = |filter: Value| json!({"watch": filter, "tool": "fast__echo", "arguments": {"message": "x"}});
    vec![
        row(
            "completion of a prompt",
            json!({"complete": prompt, "argument": {"name": "name", "value": "A"}}),
            at("/result/completion/values", json!(["Ada", "Alan"])),
        ),
        row(
            "completion of a template",
            json!({"complete": template, "argument": {"name": "table", "value": "use"}}),
            all([at("/result/completion/values", json!(["users", "uses"])), answered()]),
        ),
        row(
            "changes of a resource",
            watch(json!({"resourceSubscriptions": ["fast://note"]})),
            changes(json!({"method": "notifications/resources/updated", "uri": "fast://note"})),
        )
        .differs(Who::All, NO_SUBSCRIPTIONS),
        row("changes of the tools", watch(json!({"toolsListChanged": true})), changed("tools"))
            .differs(Who::All, NO_SUBSCRIPTIONS),
        row("changes of the prompts", watch(json!({"promptsListChanged": true})), changed("prompts"))
            .differs(Who::All, NO_SUBSCRIPTIONS),
        row("changes of the resources", watch(json!({"resourcesListChanged": true})), changed("resources"))
            .differs(Who::All, NO_SUBSCRIPTIONS),
    ]
}
