//! The bridge as a program: real servers behind it, real clients and raw requests before it.

mod alone;
mod bounds;
mod clients;
mod ending;
mod gateways;
mod modern;
mod said;
mod sessions;
mod shared;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Response};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fixtures::{fixture, python};
use crate::gateway::harness::SOON;
use crate::gateway::http::{Answer, Http, JSON, Session};
use crate::gateway::parts::until;

/// Names the bridge to test where it is another build, such as the static one.
const BRIDGE: &str = "HAWSEPIPE_TEST_BRIDGE";

/// The built bridge.
fn program() -> PathBuf {
    std::env::var_os(BRIDGE).map_or_else(|| env!("CARGO_BIN_EXE_hawsepipe-bridge").into(), PathBuf::from)
}

/// A running bridge. Dropped, it is killed.
struct Bridge {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    address: String,
}

impl Bridge {
    /// Starts one before this command, and waits until it listens.
    fn start(options: &[&str], command: &[&str]) -> Self {
        Self::start_as(Command::new(program()), options, command)
    }

    fn start_as(mut bridge: Command, options: &[&str], command: &[&str]) -> Self {
        bridge.arg("--listen=127.0.0.1:0").args(options).arg("--").args(command);
        let mut child = bridge.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (lines, stderr) = (Arc::clone(&log), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| lines.lock().unwrap().push(line));
        });
        let mut bridge = Self { child, log, address: String::new() };
        let line = bridge.logged("listening on ");
        bridge.address = line.split("listening on ").nth(1).unwrap().split(',').next().unwrap().to_owned();
        bridge
    }

    /// One before the Python server that asks; `marker` finds its processes.
    fn asking(options: &[&str], marker: &str) -> Self {
        let (python, script) = (python(), fixture("servers/asking.py"));
        Self::start(options, &[python.to_str().unwrap(), script.to_str().unwrap(), marker])
    }

    /// One before the server of exact bytes.
    fn raw(options: &[&str], more: &[&str]) -> Self {
        let script = fixture("servers/raw.mjs");
        Self::start(options, &[&["node", script.to_str().unwrap(), "--stdio"], more].concat())
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Waits for a line of the log.
    fn logged(&self, wanted: &str) -> String {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(line) = self.log().into_iter().find(|line| line.contains(wanted)) {
                return line;
            }
            assert!(Instant::now() < deadline, "not logged: {wanted}; the log: {:?}", self.log());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), signal).unwrap();
    }

    /// Waits until it has ended, and says whether it ended well.
    async fn ended(&mut self) -> bool {
        let mut status = None;
        until("the bridge ended", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap().success()
    }

    async fn health(&self) -> u16 {
        Http::new().get(&format!("http://{}/healthz", self.address)).await.status
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request of the legacy era to begin a session, and what came back.
async fn begin(http: &Http, url: &str, version: &str) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    http.send(Method::POST, url, &JSON, body.to_string()).await
}

/// The text that a tool answers with.
async fn text_of(session: &Session, tool: &str, arguments: &str) -> String {
    let answer = session.call_raw(1, tool, arguments).await.json();
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// A stream of events that a client reads.
struct Events {
    body: Incoming,
    read: String,
}

impl Events {
    fn new(response: Response<Incoming>) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream", "{}", response.status());
        Self { body: response.into_body(), read: String::new() }
    }

    /// The stream of a session's own messages.
    async fn of(session: &Session) -> Self {
        let headers = session.headers();
        Self::new(session.http.open(Method::GET, &session.url, &headers, Bytes::new()).await)
    }

    /// The next message; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        let read = async {
            loop {
                if let Some((event, rest)) = self.read.split_once("\n\n") {
                    let data = event.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
                    self.read = rest.to_owned();
                    match data {
                        Some(data) => return Some(serde_json::from_str(&data).unwrap()),
                        None => continue,
                    }
                }
                let frame = self.body.frame().await?.ok()?;
                self.read.push_str(std::str::from_utf8(frame.data_ref()?).unwrap());
            }
        };
        tokio::time::timeout(SOON, read).await.expect("no event in time")
    }
}

/// A `tools/call` whose messages are read as they come.
async fn open_call(session: &Session, id: u64, tool: &str, params: Value) -> Events {
    let mut params = params;
    params["name"] = tool.into();
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    let headers = session.headers();
    Events::new(session.http.open(Method::POST, &session.url, &headers, body.to_string()).await)
}

/// The number of processes whose command line has `marker`.
fn running(marker: &str) -> usize {
    let is_it = |pid: &u32| {
        let line = std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).unwrap_or_default();
        memchr::memmem::find(&line, marker.as_bytes()).is_some()
    };
    let names = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).filter(|pid| *pid != std::process::id()).filter(is_it).count()
}

/// The children of a process, those that have exited too.
fn children_of(parent: u32) -> Vec<i32> {
    let names = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids = names.filter_map(|name| name.parse::<i32>().ok());
    pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        after.split_ascii_whitespace().nth(1) == Some(parent.to_string().as_str())
    })
    .collect()
}

/// Text that only the processes of one test have. The bridge's own command line has it too.
fn marker(name: &str) -> String {
    format!("bridged-{name}-{}", std::process::id())
}
