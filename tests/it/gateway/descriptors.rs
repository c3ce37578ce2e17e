//! How plugins describe themselves, the types of the stages of planned pipelines, and the registry that lists them.

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::{Answer, Http};
use super::manifests::{gateway, object, plugin, raw_server, yaml};
use super::parts::until;

/// A plugin that finds a note for each prompt.
const KB: &str = "export const retrieve = ({ prompt, context }) => ({ status: 'success',
  evidence: [{ id: 'n1', title: 'Note', text: `${prompt}: ${context.length}` }] });";
/// One that describes itself.
const DESCRIBED: &str =
    "export const getDescriptor = async () => ({ id: 'kb-code', type: 'kb-plugin', version: '3.0.0',
  description: 'Finds notes. It reads all of them.', plannerHints: { relativeCost: 0.5 }, tags: ['code'] });
export { retrieve } from './kb.mjs';";
/// A middleware Module that tells what it can do.
const MIDDLEWARE: &str = "export default ({ rawContent }) => ({ text: rawContent, continue: true });
export const getDescriptor = () => ({ description: 'Passes everything.', tags: ['pass'] });";

async fn admin(gateway: &Gateway, path: &str) -> Answer {
    Http::new().get(&format!("http://{}/api/v1{path}", gateway.admin())).await
}

/// A stage plugin from a folder of its own.
fn of_folder(folder: &Folder, kind: &str, id: &str, code: &str, descriptor: Option<&Value>, spec: &Value) -> Value {
    std::fs::create_dir_all(folder.path().join(format!("plugins/{kind}/{id}"))).unwrap();
    folder.write(&format!("plugins/{kind}/{id}/index.mjs"), code);
    if let Some(descriptor) = descriptor {
        folder.write(&format!("plugins/{kind}/{id}/plugin.json"), &descriptor.to_string());
    }
    let mut all = json!({"type": kind, "source": {"path": format!("{kind}/{id}/index.mjs")}});
    super::manifests::merge(&mut all, spec);
    object("Plugin", id, &all)
}

/// The registry lists plugins by their types, and finds one by type and name.
async fn is_listed(gateway: &Gateway) {
    let of_type = admin(gateway, "/plugins?type=kb-plugin").await.json();
    assert_eq!(of_type["items"].as_array().unwrap().len(), 1, "{of_type}");
    for (path, status, reason) in [
        ("/plugins/kb-plugin/none", 404, "PluginNotFound"),
        ("/plugins/gs-plugin/kb-code", 404, "PluginNotFound"),
        ("/plugins/kb-plugin/kb-code?namespace=other", 404, "PluginNotFound"),
        ("/plugins/banana/kb-code", 400, "InvalidQuery"),
        ("/plugins?type=banana", 400, "InvalidQuery"),
    ] {
        let answer = admin(gateway, path).await;
        assert!(answer.status == status && answer.body.contains(reason), "{path}: {} {}", answer.status, answer.body);
    }
    let shown = run(&["plugins", "--type", "kb-plugin", "-o", "wide", "--admin", &gateway.admin()]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("default/kb-code") && shown.contains("2.0.0") && !shown.contains("pass"), "{shown}");
}

#[tokio::test]
async fn spec_descriptor_is_merged_by_key_and_listed() {
    let folder = Folder::new();
    let file =
        json!({"id": "kb-code", "type": "kb-plugin", "version": "2.0.0", "costClass": "cheap", "timeoutMs": 7000});
    let code =
        of_folder(&folder, "kb-plugin", "kb-code", DESCRIBED, Some(&file), &json!({"descriptor": {"tags": ["own"]}}));
    folder.write("plugins/kb-plugin/kb-code/kb.mjs", KB);
    let pass = plugin("pass", MIDDLEWARE, &json!({"role": "Observe"}));
    let chain = object("PluginChain", "all", &json!({"phase": "Request", "entries": [{"name": "pass"}]}));
    folder.write("all.yaml", &yaml(&[gateway(&json!({})), raw_server("up", &[]), code, pass, chain]));
    let gateway = Gateway::start(&folder);
    until("both plugins are loaded", async || {
        let described = async |path| admin(&gateway, path).await.json()["descriptor"]["description"].clone();
        described("/plugins/middleware/pass").await == "Passes everything."
            && described("/plugins/kb-plugin/kb-code").await == "Finds notes. It reads all of them."
    })
    .await;
    let one = admin(&gateway, "/plugins/kb-plugin/kb-code").await.json();
    let descriptor = &one["descriptor"];
    for (member, expected) in [
        ("id", json!("kb-code")),
        ("type", json!("kb-plugin")),
        ("name", json!("kb-code")),
        ("version", json!("2.0.0")),
        ("costClass", json!("cheap")),
        ("tags", json!(["own"])),
        ("usesLLM", json!(false)),
        ("provides", json!(["retrieve-context"])),
        ("accepts", json!(["chat-turn"])),
    ] {
        assert_eq!(descriptor[member], expected, "{member} of {one}");
    }
    assert_eq!((&one["builtIn"], &one["wrapper"], &one["type"]), (&json!(false), &json!(false), &json!("kb-plugin")));
    is_listed(&gateway).await;
}

