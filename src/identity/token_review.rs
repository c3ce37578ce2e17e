//! Has the API server verify tokens of Kubernetes service accounts (authentication.k8s.io/v1, TokenReview).

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use jsonwebtoken::dangerous;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::cache::{TokenDigest, digest};
use super::review_queue::ReviewQueue;
use crate::domain::identity::{Identity, IdentityMethod};
use crate::domain::network::network;
use crate::domain::plan::TokenReviewPlan;
use crate::domain::ports::Unproved;
use crate::domain::refusal::Fault;

/// How long a review counts. A token that is revoked is accepted for that long.
const KEPT: Duration = Duration::from_secs(10);
/// How long a token that was accepted is reviewed before others.
const RENEWED: Duration = Duration::from_secs(600);
/// The maximum number of reviews that are kept: of accepted tokens, and of others. Anybody can send any number of the latter.
const MAX_KEPT: usize = 1024;
/// The maximum number of reviews at the same time.
const MAX_ASKED: usize = 8;
/// How long [`TokenReviews::check`] does not ask again after a failure.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// How long the API server can take, with the wait for others.
const ANSWER: Duration = Duration::from_secs(5);
/// What the name of a service account begins with.
const ACCOUNT: &str = "system:serviceaccount:";

type Outcome = Result<Arc<Identity>, Unproved>;

pub(super) struct TokenReviews {
    client: Option<Client>,
    /// The newest reviews of tokens that were accepted, by the digests of audiences and token.
    accepted: Kept<Arc<Identity>>,
    /// The newest reviews of others.
    refused: Kept<Unproved>,
    queue: Arc<ReviewQueue>,
    /// When the API server last answered or failed, and why it failed; `None` if it was never asked.
    last: Mutex<Option<(Instant, Option<String>)>>,
}

type Kept<T> = DashMap<TokenDigest, (Instant, T)>;

impl TokenReviews {
    pub(super) fn new(client: Option<Client>) -> Self {
        let (accepted, refused) = (DashMap::new(), DashMap::new());
        Self { client, accepted, refused, queue: ReviewQueue::new(MAX_ASKED), last: Mutex::default() }
    }

    /// Returns why the API server did not review a token when it was last asked.
    pub(super) fn failure(&self) -> Option<String> {
        self.last().as_ref().and_then(|(_, why)| why.clone())
    }

    /// Asks the API server for a review of a text that is no token, unless it has given a review or has failed a moment ago.
    pub(super) async fn check(&self, plan: &TokenReviewPlan) {
        let is_due = self.last().as_ref().is_none_or(|(at, why)| why.is_some() && at.elapsed() >= ASK_AGAIN);
        if let (true, Some(client)) = (is_due, &self.client) {
            let _ = self.ask(client, plan, "none").await;
        }
    }

    /// Asks the API server. The outer error says that there is no review.
    async fn ask(&self, client: &Client, plan: &TokenReviewPlan, token: &str) -> Result<Outcome, Unproved> {
        let asked = tokio::time::timeout(ANSWER, ask(client, plan, token)).await;
        let reviewed = asked.unwrap_or_else(|_| Err(unavailable("it does not answer in time".to_owned())));
        let why = match &reviewed {
            Err(Unproved::Unavailable(why)) => Some(why.clone()),
            _ => None,
        };
        *self.last() = Some((Instant::now(), why));
        reviewed
    }

    fn last(&self) -> MutexGuard<'_, Option<(Instant, Option<String>)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the identity that a token of a service account proves, which a client at this address has sent. Other tokens are
    /// not sent to the API server.
    pub(super) async fn review(&self, plan: &TokenReviewPlan, token: &str, from: IpAddr) -> Outcome {
        let claims = dangerous::insecure_decode::<Map<String, Value>>(token).ok().map(|decoded| decoded.claims);
        let subject = claims.as_ref().and_then(|claims| claims.get("sub")).and_then(Value::as_str);
        if !subject.is_some_and(|subject| subject.starts_with(ACCOUNT)) {
            return Err(rejected(
                Fault::NotAServiceAccount,
                "it is not of a service account, and no other method knows it",
            ));
        }
        let Some(client) = &self.client else {
            return Err(rejected(
                Fault::NotAServiceAccount,
                "only a gateway in a cluster can have tokens of service accounts reviewed",
            ));
        };
        let key = digest(&format!("{:?} {token}", plan.audiences));
        if let Some(identity) = find(&self.accepted, &key) {
            return Ok(identity);
        }
        if let Some(why) = find(&self.refused, &key) {
            return Err(why);
        }
        let renews = self.accepted.contains_key(&key);
        let asked = async {
            let place = self.queue.place(network(from), renews).await;
            let _place = place.ok_or_else(|| unavailable("too many tokens wait for a review".to_owned()))?;
            self.ask(client, plan, token).await
        };
        let asked = tokio::time::timeout(ANSWER, asked).await;
        let outcome = asked.unwrap_or_else(|_| Err(unavailable("it does not answer in time".to_owned())))?;
        match &outcome {
            Ok(identity) => keep(&self.accepted, key, Arc::clone(identity), RENEWED),
            Err(why) => {
                self.accepted.remove(&key);
                keep(&self.refused, key, why.clone(), KEPT);
            }
        }
        outcome
    }
}

