//! `hawsepipe run`: a gateway from manifests on disk.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::args::Run;
use super::signals::EndSignals;
use super::validate::{directory, line};
use super::wiring::{Adapters, engine};
use crate::domain::plan::{GatewayPlan, ListenerPlan, Plan};
use crate::engine::Engine;
use crate::node::Inspector;
use crate::source::{Compiled, Directory, Located, Watch};
use crate::telemetry::log::{self, LogLevel};
use crate::web;

/// How long calls in flight may go on after the first Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(10);
/// The name of the listener that the command line makes.
const COMMAND_LINE: &str = "command-line";

type Gateway = Arc<Engine<Adapters>>;

/// Runs until a signal ends it.
pub async fn run(args: Run) -> anyhow::Result<ExitCode> {
    let log = log::start();
    if !args.admin.ip().is_loopback() {
        bail!("--admin {}: the admin API has no authentication yet, so it is served on loopback only", args.admin);
    }
    let mut directory = directory(args.source.files.clone(), args.source.options)?;
    let first = directory.read(None).await?;
    if !first.unreadable.is_empty() {
        first.located.iter().for_each(|located| eprintln!("{}", line(located)));
        bail!("{} cannot be read; put it right and start again", first.unreadable[0].display());
    }
    let listeners = listeners(&first.plan.gateway, args.listen);
    check_open(&first.plan.gateway, &listeners, args.insecure_anonymous)?;
    // From here on there is something to end in order.
    let mut signals = EndSignals::listen()?;
    let engine = engine()?;
    let stop = CancellationToken::new();
    let started = tokio::select! {
        started = start(&engine, log, directory, first, listeners, args.admin, &stop) => started.map(Some),
        () = signals.next() => Ok(None),
    };
    let servers = match started {
        Ok(Some(servers)) => servers,
        early => {
            engine.abort().await;
            return early.map(|_| ExitCode::SUCCESS);
        }
    };
    signals.next().await;
    tracing::info!("ending: calls in flight have {PATIENCE:?}; a second signal ends at once");
    stop.cancel();
    tokio::select! {
        () = engine.shutdown(PATIENCE) => servers_end(servers).await,
        () = signals.next() => engine.abort().await,
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the listeners, puts the first plan in force, and follows changes from then on.
async fn start(
    engine: &Gateway,
    log: LogLevel,
    directory: Directory<Inspector>,
    first: Compiled,
    listeners: Vec<Opened>,
    admin: SocketAddr,
    stop: &CancellationToken,
) -> anyhow::Result<JoinSet<()>> {
    let servers = open(engine, listeners, admin, stop).await?;
    let mut watch = Watch::new().context("cannot watch the manifests for changes")?;
    say_sandbox(&first.plan);
    report(&first.located);
    let reported = first.located.clone();
    put_in_force(engine, &log, &mut watch, first).await;
    tokio::spawn(follow(Arc::clone(engine), log, directory, watch, reported));
    tokio::spawn(sweep(Arc::clone(engine)));
    Ok(servers)
}

/// Gives answers that are on their way a moment to get out.
async fn servers_end(mut servers: JoinSet<()>) {
    let _ = tokio::time::timeout(Duration::from_secs(1), async { while servers.join_next().await.is_some() {} }).await;
}

/// An address, and the listener of the plan that it serves.
struct Opened {
    address: SocketAddr,
    plan: ListenerPlan,
}

/// The command line's address wins; else the manifest's ports on loopback; else 127.0.0.1:8080.
fn listeners(gateway: &GatewayPlan, listen: Option<SocketAddr>) -> Vec<Opened> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let default = || ListenerPlan {
        name: COMMAND_LINE.into(),
        port: 8080,
        path: "/mcp".into(),
        hosts: Vec::new(),
        allowed_origins: Vec::new(),
        refusing: None,
    };
    match (listen, gateway.listeners.first()) {
        (Some(address), first) => vec![Opened { address, plan: first.cloned().unwrap_or_else(default) }],
        (None, None) => vec![Opened { address: SocketAddr::new(loopback, 8080), plan: default() }],
        (None, Some(_)) => {
            let opened =
                |plan: &ListenerPlan| Opened { address: SocketAddr::new(loopback, plan.port), plan: plan.clone() };
            gateway.listeners.iter().map(opened).collect()
        }
    }
}

/// An open gateway off loopback has to be meant.
fn check_open(gateway: &GatewayPlan, listeners: &[Opened], insecure_anonymous: bool) -> anyhow::Result<()> {
    let outside = listeners.iter().find(|listener| !listener.address.ip().is_loopback());
    match outside {
        Some(listener) if !gateway.anonymous && !insecure_anonymous => bail!(
            "{} is not loopback, and this gateway asks nobody who they are. Write `authentication: {{anonymous: {{}}}}` \
             into the MCPGateway, or give --insecure-anonymous, if that is meant",
            listener.address
        ),
        _ => Ok(()),
    }
}

async fn open(
    engine: &Gateway,
    listeners: Vec<Opened>,
    admin: SocketAddr,
    stop: &CancellationToken,
) -> anyhow::Result<JoinSet<()>> {
    let mut servers = JoinSet::new();
    for Opened { address, plan } in listeners {
        if let Some(refusal) = &plan.refusing {
            tracing::error!(listener = plan.name, "not opened: {}", refusal.message);
            continue;
        }
        let socket = bind(address, "--listen").await?;
        tracing::info!(address = %socket.local_addr()?, path = plan.path, "MCP endpoint");
        let listener = web::Listener { settings: plan, bound: socket.local_addr()? };
        let router = web::mcp_router(Arc::clone(engine), listener, stop.clone());
        servers.spawn(web::serve(socket, router, stop.clone()));
    }
    let socket = bind(admin, "--admin").await?;
    tracing::info!(address = %socket.local_addr()?, "admin API and metrics");
    servers.spawn(web::serve(socket, web::admin_router(Arc::clone(engine)), stop.clone()));
    Ok(servers)
}

async fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}. Another program may use the port: give another with {flag} ADDR")
    })
}

