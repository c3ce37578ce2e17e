//! Has the API server verify tokens of Kubernetes service accounts (authentication.k8s.io/v1, TokenReview).

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use jsonwebtoken::dangerous;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::cache::{TokenDigest, digest};
use crate::domain::identity::{Identity, IdentityMethod};
use crate::domain::plan::TokenReviewPlan;
use crate::domain::ports::Unproved;
use crate::domain::refusal::Fault;

/// How long a review counts. A token that is revoked is accepted for that long.
const KEPT: Duration = Duration::from_secs(10);
/// The maximum number of reviews that are kept.
const MAX_KEPT: usize = 1024;
/// The maximum number of reviews at the same time.
const MAX_ASKED: usize = 8;
/// How long the API server can take, with the wait for others.
const ANSWER: Duration = Duration::from_secs(5);
/// What the name of a service account begins with.
const ACCOUNT: &str = "system:serviceaccount:";

type Outcome = Result<Arc<Identity>, Unproved>;

pub(super) struct TokenReviews {
    client: Option<Client>,
    /// The newest reviews, by the digests of audiences and token.
    kept: DashMap<TokenDigest, (Instant, Outcome)>,
    asked: Semaphore,
}

impl TokenReviews {
    pub(super) fn new(client: Option<Client>) -> Self {
        Self { client, kept: DashMap::new(), asked: Semaphore::new(MAX_ASKED) }
    }

    /// Returns the identity that a token of a service account proves. Other tokens are not sent to the API server.
    pub(super) async fn review(&self, plan: &TokenReviewPlan, token: &str) -> Outcome {
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
        let known = self.kept.get(&key).filter(|known| known.0.elapsed() < KEPT).map(|known| known.1.clone());
        if let Some(known) = known {
            return known;
        }
        let asked = tokio::time::timeout(ANSWER, self.ask(client, plan, token)).await;
        let outcome = asked.unwrap_or_else(|_| Err(unavailable("it does not answer in time".to_owned())))?;
        self.keep(key, outcome.clone());
        outcome
    }

    /// Asks the API server. The outer error says that there is no review.
    async fn ask(&self, client: &Client, plan: &TokenReviewPlan, token: &str) -> Result<Outcome, Unproved> {
        let _permit = self.asked.acquire().await.map_err(|_| unavailable("the gateway ends".to_owned()))?;
        let audiences = Some(plan.audiences.clone()).filter(|audiences| !audiences.is_empty());
        let spec = TokenReviewSpec { audiences, token: Some(token.to_owned()) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviewed = Api::<TokenReview>::all(client.clone()).create(&PostParams::default(), &review).await;
        Ok(identity(plan, reviewed.map_err(|error| unreviewed(&error))?.status.unwrap_or_default()))
    }

    /// Keeps a review. If there is no room, removes those that count no longer, or all.
    fn keep(&self, key: TokenDigest, outcome: Outcome) {
        if self.kept.len() >= MAX_KEPT {
            self.kept.retain(|_, known| known.0.elapsed() < KEPT);
            if self.kept.len() >= MAX_KEPT {
                self.kept.clear();
            }
        }
        self.kept.insert(key, (Instant::now(), outcome));
    }
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
