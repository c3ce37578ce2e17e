//! `hawsepipe run`: runs a gateway from manifests on disk.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::task::JoinHandle;

use super::address::{ADMIN_PORT, Address, MCP_PORT, METRICS_PORT};
use super::again::Again;
use super::args::RunArgs;
use super::greeting::greet;
use super::history::GatewayHistory;
use super::listeners::Bind;
use super::output::say;
use super::problem_line::line;
use super::registry::RegistryCopy;
use super::seal_key;
use super::serve::{Gateway, HttpServers, drain};
use super::signals::EndSignals;
use super::state_folder;
use super::store_arg::StoreArg;
use super::validate::directory;
use super::wiring::engine;
use crate::domain::digest::sha256_hex;
use crate::domain::plan::{GatewayPlan, Plan};
use crate::node::{Inspector, hide_memory};
use crate::source::{CompiledManifests, Directory, FolderWatch, Located, StateFolder, unread_folders};
use crate::telemetry::process::Telemetry;

/// The default IP address of listeners.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Runs the gateway until a signal ends it.
pub async fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let telemetry = Telemetry::start()?;
    hide_memory().context("cannot hide the gateway's memory from plugins")?;
    let addresses = addresses(&args).await?;
    let state = state_folder::folder(&args)?;
    let (files, registry) = files(&args, &state).await?;
    let mut directory = directory(files, args.source.options)?;
    warn_of_unread(&args.source.files);
    let first = first_reading(&mut directory, state_folder::last_plan(&state)).await?;
    let bind = Bind { listen: addresses.listen, ip: HERE, advertise: args.advertise };
    check_open(&first.plan.gateway, &bind, addresses.admin, args.insecure_anonymous)?;
    // From here on, a signal must end the process gracefully.
    let mut signals = EndSignals::listen()?;
    let store = args.store.as_ref().map(StoreArg::target).transpose().context("--store")?;
    let history = Arc::new(GatewayHistory::new(store, state.path().map(Path::to_owned)).await?);
    let engine = engine(&telemetry.traces, state_folder::launcher(&state).await, history.store(), None)?;
    keep(&engine, &state);
    seal_key::follow(&engine, args.seal_key_file.clone(), true).await?;
    let mut servers = HttpServers::new(&engine);
    let gateway = RunningGateway::of(&engine, &telemetry, &history);
    let started = tokio::select! {
        started = start(&mut servers, gateway, directory, first, bind, addresses) => started.map(Some),
        _ = signals.next() => Ok(None),
    };
    let following = match started {
        Ok(Some(following)) => following,
        other => {
            engine.abort().await;
            return other.map(|_| ExitCode::SUCCESS);
        }
    };
    let registry = registry.map(|registry| tokio::spawn(registry.follow()));
    let signal = signals.next().await;
    // A change that is read from now on would start workers and upstreams only to end them again.
    [Some(following), registry].into_iter().flatten().for_each(|task| task.abort());
    let deadline = drain(&engine, signal, &mut signals, Duration::from_secs(args.drain_seconds), false).await;
    servers.end(deadline, &mut signals).await;
    history.close().await;
    write(&engine, &state);
    telemetry.traces.end().await;
    Ok(ExitCode::SUCCESS)
}

/// The manifests of the command line, and the folder with the copy of the registry, if it names one.
async fn files(args: &RunArgs, state: &StateFolder) -> anyhow::Result<(Vec<PathBuf>, Option<RegistryCopy>)> {
    let mut files = args.source.files.clone();
    let Some(target) = &args.registry else { return Ok((files, None)) };
    let target = target.target().context("--registry")?;
    let folder = state.path().context("--registry needs a state folder: set --state-dir")?;
    // Each registry has a copy of its own: that of another one can lack a Guard.
    let copy = format!("registry-{:.12}", sha256_hex(target.to_string().as_bytes()));
    let registry = RegistryCopy::new(target, folder.join(copy)).await?;
    files.push(registry.folder().to_owned());
    Ok((files, Some(registry)))
}

