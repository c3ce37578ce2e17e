//! The chart's demo, and what `helm test` runs: the demo's server and the pod's command as processes, with a gateway of the
//! demo's objects between them.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::helm::helms;
use super::operator::CHART;
use crate::gateway::process::{Folder, Gateway};
use crate::harness::{Cluster, Process, checkout};

/// The demo's server on a free port, and its address.
async fn server(objects: &[Value]) -> (Child, String) {
    let code = objects.iter().find_map(|object| object["data"]["server.mjs"].as_str()).unwrap();
    let mut command = Command::new("node");
    command.args(["--input-type=module", "--eval", code]).env("PORT", "0").stdout(Stdio::piped()).kill_on_drop(true);
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    let port = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("it says {line:?}"));
    (server, format!("http://127.0.0.1:{port}/mcp"))
}

/// The demo's gateway without a cluster.
async fn gateway(objects: &[Value], server: &str, folder: &Folder) -> Gateway {
    let mut ours: Vec<_> =
        objects.iter().filter(|object| object["apiVersion"] == "hawsepipe.dev/v1alpha1").cloned().collect();
    for object in &mut ours {
        match object["kind"].as_str().unwrap() {
            "MCPUpstream" => object["spec"] = json!({"external": {"url": server}}),
            "MCPGateway" => object["spec"]["plugins"] = json!({"pluginDir": checkout().join("plugins")}),
            _ => {}
        }
    }
    let documents: Vec<_> = ours.iter().map(Value::to_string).collect();
    folder.write("manifests/demo.yaml", &documents.join("\n---\n"));
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (manifests, state) = (path("manifests"), path("state"));
    let arguments = ["run", "-f", &manifests, "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--state-dir", &state];
    // It asks no API server, so it needs no token.
    Gateway::of(Process::start(Cluster::shared().await, "default", "none", &arguments, &[])).await
}

/// Runs the command of the test's pod with other variables in the place of its own, and says whether it succeeded.
async fn helm_test(objects: &[Value], variables: &[(&str, &str)]) -> (bool, String) {
    let pod = objects.iter().find(|object| object["kind"] == "Pod").unwrap();
    let container = &pod["spec"]["containers"][0];
    let words: Vec<_> = container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let written = container["env"].as_array().unwrap().iter();
    let written = written.map(|variable| (variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap()));
    let mut command = Command::new(words[0]);
    let output = command.args(&words[1..]).envs(written).envs(variables.iter().copied()).output().await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test]
async fn the_tests_pod_makes_a_call_that_the_demos_chain_redacts() {
    let [_, helm] = helms();
    let objects = helm.objects(CHART, ("demo", "default"), &json!({"demo": {"enabled": true}})).await.unwrap();
    let (_server, address) = server(&objects).await;
    let folder = Folder::new();
    let gateway = gateway(&objects, &address, &folder).await;
    let ready = format!("http://{}/readyz", gateway.admin);
    let endpoint = format!("http://{}/mcp", gateway.endpoint().await);
    let at = [("READY_URL", ready.as_str()), ("MCP_URL", endpoint.as_str())];
    let (passed, said) = helm_test(&objects, &at).await;
    assert!(passed && said.contains("[redacted:apiKey]") && !said.contains("sk-ant-"), "{said}");
    let other = [&at[..], &[("EXPECT", "something else"), ("SECONDS", "1")]].concat();
    let (passed, said) = helm_test(&objects, &other).await;
    assert!(!passed && said.contains("[redacted:apiKey]"), "{said}");
}
