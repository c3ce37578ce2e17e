//! Servers that are unusual and that SDK clients can use directly: they are used through the gateway, too.

use std::process::Command;

use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{announced, external, tools_of, until};
use crate::fixtures::{fixture, python};
use crate::upstream::Running;

/// The servers of `fixtures/awkward/servers.py`.
const CASES: [&str; 10] = [
    "nulltools",
    "nomember",
    "toolsfail",
    "nullmembers",
    "unannounced",
    "endless",
    "textids",
    "gzip",
    "deflate",
    "mark",
];

/// The servers, and their URL.
fn servers() -> (Running, String) {
    let mut command = Command::new(python());
    command.arg(fixture("awkward/servers.py"));
    announced(command)
}

/// The messages of the problems of each upstream, of a gateway.
async fn problems(gateway: &Gateway) -> Vec<(String, String)> {
    let answer = Http::new().get(&format!("http://{}/api/v1/problems", gateway.admin())).await.json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    answer["items"].as_array().unwrap().iter().map(|item| (text(&item["name"]), text(&item["message"]))).collect()
}

#[tokio::test]
async fn what_the_sdk_can_use_directly_it_can_use_through_the_gateway() {
    let (_servers, url) = servers();
    let manifests: String = CASES.iter().map(|name| external(name, &format!("{url}/{name}"))).collect();
    let gateway = Gateway::start(&Folder::with(&manifests));
    tools_of(&gateway, &["nullmembers", "unannounced", "endless", "textids", "gzip", "deflate", "mark"]).await;
    let compared = Command::new(python())
        .arg(fixture("awkward/compare.py"))
        .args(["--direct", &url, "--gateway", &gateway.url().replace("/mcp", "/{name}/mcp")])
        .output()
        .unwrap();
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));

    let answer = Http::new().call(&gateway.url(), "mark__t", &json!({"a": 1}), &json!({})).await;
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"a": 1}"#, "{answer}");
}

#[tokio::test]
async fn a_list_that_is_unusual_has_a_problem() {
    let (_servers, url) = servers();
    let manifests: String = CASES.iter().map(|name| external(name, &format!("{url}/{name}"))).collect();
    let gateway = Gateway::start(&Folder::with(&manifests));
    let wanted = [
        ("nulltools", "its answer to tools/list has no `tools`, which counts as empty"),
        ("nomember", "its answer to tools/list has no `tools`, which counts as empty"),
        ("toolsfail", "tools/list is not read anew: ProtocolError"),
        ("unannounced", "it lists tools, which its capabilities do not announce"),
        ("endless", "its answer to tools/list has more than 50 pages: the first 50 items are offered"),
    ];
    for (name, message) in wanted {
        until(message, async || problems(&gateway).await.iter().any(|(of, said)| of == name && said.contains(message)))
            .await;
    }
}
