//! etcd, kube-apiserver and kube-controller-manager on loopback, in a folder of their own.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::audit;
use super::programs::Programs;
use super::supervisor::Supervisor;

/// The name of the API server, for [`ControlPlane::signal`].
pub const API_SERVER: &str = "kube-apiserver";
const ETCD: &str = "etcd";
/// Where it listens, in the folder: no port that another program could take or reach.
pub const ETCD_SOCKET: &str = "etcd.sock:0";
/// The same of the controllers.
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// How long it may take to start on a busy machine.
const START: Duration = Duration::from_secs(120);

/// A control plane that ends with its value, or with the process.
pub struct ControlPlane {
    supervisor: Supervisor,
    server: String,
    admin: String,
}

impl ControlPlane {
    /// Starts one and waits until it is ready.
    ///
    /// # Errors
    /// If a program lacks or ends at once: which, and its last words.
    pub async fn start() -> Result<Self, String> {
        let programs = Programs::find()?;
        let failed = |error: io::Error| format!("a control plane cannot be started: {error}");
        let supervisor = Supervisor::start().map_err(failed)?;
        let port = free_port().map_err(failed)?;
        let token = || uuid::Uuid::new_v4().simple().to_string();
        let plane = Self { supervisor, server: format!("https://127.0.0.1:{port}"), admin: token() };
        plane.prepare(&programs, port, &token()).map_err(failed)?;
        plane.run(ETCD)?;
        plane.run(API_SERVER)?;
        plane.ready().await?;
        plane.run(CONTROLLER_MANAGER)?;
        Ok(plane)
    }

    /// Its folder, which holds the logs too.
    pub fn folder(&self) -> &Path {
        self.supervisor.folder()
    }

    /// Of the user `admin`, who may do anything.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("admin.kubeconfig")
    }

    /// Where the API server writes what it was asked.
    pub fn audit_log(&self) -> PathBuf {
        self.folder().join("audit.log")
    }

    /// Sends a program a signal: `STOP` is an API server that hangs, `CONT` lets it go on.
    ///
    /// # Panics
    /// If it does not run.
    pub fn signal(&self, program: &str, signal: &str) {
        let running = self.supervisor.signal(program, signal).expect("the supervisor runs");
        assert!(running.is_some(), "{program} does not run; its last words:\n{}", self.supervisor.last_words(program));
    }

    /// Kills a program. Its port refuses connections when this returns.
    ///
    /// # Panics
    /// If it was never started.
    pub fn kill(&self, program: &str) {
        self.supervisor.kill(program).expect("the supervisor runs").expect("the program was started");
    }

    /// Runs another program, which ends with the control plane.
    ///
    /// # Panics
    /// If it cannot be started.
    #[allow(dead_code)] // The benchmark asks.
    pub fn run_beside(&self, name: &str, program: &Path, arguments: &[&str]) {
        self.supervisor.define(name, program, &self::arguments(arguments)).unwrap();
        self.run(name).unwrap();
    }

    /// Starts the API server again, with what it had stored, and waits until it is ready.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_api_server_again(&self) {
        self.run(API_SERVER).unwrap();
        self.ready().await.unwrap();
    }

    fn run(&self, program: &str) -> Result<(), String> {
        match self.supervisor.run(program) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(format!("{program} cannot be started")),
            Err(error) => Err(format!("{program} cannot be started: {error}")),
        }
    }

    /// Waits until the API server says that it is ready. Its certificate is one of the things that it makes first.
    async fn ready(&self) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + START;
        while !self.is_ready().await {
            for program in [ETCD, API_SERVER] {
                if !matches!(self.supervisor.signal(program, "0"), Ok(Some(_))) {
                    let words = self.supervisor.last_words(program);
                    return Err(format!("{program} ended before it was ready; its last words:\n{words}"));
                }
            }
            if tokio::time::Instant::now() > deadline {
                let words = self.supervisor.last_words(API_SERVER);
                return Err(format!("{API_SERVER} is not ready after {START:?}; its last words:\n{words}"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn is_ready(&self) -> bool {
        let Ok(client) = super::cluster::client(&self.kubeconfig()).await else { return false };
        let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
        client.request_text(request).await.is_ok_and(|answer| answer == "ok")
    }

    /// Writes the files and command lines.
    fn prepare(&self, programs: &Programs, port: u16, manager: &str) -> io::Result<()> {
        let write = |name: &str, text: &str| std::fs::write(self.folder().join(name), text);
        write("audit-policy.json", audit::POLICY)?;
        write("service-accounts.pem", &signing_key()?)?;
        let admin = &self.admin;
        write(
            "tokens.csv",
            &format!(
                "{admin},admin,admin,system:masters\n{manager},system:kube-controller-manager,manager,system:nobodies\n"
            ),
        )?;
        write("admin.kubeconfig", &self.kubeconfig_of(admin))?;
        write("manager.kubeconfig", &self.kubeconfig_of(manager))?;
        self.supervisor.define(ETCD, &programs.etcd, &etcd())?;
        self.supervisor.define(API_SERVER, &programs.api_server, &api_server(port))?;
        self.supervisor.define(CONTROLLER_MANAGER, &programs.controller_manager, &controller_manager())
    }

    /// YAML takes JSON.
    fn kubeconfig_of(&self, token: &str) -> String {
        let authority = self.folder().join("tls/apiserver.crt");
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.server, "certificate-authority": authority}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        })
        .to_string()
    }
}