/// Restores what earlier processes stored, and stores changes of it.
fn keep(engine: &Gateway, state: &Arc<StateFolder>) {
    state_folder::keep_seen_names(engine, state);
    state_folder::keep_loaded_plugins(engine, state);
    state_folder::keep_plans(engine, state);
}

/// Stores the last changes.
fn write(engine: &Gateway, state: &StateFolder) {
    state_folder::write_seen_names(engine, state);
    state_folder::write_loaded_plugins(engine, state);
    state_folder::write_plan(engine, state);
}

async fn first_reading(
    directory: &mut Directory<Inspector>,
    stored: Option<Plan>,
) -> anyhow::Result<CompiledManifests> {
    let first = directory.read_first(stored.as_ref()).await?;
    check_whole(&first)?;
    Ok(first)
}

/// Fails if it is not known what a file declares: what is missing can be a Guard.
fn check_whole(first: &CompiledManifests) -> anyhow::Result<()> {
    let unreadable = first.unreadable.first().map(|file| (file, "cannot be read"));
    let unclear = || first.unclear.first().map(|file| (file, "has a document that cannot be identified"));
    let Some((file, why)) = unreadable.or_else(unclear) else { return Ok(()) };
    first.located.iter().for_each(|located| say(&line(located)));
    bail!("{} {why}; put it right and start again", file.display())
}

/// Warns of folders with manifests that are not read.
fn warn_of_unread(paths: &[PathBuf]) {
    if let Some(unread) = unread_folders(paths) {
        tracing::warn!("{unread}");
    }
}

/// The addresses of the command line.
#[derive(Clone, Copy)]
struct Addresses {
    /// The address for MCP clients, if `--listen` sets one.
    listen: Option<SocketAddr>,
    admin: SocketAddr,
    /// The address of the metrics alone, if `--metrics` sets one.
    metrics: Option<SocketAddr>,
}

async fn addresses(args: &RunArgs) -> anyhow::Result<Addresses> {
    let admin = args.admin.listen(HERE, ADMIN_PORT).await.context("--admin")?;
    let listen = optional(args.listen.as_ref(), MCP_PORT).await.context("--listen")?;
    let metrics = optional(args.metrics.as_ref(), METRICS_PORT).await.context("--metrics")?;
    Ok(Addresses { listen, admin, metrics })
}

async fn optional(address: Option<&Address>, port: u16) -> anyhow::Result<Option<SocketAddr>> {
    match address {
        Some(address) => Ok(Some(address.listen(HERE, port).await?)),
        None => Ok(None),
    }
}

/// The parts of the gateway that follow its plan.
struct RunningGateway {
    engine: Gateway,
    telemetry: Telemetry,
    history: Arc<GatewayHistory>,
}

impl RunningGateway {
    fn of(engine: &Gateway, telemetry: &Telemetry, history: &Arc<GatewayHistory>) -> Self {
        Self { engine: Arc::clone(engine), telemetry: telemetry.clone(), history: Arc::clone(history) }
    }
}

/// Opens the listeners and puts the first plan in force. Returns the task that follows later changes.
async fn start(
    servers: &mut HttpServers,
    gateway: RunningGateway,
    directory: Directory<Inspector>,
    first: CompiledManifests,
    bind: Bind,
    Addresses { admin, metrics, .. }: Addresses,
) -> anyhow::Result<JoinHandle<()>> {
    gateway.engine.readings().follow();
    servers.open(bind, &first.plan.gateway, &first.secrets).await?;
    servers.open_admin(admin, None).await?;
    if let Some(metrics) = metrics {
        servers.open_metrics(metrics).await?;
    }
    let mut watch = FolderWatch::new().context("cannot watch the manifests for changes")?;
    report(&first.located);
    let reported = first.located.clone();
    put_in_force(&gateway, &mut watch, first).await;
    if let Some(url) = servers.url() {
        tokio::spawn(greet(Arc::clone(&gateway.engine), url.to_owned()));
    }
    Ok(tokio::spawn(follow(gateway, directory, watch, reported)))
}

