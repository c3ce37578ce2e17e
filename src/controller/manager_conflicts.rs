//! Slows down the writes of an object that another client keeps changing back or deleting.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use kube::api::DynamicObject;

use super::FIELD_MANAGER;
use super::apply::ApplyError;
use super::doubling::Doubling;
use super::owned::{applied_digest, other_manager};

/// The pauses between two writes of the same content.
const PAUSES: Doubling = Doubling::new(Duration::from_secs(1), Duration::from_secs(60));
/// A contest is over if the object stayed as it is for twice the last pause plus this time.
const QUIET: Duration = Duration::from_secs(10);
/// Number of writes of the same content that are reported as a contest. Fewer are needed after a single edit by hand.
const REPORTED: u32 = 3;

/// The objects of one owner that were written, by resource.
#[derive(Default)]
pub(super) struct ManagerConflicts(HashMap<Cow<'static, str>, ManagerConflict>);

/// The writes of one object with the same content.
struct ManagerConflict {
    /// The digest of the content.
    digest: String,
    /// The version of the object that was overwritten last. The watch can show it for a while after the write.
    overwritten: Option<String>,
    /// Uid of the object as of the last write.
    uid: Option<String>,
    /// Number of writes over what was there, each over another version, and of writes after a deletion.
    writes: u32,
    /// Whether the watch did not show the object when it was last looked at.
    is_absent: bool,
    /// Describes the object and the client that changes or deletes it.
    message: String,
    pauses: Doubling,
    /// When the object may be written again.
    again: Instant,
    /// When the contest is over if nobody changes the object until then.
    over: Instant,
}

impl ManagerConflicts {
    /// Whether an object with this digest was written too short a time ago to be written again. `seen` is the object as
    /// the watch shows it.
    pub(super) fn waits(&mut self, plural: &str, digest: &str, seen: Option<&DynamicObject>, now: Instant) -> bool {
        let written = self.0.get_mut(plural).filter(|contest| contest.digest == digest && now < contest.again);
        written.map(|contest| contest.is_absent = seen.is_none()).is_some()
    }

    /// Whether an object that waits to be written again does not seem to exist.
    pub(super) fn lacks_one(&self, now: Instant) -> bool {
        self.0.values().any(|contest| contest.is_absent && now < contest.again)
    }

    /// Notes that the object was written. `seen` is what was overwritten, as the watch showed it; `uid` is that of the
    /// object after the write; `name` names the object.
    pub(super) fn wrote(
        &mut self,
        plural: Cow<'static, str>,
        (name, digest): (&str, &str),
        (seen, uid): (Option<&DynamicObject>, Option<String>),
        now: Instant,
    ) {
        let before = self.0.remove(&plural).filter(|before| before.digest == digest && now < before.over);
        let overwritten = seen.and_then(|seen| seen.metadata.resource_version.clone());
        let (mut pauses, writes) = before.as_ref().map_or((PAUSES, 0), |before| (before.pauses, before.writes));
        let is_other = seen.is_some() && before.as_ref().is_none_or(|before| before.overwritten != overwritten);
        // The watch can show an object late, but a new uid means that the one of the last write was deleted.
        let is_new = seen.is_none() && before.as_ref().is_some_and(|before| before.uid.is_some() && before.uid != uid);
        let message = match seen {
            Some(seen) => message(name, digest, seen),
            None if is_new => deleted(name),
            None => before.map(|before| before.message).unwrap_or_default(),
        };
        let pause = pauses.pause();
        let contest = ManagerConflict {
            digest: digest.to_owned(),
            overwritten,
            uid,
            writes: writes + u32::from(is_other || is_new),
            is_absent: false,
            message,
            pauses,
            again: now + pause,
            over: now + 2 * pause + QUIET,
        };
        self.0.insert(plural, contest);
    }

    /// Whether the object was written before, and had this uid then.
    pub(super) fn is_of_last_write(&self, plural: &str, uid: Option<&str>) -> bool {
        self.0.get(plural).is_some_and(|contest| contest.uid.is_some() && contest.uid.as_deref() == uid)
    }

    /// Returns when the next object that was written a short time ago may be written again.
    pub(super) fn again(&self, now: Instant) -> Option<Instant> {
        self.0.values().map(|contest| contest.again).filter(|again| now < *again).min()
    }

    /// Lets every pause elapse.
    #[cfg(test)]
    pub(super) fn elapse(&mut self) {
        self.0.values_mut().for_each(|contest| contest.again = Instant::now());
    }

    /// Forgets an object that should not exist any more.
    pub(super) fn forget(&mut self, plural: &str) {
        self.0.remove(plural);
    }

    /// # Errors
    /// An object is contested: another client changed or deleted it again and again, the last time a short time ago.
    pub(super) fn check(&self, now: Instant) -> Result<(), ApplyError> {
        let contested = |contest: &&ManagerConflict| contest.writes >= REPORTED && now < contest.over;
        match self.0.values().filter(contested).min_by_key(|contest| &contest.message) {
            Some(contest) => Err(ApplyError::Contested(contest.message.clone())),
            None => Ok(()),
        }
    }
}

/// Describes who changed the object `seen`, whose digest should be `digest`.
fn message(name: &str, digest: &str, seen: &DynamicObject) -> String {
    let is_operator = applied_digest(seen).is_some_and(|applied| applied != digest);
    let (who, advice) = match other_manager(seen) {
        _ if is_operator => (
            format!("another operator, whose field manager is {FIELD_MANAGER:?} too,"),
            "let only one installation watch this namespace",
        ),
        Some(manager) => (format!("the field manager {manager:?}"), "let it leave these fields alone"),
        None => ("another client".to_owned(), "let it leave the object alone"),
    };
    format!("{who} keeps changing {name}, which this operator manages: {advice}")
}

/// Describes that someone deletes the object. Its last form does not say who.
fn deleted(name: &str) -> String {
    format!("another client keeps deleting {name}, which this operator manages: let it leave the object alone")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controller::manifest::APPLIED;
    use crate::controller::owned::keep_own;

    /// Returns an object of this version with the digest that an operator applied, which `manager` changed last.
    fn seen(version: u32, applied: &str, manager: &str) -> DynamicObject {
        let entry = |manager: &str, time: &str| json!({"manager": manager, "operation": "Apply", "time": time, "fieldsV1": {"f:spec": {}}});
        let managed = json!([
            entry(manager, "2026-01-02T00:00:00Z"),
            entry("someone-before", "2026-01-01T00:00:00Z"),
            entry(FIELD_MANAGER, "2026-01-03T00:00:00Z"),
            entry("kube-controller-manager", "2026-01-04T00:00:00Z"),
        ]);
        let mut object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "x", "resourceVersion": version.to_string(), "annotations": {APPLIED: applied},
                "managedFields": managed},
        }))
        .unwrap();
        keep_own(&mut object);
        object
    }

    /// Notes that the Deployment was written over `seen`, and has this uid now.
    fn wrote(contests: &mut ManagerConflicts, seen: Option<&DynamicObject>, uid: &str, now: Instant) {
        let of = (seen, Some(uid.to_owned()));
        contests.wrote("deployments".into(), ("Deployment ns/x", "ours"), of, now);
    }

    #[test]
    fn an_object_that_others_keep_changing_is_written_less_and_less_often() {
        let (mut contests, start) = (ManagerConflicts::default(), Instant::now());
        let mut now = start;
        let mut writes = Vec::new();
        // The other client changes the object back at once, each time.
        while now < start + Duration::from_secs(200) {
            let version = u32::try_from(writes.len()).unwrap();
            let theirs = seen(version, "ours", "argo");
            if !contests.waits("deployments", "ours", Some(&theirs), now) {
                wrote(&mut contests, Some(&theirs), "u", now);
                writes.push(now.duration_since(start).as_secs());
            }
            now += Duration::from_secs(1);
        }
        assert_eq!(writes, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
        assert!(!contests.waits("deployments", "other content", None, now), "an edit of the spec is written at once");
        assert_eq!(contests.again(now), Some(start + Duration::from_secs(243)));
        assert_eq!(contests.again(start + Duration::from_secs(243)), None);
        assert!(!contests.waits("services", "ours", None, now));
        let message = contests.check(now).unwrap_err().to_string();
        assert!(message.contains("\"argo\"") && message.contains("Deployment ns/x"), "{message}");
        let over = now + Duration::from_secs(130);
        contests.check(over).unwrap();
        wrote(&mut contests, Some(&seen(99, "ours", "argo")), "u", over);
        assert!(!contests.waits("deployments", "ours", None, over + Duration::from_secs(1)), "it starts over");
        contests.forget("deployments");
        assert!(!contests.waits("deployments", "ours", None, over));
    }

    #[test]
    fn an_object_that_others_keep_deleting_is_missing_and_contested() {
        let (mut contests, now) = (ManagerConflicts::default(), Instant::now());
        for uid in ["first", "second", "third"] {
            wrote(&mut contests, None, uid, now);
            contests.check(now).unwrap();
            assert!(!contests.lacks_one(now), "it was written just now");
        }
        wrote(&mut contests, None, "fourth", now);
        let message = contests.check(now).unwrap_err().to_string();
        assert!(message.starts_with("another client keeps deleting Deployment ns/x"), "{message}");
        assert!(contests.waits("deployments", "ours", None, now) && contests.lacks_one(now));
        assert!(!contests.lacks_one(now + Duration::from_secs(8)), "it may be written again");
        assert!(contests.waits("deployments", "ours", Some(&seen(1, "ours", "argo")), now) && !contests.lacks_one(now));
        // The watch does not show the last write yet.
        wrote(&mut contests, None, "fourth", now);
        assert_eq!(contests.check(now).unwrap_err().to_string(), message);
    }

    #[test]
    fn deletions_after_changes_keep_the_contest_and_name_what_happens_now() {
        let (mut contests, now) = (ManagerConflicts::default(), Instant::now());
        for version in 1..4 {
            wrote(&mut contests, Some(&seen(version, "ours", "argo")), "u", now);
        }
        wrote(&mut contests, None, "u", now);
        assert!(contests.check(now).unwrap_err().to_string().contains("\"argo\""), "the watch may show it late");
        wrote(&mut contests, None, "another", now);
        assert!(contests.check(now).unwrap_err().to_string().contains("keeps deleting"));
    }

    #[test]
    fn a_second_installation_is_named_and_a_watch_that_lags_is_not_a_client() {
        let (mut contests, now) = (ManagerConflicts::default(), Instant::now());
        let late = seen(1, "before", "kubectl");
        for _ in 0..5 {
            wrote(&mut contests, Some(&late), "u", now);
        }
        contests.check(now).unwrap();
        for version in 2..4 {
            let theirs = seen(version, "theirs", "kubectl");
            wrote(&mut contests, Some(&theirs), "u", now);
        }
        let message = contests.check(now).unwrap_err().to_string();
        assert!(message.contains("another operator") && message.contains("\"hawsepipe\""), "{message}");
    }
}
