//! Leader election with one Lease (Kubernetes, coordination.k8s.io). A process takes the Lease when the Lease is free,
//! and renews it until the process ends. It creates the Lease if there is none.
//!
//! A leader checks its own clock before every write. A leader that was suspended thus notices that its lease has
//! expired.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::doubling::Doubling;
use super::liveness::Heartbeat;
use super::rights::{FORBIDDEN_PAUSES, words};

/// How long a lease is valid after a renewal.
const DURATION: Duration = Duration::from_secs(15);
/// A leader stops writing this long before its lease expires, because clocks differ and requests take time.
const MARGIN: Duration = Duration::from_secs(5);
/// Time limit of a write in total, including connecting and the client's own retries. A write that begins while this
/// process leads is over before another process can lead.
pub(super) const WRITE: Duration = Duration::from_secs(4);
/// How often the lease is renewed, or checked by a process that does not lead.
const PERIOD: Duration = Duration::from_secs(2);

const _: () = {
    assert!(WRITE.as_secs() < MARGIN.as_secs(), "a write is over before another process can lead");
    assert!(
        (PERIOD.as_secs() + 2 * MARGIN.as_secs()) < DURATION.as_secs(),
        "after a slow renewal there is time for one more"
    );
};

/// Advice for an operator that cannot get its Lease.
const ADVICE: &str = "without its Lease this operator cannot lead, and edits have no effect. The operator creates the \
    Lease itself: give its service account the rights in manifests/operator/rbac.yaml (`create` on leases in the \
    namespace of the Lease, `get` and `update` on this one), or name another Lease with --lease";

/// The Lease, and the process that competes for it.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Identity of this process, unique among all processes that compete for the lease.
    pub holder: String,
}

/// A clock. Tests use a simulated one.
type MonotonicClock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// A period during which this process leads without interruption.
#[derive(Default)]
struct Term {
    /// How many times this process has started to lead.
    number: u64,
    /// When this process stops leading; `None` if it does not lead.
    until: Option<Instant>,
}

impl Term {
    fn lasts(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

/// The leadership of this process: until when it leads, and which writes are in progress. Clones share their state.
#[derive(Clone)]
pub(super) struct Leadership {
    term: Arc<Mutex<Term>>,
    /// Writes in progress.
    writes: TaskTracker,
    clock: MonotonicClock,
    /// Notified when this process starts or stops leading.
    pub(super) changed: Arc<Notify>,
}

impl Default for Leadership {
    fn default() -> Self {
        Self::by(Arc::new(Instant::now))
    }
}

impl Leadership {
    /// Creates the state of a process that does not lead, with this clock.
    fn by(clock: MonotonicClock) -> Self {
        Self { term: Arc::default(), writes: TaskTracker::new(), clock, changed: Arc::default() }
    }

    fn now(&self) -> Instant {
        (self.clock)()
    }

    /// Whether this process is allowed to write now.
    pub(super) fn leads(&self) -> bool {
        self.term().is_some()
    }

    /// Returns the number of the current term; `None` if this process does not lead. If the number differs from an
    /// earlier one, another process may have led and written in between.
    pub(super) fn term(&self) -> Option<u64> {
        let now = self.now();
        let term = self.term.lock().unwrap_or_else(PoisonError::into_inner);
        term.lasts(now).then_some(term.number)
    }

    /// Sets until when this process leads; `None` if it does not lead. A new term begins if this process did not lead
    /// before, or if its term had expired.
    pub(super) fn set(&self, until: Option<Instant>) {
        let now = self.now();
        let mut term = self.term.lock().unwrap_or_else(PoisonError::into_inner);
        let led = term.lasts(now);
        term.until = until;
        let leads = term.lasts(now);
        term.number += u64::from(leads && !led);
        drop(term);
        if led != leads {
            self.changed.notify_one();
        }
    }

    /// Counts a write as in progress until the returned token is dropped. Take the token before you check
    /// [`Self::leads`] for that write.
    pub(super) fn writing(&self) -> TaskTrackerToken {
        self.writes.token()
    }

    /// Stops leading, and waits up to [`MARGIN`] for writes in progress. Returns whether they are over.
    async fn resign(&self) -> bool {
        self.set(None);
        self.writes.close();
        timeout(MARGIN, self.writes.wait()).await.is_ok()
    }
}

/// The last known state of another process's lease, and when it last changed, by this process's clock.
struct ObservedLease {
    renewed: Option<MicroTime>,
    holder: Option<String>,
    at: Instant,
}

/// Takes and renews the lease until `stop`, then gives it back. `available` shows whether this process can get the lease
/// or another process holds it.
pub(super) async fn keep(
    client: Client,
    settings: LeaseSettings,
    (leadership, pulse): (Leadership, Heartbeat),
    available: Arc<AtomicBool>,
    stop: CancellationToken,
) {
    let mut keeper = LeaseKeeper { available, ..LeaseKeeper::new(client, settings, leadership) };
    loop {
        pulse.beats();
        let wait = keeper.look().await;
        pulse.rests();
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(wait) => {}
        }
    }
    keeper.give_back().await;
}

struct LeaseKeeper {
    api: Api<Lease>,
    settings: LeaseSettings,
    leadership: Leadership,
    available: Arc<AtomicBool>,
    observed: Option<ObservedLease>,
    /// Who led when the log last said so.
    leader: Option<String>,
    /// The pauses while access to the lease is forbidden.
    forbidden: Doubling,
    /// Whether the log has [`ADVICE`] since the lease was available last.
    advised: bool,
}

impl LeaseKeeper {
    fn new(client: Client, settings: LeaseSettings, leadership: Leadership) -> Self {
        let api = Api::namespaced(client, &settings.namespace);
        let (available, forbidden) = (Arc::default(), FORBIDDEN_PAUSES);
        Self { api, settings, leadership, available, observed: None, leader: None, forbidden, advised: false }
    }

