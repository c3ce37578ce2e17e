//! `hawsepipe validate` tells all faults of an object at once.

use serde_json::Value;

use super::harness::{Folder, run};
use super::parts::{self, ECHO_MODULE};

/// Objects with several faults, none of which follows from another one: all are told, in the order of their lines.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_fault_of_an_object_is_told_at_its_line() {
    let header = |name: &str, key: &str| {
        format!("    - {{name: {name}, valueFrom: {{configMapKeyRef: {{name: texts, key: {key}}}}}}}\n")
    };
    let upstream = "  external:\n    url: http://127.0.0.1:1/mcp\n    headers:\n".to_owned()
        + &[header("A", "broken"), header("B", "gone"), header("C", "broken")].concat();
    let plugin = "  source: {inline: 'export default 1 +'}\n  configSchema: {type: object, required: [a]}\n  env:\n  \
                  - {name: NODE_OPTIONS, value: x}\n  \
                  - {name: A, valueFrom: {configMapKeyRef: {name: none, key: a}}}\n  config: {b: 1}\n";
    let chain = "  phase: Request\n  entries:\n  - name: nothing\n  - {name: watch, when: call.nam == 'a'}\n  \
                 - {name: watch2, failurePolicy: Fail}\n  - {name: watch3, when: 1 +}\n";
    let pipeline = "  tool: {name: t, description: d, inputSchema: {type: object}}\n  declared:\n    startAgent: a\n    \
                    agents:\n    - {name: a, type: reflector, loopBackTo: b, loopCondition: 1 +}\n    \
                    - {name: b, type: reflector, loopBackTo: a, loopCondition: rsult.x}\n  \
                    output: {schema: {type: string}}\n";
    let section = "  document: {glob: '[a'}\n  upstream: {name: nobody}\n  block: {id: b}\n";
    let gateway = "  authentication: {anonymous: {}}\n  authorization:\n    rules:\n    - {name: a, effect: Allow, when: x}\n    \
                   - {name: b, effect: Allow, when: 1 +}\n  chains: {required: [{name: gone}]}\n";
    let texts = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: texts}\ndata: {broken: \"a\\nb\"}\n".to_owned()
        + &["watch", "watch2", "watch3"].map(|name| parts::plugin(name, ECHO_MODULE, "role: Observe")).concat();
    for (kind, spec, expected) in [
        (
            "MCPUpstream",
            &*upstream,
            &[(8, "external.headers[0]"), (9, "external.headers[1]"), (10, "external.headers[2]")][..],
        ),
        ("Plugin", plugin, &[(5, "source.inline"), (8, "env[0].name"), (9, "env[1]"), (10, "config")]),
        (
            "PluginChain",
            chain,
            &[(7, "entries[0]"), (8, "entries[1].when"), (9, "entries[2].failurePolicy"), (10, "entries[3].when")],
        ),
        (
            "ToolPipeline",
            pipeline,
            &[
                (9, "declared.agents[0].modelTier"),
                (9, "declared.agents[0].loopCondition"),
                (10, "declared.agents[1].modelTier"),
                (10, "declared.agents[1].loopCondition"),
                (11, "output.schema"),
            ],
        ),
        ("SectionBinding", section, &[(5, "document.glob"), (6, "upstream")]),
        (
            "MCPGateway",
            gateway,
            &[(8, "authorization.rules[0].when"), (9, "authorization.rules[1].when"), (10, "chains.required")],
        ),
    ] {
        let folder = Folder::new();
        let head = format!("apiVersion: hawsepipe.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n");
        folder.write("a.yaml", &(head + spec));
        folder.write("b.yaml", &texts);
        let output = run(&["validate", folder.path().to_str().unwrap(), "--no-load", "-o", "json"]);
        let told: Value = serde_json::from_str(&String::from_utf8(output.stdout).unwrap()).unwrap();
        let own = told["items"].as_array().unwrap().iter();
        let own = own.filter(|item| item["object"]["kind"] == kind && item["level"] == "error");
        let found: Vec<_> = own.map(|item| (item["line"].as_i64().unwrap(), item["field"].as_str().unwrap())).collect();
        let expected: Vec<_> = expected.iter().map(|(line, field)| (*line, format!("spec.{field}"))).collect();
        let found: Vec<_> = found.into_iter().map(|(line, field)| (line, field.to_owned())).collect();
        assert_eq!(found, expected, "{told:#}");
    }
}
