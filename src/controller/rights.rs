//! Remembers which requests the API server forbade, so that they are not repeated constantly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::core::Status;

use super::doubling::Doubling;
use crate::domain::causes::causes;

/// The pauses before a forbidden request is tried again. They start short, because an API server learns of new roles
/// shortly after they are written, and of existing ones some time after its own start. They grow, because after that
/// time only a person can change what is forbidden.
pub(super) const FORBIDDEN_PAUSES: Doubling = Doubling::new(Duration::from_secs(1), LONGEST_PAUSE);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a right counts as granted after a request that needs it was not forbidden.
const GRANTED: Duration = Duration::from_secs(60);
/// Maximum number of rights that are remembered, and of objects. A right is a verb, a resource and a namespace.
const MAX_RIGHTS: usize = 10_000;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// This process does not lead, or cannot be sure that it does.
    #[error("this process does not lead")]
    NotLeading,
    /// The request is forbidden: the API server's message, and when to try again.
    #[error("{0}")]
    Forbidden(String, Instant),
    /// Someone else changed the object meanwhile, or replaced it by another one of its name.
    #[error("it was changed in between")]
    Conflict,
    /// Any other failure.
    #[error("{}", words(.0))]
    Api(Box<kube::Error>),
}

impl RequestError {
    /// Whether the object has a field that the cluster's CRD does not have (Kubernetes, server-side apply: `failed to
    /// create typed patch object`).
    pub(super) fn is_of_unknown_field(&self) -> bool {
        let Self::Api(error) = self else { return false };
        matches!(&**error, kube::Error::Api(status) if status.message.contains("field not declared in schema"))
    }

    /// Whether the object does not exist.
    pub(super) fn is_not_found(&self) -> bool {
        let Self::Api(error) = self else { return false };
        matches!(&**error, kube::Error::Api(status) if status.code == 404)
    }

    /// Whether the API server rejected the request as wrong, so that a retry does not help. An object that server-side
    /// apply cannot read, with an unknown field, two items of one key or a value that is not of its type, is rejected with
    /// 500.
    pub(super) fn is_wrong(&self) -> bool {
        let Self::Api(error) = self else { return false };
        let kube::Error::Api(status) = &**error else { return false };
        let is_of_client = matches!(status.code, 400..=499) && !matches!(status.code, 401 | 429);
        let words = ["failed to create typed patch object", "failed to convert new"];
        (is_of_client && !is_ending(status)) || words.iter().any(|words| status.message.contains(words))
    }
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 403 && !is_ending(&status) => {
                Self::Forbidden(status.message.clone(), Instant::now() + LONGEST_PAUSE)
            }
            kube::Error::Api(status) if status.code == 409 => Self::Conflict,
            other => Self::Api(Box::new(other)),
        }
    }
}

/// Whether the request was refused because its namespace is being deleted. Such an answer does not mean that the right
/// is missing, and a namespace of the same name can be created later (Kubernetes, admission plugin
/// `NamespaceLifecycle`).
fn is_ending(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// Whether this message of a 403 says that the client is missing the right. Admission answers with 403, too: an exceeded
/// quota or a webhook that denies the request. Admission comes after authorization, so such an answer means that the
/// right is granted, and concerns only this object (Kubernetes, `responsewriters.Forbidden`: `User "x" cannot patch ...`).
fn is_of_authorization(words: &str) -> bool {
    words.contains("User \"") && words.contains("\" cannot ")
}

/// Describes a failure: returns the API server's message if it answered, otherwise the chain of causes.
pub(super) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => causes(other),
    }
}

/// The state of one right.
#[derive(Default)]
enum RightState {
    /// Not known yet: the first request finds out whether it is granted, and the others wait for it.
    #[default]
    Unknown,
    /// The right was granted at this time.
    Given(Instant),
    /// The right was refused.
    Lacking(Refusal),
}

/// An answer that forbade a request.
struct Refusal {
    /// The API server's message.
    words: String,
    /// When to try again.
    again: Instant,
    pauses: Doubling,
}

/// What was forbidden.
#[derive(Clone, Default)]
pub(super) struct Rights(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// The state of each right, by verb, resource and namespace.
    rights: HashMap<String, Arc<tokio::sync::Mutex<RightState>>>,
    /// The objects for which admission refused a request, by right and name.
    objects: HashMap<String, Refusal>,
}

