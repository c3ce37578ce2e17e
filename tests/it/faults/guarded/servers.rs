//! The life of the servers behind the guard: killed, restarted, with another era of the protocol.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::calls::{Clients, End};
use super::guard::Span;
use crate::faults::vitals::parent;
use crate::fixtures::{fixture, node_module, python};
use crate::gateway::harness::{Folder, Gateway};
use crate::gateway::manifests::{merge, object};
use crate::gateway::parts::announced;
use crate::upstream::{Running, free_port};

/// How long the servers are left alone between two restarts.
const DWELL: Duration = Duration::from_millis(1500);
const ERAS: [&str; 2] = ["legacy", "modern"];

/// Two leaky servers, over stdio and over HTTP, and two real ones, one of which is never restarted.
pub struct Servers {
    /// Of the leaky server over stdio: what it reads its era from, and writes its pid into.
    era_file: PathBuf,
    pid_file: PathBuf,
    http: Option<Running>,
    python: Option<Running>,
    http_port: u16,
    python_port: u16,
}

impl Servers {
    /// Starts those over HTTP.
    pub fn start(folder: &Folder) -> Self {
        // In a folder that the gateway does not watch.
        let beside = folder.path().join("servers");
        std::fs::create_dir(&beside).unwrap();
        let mut servers = Self {
            era_file: beside.join("era"),
            pid_file: beside.join("pid"),
            http: None,
            python: None,
            http_port: free_port(),
            python_port: free_port(),
        };
        servers.set_stdio_era(0);
        servers.start_http(0);
        servers.start_python();
        servers
    }

    /// Their manifests.
    pub fn manifests(&self) -> Vec<Value> {
        let url = |port: u16| json!({"external": {"url": format!("http://127.0.0.1:{port}/mcp")}});
        let (leaky, everything) =
            (fixture("servers/leaky.mjs"), node_module("@modelcontextprotocol/server-everything/dist/index.js"));
        let stdio = json!([leaky, "--stdio", "--era-file", self.era_file, "--pid-file", self.pid_file]);
        let upstreams = [
            ("stdio", json!({"process": {"command": "node", "args": stdio}})),
            ("http", url(self.http_port)),
            ("python", url(self.python_port)),
            ("real", json!({"process": {"command": "node", "args": [everything, "stdio"]}})),
        ];
        let mut manifests = Vec::new();
        for (name, mut spec) in upstreams {
            // What is tried is that they come back, not how long the gateway waits in between.
            merge(&mut spec, &json!({"health": {"retryBackoffMs": [100, 200, 400, 800, 1600], "autoRecover": true}}));
            manifests.push(object("MCPUpstream", name, &spec));
        }
        manifests
    }

    /// Restarts one after another until `end`, then says which was away when.
    pub async fn live(&mut self, gateway: &Gateway, clients: &Clients, end: Instant) -> Vec<(&'static str, Span)> {
        let (mut away, mut round) = (Vec::new(), 0);
        while Instant::now() < end {
            round += 1;
            for upstream in ["http", "stdio", "python"] {
                tokio::time::sleep(DWELL).await;
                let from = Instant::now();
                match upstream {
                    "http" => self.start_http(round),
                    // Every second time it comes back with the era that it had.
                    "stdio" => {
                        self.set_stdio_era(round / 2);
                        self.kill_stdio(gateway);
                    }
                    _ => self.start_python(),
                }
                let to = clients.until(upstream, |end| matches!(end, End::Answered(..))).await;
                away.push((upstream, (from, to)));
            }
        }
        away
    }

    fn set_stdio_era(&self, round: usize) {
        std::fs::write(&self.era_file, ERAS[round % 2]).unwrap();
    }

    /// Kills the process that the gateway started.
    fn kill_stdio(&self, gateway: &Gateway) {
        let pid: u32 = std::fs::read_to_string(&self.pid_file).unwrap().parse().unwrap();
        assert_eq!(parent(pid), Some(gateway.pid()), "a process of the gateway");
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }

    fn start_http(&mut self, round: usize) {
        self.http = None;
        let mut command = Command::new("node");
        command.arg(fixture("servers/leaky.mjs")).args(["--port", &self.http_port.to_string()]);
        command.args(["--era", ERAS[round % 2]]);
        self.http = Some(announced(command).0);
    }

    fn start_python(&mut self) {
        self.python = None;
        let mut command = Command::new(python());
        command.arg(fixture("servers/modern.py")).args(["--port", &self.python_port.to_string()]);
        self.python = Some(announced(command).0);
    }
}
