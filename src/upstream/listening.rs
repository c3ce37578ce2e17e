//! The stream on which a server of 2026-07-28 reports changes (MCP 2026-07-28, `subscriptions/listen`). There is one for
//! each upstream. What it is asked for follows what clients want to hear of: then another stream is opened before the last
//! one is closed, so that nothing is lost in between.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::context::UpstreamContext;
use super::server_connection::{ListenStream, SubscriptionOpener};
use super::subscriptions::{Listening, Subscriptions};
use crate::domain::ids::ObjectKey;
use crate::domain::item::ItemKind;
use crate::domain::upstream::{UpstreamError, UpstreamEvent};

/// The pause before the stream is first opened again. It doubles each time, up to the longest pause.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest pause. A stream that was open for at least as long resets the pause to the first one.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a server has to acknowledge a stream.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(30);
/// How long changes of what is wanted are gathered before a stream is replaced.
const GATHER: Duration = Duration::from_millis(20);

/// What is listened to at one upstream.
pub(super) struct Listened {
    pub(super) key: ObjectKey,
    pub(super) shared: Arc<UpstreamContext>,
    pub(super) watched: Arc<Subscriptions>,
    /// The kinds of items whose lists the server announces when they change.
    pub(super) announces: Vec<ItemKind>,
    /// Whether the server reports changes of resources.
    pub(super) has_subscriptions: bool,
}

impl Listened {
    /// Keeps the stream open until the connection ends. If it cannot be opened, it is tried again and again.
    pub(super) async fn keep_listening(self, listener: SubscriptionOpener) {
        let ended = listener.ended();
        tokio::select! {
            () = ended.cancelled() => {}
            () = self.run(&listener) => {}
        }
        self.watched.listening().send_replace(Listening::default());
    }

    async fn run(&self, listener: &SubscriptionOpener) {
        let mut changes = self.watched.changes();
        // A process that was started again reported nothing in the meantime.
        let (mut stream, mut wait, mut was_lost) = (None, FIRST_WAIT, self.watched.was_listening());
        let mut opened = Instant::now();
        loop {
            changes.mark_unchanged();
            let uris = if self.has_subscriptions { self.watched.wanted() } else { BTreeSet::new() };
            if self.announces.is_empty() && uris.is_empty() {
                stream = None;
                self.watched.listening().send_replace(Listening::default());
                if changes.changed().await.is_err() {
                    return;
                }
                continue;
            }
            let is_kept = stream.is_some() && self.watched.listening().borrow().asked == uris;
            if is_kept || self.renew(listener, &mut stream, &uris, &mut was_lost).await {
                opened = if is_kept { opened } else { Instant::now() };
                if self.follow(&mut stream, &mut changes).await {
                    tokio::time::sleep(GATHER).await;
                    continue;
                }
                wait = if opened.elapsed() >= LONGEST_WAIT { FIRST_WAIT } else { wait };
            }
            self.pause(&mut stream, &mut changes, &uris, wait).await;
            was_lost |= stream.is_none();
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Opens a stream for these resources in the place of the one before. Returns whether it is open.
    async fn renew(
        &self,
        listener: &SubscriptionOpener,
        stream: &mut Option<ListenStream>,
        uris: &BTreeSet<String>,
        was_lost: &mut bool,
    ) -> bool {
        let was_open = stream.is_some();
        match self.replace(listener, stream, uris).await {
            Ok(agreed) => {
                if std::mem::take(was_lost) {
                    self.tell_all(&agreed);
                }
                self.watched.listens(Listening { asked: uris.clone(), agreed });
                true
            }
            Err(error) => {
                self.note_failure(&error, uris, was_open, stream.is_some());
                false
            }
        }
    }

    /// Waits before the next stream is opened, and reads the one that is still open meanwhile. The wait is shorter only if
    /// other resources are wanted than those that were tried.
    async fn pause(
        &self,
        stream: &mut Option<ListenStream>,
        changes: &mut tokio::sync::watch::Receiver<()>,
        tried: &BTreeSet<String>,
        wait: Duration,
    ) {
        let others_are_wanted = async {
            tokio::time::sleep(GATHER).await;
            while changes.changed().await.is_ok() {
                if self.has_subscriptions && self.watched.wanted() != *tried {
                    return;
                }
            }
            std::future::pending().await
        };
        let waiting = tokio::time::timeout(wait, others_are_wanted);
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                biased;
                _ = &mut waiting => return,
                () = end_of(stream) => *stream = None,
            }
        }
    }

