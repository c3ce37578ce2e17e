//! Who leads: one Lease (Kubernetes, coordination.k8s.io), taken by whoever finds it free and renewed while it works.
//!
//! A leader that was paused finds its own clock beyond what it renewed before it writes anything.

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

use super::backoff::RetryBackoff;
use super::liveness::Pulse;
use super::rights::words;

/// How long a lease counts after it was renewed.
const DURATION: Duration = Duration::from_secs(15);
/// A leader stops to write this long before its lease ends: clocks differ, and a request takes its time.
const MARGIN: Duration = Duration::from_secs(5);
/// How long a write may take, everything included: making a connection, and what the client sends again by itself. One
/// that began while this process led is over before another can lead.
pub(super) const WRITE: Duration = Duration::from_secs(4);
/// How often it is renewed, or looked at.
const PERIOD: Duration = Duration::from_secs(2);

const _: () = {
    assert!(WRITE.as_secs() < MARGIN.as_secs(), "a write is over before another process can lead");
    assert!(
        (PERIOD.as_secs() + 2 * MARGIN.as_secs()) < DURATION.as_secs(),
        "after a slow renewal there is time for one more"
    );
};

/// Where the lease is, and who asks for it.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// This process, unlike any other.
    pub holder: String,
}

/// What time it is.
type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// Whether this process leads.
#[derive(Clone)]
pub(super) struct Leadership {
    until: Arc<Mutex<Option<Instant>>>,
    /// Writes that are under way.
    writes: TaskTracker,
    clock: Clock,
    /// Told when this process begins to lead, or ends.
    pub(super) changed: Arc<Notify>,
}

impl Default for Leadership {
    fn default() -> Self {
        Self::by(Arc::new(Instant::now))
    }
}

impl Leadership {
    /// Nobody leads yet, by this clock.
    fn by(clock: Clock) -> Self {
        Self { until: Arc::default(), writes: TaskTracker::new(), clock, changed: Arc::default() }
    }

    fn now(&self) -> Instant {
        (self.clock)()
    }

    /// Whether it may write now.
    pub(super) fn leads(&self) -> bool {
        self.until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| self.now() < until)
    }

    /// Until then; none where it does not lead.
    pub(super) fn set(&self, until: Option<Instant>) {
        let led = self.leads();
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        if led != self.leads() {
            self.changed.notify_one();
        }
    }

    /// Has a write count as under way for as long as what this gives is kept. It must be taken before [`Self::leads`] is
    /// asked for that write.
    pub(super) fn writing(&self) -> TaskTrackerToken {
        self.writes.token()
    }

    /// Ends to lead. Says whether the writes that were under way are over.
    async fn resign(&self) -> bool {
        self.set(None);
        self.writes.close();
        timeout(MARGIN, self.writes.wait()).await.is_ok()
    }
}

/// What was last seen of somebody else's lease, and when it last changed by our own clock.
struct Observed {
    renewed: Option<MicroTime>,
    holder: Option<String>,
    at: Instant,
}

/// Takes and renews the lease until `stop`; then gives it back.
pub(super) async fn keep(
    client: Client,
    settings: LeaseSettings,
    (leadership, pulse): (Leadership, Pulse),
    stop: CancellationToken,
) {
    let mut keeper = Keeper::new(client, settings, leadership);
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

/// Keeps the lease.
struct Keeper {
    api: Api<Lease>,
    settings: LeaseSettings,
    leadership: Leadership,
    observed: Option<Observed>,
    waits: RetryBackoff,
}

impl Keeper {
    fn new(client: Client, settings: LeaseSettings, leadership: Leadership) -> Self {
        let api = Api::namespaced(client, &settings.namespace);
        Self { api, settings, leadership, observed: None, waits: RetryBackoff::default() }
    }

    /// Takes or renews the lease, where that can be. Says when to look again.
    async fn look(&mut self) -> Duration {
        let began = self.leadership.now();
        let mut wait = PERIOD;
        match timeout(MARGIN, self.round()).await {
            Ok(Ok(holds)) => {
                self.waits = RetryBackoff::default();
                self.leadership.set(holds.then_some(began + DURATION - MARGIN));
            }
            // Until its time is over, nobody else can have it.
            Ok(Err(error)) => {
                let code = if let kube::Error::Api(status) = &error { Some(status.code) } else { None };
                let after = self.waits.after_code(code, self.leadership.now());
                if code == Some(403) {
                    wait = after;
                }
                tracing::warn!(error = words(&error), "the lease can be neither taken nor renewed");
            }
            Err(_) => {
                self.waits.after_code(None, self.leadership.now());
                tracing::warn!("the lease can be neither taken nor renewed: the API server does not answer");
            }
        }
        if !self.leadership.leads() {
            self.leadership.set(None);
        }
        wait
    }

    /// One look at the lease. Says whether it is ours after that.
    async fn round(&mut self) -> Result<bool, kube::Error> {
        let settings = &self.settings;
        let Some(mut lease) = self.api.get_opt(&settings.name).await? else {
            let metadata = ObjectMeta { name: Some(settings.name.clone()), ..ObjectMeta::default() };
            let spec = Some(held(settings, None));
            return won(self.api.create(&PostParams::default(), &Lease { metadata, spec }).await);
        };
        // What was read may have been renewed right before the answer: it counts from then on, not from the question.
        let now = self.leadership.now();
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty());
        let ours = holder.as_ref() == Some(&settings.holder);
        if !ours && holder.is_some() && !is_over(&spec, &mut self.observed, now) {
            return Ok(false);
        }
        lease.spec = Some(held(settings, Some(&spec)));
        lease.metadata.managed_fields = None;
        // Its resourceVersion goes along: of two that try, one wins.
        won(self.api.replace(&settings.name, &PostParams::default(), &lease).await)
    }

    /// Ends to lead before the lease does: another process may lead as soon as it is given back.
    async fn give_back(&self) {
        if !self.leadership.leads() {
            return;
        }
        if !self.leadership.resign().await {
            tracing::warn!("a write is still under way: the lease is not given back, it ends by itself");
            return;
        }
        if let Err(error) = release(&self.api, &self.settings).await {
            tracing::warn!(%error, "the lease cannot be given back; it ends by itself");
        }
    }
}

