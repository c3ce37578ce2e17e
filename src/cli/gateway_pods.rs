//! The admin APIs that a command reads: one address, or all pods of a gateway in a cluster, each through `kubectl port-forward`.

use std::collections::HashSet;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, copy, sink};
use tokio::process::{Child, Command};

use super::args::{AdminArgs, RecordArgs};
use super::names::key;
use super::output::{harmless, say};
use super::refused::Asked;
use super::signals::EndSignals;
use crate::api::gateway::MCPGateway;
use crate::api::item::Item;
use crate::api::snapshot::GATEWAY_LABEL;
use crate::domain::ids::ObjectKey;
use crate::source::cluster::connect;

/// The maximum number of pods that are read: each takes a process.
const MAX_PODS: usize = 50;
/// The name of the admin port in a pod's spec, and the port of a pod without that name.
const ADMIN: &str = "admin";
const ADMIN_PORT: i32 = 9090;
/// How long `kubectl` may take until it forwards.
const FORWARDED: Duration = Duration::from_secs(15);
/// How often new pods are looked for.
const LISTED: Duration = Duration::from_secs(5);

/// The admin APIs that a command reads.
pub struct Sources {
    open: Vec<Source>,
    cluster: Option<Cluster>,
}

struct Source {
    /// The pod; empty for the address of the command.
    pod: String,
    admin: AdminArgs,
    /// `kubectl`, which ends with this value.
    _forward: Option<Child>,
}

struct Cluster {
    client: Client,
    gateway: ObjectKey,
    /// How each pod is asked, but for the address.
    admin: AdminArgs,
    /// Whether one pod is enough: each has the records of all in PostgreSQL.
    is_shared: bool,
    /// The pods that were tried, each with its number of restarts.
    tried: HashSet<(String, i32)>,
    listed_at: Instant,
}

/// A pod, its number of restarts, and its admin port.
type Target = (String, i32, i32);

/// Runs a command that may start processes. If a signal ends it, they end too.
///
/// # Errors
/// Those of the command.
pub async fn run_with_sources(
    args: &RecordArgs,
    command: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    if args.gateway.is_none() {
        return command.await;
    }
    let mut signals = EndSignals::listen()?;
    tokio::select! {
        done = command => done,
        _ = signals.next() => Ok(ExitCode::FAILURE),
    }
}

impl Sources {
    /// Opens the admin APIs that the arguments name.
    ///
    /// # Errors
    /// If the cluster cannot be read, or no pod of the gateway can be reached.
    pub async fn open(args: &RecordArgs) -> anyhow::Result<Self> {
        let Some(gateway) = &args.gateway else {
            let open = vec![Source { pod: String::new(), admin: args.admin.clone(), _forward: None }];
            return Ok(Self { open, cluster: None });
        };
        let client = connect().await?;
        let gateway = key(gateway, args.namespace.as_deref(), client.default_namespace())?;
        let api: Api<Item<MCPGateway>> = Api::namespaced(client.clone(), &gateway.namespace);
        let asked = Asked::of::<MCPGateway>(&["get"], Some(&gateway.namespace));
        let unread = |error| asked.failed(&format!("MCPGateway {gateway} cannot be read"), &error);
        let found = api.get_opt(&gateway.name).await.map_err(unread)?;
        let Item(found) = found.with_context(|| format!("there is no MCPGateway {gateway}"))?;
        let store = found.spec.history.and_then(|history| history.store);
        let is_shared = store.is_some_and(|store| store.postgres.is_some());
        let (admin, tried) = (args.admin.clone(), HashSet::new());
        let cluster = Cluster { client, gateway, admin, is_shared, tried, listed_at: Instant::now() };
        let mut sources = Self { open: Vec::new(), cluster: Some(cluster) };
        sources.find_pods().await?;
        sources.check()?;
        Ok(sources)
    }

    /// Returns the number of admin APIs.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// Returns the first admin API.
    pub fn first(&self) -> Option<&AdminArgs> {
        self.open.first().map(|source| &source.admin)
    }

    /// Reads all admin APIs at once. A pod that cannot be read is named on standard error, and is left out from then on.
    ///
    /// # Errors
    /// If the only address, or every pod, cannot be read.
    pub async fn read<T>(&mut self, read: impl AsyncFn(&AdminArgs) -> anyhow::Result<T>) -> anyhow::Result<Vec<T>> {
        let results = join_all(self.open.iter().map(|source| read(&source.admin))).await;
        if self.cluster.is_none() {
            return results.into_iter().collect();
        }
        let (mut answers, mut open) = (Vec::new(), Vec::new());
        for (source, result) in std::mem::take(&mut self.open).into_iter().zip(results) {
            match result {
                Ok(answer) => {
                    answers.push(answer);
                    open.push(source);
                }
                Err(error) => left_out(&source.pod, &error),
            }
        }
        self.open = open;
        self.check()?;
        Ok(answers)
    }

    /// Opens the other pods too, if one was enough until now. Returns whether there are such pods.
    ///
    /// # Errors
    /// If the cluster cannot be read.
    pub async fn open_others(&mut self) -> anyhow::Result<bool> {
        let Some(cluster) = self.cluster.as_mut().filter(|cluster| cluster.is_shared) else { return Ok(false) };
        cluster.is_shared = false;
        let before = self.open.len();
        self.find_pods().await?;
        Ok(self.open.len() > before)
    }

