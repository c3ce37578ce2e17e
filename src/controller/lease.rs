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
use tokio_util::sync::CancellationToken;

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

/// Whether this process leads.
#[derive(Clone, Default)]
pub(super) struct Leadership {
    until: Arc<Mutex<Option<Instant>>>,
    /// Told when this process begins to lead, or ends.
    pub(super) changed: Arc<Notify>,
}

impl Leadership {
    /// Whether it may write now.
    pub(super) fn leads(&self) -> bool {
        self.until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| Instant::now() < until)
    }

    /// Until then; none where it does not lead.
    pub(super) fn set(&self, until: Option<Instant>) {
        let led = self.leads();
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        if led != self.leads() {
            self.changed.notify_one();
        }
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
    let api: Api<Lease> = Api::namespaced(client, &settings.namespace);
    let (mut observed, mut waits) = (None, RetryBackoff::default());
    loop {
        pulse.beats();
        let began = Instant::now();
        let mut wait = PERIOD;
        match tokio::time::timeout(MARGIN, round(&api, &settings, &mut observed)).await {
            Ok(Ok(holds)) => {
                waits = RetryBackoff::default();
                leadership.set(holds.then_some(began + DURATION - MARGIN));
            }
            // Until its time is over, nobody else can have it.
            Ok(Err(error)) => {
                let code = if let kube::Error::Api(status) = &error { Some(status.code) } else { None };
                let after = waits.after_code(code, Instant::now());
                if code == Some(403) {
                    wait = after;
                }
                tracing::warn!(error = words(&error), "the lease can be neither taken nor renewed");
            }
            Err(_) => {
                waits.after_code(None, Instant::now());
                tracing::warn!("the lease can be neither taken nor renewed: the API server does not answer");
            }
        }
        if !leadership.leads() {
            leadership.set(None);
        }
        pulse.rests();
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(wait) => {}
        }
    }
    give_back(&api, &settings, &leadership).await;
}

/// Ends to lead before the lease does.
async fn give_back(api: &Api<Lease>, settings: &LeaseSettings, leadership: &Leadership) {
    if leadership.leads() {
        leadership.set(None);
        if let Err(error) = release(api, settings).await {
            tracing::warn!(%error, "the lease cannot be given back; it ends by itself");
        }
    }
}

/// One look at the lease. Says whether it is ours now.
async fn round(api: &Api<Lease>, settings: &LeaseSettings, seen: &mut Option<Observed>) -> Result<bool, kube::Error> {
    let Some(mut lease) = api.get_opt(&settings.name).await? else {
        let metadata = ObjectMeta { name: Some(settings.name.clone()), ..ObjectMeta::default() };
        let spec = Some(held(settings, None));
        return won(api.create(&PostParams::default(), &Lease { metadata, spec }).await);
    };
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty());
    let ours = holder.as_ref() == Some(&settings.holder);
    if !ours && holder.is_some() && !is_over(&spec, seen) {
        return Ok(false);
    }
    lease.spec = Some(held(settings, Some(&spec)));
    lease.metadata.managed_fields = None;
    // Its resourceVersion goes along: of two that try, one wins.
    won(api.replace(&settings.name, &PostParams::default(), &lease).await)
}

/// Whether somebody else's lease has not changed for its whole time, by our clock.
fn is_over(spec: &LeaseSpec, seen: &mut Option<Observed>) -> bool {
    let same = |seen: &&mut Observed| seen.renewed == spec.renew_time && seen.holder == spec.holder_identity;
    match seen.as_mut().filter(same) {
        Some(seen) => {
            let duration = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
            seen.at.elapsed() > Duration::from_secs(duration)
        }
        None => {
            let (renewed, holder) = (spec.renew_time.clone(), spec.holder_identity.clone());
            *seen = Some(Observed { renewed, holder, at: Instant::now() });
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
    use super::*;

    fn settings(holder: &str) -> LeaseSettings {
        LeaseSettings { namespace: "ns".into(), name: "lease".into(), holder: holder.into() }
    }

    #[test]
    fn a_write_is_over_before_another_process_can_lead() {
        // All counted from when the lease was last renewed: another waits for the whole of it after it saw that.
        let (last_write_begins, another_leads) = (DURATION - MARGIN, DURATION);
        assert!(last_write_begins + WRITE < another_leads);
        assert!(PERIOD + MARGIN < last_write_begins, "a renewal that takes its whole time leaves room for the next");
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
        assert!(!is_over(&spec, &mut seen), "it was seen for the first time");
        assert!(!is_over(&spec, &mut seen));
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        seen.as_mut().unwrap().at = ago(16);
        assert!(is_over(&spec, &mut seen));
        let renewed = LeaseSpec { renew_time: Some(MicroTime(Timestamp::UNIX_EPOCH)), ..spec.clone() };
        assert!(!is_over(&renewed, &mut seen), "it was renewed meanwhile");
        seen.as_mut().unwrap().at = ago(16);
        assert!(!is_over(&LeaseSpec { holder_identity: None, ..renewed }, &mut seen), "another one has it");
    }
}