/// Says once what plugins may do here.
fn say_sandbox(plan: &Plan) {
    match &plan.gateway.runtime.refusing {
        Some(refusal) => tracing::error!("no plugin runs: {}", refusal.message),
        None if plan.chains.iter().any(|chain| !chain.entries.is_empty()) => tracing::warn!(
            "plugins run without a sandbox: they may do what this user may. Run only code that you trust"
        ),
        None => {}
    }
}

/// Logs what is wrong.
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

async fn put_in_force(engine: &Gateway, log: &LogLevel, watch: &mut Watch, compiled: Compiled) {
    watch.set(compiled.folders);
    if let Some(level) = &compiled.plan.gateway.log_level {
        log.set(level);
    }
    engine.records().set_per_plugin(compiled.plan.gateway.history_per_plugin as usize);
    engine.apply(compiled.plan, compiled.problems, &compiled.secrets).await;
}

/// Reads again whenever something changed. What cannot be read leaves the plan as it is.
async fn follow(
    engine: Gateway,
    log: LogLevel,
    mut directory: Directory<Inspector>,
    mut watch: Watch,
    mut reported: Vec<Located>,
) {
    loop {
        watch.changed().await;
        let running = Arc::clone(engine.snapshot().plan());
        match directory.read(Some(&running)).await {
            Ok(compiled) => {
                if compiled.located != reported {
                    report(&compiled.located);
                    reported.clone_from(&compiled.located);
                }
                put_in_force(&engine, &log, &mut watch, compiled).await;
            }
            Err(error) => {
                tracing::error!("the plan stays as it is: {error}");
                watch.renew();
            }
        }
    }
}

async fn sweep(engine: Gateway) {
    let mut ticks = tokio::time::interval(SWEEP);
    loop {
        ticks.tick().await;
        engine.expire_sessions();
    }
}