/// A type, code, `plugin.json` and `spec.descriptor`, and what is said of them.
type Described = (&'static str, &'static str, Option<Value>, Value, &'static str);

#[expect(clippy::too_many_lines, reason = "a table")]
fn faults() -> Vec<Described> {
    let told = "Finds notes.";
    let whole = json!({"description": told, "plannerHints": {}});
    let five = json!({"description": "A one. B two. C three. D four. E five.", "plannerHints": {}});
    vec![
        (
            "kb-plugin",
            KB,
            None,
            json!({}),
            "a kb-plugin needs 1 to 3 sentences that tell planners what it does (InvalidDescriptor",
        ),
        ("kb-plugin", KB, None, json!({"description": told}), "a kb-plugin needs them, planners order by them"),
        ("kb-plugin", KB, None, five.clone(), "5 sentences, at most 3"),
        (
            "kb-plugin",
            KB,
            None,
            json!({"description": told, "plannerHints": {}, "usesLLM": true}),
            "usesLLM is true, so say how many calls",
        ),
        (
            "kb-plugin",
            "export const retreive = 1;",
            None,
            whole.clone(),
            r#"exports only "retreive", and no function retrieve, which a kb-plugin needs"#,
        ),
        (
            "kb-plugin",
            KB,
            Some(json!({"id": "other"})),
            whole.clone(),
            r#"plugin.json: id "other" is not the object's name "p""#,
        ),
        (
            "kb-plugin",
            KB,
            Some(json!({"id": "p", "type": "gs-plugin"})),
            whole.clone(),
            r#"type "gs-plugin" is not the object's type "kb-plugin""#,
        ),
        (
            "kb-plugin",
            KB,
            Some(json!({"id": "p", "type": "banana"})),
            whole.clone(),
            r#"type: "banana" is no plugin type: one of middleware, sd-plugin"#,
        ),
        ("kb-plugin", KB, Some(json!({"id": "p", "tags": 7})), whole.clone(), "plugin.json: it is no descriptor"),
        ("phase", "export const execute = () => ({});", None, five, "5 sentences, at most 3"),
        ("kb-plugin", KB, Some(json!({"id": "p", "description": told, "plannerHints": {}})), json!({}), "0 errors"),
        ("val-plugin", "export const validate = () => ({});", None, json!({"description": told}), "0 errors"),
    ]
}

#[test]
fn spec_descriptor_says_what_is_missing_and_where() {
    for (kind, code, file, descriptor, wanted) in faults() {
        let folder = Folder::new();
        let plugin = of_folder(&folder, kind, "p", code, file.as_ref(), &json!({"descriptor": descriptor}));
        folder.write("all.yaml", &yaml(&[gateway(&json!({})), raw_server("up", &[]), plugin]));
        let output = run(&["validate", folder.path().to_str().unwrap()]);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(said.contains(wanted), "{kind} {file:?}: {wanted}\n{said}");
    }
}

#[test]
fn a_function_of_a_stage_runs_by_plugin_run() {
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let hints = "export const getDescriptor = () => ({ description: 'Finds.', plannerHints: {} });";
    folder.write("kb.mjs", &format!("{KB}\n{hints}"));
    folder.write("done.mjs", &format!("export const retrieve = () => ({{ status: 'done' }});\n{hints}"));
    folder.write("bare.mjs", &format!("{KB}\nexport const getDescriptor = () => ({{ id: 'bare' }});"));
    folder.write(
        "factory.mjs",
        "export const createPlugin = async ({ descriptor, log }) => ({
          getDescriptor: () => ({ description: 'Finds.', plannerHints: {}, tags: [descriptor.id, typeof log.info] }),
          retrieve() { return { status: 'no-context', error: null, own: this.own() }; }, own: () => 7 });",
    );
    let words = "status: \"done\" is none of success, insufficient, no-context, unsupported, error";
    for (file, outcome, part) in [
        ("kb.mjs", "ran", "Who?: 1"),
        ("factory.mjs", "ran", "no-context"),
        ("done.mjs", "failed(InvalidOutput)", words),
        ("bare.mjs", "failed(InvalidDescriptor)", "descriptor.description: a kb-plugin needs 1 to 3 sentences"),
    ] {
        let input = json!({"prompt": "Who?", "context": [{"title": "t", "text": "x"}]}).to_string();
        let output = run(&["plugin", "run", &path(file), "--method", "retrieve", "--input", &input, "-o", "json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["outcome"], outcome, "{file} {report}");
        let text = report["result"].to_string() + report["message"].as_str().unwrap_or_default();
        assert!(text.contains(part), "{file} {report}");
    }
}

/// A program in Python that answers as its prompt says.
const HELPER: &str = r###"
import json, os, sys
call = json.loads(sys.stdin.readline())
prompt = call["prompt"]
if prompt.startswith("exit"):
    print(json.dumps({"code": "BAD", "message": "no model", "details": {}}), file=sys.stderr)
    sys.exit(int(prompt[4:]))
if prompt == "text":
    print("## Plugin Result\nStatus: success\nPlugin: helper\nResult: It holds.")
else:
    print(json.dumps({"status": "success", "responseMarkdown": prompt, "keys": sorted(call)}))
"###;

/// A wrapper of type gs-plugin.
fn helper() -> Value {
    let spec =
        json!({"type": "gs-plugin", "wrapper": {"command": "python3"}, "descriptor": {"description": "Solves."}});
    plugin("helper", HELPER, &spec)
}

#[test]
fn a_wrapper_of_a_stage_gets_prompt_and_context() {
    let folder = Folder::new();
    folder.write("helper.py", HELPER);
    folder.write("all.yaml", &yaml(&[gateway(&json!({"plugins": {"allowedWrappers": ["helper"]}})), helper()]));
    let file = folder.path().join("all.yaml").display().to_string();
    let large = format!("x{}", "y".repeat(70_000));
    for (prompt, outcome, part) in [
        ("hello", "ran", r#"{"keys":["context","prompt"],"responseMarkdown":"hello","status":"success"}"#),
        ("text", "ran", r#"{"responseMarkdown":"It holds.","status":"success"}"#),
        ("exit1", "failed(ExitCode)", "PLUGIN_EXIT_1: BAD: no model"),
        ("exit2", "failed(ExitCode)", "PLUGIN_EXIT_2: the input is not valid: BAD: no model"),
        ("exit3", "failed(ExitCode)", "PLUGIN_EXIT_3: it took too long: BAD: no model"),
        (&large, "failed(TooLarge)", "65536"),
    ] {
        let input = folder.path().join("input.json");
        folder.write("input.json", &json!({"prompt": prompt, "seeds": []}).to_string());
        let input = input.display().to_string();
        let output = run(&["plugin", "run", &file, "--method", "solve", "--input", &input, "-o", "json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["outcome"], outcome, "{report}");
        let text = report["result"].to_string() + report["message"].as_str().unwrap_or_default();
        assert!(text.contains(part), "{report}");
    }
}

/// A step that asks a helper, and an unknown one.
const STEP: &str = "export async function execute({ arguments: { prompt } }, ctx) {
  const listed = await ctx.externalHelpers.list();
  const answer = await ctx.externalHelpers.invoke('helper', { prompt, context: [] });
  const unknown = await ctx.externalHelpers.invoke('z3', { prompt }).catch((error) => error.reason);
  return { output: { listed, answer, unknown } };
}";

#[tokio::test]
async fn a_step_runs_wrappers_in_reach_and_no_others() {
    let folder = Folder::new();
    let step = plugin("step", STEP, &json!({"type": "phase"}));
    let agents = json!([{"name": "main", "type": "custom", "plugin": {"name": "step"}}]);
    let tool = json!({"name": "ask", "description": "A test."});
    let pipeline =
        object("ToolPipeline", "ask", &json!({"tool": tool, "declared": {"startAgent": "main", "agents": agents}}));
    let manifests = |allowed: &[&str]| {
        let plugins = json!({"plugins": {"allowedWrappers": allowed}});
        yaml(&[gateway(&plugins), helper(), step.clone(), pipeline.clone()])
    };
    folder.write("all.yaml", &manifests(&["helper"]));
    let gateway = Gateway::start(&folder);
    let ask = async |prompt: &str| {
        let answer = Http::new().call(&gateway.url(), "ask", &json!({"prompt": prompt}), &json!({})).await;
        answer["result"]["structuredContent"].clone()
    };
    until("the step is loaded", async || ask("hi").await["answer"]["responseMarkdown"] == "hi").await;
    let answer = ask("exit2").await;
    assert_eq!(answer["listed"], json!([{"id": "helper", "type": "gs-plugin", "description": "Solves."}]));
    let error = json!({"code": "PLUGIN_EXIT_2", "message": "PLUGIN_EXIT_2: the input is not valid: BAD: no model"});
    assert_eq!((&answer["answer"]["error"], &answer["unknown"]), (&error, &json!("PluginNotFound")), "{answer}");
    let rows = admin(&gateway, "/executions?plugin=default/helper").await.json();
    assert_eq!(rows["items"][0]["phase"], Value::Null, "{rows}");
    assert!(rows["items"].as_array().unwrap().iter().any(|row| row["chainId"] == "pipeline:default/ask"), "{rows}");

    folder.write("all.yaml", &manifests(&[]));
    until("the gateway allows the helper no more", async || {
        let answer = Http::new().call(&gateway.url(), "ask", &json!({"prompt": "hi"}), &json!({})).await;
        answer.to_string().contains("PluginNotFound")
    })
    .await;
}

/// What middleware can wrongly say of itself, by code.
const WRONG: &[(&str, &str)] = &[
    ("throws", "() => { throw new Error('no'); }"),
    ("waits", "() => new Promise(() => {})"),
    ("big", "() => ({ version: 1n })"),
    ("other", "() => ({ id: 'another', type: 'kb-plugin' })"),
    ("long", "() => ({ description: 'A. B. C. D. E.'.repeat(10000) })"),
];

#[tokio::test]
async fn middleware_runs_whatever_it_says_of_itself() {
    let folder = Folder::new();
    let source = json!({"role": "Guard"});
    let mut objects: Vec<_> = WRONG
        .iter()
        .map(|(name, function)| {
            let code = MIDDLEWARE.lines().next().unwrap();
            plugin(name, &format!("{code}\nexport const getDescriptor = {function};"), &source)
        })
        .collect();
    let wrong = json!({"role": "Guard", "descriptor": {"description": "A. B. C. D. E.", "usesLLM": true}});
    objects.push(plugin("spec", MIDDLEWARE, &wrong));
    for (name, text) in
        [("broken", "{"), ("unrelated", r#"{"id": "x", "description": 7}"#), ("timeless", r#"{"timeoutMs": 1}"#)]
    {
        objects.push(of_folder(&folder, "middleware", name, MIDDLEWARE, None, &source));
        folder.write(&format!("plugins/middleware/{name}/plugin.json"), text);
    }
    let entries: Vec<_> = objects.iter().map(|plugin| json!({"name": plugin["metadata"]["name"]})).collect();
    objects.push(object("PluginChain", "all", &json!({"phase": "Request", "entries": entries})));
    objects.extend([gateway(&json!({})), raw_server("up", &[])]);
    folder.write("all.yaml", &yaml(&objects));
    let gateway = Gateway::start(&folder);
    let call = async || Http::new().call(&gateway.url(), "up__args", &json!({"text": "hi"}), &json!({})).await;
    until("the call is answered", async || call().await["result"]["content"][0]["text"].is_string()).await;
}