/// Returns a review that counts.
fn find<T: Clone>(kept: &Kept<T>, key: &TokenDigest) -> Option<T> {
    kept.get(key).filter(|known| known.0.elapsed() < KEPT).map(|known| known.1.clone())
}

/// Keeps a review. If there is no room, removes those that are older than `longest`, then those that count no longer, or all.
fn keep<T>(kept: &Kept<T>, key: TokenDigest, review: T, longest: Duration) {
    for age in [longest, KEPT, Duration::ZERO] {
        if kept.len() >= MAX_KEPT {
            kept.retain(|_, known| known.0.elapsed() < age);
        }
    }
    kept.insert(key, (Instant::now(), review));
}

/// Creates a TokenReview.
async fn ask(client: &Client, plan: &TokenReviewPlan, token: &str) -> Result<Outcome, Unproved> {
    let audiences = Some(plan.audiences.clone()).filter(|audiences| !audiences.is_empty());
    let spec = TokenReviewSpec { audiences, token: Some(token.to_owned()) };
    let review = TokenReview { spec, ..TokenReview::default() };
    let reviewed = Api::<TokenReview>::all(client.clone()).create(&PostParams::default(), &review).await;
    Ok(identity(plan, reviewed.map_err(|error| unreviewed(&error))?.status.unwrap_or_default()))
}

/// Returns the identity that a review has found.
fn identity(plan: &TokenReviewPlan, status: TokenReviewStatus) -> Outcome {
    if status.authenticated != Some(true) {
        return Err(rejected(Fault::ReviewFailed, "the API server does not accept it, or it is for another audience"));
    }
    // An API server that does not know audiences returns none.
    let found = status.audiences.unwrap_or_default();
    if !plan.audiences.is_empty() && !plan.audiences.iter().any(|audience| found.contains(audience)) {
        return Err(rejected(Fault::WrongAudience, "it is for another audience"));
    }
    let user = status.user.unwrap_or_default();
    let subject = user.username.filter(|name| name.starts_with(ACCOUNT));
    let subject = subject.ok_or_else(|| rejected(Fault::NotAServiceAccount, "it is not of a service account"))?;
    let mut identity = Identity::new(IdentityMethod::TokenReview, "", subject)
        .map_err(|why| Unproved::Rejected(Fault::InvalidClaim, why))?;
    identity.groups = user.groups.unwrap_or_default();
    Ok(Arc::new(identity))
}

fn unreviewed(error: &Error) -> Unproved {
    unavailable(match error {
        Error::Api(status) if status.code == 403 => {
            "the service account of this gateway may not create tokenreviews.authentication.k8s.io; docs/identity.md has the \
             binding that it needs"
                .to_owned()
        }
        Error::Api(status) => format!("it answers with the status {}", status.code),
        _ => "it cannot be reached".to_owned(),
    })
}

fn rejected(fault: Fault, why: &str) -> Unproved {
    Unproved::Rejected(fault, why.to_owned())
}

