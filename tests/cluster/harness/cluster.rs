//! The cluster that tests run against: clients, kubectl, namespaces.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ObjectMeta, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::OnceCell;

use super::control_plane::ControlPlane;
use super::{checkout, programs};

/// A kubeconfig file of a throw-away cluster to run against.
const NAMED: &str = "KUBECONFIG_TEST";

/// The one of the run, or why there is none. It is never dropped: its supervisor sees the end of the process.
static SHARED: OnceCell<Result<Cluster, String>> = OnceCell::const_new();

/// A cluster with our definitions in it.
pub struct Cluster {
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    /// None where somebody else runs it.
    plane: Option<ControlPlane>,
    /// Whether the operator's roles are applied.
    pub roles: OnceCell<()>,
}

impl Cluster {
    /// The one that all tests share.
    ///
    /// # Panics
    /// If there is none: the message says what to install.
    pub async fn shared() -> &'static Self {
        let started = SHARED.get_or_init(|| async {
            match std::env::var_os(NAMED) {
                Some(named) => Self::with(PathBuf::from(named), None).await,
                None => Self::started().await,
            }
        });
        started.await.as_ref().unwrap_or_else(|why| panic!("{why}"))
    }

    /// One for a single test, which may stop its API server.
    ///
    /// # Panics
    /// If it cannot be started: the message says why.
    pub async fn own() -> Self {
        Self::started().await.unwrap_or_else(|why| panic!("{why}"))
    }

    async fn started() -> Result<Self, String> {
        let plane = ControlPlane::start().await?;
        Self::with(plane.kubeconfig(), Some(plane)).await
    }

    async fn with(kubeconfig: PathBuf, plane: Option<ControlPlane>) -> Result<Self, String> {
        let cluster = Self { kubeconfig, kubectl: programs::kubectl()?, plane, roles: OnceCell::new() };
        let files = checkout().join("crds");
        let files = files.to_string_lossy();
        cluster.kubectl(&["apply", "--server-side", "-f", &files], "").await?;
        cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", &files], "").await?;
        Ok(cluster)
    }

    /// Its programs and its audit log.
    ///
    /// # Panics
    /// If somebody else runs it.
    pub fn plane(&self) -> &ControlPlane {
        self.plane.as_ref().unwrap_or_else(|| panic!("this test reads the audit log: run it without {NAMED}"))
    }

    /// A client that may do anything, for the runtime of this test.
    pub async fn admin(&self) -> Client {
        client(&self.kubeconfig).await.unwrap()
    }

    /// What such a client is made of, to make another.
    pub async fn config(&self) -> Config {
        config(&self.kubeconfig).await.unwrap()
    }

    /// A new namespace.
    pub async fn namespace(&self) -> String {
        let name = unique("test");
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        Api::all(self.admin().await).create(&PostParams::default(), &namespace).await.unwrap();
        name
    }

    /// The file that says how to reach it as somebody who may do anything.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A client with a token of a new service account, which may do what roles are bound to it.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Client {
        self.make_account(namespace, name).await;
        self.client_of(namespace, name).await
    }

    /// A client with a token of a service account that is there.
    pub async fn client_of(&self, namespace: &str, name: &str) -> Client {
        let mut config = self.config().await;
        let token = Some(self.token(namespace, name, &[]).await.into());
        config.auth_info = AuthInfo { token, ..AuthInfo::default() };
        config.default_namespace = namespace.to_owned();
        Client::try_from(config).unwrap()
    }

    /// A new service account.
    pub async fn make_account(&self, namespace: &str, name: &str) {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await, namespace);
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let account = ServiceAccount { metadata, ..ServiceAccount::default() };
        accounts.create(&PostParams::default(), &account).await.unwrap();
    }

    /// A token of a service account, for these audiences; none is the API server.
    pub async fn token(&self, namespace: &str, name: &str, audiences: &[&str]) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await, namespace);
        let audiences = audiences.iter().map(|audience| (*audience).to_owned()).collect();
        let spec = TokenRequestSpec { audiences, ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let made = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
        made.status.unwrap().token
    }

    /// What a service account of the first namespace may do in the second one, a line for each resource, beyond what every
    /// service account may.
    pub async fn rights(&self, account: (&str, &str), namespace: &str) -> Vec<String> {
        let of_all = self.all_rights((account.0, "nobody"), namespace).await;
        let rights = self.all_rights(account, namespace).await;
        rights.into_iter().filter(|right| !of_all.contains(right)).collect()
    }

    async fn all_rights(&self, (of, account): (&str, &str), namespace: &str) -> Vec<String> {
        let account = format!("--as=system:serviceaccount:{of}:{account}");
        let listed = ["auth", "can-i", "--list", "--no-headers", "-n", namespace, &account];
        let listed = self.kubectl(&listed, "").await.unwrap();
        listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    /// Runs commands in bash, with this kubectl and against this cluster.
    ///
    /// # Errors
    /// If one of them fails: what it said.
    pub async fn bash(&self, commands: &str) -> Result<String, String> {
        let script = format!("kubectl() {{ command \"$KUBECTL\" \"$@\"; }}\n{commands}");
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .env("KUBECTL", &self.kubectl)
            .env("KUBECONFIG", &self.kubeconfig)
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| error.to_string())?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    }

    /// Runs kubectl as the admin, with `input` on its standard input, and gives what it printed.
    ///
    /// # Errors
    /// If it failed: what it was asked and what it said.
    pub async fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let failed = |why: &str| format!("kubectl {}: {why}", arguments.join(" "));
        let mut command = Command::new(&self.kubectl);
        if let Some(plane) = &self.plane {
            // What it remembers of a cluster goes with that.
            command.env("KUBECACHEDIR", plane.folder().join("kubectl"));
        }
        let mut child = command
            .env("KUBECONFIG", &self.kubeconfig)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(&error.to_string()))?;
        let mut stdin = child.stdin.take().expect("it is piped");
        let feed = async {
            // What it did not want to read is not our fault; its status tells.
            let _ = stdin.write_all(input.as_bytes()).await;
            drop(stdin);
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), feed);
        let output = output.map_err(|error| failed(&error.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// A name that no other test has.
pub fn unique(prefix: &str) -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{prefix}-{}", &random[..10])
}

/// A client of whom the file says.
///
/// # Errors
/// If the file or what it names cannot be read yet.
pub async fn client(kubeconfig: &Path) -> Result<Client, String> {
    Client::try_from(config(kubeconfig).await?).map_err(|error| error.to_string())
}

async fn config(kubeconfig: &Path) -> Result<Config, String> {
    let file = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
    let read = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    read.map_err(|error| error.to_string())
}
