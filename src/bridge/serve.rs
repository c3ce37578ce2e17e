//! The bridge from its start to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hyper_util::service::TowerToHyperService;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::args::{BridgeArgs, SessionMode};
use super::context::Context;
use super::endpoint::router;
use super::environment;
use super::keeper::Keeper;
use super::reaper;
use super::session::Sessions;
use super::state::Bridge;
use super::stderr::say;
use crate::domain::budget::{ByteBudget, LIMIT};
use crate::transport::{EVERYWHERE, MAX_CONNECTIONS, ServerLauncher, bind, serve};

/// The default port.
pub const PORT: u16 = 8080;
/// How many messages of the maximum size the memory of all messages holds at least. A quarter of it is for requests,
/// each of which takes up three times its size.
const MESSAGES: u64 = 16;
/// For how long the bridge still takes requests after SIGTERM, because it takes a while until clients are routed to
/// another one. At most half of the grace period.
const LINGER: Duration = Duration::from_secs(5);
/// The time for the answers to calls that were ended at the deadline.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// The time for processes to end, which is more than their pauses before SIGTERM and SIGKILL.
const PROCESSES_END: Duration = Duration::from_secs(6);

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// If the address cannot be bound, or signals cannot be caught.
pub(super) async fn run(args: BridgeArgs) -> io::Result<()> {
    let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    let listener = bind(args.listen.unwrap_or(SocketAddr::new(EVERYWHERE, PORT)), "--listen ADDR").await?;
    let bridge = Arc::new(bridge_of(&args));
    let background = [
        tokio::spawn(reaper::reap_orphans(Arc::clone(&bridge.context))),
        tokio::spawn(sweep(Arc::clone(&bridge), Duration::from_secs(args.idle_seconds))),
        tokio::spawn(keep(Arc::clone(&bridge))),
    ];
    say(&format!("listening on {}, serving {}", listener.local_addr()?, bridge.context.command)).await;
    if let Err(error) = bridge.context.find() {
        say(&format!("cannot start {}: {error}", bridge.context.command)).await;
    }
    let shutdown = CancellationToken::new();
    let service = TowerToHyperService::new(router(Arc::clone(&bridge), &args.path));
    let server = tokio::spawn(serve(listener, service, || MAX_CONNECTIONS, shutdown.clone()));
    next(&mut signals).await;
    tokio::select! {
        () = end(&bridge, server, &shutdown, Duration::from_secs(args.drain_seconds)) => {}
        () = next(&mut signals) => {
            bridge.context.hurry.cancel();
            bridge.context.ending.cancel();
        }
    }
    // From here on nothing is started again.
    background.into_iter().for_each(|task| task.abort());
    reaper::kill_all().await;
    Ok(())
}

fn bridge_of(args: &BridgeArgs) -> Bridge {
    let (command, rest) =
        args.command.split_first().map_or((String::new(), Vec::new()), |(c, r)| (c.clone(), r.to_vec()));
    let context = Arc::new(Context {
        command,
        args: rest,
        launcher: ServerLauncher::current(),
        max_message: args.max_message_bytes as usize,
        budget: Arc::new(ByteBudget::new(LIMIT.max(MESSAGES * u64::from(args.max_message_bytes)))),
        tasks: TaskTracker::new(),
        in_flight: TaskTracker::new(),
        ending: CancellationToken::new(),
        hurry: CancellationToken::new(),
        started: AtomicU64::new(0),
        own: Default::default(),
        mask: environment::mask(std::env::vars_os()),
        stray_logged: Default::default(),
    });
    let is_shared = args.session == SessionMode::Shared;
    Bridge {
        sessions: Sessions::new(&context, args.max_sessions as usize, !is_shared),
        keeper: Keeper::new(&context),
        sessionless: Keeper::new(&context),
        context,
        is_shared,
        draining: CancellationToken::new(),
        closing: CancellationToken::new(),
    }
}

async fn next(signals: &mut [Signal; 2]) {
    let [terminate, interrupt] = signals;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// With one process for all, keeps it running.
async fn keep(bridge: Arc<Bridge>) {
    if bridge.is_shared {
        tokio::select! {
            () = bridge.draining.cancelled() => {}
            () = bridge.keeper.keep() => {}
        }
    }
}

/// Ends what nobody uses.
async fn sweep(bridge: Arc<Bridge>, idle: Duration) {
    let mut ticks = tokio::time::interval((idle / 4).clamp(Duration::from_millis(250), Duration::from_secs(10)));
    loop {
        ticks.tick().await;
        bridge.sessions.end_idle(idle);
        bridge.sessionless.end_idle(idle).await;
    }
}

/// Begins no more sessions, takes no more requests after a while, lets calls end, then ends all processes. The listener
/// stays until the calls have ended: some wait for an answer of their client, which is another POST.
async fn end(bridge: &Bridge, mut server: JoinHandle<()>, shutdown: &CancellationToken, grace: Duration) {
    let deadline = Instant::now() + grace;
    bridge.draining.cancel();
    // Nobody may be reading the log, so nothing waits for what is written to it.
    tokio::spawn(say(format!("ending: calls in flight have {grace:?}; a second signal ends at once")));
    tokio::time::sleep(LINGER.min(grace / 2)).await;
    bridge.closing.cancel();
    bridge.context.in_flight.close();
    let _ = tokio::time::timeout_at(deadline, bridge.context.in_flight.wait()).await;
    shutdown.cancel();
    let in_time = tokio::time::timeout_at(deadline, &mut server).await.is_ok();
    bridge.context.ending.cancel();
    if !in_time {
        tokio::spawn(say("the calls that are still in flight are ended: see --drain-seconds"));
        let _ = tokio::time::timeout(LAST_ANSWERS, server).await;
    }
    bridge.context.tasks.close();
    let _ = tokio::time::timeout(PROCESSES_END, bridge.context.tasks.wait()).await;
}
