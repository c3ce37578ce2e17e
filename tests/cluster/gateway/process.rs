//! A gateway process with a service account that may read snapshots of its namespace and nothing else.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hawsepipe::domain::report::Report;
use serde_json::{Value, json};

use super::http::{Answer, get};
use super::published::GATEWAY;
use crate::harness::{Cluster, Process, until};

/// The service account of gateways.
pub const ACCOUNT: &str = "gateway";

/// A folder that goes with its value.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty one.
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("hawsepipe-cluster-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file below it, at once.
    pub fn write(&self, name: &str, text: &str) {
        let file = self.0.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let beside = file.with_extension("new");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(beside, file).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where a gateway may run: a namespace with the service account and its rights.
pub struct Place<'c> {
    pub namespace: String,
    /// What a gateway here gets in its environment.
    pub variables: Vec<(&'static str, &'static str)>,
    gateway: String,
    cluster: &'c Cluster,
    token: String,
}

impl<'c> Place<'c> {
    /// Makes one.
    pub async fn new(cluster: &'c Cluster) -> Self {
        let namespace = cluster.namespace().await;
        cluster.make_account(&namespace, ACCOUNT).await;
        let token = cluster.token(&namespace, ACCOUNT, &[]).await;
        let group = "rbac.authorization.k8s.io";
        let role = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": ACCOUNT}, "rules": [{
                "apiGroups": ["hawsepipe.dev"], "resources": ["gatewaysnapshots"], "verbs": ["get", "list", "watch"]}]},
            {"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": ACCOUNT},
             "roleRef": {"apiGroup": group, "kind": "Role", "name": ACCOUNT},
             "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT}]},
        ]});
        cluster.kubectl(&["apply", "-n", &namespace, "-f", "-"], &role.to_string()).await.unwrap();
        Self { namespace, variables: Vec::new(), gateway: GATEWAY.to_owned(), cluster, token }
    }

    /// One that somebody else made for `gateway`: the service account's token is `token`.
    pub fn of(cluster: &'c Cluster, namespace: &str, gateway: &str, token: String) -> Self {
        let (namespace, gateway) = (namespace.to_owned(), gateway.to_owned());
        Self { namespace, variables: Vec::new(), gateway, cluster, token }
    }

    /// Starts a gateway and waits for its admin port.
    pub async fn start(&self, more: &[&str]) -> Gateway {
        let mut arguments =
            vec!["gateway", "--name", &self.gateway, "--namespace", &self.namespace, "--listen", "127.0.0.1:0"];
        if !more.contains(&"--admin") {
            arguments.extend(["--admin", "127.0.0.1:0"]);
        }
        arguments.extend(more);
        let process = Process::start(self.cluster, &self.namespace, &self.token, &arguments, &self.variables);
        Gateway::of(process).await
    }
}

/// A running gateway.
pub struct Gateway {
    process: Process,
    /// Where its admin port is.
    pub admin: SocketAddr,
}

impl Gateway {
    /// A process that was just started, once its admin port is open.
    pub async fn of(process: Process) -> Self {
        let mut gateway = Self { process, admin: SocketAddr::from(([127, 0, 0, 1], 0)) };
        gateway.admin = gateway.address("admin API and metrics").await;
        gateway
    }

    /// Asks its admin port.
    pub async fn get(&self, path: &str) -> Answer {
        get(&format!("http://127.0.0.1:{}{path}", self.admin.port()), &[]).await
    }

    /// What it reports.
    pub async fn report(&self) -> Report {
        serde_json::from_str(&self.get("/api/v1/report").await.text).unwrap()
    }

    /// Waits until it reports what is wanted, and gives that.
    pub async fn until_reported<T>(&self, what: &str, wanted: impl Fn(&Report) -> Option<T>) -> T {
        until(what, async || wanted(&self.report().await)).await
    }

    /// Waits until a revision is in force, with all its plugins loaded.
    pub async fn until_runs(&self, revision: &str) {
        let runs = |report: &Report| report.revision == revision && report.not_in_force.is_empty();
        self.until_reported("the revision is in force", |report| runs(report).then_some(())).await;
    }

    /// Calls a tool: the text of its answer, or what went wrong.
    pub async fn call(&self, tool: &str) -> Result<String, String> {
        self.call_with(&[tool]).await
    }

    /// The same with more of what `hawsepipe call` takes.
    pub async fn call_with(&self, arguments: &[&str]) -> Result<String, String> {
        let url = format!("http://{}/mcp", self.endpoint().await);
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_hawsepipe"))
            .args([&["call"], arguments, &["--url", &url]].concat())
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let said = text(&output.stdout);
        // A tool's own error, or a refusal, is on standard output too.
        if output.status.success() { Ok(said) } else { Err(format!("{said}{}", text(&output.stderr))) }
    }

    /// Calls until this is the answer.
    pub async fn until_answers(&self, tool: &str, wanted: &str) {
        until(&format!("{tool} answers {wanted}"), async || {
            self.call(tool).await.is_ok_and(|answer| answer == wanted).then_some(())
        })
        .await;
    }

    /// Where its MCP endpoint is.
    pub async fn endpoint(&self) -> SocketAddr {
        self.address("MCP endpoint").await
    }

    /// Sends it a signal, such as `STOP`.
    pub fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Whether something was logged.
    pub fn has_logged(&self, message: &str) -> bool {
        self.log().lines().any(|line| is_message(line, message))
    }

    /// Every line of the log, as text.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The address that a line of the log says.
    async fn address(&self, message: &str) -> SocketAddr {
        until(&format!("it logs {message:?}"), async || {
            let log = self.log();
            let line: Value = serde_json::from_str(log.lines().find(|line| is_message(line, message))?).ok()?;
            line["address"].as_str()?.parse().ok()
        })
        .await
    }
}

fn is_message(line: &str, message: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|line| line["message"] == message)
}

/// Manifests of a gateway with one upstream, and a chain whose one plugin answers with `word` and what it was given.
pub fn manifests(namespace: &str, url: &str, word: &str) -> String {
    let api = "apiVersion: hawsepipe.dev/v1alpha1";
    format!(
        "{api}\nkind: MCPGateway\nmetadata: {{name: {GATEWAY}, namespace: {namespace}}}\nspec:\n  \
           authentication: {{anonymous: {{}}}}\n  plugins: {{poolSizePerPlugin: 1}}\n---\n\
         {api}\nkind: MCPUpstream\nmetadata: {{name: up, namespace: {namespace}}}\nspec:\n  \
           protocol: {{era: Legacy}}\n  external: {{url: {url:?}}}\n---\n\
         {api}\nkind: Plugin\nmetadata: {{name: say, namespace: {namespace}}}\nspec:\n  \
           source:\n    inline: 'export default ({{ rawContent }}) => ({{ text: `{word} ${{rawContent}}`, continue: true }});'\n---\n\
         {api}\nkind: PluginChain\nmetadata: {{name: says, namespace: {namespace}}}\nspec:\n  \
           phase: Response\n  entries: [{{name: say}}]\n"
    )
}
