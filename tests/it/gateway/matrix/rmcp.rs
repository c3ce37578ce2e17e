//! What the server on the SDK for Rust has, over HTTP, once in each era.

use serde_json::{Value, json};

use super::cells::{Row, Who};
use super::checks::{Check, all, at, changes, failed, image, lists, logs, progress, refused, says, text};
use super::clients::Era;
use super::fast::was_cancelled;

const OTHER_STREAM: &str =
    "it logs outside of the response to the call, on a connection that clients without a session share";

/// One of the two servers.
struct Server {
    name: &'static str,
    scheme: &'static str,
    /// The items that its lists have.
    tools: &'static [&'static str],
    prompts: &'static [&'static str],
    resources: &'static [&'static str],
    templates: &'static [&'static str],
    /// Where a resource is that it does not have.
    nothing: &'static str,
    /// What is said of a tool that it does not have.
    unknown: &'static str,
}

const LEGACY: Server = Server {
    name: "rmcp-legacy",
    scheme: "legacy",
    tools: &["rmcp-legacy__test_simple_text", "rmcp-legacy__test_elicitation"],
    prompts: &["rmcp-legacy__test_simple_prompt"],
    resources: &["legacy://static-text", "legacy://static-binary"],
    templates: &["legacy://template/{id}/data"],
    nothing: "legacy://nothing",
    unknown: "Unknown tool: rmcp-legacy__nothing",
};
const MODERN: Server = Server {
    name: "rmcp-modern",
    scheme: "modern",
    tools: &["rmcp-modern__test_simple_text", "rmcp-modern__test_elicitation"],
    prompts: &["rmcp-modern__test_simple_prompt"],
    resources: &["modern://static-text", "modern://static-binary"],
    templates: &["modern://template/{id}/data"],
    nothing: "modern://nothing",
    unknown: "Unknown tool: rmcp-modern__nothing",
};

/// The rows of the server that the gateway speaks with in this era.
pub fn rows(era: Era) -> Vec<Row> {
    let server = if era == Era::Modern { &MODERN } else { &LEGACY };
    [server.tools(), server.during_calls(), server.prompts(), server.reads(), server.completions(), server.changing()]
        .concat()
}

impl Server {
    fn row(&self, feature: &'static str, line: Value, check: Check) -> Row {
        Row::of(self.name, feature, line, check)
    }

    fn named(&self, name: &str) -> String {
        format!("{}__{name}", self.name)
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        json!({"tool": self.named(tool), "arguments": arguments})
    }

    fn uri(&self, path: &str) -> String {
        format!("{}://{path}", self.scheme)
    }

    fn tools(&self) -> Vec<Row> {
        let row = |feature, line, check| self.row(feature, line, check);
        let simple = "This is a simple text response for testing.";
        let structured = json!({"city": "Oslo", "celsius": 21.5});
        let invalid = self.call("test_elicitation", json!({"message": 1}));
        vec![
            row("tools/list", json!({"list": "tools"}), lists("name", self.tools)),
            row("tools/call: text", self.call("test_simple_text", json!({})), text(simple)),
            row("tools/call: image", self.call("test_image_content", json!({})), image("/result/content/0")),
            row(
                "tools/call: structured content",
                self.call("test_structured_content", json!({})),
                at("/result/structuredContent", structured),
            ),
            row(
                "tools/call: the tool's error",
                self.call("test_error_handling", json!({})),
                failed("This tool intentionally returns an error"),
            ),
            row("tools/call: unknown tool", self.call("nothing", json!({})), refused([-32602; 2], self.unknown)),
            row("tools/call: invalid arguments", invalid, failed("do not fit the input schema")),
        ]
    }