    /// Takes or renews the lease if possible. Returns how long to wait until the next attempt.
    async fn look(&mut self) -> Duration {
        let began = self.leadership.now();
        let mut wait = PERIOD;
        match timeout(MARGIN, self.round()).await {
            Ok(Ok(holds)) => {
                self.forbidden = FORBIDDEN_PAUSES;
                self.advised = false;
                self.available.store(true, Ordering::Release);
                self.leadership.set(holds.then_some(began + DURATION - MARGIN));
                if holds {
                    self.observed = None;
                }
                let other = || self.observed.as_ref().and_then(|seen| seen.holder.clone());
                self.tell(if holds { Some(self.settings.holder.clone()) } else { other() });
            }
            // A lease that this process holds stays valid until it expires, so nothing changes here.
            Ok(Err(error)) => {
                if matches!(&error, kube::Error::Api(status) if status.code == 403) {
                    wait = self.forbidden.pause();
                }
                tracing::warn!(error = words(&error), "the lease can be neither taken nor renewed");
                self.refused(&error);
            }
            Err(_) => {
                tracing::warn!("the lease can be neither taken nor renewed: the API server does not answer");
            }
        }
        if !self.leadership.leads() {
            self.leadership.set(None);
            if self.leader.as_ref() == Some(&self.settings.holder) {
                self.tell(None);
            }
        }
        wait
    }

    /// Notes an error that the API server returned. An error that only a person can correct is logged with advice, once.
    fn refused(&mut self, error: &kube::Error) {
        let kube::Error::Api(status) = error else { return };
        if !self.leadership.leads() {
            self.available.store(false, Ordering::Release);
        }
        if matches!(status.code, 403 | 404) && !std::mem::replace(&mut self.advised, true) {
            let lease = format!("{}/{}", self.settings.namespace, self.settings.name);
            tracing::error!(lease, "{ADVICE}");
        }
    }

    /// Logs who leads, if that changed.
    fn tell(&mut self, leader: Option<String>) {
        if leader == self.leader {
            return;
        }
        match &leader {
            Some(leader) if *leader == self.settings.holder => tracing::info!(leader, "this operator leads"),
            Some(leader) => tracing::info!(leader, "another operator leads"),
            None if self.leader.as_ref() == Some(&self.settings.holder) => {
                tracing::info!("this operator does not lead any more");
            }
            None => {}
        }
        self.leader = leader;
    }

