//! The bridge from its start to its end.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::args::{BridgeArgs, SessionMode};
use super::context::Context;
use super::endpoint::router;
use super::keeper::Keeper;
use super::reaper;
use super::session::Sessions;
use super::state::Bridge;
use super::stderr::say;
use crate::domain::budget::{ByteBudget, LIMIT};
use crate::transport::{ServerLauncher, serve};

/// The default port.
pub const PORT: u16 = 8080;
/// How many messages of the maximum size the memory of all messages holds at least. A quarter of it is for requests,
/// each of which takes up three times its size.
const MESSAGES: u64 = 16;
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
    let listener = bind(args.listen).await?;
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
    let server = tokio::spawn(serve(listener, router(Arc::clone(&bridge), &args.path), shutdown.clone()));
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
        ending: CancellationToken::new(),
        hurry: CancellationToken::new(),
        own: Default::default(),
    });
    let is_shared = args.session == SessionMode::Shared;
    Bridge {
        sessions: Sessions::new(&context, args.max_sessions as usize, !is_shared),
        keeper: Keeper::new(&context),
        context,
        is_shared,
        draining: CancellationToken::new(),
    }
}

async fn bind(address: Option<SocketAddr>) -> io::Result<TcpListener> {
    let (any, any_v4) =
        (SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT)), SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)));
    let bound = match address {
        Some(address) => TcpListener::bind(address).await,
        None => match TcpListener::bind(any).await {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => TcpListener::bind(any_v4).await,
            bound => bound,
        },
    };
    let address = address.unwrap_or(any);
    bound.map_err(|error| io::Error::other(format!("cannot listen on {address}: {error}: give another with --listen")))
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
        if !bridge.is_shared {
            bridge.keeper.end_idle(idle).await;
        }
    }
}

/// Begins no more sessions, lets calls end, then ends all processes.
async fn end(bridge: &Bridge, mut server: JoinHandle<()>, shutdown: &CancellationToken, grace: Duration) {
    say(&format!("ending: calls in flight have {grace:?}; a second signal ends at once")).await;
    bridge.draining.cancel();
    shutdown.cancel();
    let in_time = tokio::time::timeout(grace, &mut server).await.is_ok();
    bridge.context.ending.cancel();
    if !in_time {
        say("the calls that are still in flight are ended: see --drain-seconds").await;
        let _ = tokio::time::timeout(LAST_ANSWERS, server).await;
    }
    bridge.context.tasks.close();
    let _ = tokio::time::timeout(PROCESSES_END, bridge.context.tasks.wait()).await;
}
