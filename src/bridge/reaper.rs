//! Orphans: processes whose parent has ended become children of the bridge, which is often process 1 of its container.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use tokio::signal::unix::{SignalKind, signal};

use super::context::Context;
use crate::transport::{Descendants, zombies_of};

/// The pause after each search, so that a server that starts many processes does not keep the bridge busy.
const PAUSE: Duration = Duration::from_millis(100);

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
    Descendants::kill_all(|| Descendants::of(std::process::id())).await;
}

/// Kills all processes that have this variable in their environment. See [`Descendants::marked`].
pub(super) async fn kill_marked(variable: String) {
    Descendants::kill_all(move || Descendants::marked(&variable)).await;
}