impl Rights {
    /// Sends `request`, unless it was forbidden a short time ago. `what` names the right that it needs: a verb, a
    /// resource and a namespace. `name` names its object; a request whose object has no name yet has an empty one.
    /// `may` is called immediately before the request is sent; if `may` returns false, the request is not sent.
    pub(super) async fn attempt<T>(
        &self,
        what: &str,
        name: &str,
        may: impl FnOnce() -> bool,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RequestError> {
        let object = format!("{what} /{name}");
        if let Some(refusal) = self.known().objects.get(&object).filter(|refusal| Instant::now() < refusal.again) {
            return Err(refusal.error());
        }
        let result = self.attempt_right(what, may, request).await;
        self.learn_object(object, result, Instant::now())
    }

    /// Like [`Self::attempt`], as far as the right is concerned.
    async fn attempt_right<T>(
        &self,
        what: &str,
        may: impl FnOnce() -> bool,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RequestError> {
        let right = self.right(what);
        let mut known = right.lock().await;
        match &*known {
            RightState::Lacking(refusal) if Instant::now() < refusal.again => return Err(refusal.error()),
            RightState::Given(when) if when.elapsed() < GRANTED => {
                drop(known);
                let result = sent(may, request).await;
                return match result {
                    Err(RequestError::Forbidden(..)) => right.lock().await.learn(what, result, Instant::now()),
                    other => other,
                };
            }
            _ => {}
        }
        let result = sent(may, request).await;
        known.learn(what, result, Instant::now())
    }

    /// Notes whether admission refused a request for the object. If it did, the returned error contains the time of the
    /// next try.
    fn learn_object<T>(
        &self,
        object: String,
        result: Result<T, RequestError>,
        now: Instant,
    ) -> Result<T, RequestError> {
        let mut known = self.known();
        match &result {
            Err(RequestError::Forbidden(words, _)) if !is_of_authorization(words) => {
                let pauses = known.objects.remove(&object).map_or(FORBIDDEN_PAUSES, |before| before.pauses);
                let refusal = Refusal::new(&object, words, pauses, now);
                let error = refusal.error();
                if known.objects.len() >= MAX_RIGHTS {
                    known.objects.clear();
                }
                known.objects.insert(object, refusal);
                Err(error)
            }
            Ok(_) => {
                known.objects.remove(&object);
                result
            }
            Err(_) => result,
        }
    }

    /// Forgets what was forbidden in a deleted namespace: a new namespace of the same name has its own role bindings.
    pub(super) fn forget(&self, namespace: &str) {
        let is_of = |what: &str| what.split(' ').skip_while(|word| *word != "in").nth(1) == Some(namespace);
        let mut known = self.known();
        known.rights.retain(|what, _| !is_of(what));
        known.objects.retain(|object, _| !is_of(object));
    }

    fn right(&self, what: &str) -> Arc<tokio::sync::Mutex<RightState>> {
        let rights = &mut self.known().rights;
        if rights.len() >= MAX_RIGHTS && !rights.contains_key(what) {
            rights.clear();
        }
        Arc::clone(rights.entry(what.to_owned()).or_default())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Refusal {
    /// Creates and logs the refusal of a request at `now`.
    fn new(what: &str, words: &str, mut pauses: Doubling, now: Instant) -> Self {
        let pause = pauses.pause();
        tracing::warn!("{what}: {words}; it is tried again in {pause:?}");
        Self { words: words.to_owned(), again: now + pause, pauses }
    }

    fn error(&self) -> RequestError {
        RequestError::Forbidden(self.words.clone(), self.again)
    }
}

impl RightState {
    /// Updates the state of the right after a request that ended at `now`. If the request was forbidden, the returned
    /// error contains the time of the next try.
    fn learn<T>(&mut self, what: &str, result: Result<T, RequestError>, now: Instant) -> Result<T, RequestError> {
        match &result {
            Err(RequestError::Forbidden(words, _)) if is_of_authorization(words) => {
                return Err(self.refused(what, words, now));
            }
            Err(RequestError::Api(error)) if !matches!(**error, kube::Error::Api(_)) => {}
            Err(RequestError::NotLeading) => {}
            // The request was answered in some other way, so it is not forbidden.
            _ => *self = Self::Given(now),
        }
        result
    }

    fn refused(&mut self, what: &str, words: &str, now: Instant) -> RequestError {
        let pauses = match self {
            // Of several requests in progress at the same time, the first refusal counts.
            Self::Lacking(refusal) if now < refusal.again => return refusal.error(),
            Self::Lacking(refusal) => refusal.pauses,
            _ => FORBIDDEN_PAUSES,
        };
        let refusal = Refusal::new(what, words, pauses, now);
        let error = refusal.error();
        *self = Self::Lacking(refusal);
        error
    }
}

async fn sent<T>(
    may: impl FnOnce() -> bool,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, RequestError> {
    // Nothing must happen between this check and the request.
    if !may() {
        return Err(RequestError::NotLeading);
    }
    Ok(request.await?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use serde_json::json;

    use super::*;

    /// The API server's message to a client that is missing the right.
    const FORBIDDEN: &str = r#"pods "x" is forbidden: User "system:serviceaccount:a:b" cannot patch resource "pods""#;

    #[tokio::test]
    async fn of_many_at_once_one_finds_out() {
        let (rights, sent) = (Rights::default(), AtomicUsize::new(0));
        let refused = || async {
            sent.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            let status = Status { code: 403, message: FORBIDDEN.into(), ..Status::default() };
            Err::<(), _>(kube::Error::Api(Box::new(status)))
        };
        let attempts = (0..20).map(|_| rights.attempt("patch pods in a", "x", || true, refused()));
        for answer in join_all(attempts).await {
            assert!(matches!(answer, Err(RequestError::Forbidden(words, _)) if words == FORBIDDEN));
        }
        assert_eq!(sent.load(Ordering::Relaxed), 1);
        let other = rights.attempt("patch pods in b", "x", || true, async { Ok::<_, kube::Error>(1) }).await;
        assert_eq!(other.unwrap(), 1, "another namespace is another right");
        let not_leading = rights.attempt("patch pods in b", "x", || false, async { Ok::<_, kube::Error>(1) }).await;
        assert!(matches!(not_leading, Err(RequestError::NotLeading)));
    }

    #[test]
    fn what_is_forbidden_is_tried_soon_at_first_and_then_once_a_minute() {
        let (mut right, mut now) = (RightState::default(), Instant::now());
        let refused = || Err::<(), _>(RequestError::Forbidden(FORBIDDEN.into(), Instant::now()));
        let mut pauses = Vec::new();
        for _ in 0..8 {
            for _ in 0..3 {
                let Err(RequestError::Forbidden(_, again)) = right.learn("patch pods in a", refused(), now) else {
                    panic!("it was refused");
                };
                pauses.push(again.duration_since(now).as_secs());
            }
            now += Duration::from_secs(*pauses.last().unwrap());
        }
        pauses.dedup();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60]);
        right.learn("patch pods in a", Ok(()), now).unwrap();
        let Err(RequestError::Forbidden(_, again)) = right.learn("patch pods in a", refused(), now) else { panic!() };
        assert_eq!(again.duration_since(now).as_secs(), 1);
    }

    /// Sends a request that is refused with 403, with this cause if there is one. Returns whether it was sent, and the
    /// error.
    async fn refused(rights: &Rights, what: &str, cause: Option<&str>) -> (bool, RequestError) {
        let mut sent = false;
        let causes: Vec<_> = cause.iter().map(|reason| json!({"reason": reason})).collect();
        let details = serde_json::from_value(json!({"causes": causes})).unwrap();
        let status = Status { code: 403, message: FORBIDDEN.into(), details: Some(details), ..Status::default() };
        let request = async {
            sent = true;
            Err::<(), _>(kube::Error::Api(status.boxed()))
        };
        let error = rights.attempt(what, "x", || true, request).await.unwrap_err();
        (sent, error)
    }

    #[tokio::test]
    async fn a_namespace_that_is_being_deleted_says_nothing_of_rights_in_the_next_of_its_name() {
        let rights = Rights::default();
        for _ in 0..2 {
            let (sent, error) = refused(&rights, "patch plugins in a", Some("NamespaceTerminating")).await;
            assert!(sent && !error.is_wrong() && matches!(error, RequestError::Api(_)), "{error:?}");
        }
        assert!(refused(&rights, "patch plugins in a", None).await.0);
        assert!(refused(&rights, "patch plugins in b status", None).await.0);
        assert!(!refused(&rights, "patch plugins in a", None).await.0, "it was forbidden a short time ago");
        rights.forget("a");
        assert!(refused(&rights, "patch plugins in a", None).await.0);
        assert!(!refused(&rights, "patch plugins in b status", None).await.0, "another namespace is still there");
        rights.forget("b");
        assert!(refused(&rights, "patch plugins in b status", None).await.0);
    }

    #[tokio::test]
    async fn a_quota_that_forbids_one_object_delays_no_other_of_its_namespace() {
        let (rights, sent) = (Rights::default(), AtomicUsize::new(0));
        let refused = async |name: &str| {
            let words = format!("services \"{name}\" is forbidden: exceeded quota: few, requested: services=1");
            let status = Status { code: 403, message: words, ..Status::default() };
            let request = async {
                sent.fetch_add(1, Ordering::Relaxed);
                Err::<(), _>(kube::Error::Api(status.boxed()))
            };
            rights.attempt("patch services in a", name, || true, request).await.unwrap_err()
        };
        for _ in 0..3 {
            let error = refused("x").await;
            assert!(matches!(error, RequestError::Forbidden(words, _) if words.contains("exceeded quota")));
        }
        assert_eq!(sent.load(Ordering::Relaxed), 1, "it is not repeated at once");
        let written = async |name: &str| {
            let answer = rights.attempt("patch services in a", name, || true, async { Ok::<_, kube::Error>(1) }).await;
            answer.is_ok()
        };
        assert!(written("y").await, "another object of the namespace is written");
        assert!(!written("x").await);
        rights.forget("a");
        assert!(written("x").await);
    }
}
