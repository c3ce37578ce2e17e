//! Our own program as a process, with the rights of one service account.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command};

use kube::config::Kubeconfig;
use serde_json::json;

use super::{Cluster, unique};

/// A running `hawsepipe`. Dropped, it is killed and its folder removed.
pub struct Process {
    child: Child,
    folder: PathBuf,
}

impl Process {
    /// Starts it with a kubeconfig that holds `token`; what it logs goes to a file.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(cluster: &Cluster, namespace: &str, token: &str, arguments: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(unique("hawsepipe-process"));
        std::fs::create_dir(&folder).unwrap();
        let kubeconfig = folder.join("kubeconfig");
        std::fs::write(&kubeconfig, cluster.kubeconfig_with(namespace, token)).unwrap();
        let log = File::create(folder.join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_hawsepipe"))
            .args(arguments)
            .env("KUBECONFIG", &kubeconfig)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
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
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Cluster {
    /// A kubeconfig of whoever holds `token`.
    fn kubeconfig_with(&self, namespace: &str, token: &str) -> String {
        let admin = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let entry = admin.clusters.into_iter().find_map(|named| named.cluster).unwrap();
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": entry}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
        })
        .to_string()
    }
}
