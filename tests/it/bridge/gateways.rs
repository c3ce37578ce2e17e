//! The project's own gateway as the client, as in a cluster.

use super::*;
use crate::fixtures::node_module;
use crate::gateway::harness::{Folder, Gateway};
use crate::gateway::outcomes::seen::list;
use crate::gateway::parts::{external, tools_of, until};

#[tokio::test]
async fn a_gateway_serves_the_tools_of_servers_behind_bridges() {
    let script = node_module("@modelcontextprotocol/server-everything/dist/index.js");
    let everything = ["node", script.to_str().unwrap(), "stdio"];
    let (python, script) = (python(), fixture("servers/modern.py"));
    let modern = [python.to_str().unwrap(), script.to_str().unwrap(), "--stdio"];
    let bridges = [
        ("legacy", Bridge::start(&[], &everything)),
        ("legacy-shared", Bridge::start(&["--session=Shared"], &everything)),
        ("modern", Bridge::start(&[], &modern)),
        ("modern-shared", Bridge::start(&["--session=Shared"], &modern)),
    ];
    let folder = Folder::new();
    let manifests: String = bridges.iter().map(|(name, bridge)| external(name, &bridge.url())).collect();
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &bridges.each_ref().map(|(name, _)| *name)).await;
    let http = Http::new();
    let session = http.initialize(&gateway.url()).await;
    for (name, _) in &bridges {
        let tool = format!("{name}__echo");
        let stateless = http.call(&gateway.url(), &tool, &json!({"message": "hi"}), &json!({})).await;
        let of_session = session.call_raw(1, &tool, r#"{"message":"hi"}"#).await.json();
        for answer in [stateless, of_session] {
            let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
            assert!(text.ends_with("hi"), "{name}: {text}");
        }
    }
    // A server that ends is begun anew within the next call.
    let [(_, legacy), ..] = &bridges;
    let pids = children_of(legacy.child.id());
    assert!(!pids.is_empty());
    pids.into_iter().for_each(|pid| kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap());
    gateway
        .until_answer("legacy__echo", &json!({"message": "again"}), "/result/content/0/text", &json!("Echo: again"))
        .await;
}

#[tokio::test]
async fn the_last_lines_of_a_server_that_ends_at_its_start_reach_the_gateways_status_and_no_client() {
    for mode in ["--session=PerSession", "--session=Shared"] {
        let bridge = Bridge::start(&[mode], &["sh", "-c", "echo 'npm error 404 no such package' >&2; exit 4"]);
        let folder = Folder::new();
        folder.write("manifests.yaml", &external("up", &bridge.url()));
        let gateway = Gateway::start(&folder);
        let http = Http::new();
        until("the status says why", async || {
            let upstreams = list(&gateway, "upstreams").await;
            let said = upstreams[0]["error"].as_str().unwrap_or_default();
            said.contains("(exit status: 4)") && said.contains("it wrote last: npm error 404 no such package")
        })
        .await;
        gateway.logged(|line| line["message"].as_str().is_some_and(|said| said.contains("npm error 404")));
        let answer = http.call_raw(&gateway.url(), "up__echo", "{}", &json!({})).await;
        assert!(
            answer.body.contains("it answered initialize with error") && !answer.body.contains("npm"),
            "{}",
            answer.body
        );
    }
}
