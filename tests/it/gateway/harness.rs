//! A gateway process on a folder of its own, on ports of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::http::Http;
use crate::fixtures::program;

/// Held by the tests that keep every core busy, so that none of them is tried on what another leaves over.
pub static HEAVY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// How long something that has to happen may take on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);

/// A folder of manifests that goes with its value. It must stay as long as its gateway, which starts processes in it.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty one.
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("hawsepipe-it-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(path.join("plugins")).unwrap();
        Self(path)
    }

    /// One with a file `manifests.yaml`.
    pub fn with(manifests: &str) -> Self {
        let folder = Self::new();
        folder.write("manifests.yaml", manifests);
        folder
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The state folder of the gateways that run on it.
    pub fn state(&self) -> PathBuf {
        self.0.with_extension("state")
    }

    /// Writes a file below it, as an editor does: beside its place, then into it.
    pub fn write(&self, name: &str, text: &str) {
        let file = self.0.join(name);
        let beside = self.0.join(format!("{name}.new"));
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(beside, file).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        let _ = std::fs::remove_dir_all(self.state());
    }
}

/// A running gateway. Dropped, it is killed with all its children.
pub struct Gateway {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    mcp: SocketAddr,
    admin: SocketAddr,
}

/// The built program.
pub fn hawsepipe() -> Command {
    let mut command = Command::new(program());
    command.env_remove("HAWSEPIPE_LOG");
    command
}

/// Runs the built program to its end.
pub fn run(arguments: &[&str]) -> Output {
    hawsepipe().args(arguments).output().unwrap()
}

impl Gateway {
    /// Starts one on `folder` and waits until its plan is in force.
    pub fn start(folder: &Folder) -> Self {
        Self::start_with(folder, &[])
    }

    /// The same with more arguments.
    pub fn start_with(folder: &Folder, arguments: &[&str]) -> Self {
        Self::start_in(folder, arguments, &[])
    }

    /// The same with more environment.
    pub fn start_in(folder: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let gateway = Self::starting(folder, arguments, environment);
        gateway.logged(|line| line["message"] == "plan in force");
        gateway
    }

    /// The same, while its first plan is not yet in force.
    pub fn starting(folder: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let listen = if arguments.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] };
        Self::on_listeners(folder, &[listen, arguments].concat(), environment)
    }

    /// The same, on the ports that the manifests name.
    pub fn on_listeners(folder: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::of_command(hawsepipe(), folder, arguments, environment)
    }

    /// The same of a command that becomes the program.
    pub fn of_command(mut command: Command, folder: &Folder, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let admin = if arguments.contains(&"--admin") { &[][..] } else { &["--admin", "127.0.0.1:0"] };
        let mut child = command
            .envs(environment.iter().copied())
            .args(["run", "-f"])
            .arg(folder.path())
            .args(admin)
            .arg("--state-dir")
            .arg(folder.state())
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (lines, stderr) = (Arc::clone(&log), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| lines.lock().unwrap().push(line));
        });
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut gateway = Self { child, log, mcp: nowhere, admin: nowhere };
        let address = |line: &Value| line["address"].as_str().unwrap().parse().unwrap();
        gateway.mcp = address(&gateway.logged(|line| line["message"] == "MCP endpoint"));
        gateway.admin = address(&gateway.logged(|line| line["message"] == "admin API and metrics"));
        gateway
    }

    /// Waits for a line of the log.
    pub fn logged(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + SOON;
        let mut read = 0;
        loop {
            // Each line is read once: a gateway that is called often writes many.
            let new = self.log.lock().unwrap()[read..].to_vec();
            read += new.len();
            if let Some(line) = new.iter().filter_map(|line| serde_json::from_str(line).ok()).find(&wanted) {
                return line;
            }
            assert!(Instant::now() < deadline, "not logged in time; the log:\n{}", self.log().join("\n"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Every line so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// The lines of the log, which can be read once it has ended.
    pub fn lines(&self) -> Arc<Mutex<Vec<String>>> {
        Arc::clone(&self.log)
    }

    /// The endpoint for all upstreams.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.mcp)
    }

    /// The endpoint of one upstream.
    pub fn url_of(&self, upstream: &str) -> String {
        format!("http://{}/{upstream}/mcp", self.mcp)
    }

    /// The address of the endpoints.
    pub fn address(&self) -> SocketAddr {
        self.mcp
    }

    /// The admin address.
    pub fn admin(&self) -> String {
        self.admin.to_string()
    }

    /// Calls a tool until its answer has this value at this place.
    pub async fn until_answer(&self, tool: &str, arguments: &Value, pointer: &str, wanted: &Value) {
        let (http, deadline) = (Http::new(), Instant::now() + SOON);
        loop {
            let answer = http.call(&self.url(), tool, arguments, &json!({})).await;
            if answer.pointer(pointer) == Some(wanted) {
                return;
            }
            assert!(Instant::now() < deadline, "{tool}: no {wanted} at {pointer} of {answer}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until it has ended by itself, and says whether it ended well.
    pub async fn ended(mut self) -> bool {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            assert!(Instant::now() < deadline, "it does not end; the log:\n{}", self.log().join("\n"));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The standard input of a command that has one.
    pub fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as Ctrl-C does, and says how long that took and whether it ended well.
    pub fn end(mut self) -> (Duration, bool) {
        let began = Instant::now();
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let ended = self.child.wait().unwrap().success();
        (began.elapsed(), ended)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let (Ok(None), Some(pid)) =
            (self.child.try_wait(), Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(0)))
        {
            // Politely first, so that it ends its own children; as at a terminal, so that it takes no more connections.
            let _ = kill_process(pid, Signal::INT);
            let deadline = Instant::now() + Duration::from_secs(5);
            while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