fn unavailable(why: String) -> Unproved {
    Unproved::Unavailable(format!("the API server has not reviewed it: {why}"))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use http::{Request, Response};
    use http_body_util::BodyExt;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// An API server that takes 20 ms, and accepts the accounts whose name begins with `real`. It counts its reviews.
    fn api_server(asked: &Arc<AtomicUsize>) -> Client {
        let asked = Arc::clone(asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            asked.fetch_add(1, Ordering::Relaxed);
            async move {
                let body = request.into_body().collect().await?.to_bytes();
                let review: TokenReview = serde_json::from_slice(&body)?;
                let claims: Map<String, Value> = dangerous::insecure_decode(review.spec.token.unwrap())?.claims;
                tokio::time::sleep(Duration::from_millis(20)).await;
                let subject = claims["sub"].as_str().unwrap();
                let status = json!({"authenticated": subject.contains(":real"), "user": {"username": subject}});
                let answer = json!({"metadata": {}, "spec": {}, "status": status}).to_string();
                Ok::<_, tower::BoxError>(Response::new(Body::from(answer.into_bytes())))
            }
        });
        Client::new(service, "default")
    }

    fn token(account: &str) -> String {
        let part = |json: Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let subject = format!("{ACCOUNT}ns:{account}");
        format!("{}.{}.", part(json!({"alg": "RS256"})), part(json!({"sub": subject})))
    }

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    #[tokio::test]
    async fn many_tokens_that_nobody_knows_keep_no_account_from_its_review() {
        let asked = Arc::default();
        let reviews = Arc::new(TokenReviews::new(Some(api_server(&asked))));
        let plan = TokenReviewPlan { audiences: Vec::new() };
        let review = async |account: &str, from: u8| reviews.review(&plan, &token(account), address(from)).await;
        assert!(review("real-0", 1).await.is_ok());
        // 1,000 connections of one address, each with one token after the other.
        let attack = |at: usize| {
            let (reviews, plan) = (Arc::clone(&reviews), plan.clone());
            tokio::spawn(async move {
                for round in 0.. {
                    let outcome = reviews.review(&plan, &token(&format!("x{at}-{round}")), address(9)).await;
                    assert!(outcome.is_err());
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            })
        };
        let attackers: Vec<_> = (0..1000).map(attack).collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let soon = Duration::from_millis(1500);
        for new in ["real-1", "real-2", "real-3"] {
            let started = Instant::now();
            assert!(review("real-0", 1).await.is_ok() && review(new, 2).await.is_ok());
            assert!(started.elapsed() < soon, "{:?}", started.elapsed());
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        // A renewal goes first, even if it comes from the address of the others.
        reviews.accepted.alter_all(|_, (at, identity)| (at.checked_sub(KEPT).unwrap(), identity));
        let (started, before) = (Instant::now(), asked.load(Ordering::Relaxed));
        assert!(review("real-0", 9).await.is_ok() && started.elapsed() < soon, "{:?}", started.elapsed());
        assert!(asked.load(Ordering::Relaxed) > before);
        attackers.iter().for_each(tokio::task::JoinHandle::abort);
        assert!(reviews.refused.len() <= MAX_KEPT && reviews.accepted.len() == 4);
        // A review counts for as long as before, and not for each request.
        let before = asked.load(Ordering::Relaxed);
        assert!(review("real-0", 1).await.is_ok() && review("y", 1).await.is_err());
        assert!(review("y", 1).await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed) - before, 1);
    }

    #[tokio::test]
    async fn a_missing_permission_is_known_before_the_first_token_comes_and_until_it_is_granted() {
        let granted = Arc::new(AtomicUsize::new(0));
        let may = Arc::clone(&granted);
        let service = tower::service_fn(move |_: Request<Body>| {
            let (code, answer) = match may.load(Ordering::Relaxed) {
                0 => (403, json!({"status": "Failure", "message": "no", "reason": "Forbidden", "code": 403})),
                _ => (201, json!({"metadata": {}, "spec": {}, "status": {"authenticated": false}})),
            };
            let body = Body::from(answer.to_string().into_bytes());
            async move { Ok::<_, tower::BoxError>(Response::builder().status(code).body(body)?) }
        });
        let (reviews, plan) = (TokenReviews::new(Some(Client::new(service, "default"))), TokenReviewPlan::default());
        assert_eq!(reviews.failure(), None);
        reviews.check(&plan).await;
        assert!(reviews.failure().is_some_and(|why| why.contains("may not create tokenreviews")));
        granted.store(1, Ordering::Relaxed);
        reviews.check(&plan).await;
        assert!(reviews.failure().is_some(), "it asks again after a while");
        let tried = reviews.last().take();
        *reviews.last() = tried.map(|(at, why)| (at.checked_sub(ASK_AGAIN).unwrap(), why));
        reviews.check(&plan).await;
        assert_eq!(reviews.failure(), None);
    }
}