/// Refuses to serve anonymous clients on an address that is not loopback, unless a manifest or the flag
/// `--insecure-anonymous` allows anonymous clients.
fn check_open(gateway: &GatewayPlan, bind: &Bind, admin: SocketAddr, insecure_anonymous: bool) -> anyhow::Result<()> {
    check_admin(gateway, admin)?;
    let outside = bind.addresses(gateway).into_keys().find(|address| !address.ip().is_loopback());
    match outside {
        Some(address) if !gateway.authenticates() && !gateway.anonymous && !insecure_anonymous => bail!(
            "{} is not loopback, and this gateway asks nobody who they are. Write `authentication: {{anonymous: {{}}}}` \
             into the MCPGateway, or give --insecure-anonymous, if that is meant",
            address
        ),
        _ => Ok(()),
    }
}

/// Refuses to serve the admin API on an address that is not loopback, unless its clients authenticate.
fn check_admin(gateway: &GatewayPlan, admin: SocketAddr) -> anyhow::Result<()> {
    if !admin.ip().is_loopback() && !gateway.admin_authentication {
        bail!(
            "--admin {admin}: without spec.admin.authentication of the MCPGateway, the admin API is served on loopback only; \
             --metrics ADDR serves the metrics alone on any address"
        );
    }
    Ok(())
}

fn report(problems: &[Located]) {
    for located in problems {
        let place = located.place.map(|place| format!("{}:{}", place.line, place.column));
        let file = located.file.as_ref().map(|file| file.display().to_string());
        let reason = located.problem.reason.as_str();
        if located.problem.is_error() {
            tracing::error!(file, place, reason, "{}", located.problem);
        } else {
            tracing::warn!(file, place, reason, "{}", located.problem);
        }
    }
}

async fn put_in_force(gateway: &RunningGateway, watch: &mut FolderWatch, mut compiled: CompiledManifests) {
    watch.set(compiled.folders);
    gateway.telemetry.follow(&compiled.plan.gateway);
    let running = Arc::clone(gateway.engine.in_force.snapshot().plan());
    compiled.problems.extend(gateway.history.follow(&mut compiled.plan.gateway, &running, &compiled.secrets));
    gateway.engine.applier.apply(compiled.plan, compiled.problems, &compiled.secrets).await;
    gateway.history.applied();
}

/// Reads the manifests again after each change, on request, and when a retry is due, and puts the new plan in force. If
/// reading fails, the plan stays as it is.
async fn follow(
    gateway: RunningGateway,
    mut directory: Directory<Inspector>,
    mut watch: FolderWatch,
    mut reported: Vec<Located>,
) {
    let (engine, mut again) = (Arc::clone(&gateway.engine), Again::new());
    again.after(reported.iter().map(|located| &located.problem));
    loop {
        tokio::select! {
            () = watch.changed() => {}
            () = engine.readings().asked() => {}
            () = again.due() => {}
            () = gateway.history.reached() => {}
        }
        let reading = engine.readings().begin();
        let running = Arc::clone(engine.in_force.snapshot().plan());
        match directory.read(Some(&running)).await {
            Ok(compiled) => {
                if compiled.located != reported {
                    report(&compiled.located);
                    reported.clone_from(&compiled.located);
                }
                again.after(reported.iter().map(|located| &located.problem));
                put_in_force(&gateway, &mut watch, compiled).await;
                engine.readings().end(reading, Ok(()));
            }
            Err(error) => {
                tracing::error!("the plan stays as it is: {error}");
                engine.readings().end(reading, Err(error.to_string()));
                watch.renew();
            }
        }
    }
}
