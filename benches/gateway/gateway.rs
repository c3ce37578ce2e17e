//! Starts the real gateway binary, with manifests as a user would write them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use http::Uri;
use serde_json::Value;

use crate::child::{self, Child, Scratch};
use crate::client::Era;
use crate::issuer;
use crate::system::System;

/// The path of the gateway binary that was built with this benchmark.
pub const BINARY: &str = env!("CARGO_BIN_EXE_hawsepipe");

/// The session limit is off, because it would refuse the load. The queue timeout is long enough for queued `Once`
/// calls.
pub const GATEWAY: &str = "
apiVersion: hawsepipe.dev/v1alpha1
kind: MCPGateway
metadata: {name: bench}
spec:
  authentication: {anonymous: {}}
  limits:
    perSession: {concurrentCalls: -1}
  plugins:
    queueTimeoutMs: 30000
---
";

/// Parts of the manifest that systems replace.
const ANONYMOUS: &str = "  authentication: {anonymous: {}}\n";
const PLUGINS: &str = "  plugins:\n";

const UPSTREAM: &str = r#"
apiVersion: hawsepipe.dev/v1alpha1
kind: MCPUpstream
metadata: {name: {{name}}}
spec:
  external: {url: "{{url}}"}
  protocol: {era: {{era}}}
"#;

/// A plugin that returns its input unchanged and stays warm.
pub const MODULE: &str = r#"---
apiVersion: hawsepipe.dev/v1alpha1
kind: Plugin
metadata: {name: {{name}}}
spec:
  phases: [Response]
  protocol: Module
  source:
    inline: |
      export default async ({ rawContent }) => ({ text: rawContent, continue: true });
"#;

/// A plugin of contract 1.0 that does the same: the process reads its input, prints one line and exits.
const ONCE: &str = r#"---
apiVersion: hawsepipe.dev/v1alpha1
kind: Plugin
metadata: {name: {{name}}}
spec:
  phases: [Response]
  protocol: Once
  source:
    inline: |
      const input = JSON.parse(require("fs").readFileSync(0, "utf8"));
      console.log(JSON.stringify({ text: input.rawContent, continue: true }));
"#;

/// If an entry fails, its call fails too: calls that skip a failed entry would look fast.
const CHAIN: &str = r#"---
apiVersion: hawsepipe.dev/v1alpha1
kind: PluginChain
metadata: {name: answers}
spec:
  phase: Response
  entries:
"#;

/// How long the gateway's calls in flight have after SIGTERM: at the end of a measurement nobody waits for them.
const DRAIN_SECONDS: &str = "1";

/// Starts `binary` with the manifests in a file or folder.
pub fn start(binary: &Path, manifests: &Path) -> Result<(Child, Uri)> {
    start_with_admin(binary, manifests).map(|(child, endpoint, _)| (child, endpoint))
}

/// Starts `binary`, and returns the port of its admin API too.
pub fn start_with_admin(binary: &Path, manifests: &Path) -> Result<(Child, Uri, u16)> {
    start_as(binary, manifests, System::Gateway)
}

/// Starts `binary` as `system`: with a store or a log, if it has one. Their folders are not that of the manifests, in which each
/// write is an event that the gateway reads.
pub fn start_system(binary: &Path, manifests: &Path, system: System) -> Result<(Child, Uri)> {
    start_as(binary, manifests, system).map(|(child, endpoint, _)| (child, endpoint))
}

fn start_as(binary: &Path, manifests: &Path, system: System) -> Result<(Child, Uri, u16)> {
    let (port, admin) = (child::free_port()?, child::free_port()?);
    let mut command = Command::new(binary);
    command.arg("run").arg("-f").arg(manifests).arg("--state-dir").arg(manifests.with_extension("state"));
    if matches!(system, System::Stored | System::Audited | System::Redacted) {
        let folder = manifests.with_extension("store");
        fs::create_dir_all(&folder)?;
        command.arg("--store").arg(folder.join("history.db"));
    }
    command.args(["--listen", &format!("127.0.0.1:{port}"), "--admin", &format!("127.0.0.1:{admin}")]);
    command.args(["--drain-seconds", DRAIN_SECONDS]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if system == System::Logged {
        let folder = manifests.with_extension("log");
        fs::create_dir_all(&folder)?;
        command.stderr(fs::File::create(folder.join("gateway.log"))?);
    } else {
        command.env("HAWSEPIPE_LOG", "error");
    }
    Ok((Child::start("the gateway", &mut command)?, child::endpoint(port)?, admin))
}

/// Writes the manifests of a gateway in front of `upstream`, with the plugins of `system`.
pub fn write_manifests(system: System, era: Era, upstream: &Uri, scratch: &Scratch) -> Result<PathBuf> {
    let file = format!("{}-{}.yaml", system.label().replace([' ', ','], ""), era.word());
    scratch.write(&file, &manifests(system, era, upstream)?)
}

/// Returns the manifest of the upstream `bench` with this era.
pub fn upstream_manifest(at: &Uri, era: Era) -> String {
    named_upstream_manifest("bench", at, era)
}

/// Returns the manifest of an upstream with this name and era.
pub fn named_upstream_manifest(name: &str, at: &Uri, era: Era) -> String {
    let era = match era {
        Era::Legacy => "Legacy",
        Era::Modern => "Modern",
    };
    UPSTREAM.replace("{{name}}", name).replace("{{url}}", &at.to_string()).replace("{{era}}", era)
}

/// Returns the manifests of a gateway that checks tokens, with this `authorization`.
pub fn with_tokens(authorization: Option<&Value>) -> Result<String> {
    Ok(GATEWAY.replacen(ANONYMOUS, &issuer::spec_with(authorization), 1).replacen(
        "---\n",
        &issuer::keys_manifest()?,
        1,
    ) + "---\n")
}

fn manifests(system: System, era: Era, upstream: &Uri) -> Result<String> {
    let base = format!("{GATEWAY}{}", upstream_manifest(upstream, era));
    let (plugin, names): (_, &[&str]) = match system {
        System::OneModule | System::BaselineModule => (MODULE, &["first"]),
        System::ThreeModules => (MODULE, &["first", "second", "third"]),
        System::OneOnce => (ONCE, &["once"]),
        System::Audited => return Ok(base.replacen(PLUGINS, &format!("  audit: {{mode: Required}}\n{PLUGINS}"), 1)),
        System::Redacted => {
            return Ok(base.replacen(PLUGINS, &format!("  history: {{payloads: Redacted}}\n{PLUGINS}"), 1));
        }
        System::Authorized => return Ok(base.replacen(ANONYMOUS, &issuer::spec(), 1) + &issuer::keys_manifest()?),
        _ => return Ok(base),
    };
    let plugins: String = names.iter().map(|name| plugin.replace("{{name}}", name)).collect();
    let entries: String = names.iter().map(|name| format!("  - {{name: {name}, failurePolicy: Fail}}\n")).collect();
    Ok(format!("{base}{plugins}{CHAIN}{entries}"))
}