/// Whether somebody else's lease has not changed for its whole time, by our clock.
fn is_over(spec: &LeaseSpec, seen: &mut Option<Observed>, now: Instant) -> bool {
    let same = |seen: &&mut Observed| seen.renewed == spec.renew_time && seen.holder == spec.holder_identity;
    match seen.as_mut().filter(same) {
        Some(seen) => {
            let duration = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
            now.saturating_duration_since(seen.at) > Duration::from_secs(duration)
        }
        None => {
            let (renewed, holder) = (spec.renew_time.clone(), spec.holder_identity.clone());
            *seen = Some(Observed { renewed, holder, at: now });
            false
        }
    }
}

fn held(settings: &LeaseSettings, before: Option<&LeaseSpec>) -> LeaseSpec {
    let now = MicroTime(Timestamp::now());
    let ours = before.is_some_and(|before| before.holder_identity.as_ref() == Some(&settings.holder));
    let transitions = before.and_then(|before| before.lease_transitions).unwrap_or_default();
    LeaseSpec {
        holder_identity: Some(settings.holder.clone()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: before.filter(|_| ours).and_then(|before| before.acquire_time.clone()).or(Some(now.clone())),
        renew_time: Some(now),
        lease_transitions: Some(if ours || before.is_none() { transitions } else { transitions + 1 }),
        ..LeaseSpec::default()
    }
}

/// A conflict is a race that somebody else won.
fn won(answer: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Lets the next one lead at once.
async fn release(api: &Api<Lease>, settings: &LeaseSettings) -> Result<(), kube::Error> {
    let lease = api.get_opt(&settings.name).await?;
    if let Some(released) = lease.and_then(|lease| released(lease, settings)) {
        api.replace(&settings.name, &PostParams::default(), &released).await?;
    }
    Ok(())
}

/// The lease without its holder; none where that is not this process.
fn released(mut lease: Lease, settings: &LeaseSettings) -> Option<Lease> {
    let spec = lease.spec.as_mut().filter(|spec| spec.holder_identity.as_ref() == Some(&settings.holder))?;
    spec.holder_identity = None;
    spec.renew_time = Some(MicroTime(Timestamp::now()));
    lease.metadata.managed_fields = None;
    Some(lease)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use http::{Method, Request, Response};
    use http_body_util::BodyExt;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::BoxError;

    use super::*;
    use crate::controller::liveness::Liveness;
    use crate::controller::rights::RequestError;
    use crate::controller::writer::Writer;

    fn settings(holder: &str) -> LeaseSettings {
        LeaseSettings { namespace: "ns".into(), name: "lease".into(), holder: holder.into() }
    }

    /// An API server with one Lease. It does not answer to `cut` of its clients. `asked` is called for each of their
    /// requests before it is served.
    fn client(lease: &Arc<Mutex<Value>>, cut: &Arc<AtomicBool>, asked: impl Fn() + Clone + Send + 'static) -> Client {
        let (lease, cut) = (Arc::clone(lease), Arc::clone(cut));
        let server = tower::service_fn(move |request: Request<Body>| {
            let (lease, cut, asked) = (Arc::clone(&lease), Arc::clone(&cut), asked.clone());
            async move {
                asked();
                let reads = request.method() == Method::GET;
                let body = request.into_body().collect().await?.to_bytes();
                if cut.load(Ordering::Relaxed) {
                    return Err(BoxError::from("nobody is there"));
                }
                let mut stored = lease.lock().unwrap();
                if !reads {
                    *stored = serde_json::from_slice(&body)?;
                }
                Ok(Response::new(Body::from(stored.to_string().into_bytes())))
            }
        });
        Client::new(server, "ns")
    }

    #[tokio::test]
    async fn writes_of_a_leader_that_is_cut_off_are_refused_and_over_before_another_leads() {
        let passed = Arc::new(Mutex::new(Duration::ZERO));
        let (start, time) = (Instant::now(), Arc::clone(&passed));
        let clock: Clock = Arc::new(move || start + *time.lock().unwrap());
        let (lease, cut) =
            (Arc::new(Mutex::new(json!({"metadata": {"name": "lease"}}))), Arc::new(AtomicBool::new(false)));
        let keeper =
            |holder, cut| Keeper::new(client(&lease, cut, || ()), settings(holder), Leadership::by(Arc::clone(&clock)));
        let (mut one, mut other) = (keeper("one", &cut), keeper("other", &Arc::default()));
        let writer =
            Writer::new(one.api.clone().into_client(), one.leadership.clone(), Liveness::default().pulse("plans"));
        one.look().await;
        other.look().await;
        assert!(!other.leadership.leads());
        cut.store(true, Ordering::Relaxed);
        let mut last_write = Duration::ZERO;
        while !other.leadership.leads() {
            let now = {
                let mut passed = passed.lock().unwrap();
                *passed += Duration::from_millis(500);
                *passed
            };
            match writer.attempt("patch pods in a", async { Ok(()) }).await {
                Ok(()) => last_write = now,
                Err(error) => assert!(matches!(error, RequestError::NotLeading), "{error}"),
            }
            one.look().await;
            other.look().await;
        }
        assert!(last_write > PERIOD + MARGIN, "a renewal that takes its whole time leaves room for the next");
        let taken = *passed.lock().unwrap();
        assert!(last_write + WRITE < taken, "the last write began at {last_write:?}, another led at {taken:?}");
    }

    #[tokio::test]
    async fn a_lease_that_was_renewed_while_it_was_asked_for_counts_from_the_answer_on() {
        let passed = Arc::new(Mutex::new(Duration::ZERO));
        let (start, time, slow) = (Instant::now(), Arc::clone(&passed), Arc::clone(&passed));
        let clock: Clock = Arc::new(move || start + *time.lock().unwrap());
        let renewed = LeaseSpec { holder_identity: Some("one".into()), ..held(&settings("one"), None) };
        let lease = Arc::new(Mutex::new(json!({"metadata": {"name": "lease"}, "spec": renewed})));
        // Only the first answer takes long.
        let delayed = move || {
            let mut passed = slow.lock().unwrap();
            *passed = (*passed).max(MARGIN);
        };
        let client = client(&lease, &Arc::default(), delayed);
        let mut other = Keeper::new(client, settings("other"), Leadership::by(clock));
        other.look().await;
        assert_eq!(*passed.lock().unwrap(), MARGIN);
        for (later, leads) in [(DURATION + MARGIN, false), (DURATION + MARGIN + Duration::from_millis(1), true)] {
            *passed.lock().unwrap() = later;
            other.look().await;
            assert_eq!(other.leadership.leads(), leads, "{later:?} after it was asked for first");
        }
    }

    #[test]
    fn only_its_holder_gives_a_lease_back() {
        let lease = || Lease { spec: Some(held(&settings("one"), None)), ..Lease::default() };
        assert_eq!(released(lease(), &settings("other")), None);
        let spec = released(lease(), &settings("one")).unwrap().spec.unwrap();
        assert_eq!((spec.holder_identity, spec.lease_duration_seconds), (None, Some(15)));
        assert_eq!(released(Lease::default(), &settings("one")), None);
    }

    #[test]
    fn a_change_of_holders_is_counted_and_a_renewal_is_not() {
        let first = held(&settings("one"), None);
        assert_eq!(first.lease_transitions, Some(0));
        let renewed = held(&settings("one"), Some(&first));
        assert_eq!((renewed.lease_transitions, &renewed.acquire_time), (Some(0), &first.acquire_time));
        let taken = held(&settings("other"), Some(&renewed));
        assert_eq!((taken.lease_transitions, taken.holder_identity.as_deref()), (Some(1), Some("other")));
    }

    #[test]
    fn a_lease_is_over_when_it_has_not_changed_for_its_time() {
        let spec = held(&settings("one"), None);
        let mut seen = None;
        let (start, mut later) = (Instant::now(), 0);
        assert!(!is_over(&spec, &mut seen, start), "it was seen for the first time");
        let mut after = |seconds| {
            later += seconds;
            start + Duration::from_secs(later)
        };
        assert!(!is_over(&spec, &mut seen, after(15)));
        assert!(is_over(&spec, &mut seen, after(1)));
        let renewed = LeaseSpec { renew_time: Some(MicroTime(Timestamp::UNIX_EPOCH)), ..spec.clone() };
        assert!(!is_over(&renewed, &mut seen, after(0)), "it was renewed meanwhile");
        assert!(!is_over(&LeaseSpec { holder_identity: None, ..renewed }, &mut seen, after(16)), "another one has it");
    }
}