    /// Records that no stream could be opened. `was_open` tells whether there was one before, `is_open` whether it still is.
    fn note_failure(&self, error: &UpstreamError, uris: &BTreeSet<String>, was_open: bool, is_open: bool) {
        tracing::debug!(upstream = %self.key, reason = error.reason().as_str(), "no stream of notifications could be opened");
        match error {
            // What is refused to one client leaves the others what they have.
            UpstreamError::Refused { .. } => self.watched.listening().send_modify(|now| {
                now.asked.clone_from(uris);
                now.agreed.retain(|uri| is_open && uris.contains(uri));
            }),
            UpstreamError::Connect(_) if was_open => {
                self.shared.events.push(UpstreamEvent::Disconnected(self.key.clone()));
            }
            _ => {}
        }
    }

    /// Opens a stream for these resources and, once it is acknowledged, puts it in the place of the one before. Returns the
    /// resources that the server agreed to report.
    async fn replace(
        &self,
        listener: &SubscriptionOpener,
        stream: &mut Option<ListenStream>,
        uris: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, UpstreamError> {
        let filter = self.filter(uris);
        let opening = async {
            let mut opened = listener.open(&filter).await?;
            let agreed = opened.next().await;
            let agreed = agreed.ok_or_else(|| UpstreamError::Lost("its stream ended at once".to_owned()))?;
            Ok::<_, UpstreamError>((opened, agreed))
        };
        let opening = tokio::time::timeout(ACKNOWLEDGED_WITHIN, opening);
        tokio::pin!(opening);
        let (opened, agreed) = loop {
            tokio::select! {
                biased;
                opened = &mut opening => {
                    break opened.unwrap_or(Err(UpstreamError::Timeout(ACKNOWLEDGED_WITHIN)))?;
                }
                () = end_of(stream) => *stream = None,
            }
        };
        *stream = Some(opened);
        Ok(agreed.into_iter().filter(|uri| uris.contains(uri)).collect())
    }

    /// Reads the stream until it ends, or what is wanted changes. Returns whether it did.
    async fn follow(&self, stream: &mut Option<ListenStream>, changes: &mut tokio::sync::watch::Receiver<()>) -> bool {
        tokio::select! {
            biased;
            () = end_of(stream) => {
                *stream = None;
                false
            }
            changed = changes.changed() => changed.is_ok(),
        }
    }

    fn filter(&self, uris: &BTreeSet<String>) -> String {
        let mut filter = serde_json::Map::new();
        for kind in &self.announces {
            let member = match kind {
                ItemKind::Tool => "toolsListChanged",
                ItemKind::Prompt => "promptsListChanged",
                ItemKind::Resource | ItemKind::Template => "resourcesListChanged",
            };
            filter.insert(member.to_owned(), json!(true));
        }
        if !uris.is_empty() {
            filter.insert("resourceSubscriptions".to_owned(), json!(uris));
        }
        serde_json::Value::Object(filter).to_string()
    }

    /// What the server reported while there was no stream is lost, so everything may have changed.
    fn tell_all(&self, agreed: &BTreeSet<String>) {
        for kind in &self.announces {
            self.shared.events.push(UpstreamEvent::ListStale(self.key.clone(), *kind));
        }
        for uri in agreed {
            self.shared.events.push(UpstreamEvent::Updated(self.key.clone(), uri.clone()));
        }
    }
}

/// Reads a stream to its end. Never completes without one.
async fn end_of(stream: &mut Option<ListenStream>) {
    match stream {
        Some(stream) => while stream.next().await.is_some() {},
        None => std::future::pending().await,
    }
}