fn etcd() -> Vec<String> {
    arguments(&[
        "--data-dir=etcd",
        "--listen-client-urls=unix://etcd.sock:0",
        "--advertise-client-urls=unix://etcd.sock:0",
        "--listen-peer-urls=unix://peer.sock:0",
        "--initial-advertise-peer-urls=unix://peer.sock:0",
        "--initial-cluster=default=unix://peer.sock:0",
        "--unsafe-no-fsync",
    ])
}

fn api_server(port: u16) -> Vec<String> {
    let mut arguments = arguments(&[
        "--etcd-servers=unix://etcd.sock:0",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--cert-dir=tls",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=service-accounts.pem",
        "--service-account-signing-key-file=service-accounts.pem",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--audit-policy-file=audit-policy.json",
        "--audit-log-path=audit.log",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=10000",
    ]);
    arguments.push(format!("--secure-port={port}"));
    arguments
}

/// All its controllers, each as a service account of its own, as in a cluster. Their limit of 20 requests a second is
/// raised: the benchmark would measure nothing else.
fn controller_manager() -> Vec<String> {
    arguments(&[
        "--kubeconfig=manager.kubeconfig",
        "--use-service-account-credentials=true",
        "--service-account-private-key-file=service-accounts.pem",
        "--root-ca-file=tls/apiserver.crt",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ])
}

fn arguments(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The key that signs the tokens of service accounts, in the form of elliptic keys that the API server takes as both
/// the private and the public one.
fn signing_key() -> io::Result<String> {
    let der = || -> Result<EcPrivateKeyRfc5915Der<'static>, Unspecified> {
        EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?.private_key().as_der()
    };
    let der = der().map_err(|_| io::Error::other("no key could be made"))?;
    let text = BASE64_STANDARD.encode(der.as_ref());
    Ok(format!("-----BEGIN EC PRIVATE KEY-----\n{text}\n-----END EC PRIVATE KEY-----\n"))
}

/// A port of loopback below those that clients are given: while the API server is down, none of them may get its port.
fn free_port() -> io::Result<u16> {
    let first = 20_000 + uuid::Uuid::new_v4().as_fields().1 % 10_000;
    let mut ports = (first..first + 1000).filter(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    ports.next().ok_or_else(|| io::Error::other("no free port on 127.0.0.1"))
}
