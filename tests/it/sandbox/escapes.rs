//! Each attempt as a plugin in a real worker, where it meets its error, and the same code in plain Node.js, where it gets
//! its way: so what stops it is the sandbox.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use hawsepipe::domain::plan::PluginLimits;
use hawsepipe::domain::plugin::Protocol;
use hawsepipe::domain::ports::{LinkedPlugin, RunPlugin};
use hawsepipe::domain::secret::SecretText;
use serde_json::{Value, json};

use super::as_nobody;
use super::attempts::{AROUND, Attempt, MODULE, OF_MODULES, OF_SCRIPTS, ONCE};
use super::place::{Place, Victim};
use crate::node::{Code, Rig, module, once, runtime};

/// Memory of a worker here: an attempt takes twice as much.
const MEMORY: u64 = 64 << 20;

/// What calls them in plain Node.js.
const CALLER: &str = "import(process.argv[1]).then((m) => m.default({ rawContent: process.argv[2] }))
    .then(({ text }) => { process.stdout.write(text); process.exit(); })";

#[test]
fn modules_do_not_get_out() {
    if !as_nobody("sandbox::escapes::modules_do_not_get_out") {
        try_all(Protocol::Module, OF_MODULES);
    }
}

#[test]
fn scripts_do_not_get_out() {
    if !as_nobody("sandbox::escapes::scripts_do_not_get_out") {
        try_all(Protocol::Once, OF_SCRIPTS);
    }
}

#[tokio::main]
async fn try_all(protocol: Protocol, attempts: &[Attempt]) {
    let place = Place::new();
    let (origin, plain) = (place.code_folder("plugin"), place.code_folder("plain"));
    let bystander =
        Code { folder: Some(place.code_folder("other")), ..module("export default (input) => input") }.link();
    let rig = Rig::with(&[&bystander]).await;
    let worker = rig.run(&bystander, "").await.worker_pid.unwrap();
    let other = std::fs::canonicalize(format!("/proc/{worker}/cwd")).unwrap().join("plugin.mjs");
    let mut wrong = Vec::new();
    for Attempt { name, denied, body } in attempts {
        let code = code(protocol, body);
        let mut victim = Victim::start();
        let met = in_sandbox(&rig, &plugin(protocol, &code, &origin), &place.told(&victim, worker, &other)).await;
        if met != *denied || !victim.is_well() {
            wrong.push(format!("{protocol:?}: {name}: meets {met}, not {denied}"));
        }
        let got = in_plain_node(protocol, &code, &plain, &place.told(&victim, worker, &other));
        if got != "done" {
            wrong.push(format!("{protocol:?}: {name}: meets {got} without a sandbox too, so it shows nothing"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    rig.workers.shutdown().await;
}

fn code(protocol: Protocol, body: &str) -> String {
    let caller = if protocol == Protocol::Module { MODULE } else { ONCE };
    format!("{}{caller}", AROUND.replace("BODY", body))
}

fn plugin(protocol: Protocol, code: &str, folder: &Path) -> Arc<LinkedPlugin> {
    let mut plugin = if protocol == Protocol::Module { module(code) } else { once(code) };
    plugin.folder = Some(folder.to_owned());
    plugin.size = 0;
    plugin.limits = PluginLimits { memory: MEMORY, ..plugin.limits };
    let mut plugin = (*plugin.link()).clone();
    plugin.env = steering(folder).map(|(name, value)| (name.to_owned(), SecretText::new(value))).to_vec();
    Arc::new(plugin)
}

/// Variables that act on Node.js before any code does.
fn steering(folder: &Path) -> [(&'static str, String); 2] {
    [
        ("NODE_OPTIONS", format!("--require={}", folder.join("steer.cjs").display())),
        ("LD_PRELOAD", "libm.so.6".to_owned()),
    ]
}

/// What it meets as a plugin; the reason of its failure where it has no answer.
async fn in_sandbox(rig: &Rig, plugin: &Arc<LinkedPlugin>, told: &Value) -> String {
    rig.prepare(&[plugin], &runtime()).await;
    let ran = rig.run_for(plugin, &told.to_string(), 20_000).await;
    ran.output.map_or_else(|failure| failure.reason.to_string(), |output| output.text)
}

fn in_plain_node(protocol: Protocol, code: &str, folder: &Path, told: &Value) -> String {
    let file: PathBuf = folder.join("plugin.mjs");
    std::fs::write(&file, code).unwrap();
    let mut node = Command::new("timeout");
    node.args(["20", "node"]).current_dir(folder).envs(steering(folder)).stdin(Stdio::piped()).stdout(Stdio::piped());
    match protocol {
        Protocol::Module => node.args(["-e", CALLER]).arg(&file).arg(told.to_string()),
        Protocol::Once | Protocol::Lines => node.arg(&file),
    };
    let mut node = node.spawn().unwrap();
    let input = json!({ "rawContent": told.to_string() });
    let _ = node.stdin.take().unwrap().write_all(input.to_string().as_bytes());
    let printed = String::from_utf8(node.wait_with_output().unwrap().stdout).unwrap();
    match serde_json::from_str::<Value>(&printed) {
        Ok(answer) if protocol == Protocol::Once => answer["text"].as_str().unwrap().to_owned(),
        _ => printed,
    }
}
