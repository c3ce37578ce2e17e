//! A gateway whose kernel lacks a part of the sandbox. The test takes that part away from the thread that starts it, as a
//! container's own filter of system calls does.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use serde_json::{Value, json};

use crate::fixtures::fixture;
use crate::gateway::harness::{Folder, Gateway};
use crate::gateway::http::Http;

/// What plugins can do is tried by one of them.
const MANIFESTS: &str = "apiVersion: hawsepipe.dev/v1alpha1
kind: MCPGateway
metadata: {name: main}
spec:
SETTINGS  authentication: {anonymous: {}}
---
apiVersion: hawsepipe.dev/v1alpha1
kind: MCPUpstream
metadata: {name: raw}
spec:
  process: {command: node, args: [SERVER, --stdio]}
---
apiVersion: hawsepipe.dev/v1alpha1
kind: Plugin
metadata: {name: shout}
spec:
  role: Guard
  source:
    inline: |
      import { readFileSync } from 'node:fs';
      import { connect } from 'node:net';
      const met = (attempt) => attempt.then(() => 'done', (error) => error.code);
      export default async () => {
        const read = await met((async () => readFileSync('/etc/hostname'))());
        const connected = await met(new Promise((done, fail) => connect(9, '127.0.0.1').on('error', fail).on('connect', done)));
        return { text: `${read} ${connected}`, continue: true };
      };
---
apiVersion: hawsepipe.dev/v1alpha1
kind: PluginChain
metadata: {name: all}
spec:
  phase: Response
  entries: [{name: shout}]
";

/// Starts a gateway of a plugin whose kernel has none of `calls`.
fn gateway(mode: Option<&str>, calls: &'static [i64]) -> (Folder, Gateway) {
    let settings = mode.map(|mode| format!("  plugins: {{sandbox: {mode}}}\n")).unwrap_or_default();
    let server = fixture("servers/raw.mjs").display().to_string();
    let folder = Folder::with(&MANIFESTS.replace("SETTINGS", &settings).replace("SERVER", &server));
    // A filter binds the thread that asks for it, and what that thread starts.
    std::thread::spawn(move || {
        apply_filter(&without(calls)).unwrap();
        let gateway = Gateway::start(&folder);
        (folder, gateway)
    })
    .join()
    .unwrap()
}

/// A filter under which these calls do not exist.
fn without(calls: &[i64]) -> BpfProgram {
    let rules: BTreeMap<_, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
    let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, absent, std::env::consts::ARCH.try_into().unwrap());
    filter.unwrap().try_into().unwrap()
}

async fn called(gateway: &Gateway) -> Value {
    let (tool, arguments) = ("raw__args", json!({}));
    gateway.until_answer(tool, &arguments, "/result/resultType", &json!("complete")).await;
    Http::new().call(&gateway.url(), tool, &arguments, &json!({})).await["result"].clone()
}

async fn reported(gateway: &Gateway) -> Value {
    let url = format!("http://{}/api/v1/report", gateway.admin());
    Http::new().get(&url).await.json()
}

#[tokio::test]
async fn no_plugin_runs_where_the_sandbox_is_required_and_lacks_a_part() {
    for (mode, calls, lacking) in [
        (None, &[libc::SYS_landlock_create_ruleset][..], "Files"),
        (Some("Required"), &[libc::SYS_seccomp], "SystemCalls"),
    ] {
        let (_folder, gateway) = gateway(mode, calls);
        let said = gateway.logged(|line| line["level"] == "ERROR");
        let said = said["message"].as_str().unwrap();
        assert!(said.contains("no plugin runs") && said.contains(lacking) && said.contains("BestEffort"), "{said}");
        let refused = called(&gateway).await;
        assert_eq!(refused["_meta"]["hawsepipe.dev/refused"]["reason"], "NotLoaded", "{refused}");
        let report = reported(&gateway).await;
        assert_eq!(report["sandboxLacks"][0]["property"], lacking);
        assert_eq!(report["plugins"][0]["reason"], "SandboxUnavailable");
    }
}

#[tokio::test]
async fn plugins_run_in_what_is_there_where_that_is_enough() {
    for (calls, lacking, met) in [
        (&[][..], None, "EACCES EPERM"),
        (&[libc::SYS_landlock_create_ruleset], Some("Files"), "done EPERM"),
        // A connection is Landlock's too, since Linux 6.7.
        (&[libc::SYS_seccomp], Some("SystemCalls"), "EACCES E"),
        (&[libc::SYS_landlock_create_ruleset, libc::SYS_seccomp], Some("Files"), "done ECONNREFUSED"),
    ] {
        let (_folder, gateway) = gateway(Some("BestEffort"), calls);
        let answer = called(&gateway).await;
        assert!(answer["content"][0]["text"].as_str().is_some_and(|text| text.starts_with(met)), "{met}: {answer}");
        let report = reported(&gateway).await;
        assert_eq!(report["sandboxLacks"][0]["property"].as_str(), lacking);
        let level = if lacking.is_some() { "WARN" } else { "INFO" };
        let said =
            gateway.logged(|line| line["message"].as_str().is_some_and(|said| said.starts_with("plugins run in")));
        assert_eq!(said["level"], level, "{said}");
    }
}