    fn during_calls(&self) -> Vec<Row> {
        let row = |feature, line, check| self.row(feature, line, check);
        let mut steps = self.call("test_tool_with_progress", json!({}));
        steps["steps"] = json!(3);
        let (mut chatty, mut quiet) = (self.call("test_tool_with_logging", json!({})), Value::Null);
        quiet.clone_from(&chatty);
        (chatty["level"], chatty["logs"], quiet["level"]) = (json!("info"), json!(3), json!("error"));
        let mut cancelled = self.call("test_wait", json!({"marker": "$CLIENT"}));
        cancelled["cancel"] = json!(true);
        let mut logged = row("log messages from a level on", chatty, logs(&["info", "info", "info"]));
        if self.name == LEGACY.name {
            logged = logged.differs(Who::In(Era::Modern), OTHER_STREAM);
        }
        vec![
            row("progress", steps, progress([0.0, 50.0, 100.0], 100.0)),
            logged,
            row("no log message below the level", quiet, logs(&[])),
            row("cancellation", cancelled, at("/result/cancelled", json!(true))).heard(was_cancelled),
            row("sampling", self.call("test_sampling", json!({"prompt": "?"})), text("LLM response: forty-two")),
            row("elicitation", self.call("test_elicitation", json!({"message": "Who?"})), text("ada@example.com")),
            row("roots", self.call("test_input_required_result_list_roots", json!({})), text("file:///work")),
        ]
    }

    fn prompts(&self) -> Vec<Row> {
        let name = self.named("test_prompt_with_arguments");
        let said = "Prompt with arguments: arg1='a', arg2='b'";
        vec![
            self.row("prompts/list", json!({"list": "prompts"}), lists("name", self.prompts)),
            self.row(
                "prompts/get",
                json!({"prompt": name, "arguments": {"arg1": "a", "arg2": "b"}}),
                at("/result/messages/0/content/text", json!(said)),
            ),
        ]
    }

    fn reads(&self) -> Vec<Row> {
        let row = |feature, line, check| self.row(feature, line, check);
        let read = |path: &str| json!({"read": self.uri(path)});
        let content = [
            says("/result/contents/0/text", "the static text resource"),
            at("/result/contents/0/uri", json!(self.uri("static-text"))),
        ];
        vec![
            row("resources/list", json!({"list": "resources"}), lists("uri", self.resources)),
            row("resources/templates/list", json!({"list": "templates"}), lists("uriTemplate", self.templates)),
            row("resources/read: text", read("static-text"), all(content)),
            row("resources/read: blob", read("static-binary"), says("/result/contents/0/blob", "iVBORw0KGgo")),
            row(
                "resources/read: by a template",
                read("template/7/data"),
                says("/result/contents/0/text", "Data for ID: 7"),
            ),
            row("resources/read: unknown", json!({"read": self.nothing}), refused([-32602, -32002], self.nothing)),
        ]
    }

    fn completions(&self) -> Vec<Row> {
        let prompt = json!({"type": "ref/prompt", "name": self.named("test_prompt_with_arguments")});
        let template = json!({"type": "ref/resource", "uri": self.uri("template/{id}/data")});
        let complete = |of: Value, name: &str| json!({"complete": of, "argument": {"name": name, "value": "part"}});
        let party = || at("/result/completion/values", json!(["party"]));
        vec![
            self.row("completion of a prompt", complete(prompt, "arg1"), party()),
            self.row("completion of a template", complete(template, "id"), party()),
        ]
    }

    fn changing(&self) -> Vec<Row> {
        let watch = |of: &str, filter: Value| {
            let mut line = self.call(&format!("test_trigger_{of}_change"), json!({}));
            line["watch"] = filter;
            line
        };
        let uri = self.uri("watched-resource");
        let updated = changes(json!({"method": "notifications/resources/updated", "uri": uri}));
        let listed = |of: &str| changes(json!({"method": format!("notifications/{of}/list_changed")}));
        vec![
            self.row("changes of a resource", watch("resource", json!({"resourceSubscriptions": [uri]})), updated),
            self.row("changes of the tools", watch("tool", json!({"toolsListChanged": true})), listed("tools")),
            self.row("changes of the prompts", watch("prompt", json!({"promptsListChanged": true})), listed("prompts")),
            Row::lacks(self.name, "changes of the resources", "its list of resources does not change"),
        ]
    }
}
