//! Which plugins that are not middleware a gateway takes.

use super::super::harness::{Folder, Gateway};
use super::super::invocations::Admin;
use super::super::parts::{object, plugin, until};
use super::tools;

const CODE: &str =
    "export const getTools = () => [{ name: 'show', description: 'Shows.', parameters: { type: 'object' } }];
export const execute = () => ({ content: 'shown' });";

/// A plugin and the upstream whose tools it makes, both in a namespace, with a label of the plugin.
fn provider(namespace: &str, label: &str) -> String {
    let kit = plugin(&format!("{namespace}-code"), CODE, "type: tool-provider")
        + &object(
            "MCPUpstream",
            namespace,
            &format!("plugin: {{name: {namespace}-code}}, shareWith: {{namespaces: {{from: All}}}}"),
        );
    kit.replace("metadata: {", &format!("metadata: {{namespace: {namespace}, labels: {{stage: {label}}}, "))
}

#[tokio::test]
async fn plugins_namespaces_and_selector_decide_which_typed_plugins_a_gateway_takes() {
    let parts = [provider("default", "tried"), provider("team", "new")];
    let manifests = |plugins: &str| {
        let spec = format!("authentication: {{anonymous: {{}}}}, upstreams: {{namespaces: {{from: All}}}}, {plugins}");
        object("MCPGateway", "main", &spec) + &parts.concat()
    };
    let folder = Folder::with(&manifests(""));
    let gateway = Gateway::start(&folder);
    let of_team = "gateway default/main does not take Plugin team/team-code, because of namespace team: add it to \
                   spec.plugins.namespaces of the gateway";
    let by_label = "because of its labels: give it those of spec.plugins.selector of the gateway";
    for (plugins, taken, refused) in [
        ("", "default", Some(("team", of_team))),
        (
            "plugins: {namespaces: {from: Names, names: [team]}}",
            "team",
            Some(("default", "because of namespace default")),
        ),
        (
            "plugins: {namespaces: {from: All}, selector: {matchLabels: {stage: new}}}",
            "team",
            Some(("default", by_label)),
        ),
        ("plugins: {namespaces: {from: All}}", "default", None),
    ] {
        folder.write("manifests.yaml", &manifests(plugins));
        until(&format!("{plugins}: {taken} is taken"), async || {
            tools(&gateway).await.contains(&format!("{taken}__show"))
        })
        .await;
        until(&format!("{plugins}: {refused:?}"), async || {
            let upstreams = Admin::of(&gateway).get("upstreams").await;
            let items = upstreams["items"].as_array().cloned().unwrap_or_default();
            let error = |name: &str| items.iter().find(|it| it["name"] == name).map(|it| it["error"].to_string());
            match refused {
                Some((name, words)) => error(name).is_some_and(|error| error.contains(words)),
                None => ["default", "team"].iter().all(|name| error(name).is_some_and(|error| error == "null")),
            }
        })
        .await;
    }
}
