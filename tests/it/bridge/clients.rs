//! Real clients of both eras, and real servers of both, with the bridge between them.

use super::*;
use crate::fixtures::node_module;
use crate::gateway::parts::SDKS;

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_both_eras_speak_with_a_server_of_both() {
    for mode in ["PerSession", "Shared"] {
        let (python, script) = (python(), fixture("servers/modern.py"));
        let command = [python.to_str().unwrap(), script.to_str().unwrap(), "--stdio"];
        let bridge = Bridge::start(&[&format!("--session={mode}")], &command);
        let clients = SDKS.iter().map(|sdk| {
            let (sdk, url) = (*sdk, bridge.url());
            tokio::task::spawn_blocking(move || {
                let script = "{\"tool\": \"structured\", \"arguments\": {\"city\": \"Oslo\"}}\n\
                     {\"tool\": \"slow\", \"arguments\": {\"seconds\": 0.1, \"steps\": 2}}\n";
                let lines = sdk.run(&url, &["script"], script);
                assert_eq!(lines[0]["result"]["structuredContent"]["city"], "Oslo", "{sdk:?} {lines:?}");
                assert_eq!(lines[1]["progress"].as_array().unwrap().len(), 2, "{sdk:?} {lines:?}");
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make test-long"]
async fn clients_of_both_eras_speak_with_a_server_of_the_legacy_era() {
    let script = node_module("@modelcontextprotocol/server-everything/dist/index.js");
    let bridge = Bridge::start(&[], &["node", script.to_str().unwrap(), "stdio"]);
    for sdk in [SDKS[1], SDKS[3]] {
        let url = bridge.url();
        let call = r#"{"tool": "echo", "arguments": {"message": "hi"}}"#.to_owned() + "\n";
        let lines = tokio::task::spawn_blocking(move || sdk.run(&url, &["script"], &call)).await.unwrap();
        assert_eq!(lines[0]["result"]["content"][0]["text"], "Echo: hi", "{sdk:?} {lines:?}");
    }
}
