//! Helm, of both versions that people use.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::process::Command;

use crate::harness::{Cluster, checkout, documents_in};

/// The Kubernetes that charts are rendered for; a Helm that Go installed knows of none.
const KUBERNETES: &str = "1.37.2";

/// A release and its namespace.
pub type At<'a> = (&'a str, &'a str);

/// One Helm. What it keeps is in a folder of its own, which goes with it.
pub struct Helm {
    pub version: &'static str,
    program: PathBuf,
    home: PathBuf,
}

impl Drop for Helm {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

/// Each that `make setup` installed.
///
/// # Panics
/// If one is missing.
pub fn helms() -> [Helm; 2] {
    ["v3", "v4"].map(|version| {
        let program = checkout().join(".cache/helm").join(version).join("helm");
        assert!(program.is_file(), "{} is missing: run `make setup`, which builds it with Go", program.display());
        let home = std::env::temp_dir().join(format!("hawsepipe-helm-{}", uuid::Uuid::new_v4().simple()));
        Helm { version, program, home }
    })
}

/// The folder of a chart of ours.
pub fn chart(name: &str) -> String {
    checkout().join("charts").join(name).to_string_lossy().into_owned()
}

impl Helm {
    /// Runs it without a cluster, and gives what it printed.
    ///
    /// # Errors
    /// If it failed: what it was asked and what it said.
    pub async fn run(&self, arguments: &[&str]) -> Result<String, String> {
        self.run_with(Path::new("/nonexistent/kubeconfig"), arguments).await
    }

    /// Runs it against a cluster.
    ///
    /// # Errors
    /// If it failed: what it was asked and what it said.
    pub async fn run_in(&self, cluster: &Cluster, arguments: &[&str]) -> Result<String, String> {
        self.run_with(cluster.kubeconfig(), arguments).await
    }

    async fn run_with(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<String, String> {
        let failed = |why: &str| format!("Helm {} {}: {why}", self.version, arguments.join(" "));
        let output = Command::new(&self.program)
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .env("HELM_CACHE_HOME", self.home.join("cache"))
            .env("HELM_CONFIG_HOME", self.home.join("config"))
            .env("HELM_DATA_HOME", self.home.join("data"))
            .env("KUBECACHEDIR", self.home.join("kube"))
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| failed(&error.to_string()))?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(printed);
        }
        // `helm lint` says on standard output what is wrong.
        Err(failed(&format!("{printed}{}", String::from_utf8_lossy(&output.stderr))))
    }

    /// What a chart of ours makes as the release `release` in `namespace`: the text, as it would be applied.
    ///
    /// # Errors
    /// If the chart refuses the values.
    pub async fn template(&self, name: &str, (release, namespace): At<'_>, values: &Value) -> Result<String, String> {
        let (chart, values) = (chart(name), self.written(values));
        let at = ["-n", namespace, "--kube-version", KUBERNETES];
        self.run(&[&["template", release, &chart, "-f", &values], &at[..]].concat()).await
    }

    /// The same as objects.
    ///
    /// # Errors
    /// If the chart refuses the values.
    pub async fn objects(&self, name: &str, at: At<'_>, values: &Value) -> Result<Vec<Value>, String> {
        Ok(documents_in(&self.template(name, at, values).await?))
    }

    /// Lints a chart of ours with these values; what it recommends counts too.
    ///
    /// # Errors
    /// What it found.
    pub async fn lint(&self, name: &str, values: &Value) -> Result<String, String> {
        let (chart, values) = (chart(name), self.written(values));
        self.run(&["lint", "--strict", "--kube-version", KUBERNETES, &chart, "-f", &values]).await
    }

    /// Values in a file.
    pub fn written(&self, values: &Value) -> String {
        std::fs::create_dir_all(&self.home).unwrap();
        let file = self.home.join(format!("{}.json", uuid::Uuid::new_v4().simple()));
        std::fs::write(&file, values.to_string()).unwrap();
        file.to_string_lossy().into_owned()
    }
}
