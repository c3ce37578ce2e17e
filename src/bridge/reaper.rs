//! Orphans: processes whose parent has ended become children of the bridge, which is often process 1 of its container.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;

use super::context::Context;
use crate::transport::{Descendants, zombies_of};

/// The pause after each search, so that a server that starts many processes does not keep the bridge busy.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the bridge kills what is left. Processes may start others meanwhile.
const SWEEPS: usize = 20;

/// Held while somebody searches for processes to kill.
static SEARCH: Mutex<()> = Mutex::const_new(());

/// Reaps orphans that have exited. Without `/proc` none are found.
pub(super) async fn reap_orphans(context: Arc<Context>) {
    // Where this fails, orphans go to process 1.
    let _ = set_child_subreaper(Some(getpid()));
    let Ok(mut exits) = signal(SignalKind::child()) else { return };
    while exits.recv().await.is_some() {
        reap(&context);
        tokio::time::sleep(PAUSE).await;
    }
}

fn reap(context: &Context) {
    // The bridge's own children are left to those who wait for their exit status.
    let own = context.own.lock().unwrap_or_else(PoisonError::into_inner);
    for orphan in zombies_of(std::process::id()).into_iter().filter(|pid| !own.contains(pid)) {
        if let Some(pid) = i32::try_from(orphan).ok().and_then(Pid::from_raw) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// Kills all processes that descend from the bridge.
pub(super) async fn kill_all() {
    kill(|| Descendants::of(std::process::id())).await;
}

/// Kills all processes that have this variable in their environment. See [`Descendants::marked`].
pub(super) async fn kill_marked(variable: String) {
    kill(move || Descendants::marked(&variable)).await;
}

async fn kill(find: impl Fn() -> Descendants + Clone + Send + 'static) {
    for _ in 0..SWEEPS {
        let find = find.clone();
        // To read all of `/proc` takes long where there are many processes, and many may end at once.
        let one = SEARCH.lock().await;
        let killed = tokio::task::spawn_blocking(move || {
            let left = find();
            left.kill();
            !left.is_empty()
        });
        if !killed.await.unwrap_or_default() {
            return;
        }
        drop(one);
        tokio::time::sleep(PAUSE / 10).await;
    }
}
