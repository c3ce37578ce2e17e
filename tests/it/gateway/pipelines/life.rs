//! `initialize` and `shutdown` of plugins that are not middleware.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway};
use super::super::invocations::Admin;
use super::super::parts::{object, plugin, tools_of, until};
use super::{call, pipeline};

/// A provider with one tool, which shows what `initialize` got.
const SHOWS: &str = "let given;
export async function initialize({ log, ...rest }) {
  await new Promise((resolve) => setTimeout(resolve, 20));
  given = { ...rest, calls: (given?.calls ?? 0) + 1 };
  log.warn('the plugin begins');
}
export const getTools = () => [{ name: 'show', description: 'Shows.', parameters: { type: 'object' } }];
export const execute = () => ({ content: JSON.stringify(given) });";
/// A step that cannot begin.
const BROKEN_STEP: &str = "export async function initialize() { throw new Error('no such table'); }
export const execute = () => ({ output: {} });";
/// A step whose function is taken for a factory.
const DEFAULT_FUNCTION: &str =
    "export default async function execute({ arguments: { a } }) { return { output: { a } }; }";
/// A provider that cannot begin.
const BROKEN: &str =
    "export function initialize({ config }) { throw new Error(`no such database: ${config.database}`); }
export const getTools = () => [];
export const execute = () => ({});";

fn provider(name: &str, code: &str, more: &str) -> String {
    plugin(&format!("{name}-code"), code, &format!("type: tool-provider, {more}"))
        + &object("MCPUpstream", name, &format!("plugin: {{name: {name}-code}}, health: {{periodSeconds: 5}}"))
}

async fn shown(gateway: &Gateway) -> Value {
    let answer = call(gateway, "kit__show", &json!({})).await;
    serde_json::from_str(answer["content"][0]["text"].as_str().unwrap_or_default()).unwrap_or(answer)
}

/// An object in a list of the admin API.
async fn item(gateway: &Gateway, list: &str, name: &str) -> Value {
    let items = Admin::of(gateway).get(list).await["items"].take();
    items
        .as_array()
        .into_iter()
        .flatten()
        .find(|item| item["name"] == name || item["plugin"] == format!("default/{name}"))
        .cloned()
        .unwrap_or(items)
}

#[tokio::test]
async fn descriptor_version_and_config_reach_initialize_before_a_plugin_is_loaded() {
    let kit = |version: &str, config: &str| {
        provider("kit", SHOWS, &format!("descriptor: {{version: '{version}'}}, config: {config}, pool: {{size: 1}}"))
    };
    let others = provider("broken", BROKEN, "config: {database: x}")
        + &pipeline("uses", BROKEN_STEP, "tools: {include: [none]}")
        + &pipeline("wrong", DEFAULT_FUNCTION, "");
    let folder = Folder::with(&(kit("1.2.3", "{greeting: hello}") + &others));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["kit"]).await;
    let expected = json!({"name": "kit-code", "version": "1.2.3", "config": {"greeting": "hello"}, "calls": 1});
    for _ in 0..2 {
        assert_eq!(shown(&gateway).await, expected);
    }
    assert!(gateway.log().iter().any(|line| line.contains("the plugin begins")));

    // What cannot begin is not loaded, and nothing else is affected.
    let error = "cannot be started: Error: no such database: x";
    let mut broken = Value::Null;
    until("the upstream says why it has no tools", async || {
        broken = item(&gateway, "upstreams", "broken").await;
        broken["error"].is_string()
    })
    .await;
    assert_eq!(broken["error"], format!("NotLoaded: its plugin {error}"), "{broken}");
    let lost = item(&gateway, "plugins", "broken-code").await;
    assert!(lost["notLoaded"].is_string() && lost["error"] == error && lost["state"] == "Failed", "{lost}");
    let answer = call(&gateway, "uses", &json!({"prompt": "x"})).await;
    let text = "NotLoaded: step main: cannot be started: Error: no such table";
    assert_eq!((&answer["isError"], &answer["content"][0]["text"]), (&json!(true), &json!(text)), "{answer}");
    let answer = call(&gateway, "wrong", &json!({"prompt": "x"})).await;
    assert!(answer.to_string().contains("export functions of the plugin by name"), "{answer}");

    // Another configuration needs workers that begin with it.
    folder.write("manifests.yaml", &(kit("1.2.4", "{greeting: bye}") + &others));
    let expected = json!({"name": "kit-code", "version": "1.2.4", "config": {"greeting": "bye"}, "calls": 1});
    until("it begins anew", async || shown(&gateway).await == expected).await;
}

#[tokio::test]
async fn shutdown_runs_at_the_end_of_the_gateway_and_its_errors_are_logged() {
    let ends = |what: &str| format!("{SHOWS}\nexport async function shutdown() {{ {what} }}");
    let folder = Folder::with(
        &[
            provider("good", &ends("await 1; console.log('the good one ends');"), "pool: {size: 1}"),
            provider("bad", &ends("throw new Error('it cannot end');"), "pool: {size: 1}"),
            provider("slow", &ends("await new Promise((resolve) => setTimeout(resolve, 60_000));"), "pool: {size: 1}"),
        ]
        .concat(),
    );
    let gateway = Gateway::start_in(&folder, &[], &[("HAWSEPIPE_LOG", "info,hawsepipe::plugin=debug")]);
    tools_of(&gateway, &["good", "bad", "slow"]).await;
    let lines = gateway.lines();
    let (took, ended_well) = gateway.end();
    assert!(ended_well && took.as_secs() < 5, "{took:?}");
    until("the log is read", async || lines.lock().unwrap().iter().any(|line| line.contains("has not ended"))).await;
    let log = lines.lock().unwrap().join("\n");
    for words in [
        "the good one ends",
        "shutdown() of Plugin 'default/bad-code' failed: Error with a message of 13 characters, at index.mjs:",
        "shutdown() of Plugin 'default/slow-code' failed: it has not ended within 1s",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    assert!(!log.contains("shutdown() of Plugin 'default/good-code'"), "{log}");
}
