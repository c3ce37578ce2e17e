//! Tools that plugins of type tool-provider make.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, run};
use super::super::invocations::Admin;
use super::super::parts::{chain, everything, object, plugin, tools_of, until};
use super::{call, pipeline, tools};

const PROVIDER: &str = "
let greeting = 'none';
export function initialize({ config }) {
  if (config.broken) throw new Error('no such database');
  greeting = config.greeting;
}
export function shutdown() { process.stderr.write('the provider ends\\n'); }
export const getTools = () => [
  { name: 'sum', description: 'Adds.', annotations: { readOnlyHint: true },
    parameters: { type: 'object', required: ['a', 'b'], properties: { a: { type: 'number' }, b: {} } } },
  { name: 'find', description: 'Finds.', parameters: { type: 'object' } },
];
export function validateArguments(name, { a, b }) {
  if (name !== 'sum') return [];
  return [[a > 0, 'a must be positive'], [typeof b === 'number', 'b must be a number']].filter(([fits]) => !fits).map(([, why]) => why);
}
export async function execute(name, { a, b }, ctx) {
  if (name === 'find') {
    return { content: `${greeting} ${ctx.context.userId}`, sources: [{ url: 'https://example.com/1', title: 'One' }] };
  }
  if (a === 13) return { content: '', success: false, error: 'unlucky' };
  if (a === 14) throw new Error('it broke');
  return { content: String(a + b), success: true, data: { sum: a + b } };
}";

fn provider(name: &str, code: &str, config: &str) -> String {
    plugin(&format!("{name}-code"), code, &format!("type: tool-provider, config: {config}"))
        + &object("MCPUpstream", name, &format!("plugin: {{name: {name}-code}}, health: {{periodSeconds: 5}}"))
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one gateway answers all of it")]
async fn a_tool_provider_makes_tools_that_are_validated_and_executed() {
    let find = "export const execute = async (state, ctx) => {
      const found = await ctx.callTool('kit__find', {});
      return { output: { found: found.content[0].text } };
    };";
    let deny = "export const onRequest = ({ rawContent }) => rawContent.includes('99')
      ? { text: 'this is forbidden', continue: false, error: 'forbidden' } : { text: rawContent, continue: true };";
    let manifests = [
        provider("kit", PROVIDER, "{greeting: hello}"),
        provider("broken", PROVIDER, "{broken: true}"),
        everything("math"),
        pipeline("uses", find, "tools: {include: [kit__find]}"),
        plugin("deny", deny, "role: Guard"),
        chain("guard", "Request", &["kit"], &["deny"]),
    ];
    let folder = Folder::with(&manifests.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["kit", "math", "uses"]).await;
    let listed = tools(&gateway).await;
    assert!(
        listed.contains(&"kit__sum".to_owned()) && !listed.iter().any(|tool| tool.starts_with("broken")),
        "{listed:?}"
    );

    let sum = async |a: i64, b: Value| call(&gateway, "kit__sum", &json!({"a": a, "b": b})).await;
    let answer = sum(1, json!(2)).await;
    assert_eq!((&answer["content"][0]["text"], &answer["structuredContent"]), (&json!("3"), &json!({"sum": 3})));
    assert_eq!(answer["isError"], false, "{answer}");
    let answer = sum(-1, json!("x")).await;
    assert_eq!(answer["content"][0]["text"], "a must be positive\nb must be a number", "{answer}");
    assert_eq!(answer["isError"], true, "{answer}");
    for (a, text) in [(13, "unlucky"), (14, "PluginError: "), (99, "this is forbidden")] {
        let answer = sum(a, json!(2)).await;
        let shown = answer["content"][0]["text"].as_str().unwrap_or_default();
        assert!(answer["isError"] == true && shown.contains(text), "{a}: {answer}");
    }
    for tool in ["kit__find", "uses"] {
        let answer = call(&gateway, tool, &json!({"prompt": "x", "account": 12_345_678_901_234_567_891_u64})).await;
        let text = "InvalidArguments: the number \"12345678901234567891\" in the arguments has more digits than JavaScript \
                    keeps: send it as a string";
        assert_eq!((&answer["isError"], &answer["content"][0]["text"]), (&json!(true), &json!(text)), "{tool}");
    }
    let answer = call(&gateway, "kit__find", &json!({})).await;
    assert_eq!(answer["content"][0]["text"], "hello anonymous", "{answer}");
    assert_eq!(answer["content"][1]["uri"], "https://example.com/1", "{answer}");
    assert_eq!(answer["_meta"]["hawsepipe.dev/sources"][0]["title"], "One", "{answer}");
    let answer = call(&gateway, "uses", &json!({"prompt": "x"})).await;
    assert_eq!(answer["structuredContent"]["found"], "hello anonymous", "{answer}");
    assert_eq!(answer["structuredContent"]["sources"][0]["url"], "https://example.com/1", "{answer}");

    let upstreams = Admin::of(&gateway).get("upstreams").await;
    let broken = upstreams["items"].as_array().unwrap().iter().find(|it| it["name"] == "broken").unwrap().clone();
    assert!(broken["error"].to_string().contains("no such database"), "{broken}");
    let executions = Admin::of(&gateway).get("executions").await;
    let of_kit = executions["items"].as_array().unwrap().iter().find(|row| row["chainId"] == "upstream:default/kit");
    assert!(of_kit.is_some(), "{executions}");
}

#[tokio::test]
async fn a_changed_tool_provider_lists_other_tools_and_shuts_its_old_form_down() {
    let folder = Folder::with(&provider("kit", PROVIDER, "{greeting: hello}"));
    let gateway = Gateway::start_in(&folder, &[], &[("HAWSEPIPE_LOG", "info,hawsepipe::plugin=debug")]);
    tools_of(&gateway, &["kit"]).await;
    folder.write(
        "manifests.yaml",
        &provider("kit", &PROVIDER.replace("name: 'find'", "name: 'seek'"), "{greeting: hello}"),
    );
    until("the new tools are listed", async || tools(&gateway).await.contains(&"kit__seek".to_owned())).await;
    until("the old form is shut down", async || gateway.log().iter().any(|line| line.contains("the provider ends")))
        .await;
}

#[test]
fn faults_of_a_tool_provider_are_found_before_it_runs() {
    for (manifests, words) in [
        (
            provider("kit", "export const getTools = () => [];", "{}"),
            "no function execute, which a tool-provider needs",
        ),
        (
            provider("kit", PROVIDER, "{}").replace("type: tool-provider", "type: phase"),
            "needs one of type tool-provider",
        ),
        (object("MCPUpstream", "kit", "plugin: {name: none}"), "there is no Plugin default/none"),
        (object("MCPUpstream", "kit", "plugin: {name: p}, external: {url: 'http://h/mcp'}"), "give exactly one of"),
    ] {
        let folder = Folder::with(&manifests);
        let done = run(&["validate", folder.path().to_str().unwrap()]);
        let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && said.contains(words), "{words}: {said}");
    }
}
