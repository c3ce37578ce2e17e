//! The manifests of `docs/from-folder-to-cluster.md`, as they are written there.

use serde_json::Value;

use super::harness::Operated;
use crate::harness::{checkout, documents_in, until};

/// The code blocks of a language in a text.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let begins = format!("```{language}\n");
    text.split(&begins).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// The page before and from its section on servers: what is in the folder, and what is in the cluster.
fn page() -> (String, String) {
    let page = std::fs::read_to_string(checkout().join("docs/from-folder-to-cluster.md")).unwrap();
    let (folder, cluster) = page.split_once("\n## Servers\n").unwrap();
    (folder.to_owned(), cluster.to_owned())
}

fn id(object: &Value) -> String {
    format!("{}/{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
}

#[tokio::test]
async fn the_manifests_are_valid_in_the_folder_and_in_the_cluster() {
    let operated = Operated::start().await;
    let (folder, cluster) = page();
    let (manifests, code) = (blocks(&folder, "yaml").join("\n---\n"), blocks(&folder, "js").join("\n"));
    let demo = std::env::temp_dir().join(format!("hawsepipe-demo-{}", uuid::Uuid::new_v4().simple()));
    for (file, text) in
        [("demo.yaml", &*manifests), ("plugins/no-passwords.mjs", &code), ("secrets/tickets/header", "Bearer x")]
    {
        let file = demo.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let path = demo.to_string_lossy();
    let secrets = format!("{path}/secrets");
    let said = operated.cluster.hawsepipe(None, &["validate", "--no-load", "--secrets-dir", &secrets, &path]).await;
    let said = said.unwrap_or_else(|error| panic!("{error}\n{manifests}"));
    assert!(said.contains("0 errors, 0 warnings"), "{said}");

    // What the page changes takes the place of what is in the folder.
    let files = ["create", "configmap", "plugins", "-n", &operated.namespace];
    let from = format!("--from-file={path}/plugins/no-passwords.mjs");
    operated.cluster.kubectl(&[&files[..], &[&from]].concat(), "").await.unwrap();
    let changed: Vec<_> = blocks(&cluster, "yaml").into_iter().flat_map(documents_in).collect();
    assert_eq!(changed.len(), 4, "too few to be all of the page");
    let stays = documents_in(&manifests);
    let stays = stays.iter().filter(|object| !changed.iter().any(|changed| id(changed) == id(object)));
    let texts: Vec<_> = stays.chain(&changed).map(Value::to_string).collect();
    let apply = ["apply", "--validate=strict", "-n", &operated.namespace, "-f", "-"];
    operated.cluster.kubectl(&apply, &texts.join("\n")).await.unwrap();
    std::fs::remove_dir_all(&demo).unwrap();
    for (plural, name) in
        [("mcpgateways", "main"), ("mcpupstreams", "memory"), ("mcpupstreams", "tickets"), ("plugins", "no-passwords")]
    {
        operated.until_condition(plural, name, "Accepted", "True Accepted").await;
    }
    operated.until_condition("pluginchains", "arguments", "ResolvedRefs", "True ResolvedRefs").await;
}

#[tokio::test]
async fn an_upstream_with_a_process_names_what_to_use_in_a_cluster() {
    let operated = Operated::start().await;
    let (folder, _) = page();
    let objects = documents_in(&blocks(&folder, "yaml").join("\n---\n"));
    let process = objects.into_iter().find(|object| !object["spec"]["process"].is_null()).unwrap();
    operated.apply(&[process]).await;
    let message = until("it is refused", async || {
        let object = operated.object("mcpupstreams", "memory").await;
        let (is, message) = super::harness::condition(&object["status"], "Accepted")?;
        (is == "False StandaloneOnly").then_some(message)
    })
    .await;
    assert!(message.contains("spec.process: ") && message.contains("spec.managed with an image"), "{message}");
}