    /// Opens pods that have started since.
    ///
    /// # Errors
    /// If the cluster cannot be read.
    pub async fn refresh(&mut self) -> anyhow::Result<()> {
        let is_due = |cluster: &Cluster| cluster.listed_at.elapsed() > LISTED;
        let is_enough = |cluster: &Cluster| cluster.is_shared && !self.open.is_empty();
        if self.cluster.as_ref().is_some_and(|cluster| is_due(cluster) && !is_enough(cluster)) {
            self.find_pods().await?;
        }
        Ok(())
    }

    fn check(&self) -> anyhow::Result<()> {
        match &self.cluster {
            Some(Cluster { gateway, .. }) if self.open.is_empty() => {
                bail!("no pod of MCPGateway {gateway} can be read: {GATEWAY_LABEL}={} selects its pods", gateway.name)
            }
            _ => Ok(()),
        }
    }

    /// Forwards to the pods that were not tried yet; if one is enough, to the first that can be reached.
    async fn find_pods(&mut self) -> anyhow::Result<()> {
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        let new = cluster.new_pods().await?;
        if cluster.is_shared {
            for target in new {
                if self.open.is_empty() {
                    cluster.tried.insert((target.0.clone(), target.1));
                    self.open.extend(cluster.forwarded(target).await);
                }
            }
        } else {
            cluster.tried.extend(new.iter().map(|(pod, restarts, _)| (pod.clone(), *restarts)));
            let cluster = &*cluster;
            let opened = join_all(new.into_iter().map(|target| cluster.forwarded(target))).await;
            self.open.extend(opened.into_iter().flatten());
        }
        Ok(())
    }
}

impl Cluster {
    /// Lists the running pods that were not tried yet.
    async fn new_pods(&mut self) -> anyhow::Result<Vec<Target>> {
        let ObjectKey { namespace, name } = &self.gateway;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let asked = Asked { verbs: &["list"], resource: "pods".to_owned(), namespace: Some(namespace) };
        let params = ListParams::default().labels(&format!("{GATEWAY_LABEL}={name}"));
        let pods = api.list(&params).await.map_err(|error| asked.failed("pods cannot be listed", &error))?;
        self.listed_at = Instant::now();
        let running = pods.items.iter().filter_map(target);
        let new: Vec<_> =
            running.filter(|(pod, restarts, _)| !self.tried.contains(&(pod.clone(), *restarts))).collect();
        if new.len() > MAX_PODS && !self.is_shared {
            bail!(
                "MCPGateway {} has {} pods, and at most {MAX_PODS} are read at once. With spec.history.store.postgres, one is \
                 enough",
                self.gateway,
                new.len()
            );
        }
        Ok(new)
    }

    /// Forwards a port of this machine to the pod's admin port.
    async fn forwarded(&self, (pod, _, port): Target) -> Option<Source> {
        match tokio::time::timeout(FORWARDED, forward(&self.gateway.namespace, &pod, port)).await {
            Ok(Ok((address, child))) => {
                let admin = AdminArgs { admin: address, ..self.admin.clone() };
                return Some(Source { pod, admin, _forward: Some(child) });
            }
            Ok(Err(error)) => left_out(&pod, &error),
            Err(_) => left_out(&pod, &anyhow::anyhow!("kubectl port-forward does not forward")),
        }
        None
    }
}

fn left_out(pod: &str, error: &anyhow::Error) {
    say(&format!("warning: pod {pod} is left out: {}", harmless(&format!("{error:#}"))));
}

/// Returns what is read of a pod; `None` if it does not run.
fn target(pod: &Pod) -> Option<Target> {
    let status = pod.status.as_ref().filter(|_| pod.metadata.deletion_timestamp.is_none())?;
    if status.phase.as_deref() != Some("Running") {
        return None;
    }
    let restarts = status.container_statuses.iter().flatten().map(|container| container.restart_count).sum();
    let ports = pod.spec.iter().flat_map(|spec| &spec.containers).flat_map(|it| it.ports.iter().flatten());
    let mut named = ports.filter(|port| port.name.as_deref() == Some(ADMIN));
    Some((pod.name_any(), restarts, named.next().map_or(ADMIN_PORT, |port| port.container_port)))
}

/// Starts `kubectl port-forward`, and returns the address on this machine once it forwards.
async fn forward(namespace: &str, pod: &str, port: i32) -> anyhow::Result<(super::address::Address, Child)> {
    let mut command = Command::new("kubectl");
    command.args(["port-forward", "--address=127.0.0.1", "-n", namespace, &format!("pod/{pod}"), &format!(":{port}")]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().context("kubectl, which reaches pods, cannot be started")?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut lines, mut stderr) = (BufReader::new(stdout.context("no output")?), stderr.context("no output")?);
    let mut line = String::new();
    lines.read_line(&mut line).await?;
    let address = line.strip_prefix("Forwarding from ").and_then(|rest| rest.split_once(" -> "));
    let Some((address, _)) = address else {
        let mut said = String::new();
        let _ = stderr.read_to_string(&mut said).await;
        bail!("kubectl port-forward: {}", said.trim());
    };
    // `kubectl` writes a line for each connection, and would stop if nobody read it.
    tokio::spawn(async move { copy(&mut lines, &mut sink()).await });
    tokio::spawn(async move { copy(&mut stderr, &mut sink()).await });
    Ok((address.parse().map_err(anyhow::Error::msg)?, child))
}