    /// Reads the lease, and takes or renews it if possible. Returns whether this process holds it afterwards.
    async fn round(&mut self) -> Result<bool, kube::Error> {
        let settings = &self.settings;
        let Some(mut lease) = self.api.get_opt(&settings.name).await? else {
            // Its holder may still lead until it sees that the lease was deleted.
            let deleted = LeaseSpec { lease_duration_seconds: seconds(DURATION), ..LeaseSpec::default() };
            if self.observed.is_some() && !is_over(&deleted, &mut self.observed, self.leadership.now()) {
                return Ok(false);
            }
            let metadata = ObjectMeta { name: Some(settings.name.clone()), ..ObjectMeta::default() };
            let spec = Some(held(settings, None));
            return won(self.api.create(&PostParams::default(), &Lease { metadata, spec }).await);
        };
        // The lease may have been renewed just before the answer, so its duration is measured from the answer, not from
        // the request.
        let now = self.leadership.now();
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty());
        let ours = holder.as_ref() == Some(&settings.holder);
        if !ours && holder.is_some() && !is_over(&spec, &mut self.observed, now) {
            return Ok(false);
        }
        lease.spec = Some(held(settings, Some(&spec)));
        lease.metadata.managed_fields = None;
        // The request carries the resourceVersion, so that only one of two competing processes wins.
        won(self.api.replace(&settings.name, &PostParams::default(), &lease).await)
    }

    /// Stops leading, then gives the lease back: another process can lead as soon as the lease is free.
    async fn give_back(&self) {
        if !self.leadership.leads() {
            return;
        }
        if !self.leadership.resign().await {
            tracing::warn!("a write is still under way: the lease is not given back, it ends by itself");
            return;
        }
        if let Err(error) = release(&self.api, &self.settings).await {
            tracing::warn!(error = words(&error), "the lease cannot be given back; it ends by itself");
        }
    }
}

/// Whether another process's lease has not changed for longer than its duration, by this process's clock.
fn is_over(spec: &LeaseSpec, seen: &mut Option<ObservedLease>, now: Instant) -> bool {
    let same = |seen: &&mut ObservedLease| seen.renewed == spec.renew_time && seen.holder == spec.holder_identity;
    match seen.as_mut().filter(same) {
        Some(seen) => {
            let duration = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
            now.saturating_duration_since(seen.at) > Duration::from_secs(duration)
        }
        None => {
            let (renewed, holder) = (spec.renew_time.clone(), spec.holder_identity.clone());
            *seen = Some(ObservedLease { renewed, holder, at: now });
            false
        }
    }
}

fn seconds(duration: Duration) -> Option<i32> {
    i32::try_from(duration.as_secs()).ok()
}

fn held(settings: &LeaseSettings, before: Option<&LeaseSpec>) -> LeaseSpec {
    let now = MicroTime(Timestamp::now());
    let ours = before.is_some_and(|before| before.holder_identity.as_ref() == Some(&settings.holder));
    let transitions = before.and_then(|before| before.lease_transitions).unwrap_or_default();
    LeaseSpec {
        holder_identity: Some(settings.holder.clone()),
        lease_duration_seconds: seconds(DURATION),
        acquire_time: before.filter(|_| ours).and_then(|before| before.acquire_time.clone()).or(Some(now.clone())),
        renew_time: Some(now),
        lease_transitions: Some(if ours || before.is_none() { transitions } else { transitions + 1 }),
        ..LeaseSpec::default()
    }
}

/// Returns whether this process won the lease. A conflict means that another process did.
fn won(answer: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Frees the lease, so that another process can lead without waiting for it to expire.
async fn release(api: &Api<Lease>, settings: &LeaseSettings) -> Result<(), kube::Error> {
    let lease = api.get_opt(&settings.name).await?;
    if let Some(released) = lease.and_then(|lease| released(lease, settings)) {
        api.replace(&settings.name, &PostParams::default(), &released).await?;
    }
    Ok(())
}

/// Returns the lease without its holder; `None` if this process is not the holder.
fn released(mut lease: Lease, settings: &LeaseSettings) -> Option<Lease> {
    let spec = lease.spec.as_mut().filter(|spec| spec.holder_identity.as_ref() == Some(&settings.holder))?;
    spec.holder_identity = None;
    spec.renew_time = Some(MicroTime(Timestamp::now()));
    lease.metadata.managed_fields = None;
    Some(lease)
}

#[cfg(test)]
mod tests;
