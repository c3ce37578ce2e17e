//! The servers, and what they write down.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::checks::Heard;
use super::clients::Client;
use crate::conformance::fixture_program;
use crate::fixtures::{fixture, node_module, python};
use crate::gateway::harness::Folder;
use crate::gateway::parts::{announced, external, object, process};
use crate::upstream::Running;

/// How long a server may take to hear that a call was cancelled.
const AT_MOST: Duration = Duration::from_secs(10);

pub struct Servers {
    _running: Vec<Running>,
    logs: Folder,
}

impl Servers {
    /// Starts those that are not processes of the gateway, and writes manifests with all of them.
    pub async fn start(folder: &Folder) -> Self {
        let logs = Folder::new();
        let written = logs.path().to_owned();
        let (running, manifests) = tokio::task::spawn_blocking(move || start(&written)).await.unwrap();
        folder.write("manifests.yaml", &manifests);
        Self { _running: running, logs }
    }

    /// Whether the log of a server has it, or comes to have it soon, where that is waited for.
    pub async fn heard(&self, upstream: &str, client: Client, heard: Heard, wait: bool) -> bool {
        let deadline = Instant::now() + if wait { AT_MOST } else { Duration::ZERO };
        loop {
            let log = std::fs::read_to_string(self.logs.path().join(upstream)).unwrap_or_default();
            if heard(&log, client) || Instant::now() >= deadline {
                return heard(&log, client);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn start(logs: &Path) -> (Vec<Running>, String) {
    let mut fast = Command::new(python());
    fast.arg(fixture("servers/fast.py")).arg("--log").arg(logs.join("fast"));
    let (fast, url) = announced(fast);
    let (mut running, mut manifests) = (vec![fast], everything(&logs.join("everything")) + &external("fast", &url));
    for (name, scheme, era) in [("rmcp-legacy", "legacy", "Legacy"), ("rmcp-modern", "modern", "Modern")] {
        let mut server = Command::new(fixture_program());
        server.args(["server", scheme]).arg(logs.join(name));
        let (server, url) = announced(server);
        running.push(server);
        let spec = format!("external: {{url: {url:?}}}, protocol: {{era: {era}}}");
        manifests += &object("MCPUpstream", name, &spec);
    }
    (running, manifests)
}

/// server-everything, with a log of what it is sent.
fn everything(log: &Path) -> String {
    let script = node_module("@modelcontextprotocol/server-everything/dist/index.js");
    let command = r#"tee -a "$0" | exec node "$1" stdio"#;
    process("everything", Path::new("sh"), &["-c", command, log.to_str().unwrap(), script.to_str().unwrap()])
}
