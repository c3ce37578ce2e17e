//! `hawsepipe gateway`: runs a gateway in a cluster from the snapshots that an operator compiled.

use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use kube::Client;

use super::address::{ADMIN_PORT, MCP_PORT};
use super::again::Again;
use super::args;
use super::history::GatewayHistory;
use super::listeners::Bind;
use super::seal_key;
use super::serve::{Gateway, HttpServers, drain};
use super::signals::EndSignals;
use super::state_folder::check_folder;
use super::wiring::engine;
use crate::domain::ids::ObjectKey;
use crate::domain::problem::Problem;
use crate::node::{Inspector, Launcher, hide_memory};
use crate::source::FolderWatch;
use crate::source::cluster::{ClusterSecrets, GatewayUid, News, OperatorTokens, PodCode, Received, Snapshots, connect};
use crate::telemetry::process::Telemetry;
use crate::transport::{EVERYWHERE, ServerLauncher};
use crate::web::CheckToken;

/// Runs the gateway until a signal ends it.
pub async fn gateway(args: args::GatewayArgs) -> anyhow::Result<ExitCode> {
    let telemetry = Telemetry::start()?;
    hide_memory().context("cannot hide the gateway's memory from plugins")?;
    let client = connect().await?;
    // From here on, a signal must end the process gracefully.
    let mut signals = EndSignals::listen()?;
    let history = GatewayHistory::new(None, args.state_dir.clone()).await?;
    let engine = engine(&telemetry.traces, ServerLauncher::current(), history.store(), Some(client.clone()))?;
    let mut servers = HttpServers::new(&engine);
    // The gateway follows the cluster until the calls have drained, so that restrictions that are added in the meantime
    // apply even to the last calls.
    let drained = async {
        let signal = signals.next().await;
        drain(&engine, signal, &mut signals, Duration::from_secs(args.drain_seconds), true).await
    };
    let ended = tokio::select! {
        ended = serve(&args, client, telemetry.clone(), &history, &engine, &mut servers) => ended.map(|()| None),
        deadline = drained => Ok(deadline),
    };
    match &ended {
        Ok(deadline) => servers.end(*deadline, &mut signals).await,
        Err(_) => engine.abort().await,
    }
    history.close().await;
    telemetry.traces.end().await;
    ended.map(|_| ExitCode::SUCCESS)
}

/// Opens the admin port, and then follows the snapshots in the cluster.
async fn serve(
    args: &args::GatewayArgs,
    client: Client,
    telemetry: Telemetry,
    history: &GatewayHistory,
    engine: &Gateway,
    servers: &mut HttpServers,
) -> anyhow::Result<()> {
    let uid = GatewayUid::default();
    let tokens =
        args.operator.clone().map(|account| Arc::new(OperatorTokens::new(client.clone(), account, uid.clone())));
    let admin = args.admin.listen(EVERYWHERE, ADMIN_PORT).await.context("--admin")?;
    servers.open_admin(admin, tokens.map(check)).await?;
    check_folder(args.state_dir.as_deref())?;
    if let Some(folder) = args.secrets_dir.as_ref().filter(|folder| !folder.is_dir()) {
        tracing::warn!(folder = %folder.display(), "--secrets-dir: there is no such folder");
    }
    let mounted = args.secrets_dir.as_deref().map(|folder| seal_key::mounted(folder, &args.name));
    let seal_key_file = args.seal_key_file.clone().or(mounted);
    // A mounted Secret may be created after the pod.
    let is_mounted = |file: &PathBuf| args.secrets_dir.as_ref().is_some_and(|folder| file.starts_with(folder));
    let required = args.seal_key_file.as_ref().is_some_and(|file| !is_mounted(file));
    seal_key::follow(engine, seal_key_file, required).await?;
    let gateway = ObjectKey::new(&args.namespace, &args.name);
    let following = Following {
        engine: Arc::clone(engine),
        telemetry,
        history,
        snapshots: Snapshots::new(client.clone(), gateway, args.state_dir.clone(), uid),
        secrets: ClusterSecrets::new(client, &args.namespace, args.secrets_dir.clone(), args.api_keys_dir.clone()),
        code: PodCode::new(Inspector::new(Launcher::current().context("cannot tell which program this is")?)),
        watch: FolderWatch::new().context("cannot watch files for changes")?,
        node: args.node.clone(),
        reported: Vec::new(),
        again: Again::new(),
    };
    following.follow(servers, args).await
}

fn check(tokens: Arc<OperatorTokens>) -> CheckToken {
    Arc::new(move |token| {
        let tokens = Arc::clone(&tokens);
        async move { tokens.check(&token).await }.boxed()
    })
}

