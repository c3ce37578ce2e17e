//! Our own program as a process, with the rights of one service account.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command};

use kube::config::Kubeconfig;
use serde_json::{Value, json};

use super::{Cluster, Line, unique, until};

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(unique("hawsepipe-process"));
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn kubeconfig(&self, text: &str) -> PathBuf {
        let file = self.0.join("kubeconfig");
        std::fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running `hawsepipe`. Dropped, it is killed and its folder removed.
pub struct Process {
    child: Child,
    folder: Folder,
}

impl Process {
    /// Starts it with a kubeconfig that holds `token`, and with `variables` in its environment; what it logs goes to a
    /// file.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(
        cluster: &Cluster,
        namespace: &str,
        token: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        Self::start_through(cluster, None, namespace, token, arguments, variables)
    }

    /// The same; it reaches the API server through `line`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_through(
        cluster: &Cluster,
        line: Option<&Line>,
        namespace: &str,
        token: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let folder = Folder::new();
        let kubeconfig = folder.kubeconfig(&cluster.kubeconfig_with(line, namespace, token));
        let log = File::create(folder.0.join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_hawsepipe"))
            .args(arguments)
            .env("KUBECONFIG", &kubeconfig)
            .envs(variables.iter().copied())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.0.join("log")).unwrap_or_default()
    }

    /// Where an operator serves its health checks and metrics.
    #[allow(dead_code)] // The benchmark does not ask.
    pub async fn address(&self) -> String {
        until("the operator says where it listens", async || {
            let log = self.log();
            let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let line = lines.find(|line| line["message"] == "the operator starts")?;
            line["address"].as_str().map(str::to_owned)
        })
        .await
    }

    /// Sends it a signal, such as `STOP`.
    ///
    /// # Panics
    /// If there is no `kill`.
    pub fn signal(&self, signal: &str) {
        let kill = Command::new("kill").args([format!("-{signal}"), self.child.id().to_string()]).status();
        assert!(kill.unwrap().success(), "{signal}");
    }

    /// The most memory that it ever had, in kB.
    #[allow(dead_code)] // The benchmark asks.
    pub fn most_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of a process:\n{}", self.log());
        }
        self.kill();
    }
}

impl Cluster {
    /// Runs a command of ours to its end, with the rights of `token` or as the admin, and gives what it printed.
    ///
    /// # Errors
    /// If it failed: what it said.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn hawsepipe(&self, token: Option<&str>, arguments: &[&str]) -> Result<String, String> {
        let folder = Folder::new();
        let kubeconfig = match token {
            Some(token) => folder.kubeconfig(&self.kubeconfig_with(None, "default", token)),
            None => self.kubeconfig().to_owned(),
        };
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_hawsepipe"));
        let output = command.args(arguments).env("KUBECONFIG", kubeconfig).kill_on_drop(true).output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// A kubeconfig of whoever holds `token`.
    fn kubeconfig_with(&self, line: Option<&Line>, namespace: &str, token: &str) -> String {
        let admin = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let mut entry = admin.clusters.into_iter().find_map(|named| named.cluster).unwrap();
        entry.server = line.map(Line::url).or(entry.server);
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": entry}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
        })
        .to_string()
    }
}