/// The sources of the plan, its code and its secrets, and the engine that runs the plan.
struct Following<'a> {
    engine: Gateway,
    telemetry: Telemetry,
    history: &'a GatewayHistory,
    snapshots: Snapshots,
    secrets: ClusterSecrets,
    code: PodCode<Inspector>,
    watch: FolderWatch,
    node: Option<PathBuf>,
    /// The Problems that were logged last.
    reported: Vec<Problem>,
    again: Again,
}

impl Following<'_> {
    /// Puts each received plan in force. The endpoints open once the first plan is in force, and are adjusted to each
    /// later plan.
    async fn follow(mut self, servers: &mut HttpServers, args: &args::GatewayArgs) -> anyhow::Result<()> {
        let mut received = self.first().await;
        self.put_in_force(&mut received).await;
        let listen = match &args.listen {
            Some(address) => Some(address.listen(EVERYWHERE, MCP_PORT).await.context("--listen")?),
            None => None,
        };
        let bind = Bind { listen, ip: EVERYWHERE, advertise: args.advertise };
        servers.open(bind, &received.plan.gateway, &self.secrets).await?;
        loop {
            self.woken(&mut received).await;
            self.put_in_force(&mut received).await;
        }
    }

    /// Waits until something must be put in force: a new plan, or new code, secrets or restrictions for the running
    /// plan. New names of tools alone are applied during the wait, because the plan does not have to be linked again
    /// for them.
    async fn woken(&mut self, received: &mut Received) {
        let Self { engine, history, snapshots, secrets, watch, again, .. } = self;
        // The future is created only once, so that new names of tools do not restart the waits in it, such as the pause
        // before a retry.
        let mut others = pin!(async {
            tokio::select! {
                () = secrets.changed() => {}
                () = watch.changed() => {}
                () = again.due() => {}
                () = history.reached() => {}
            }
        });
        loop {
            let news = tokio::select! {
                news = snapshots.next() => news,
                () = &mut others => return,
            };
            match news {
                News::Plan(newer) => *received = *newer,
                News::Extras(extras) => {
                    let only_names = extras.restrictions == received.extras.restrictions;
                    received.extras = extras;
                    if only_names {
                        engine.in_force.set_published_names(received.extras.seen_names.clone());
                        engine.views.set_pending(snapshots.pending());
                        snapshots.keep(received).await;
                        continue;
                    }
                }
                News::Pending(_) => {}
            }
            return;
        }
    }

    /// Waits for the first plan. Until it arrives, the status reports why there is no plan.
    async fn first(&mut self) -> Received {
        loop {
            match self.snapshots.next().await {
                News::Plan(received) => return *received,
                News::Pending(pending) => self.engine.views.set_pending(pending),
                // The plan arrives together with its extras, so nothing is lost here.
                News::Extras(_) => {}
            }
        }
    }

    /// Puts the received plan in force, with the current files and Secrets.
    async fn put_in_force(&mut self, received: &mut Received) {
        let mut plan = received.in_force();
        if let Some(node) = &self.node {
            plan.gateway.runtime.node_executable.clone_from(node);
        }
        self.secrets.follow(&plan).await;
        let running = Arc::clone(self.engine.in_force.snapshot().plan());
        let mut completed = self.code.complete(plan, &running).await;
        let mut folders = completed.folders;
        self.secrets.folders().into_iter().for_each(|folder| folders.add_all(folder));
        self.watch.set(folders);
        self.telemetry.follow(&completed.plan.gateway);
        completed.problems.extend(self.history.follow(&mut completed.plan.gateway, &running, &self.secrets));
        // The names are set before the plan is applied: otherwise, a name could move from one upstream's tool to
        // another upstream's tool.
        self.engine.in_force.set_published_names(received.extras.seen_names.clone());
        self.engine.applier.apply(completed.plan, completed.problems, &self.secrets).await;
        self.history.applied();
        self.engine.views.set_pending(self.snapshots.pending());
        self.report();
        self.snapshots.keep(received).await;
    }

    /// Logs the Problems of the plan if they changed, and schedules a retry if one of them can be temporary.
    fn report(&mut self) {
        let snapshot = self.engine.in_force.snapshot();
        self.again.after(snapshot.problems().iter());
        if snapshot.problems() == self.reported {
            return;
        }
        self.reported = snapshot.problems().to_vec();
        for problem in &self.reported {
            let reason = problem.reason.as_str();
            if problem.is_error() {
                tracing::error!(reason, "{problem}");
            } else {
                tracing::warn!(reason, "{problem}");
            }
        }
    }
}
