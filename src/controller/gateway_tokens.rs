//! Tokens that the operator shows to gateways' pods: of its own service account, each for the pods of one gateway alone
//! (Kubernetes, TokenRequest).

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenRequestSpec, TokenRequestStatus};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;

use super::writer::Writer;

/// How long a token counts, in seconds, where the API server does not say otherwise.
const LIFE: i64 = 3600;
/// How long the API server may take.
const ANSWER: Duration = Duration::from_secs(2);
/// After how long what failed is tried again.
const PAUSE: Duration = Duration::from_secs(5);
/// Tokens that are asked for at once.
const AT_ONCE: usize = 8;

/// Whom a token is for that is shown to the pods of the MCPGateway with this uid.
fn audience(uid: &str) -> String {
    format!("hawsepipe.dev/gateway/{uid}")
}

/// A token as it is shown, or why there is none.
pub(super) type Shown = Result<Arc<str>, String>;

/// The tokens.
pub(super) struct GatewayTokens {
    writer: Writer,
    /// Whom the operator runs as, once that is known.
    account: Option<Account>,
    /// By the uid of the gateway.
    known: HashMap<String, Known>,
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    namespace: String,
    name: String,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What is known of one token.
#[derive(Clone)]
struct Known {
    shown: Shown,
    /// When it is asked for again.
    again: Instant,
    /// Until when the token counts.
    until: Instant,
}

impl GatewayTokens {
    pub(super) fn new(writer: Writer) -> Self {
        Self { writer, account: None, known: HashMap::new() }
    }

    /// The account whose tokens they are, `NAMESPACE/NAME`, once that is known.
    pub(super) fn account(&self) -> Option<String> {
        self.account.as_ref().map(ToString::to_string)
    }

    /// One for each of these gateways, by their uids. Others are forgotten.
    pub(super) async fn of(&mut self, gateways: &BTreeSet<String>) -> HashMap<String, Shown> {
        self.known.retain(|uid, _| gateways.contains(uid));
        let now = Instant::now();
        let is_due = |uid: &&String| self.known.get(*uid).is_none_or(|known| known.again <= now);
        let due: Vec<_> = gateways.iter().filter(is_due).cloned().collect();
        if !due.is_empty() {
            let account = self.find_account().await;
            let asked = due.into_iter().map(|uid| async {
                let found = match &account {
                    Ok(account) => self.request(account, &uid).await,
                    Err(why) => Err(why.clone()),
                };
                (uid, found)
            });
            // Each has its own time: many slow ones are not one that is stuck.
            let found = stream::iter(asked).buffer_unordered(AT_ONCE).inspect(|_| self.writer.pulse.beats());
            let found: Vec<_> = found.collect().await;
            for (uid, found) in found {
                self.keep(uid, found);
            }
        }
        self.known.iter().map(|(uid, known)| (uid.clone(), known.shown.clone())).collect()
    }

    /// Remembers what came of asking for a token. One that still counts is shown until there is another.
    fn keep(&mut self, uid: String, found: Result<TokenRequestStatus, String>) {
        let now = Instant::now();
        let known = match found {
            Ok(status) => {
                let left = status.expiration_timestamp.0.duration_since(Timestamp::now());
                let left = Duration::try_from(left).unwrap_or_default();
                Known { shown: Ok(status.token.into()), again: now + (left / 2).max(PAUSE), until: now + left }
            }
            Err(why) => match self.known.remove(&uid).filter(|known| known.shown.is_ok() && now < known.until) {
                Some(before) => Known { again: now + PAUSE, ..before },
                None => Known { shown: Err(why), again: now + PAUSE, until: now },
            },
        };
        self.known.insert(uid, known);
    }

    async fn request(&self, account: &Account, uid: &str) -> Result<TokenRequestStatus, String> {
        let api: Api<ServiceAccount> = Api::namespaced(self.writer.client.clone(), &account.namespace);
        let spec = TokenRequestSpec {
            audiences: vec![audience(uid)],
            expiration_seconds: Some(LIFE),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let what = format!("create serviceaccounts/token {} in {}", account.name, account.namespace);
        let parameters = PostParams::default();
        let asked = self.writer.read(&what, api.create_token_request(&account.name, &parameters, &request));
        let made =
            tokio::time::timeout(ANSWER, asked).await.map_err(|_| "the API server does not answer".to_owned())?;
        made.map_err(|error| error.to_string())?.status.ok_or_else(|| "the API server gave no token".to_owned())
    }

    /// Whom the operator runs as.
    async fn find_account(&mut self) -> Result<Account, String> {
        if let Some(account) = &self.account {
            return Ok(account.clone());
        }
        let api: Api<SelfSubjectReview> = Api::all(self.writer.client.clone());
        let (parameters, review) = (PostParams::default(), SelfSubjectReview::default());
        let asked = self.writer.read("create selfsubjectreviews", api.create(&parameters, &review));
        let review =
            tokio::time::timeout(ANSWER, asked).await.map_err(|_| "the API server does not answer".to_owned())?;
        let user = review.map_err(|error| error.to_string())?.status.and_then(|status| status.user_info);
        let user = user.and_then(|user| user.username).unwrap_or_default();
        let account =
            account(&user).ok_or_else(|| format!("the operator runs as {user:?}, which is not a service account"))?;
        Ok(self.account.insert(account).clone())
    }
}

/// The service account that a user is (Kubernetes, authentication of service accounts).
fn account(user: &str) -> Option<Account> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    Some(Account { namespace: namespace.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::{Request, Response};
    use http_body_util::BodyExt;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::BoxError;

    use super::*;
    use crate::controller::lease::Leadership;
    use crate::controller::liveness::Liveness;

    #[test]
    fn only_service_accounts_have_tokens() {
        let found = account("system:serviceaccount:hawsepipe-system:hawsepipe-operator").unwrap();
        assert_eq!(found.to_string(), "hawsepipe-system/hawsepipe-operator");
        for other in ["admin", "system:node:n", "system:serviceaccount:x"] {
            assert_eq!(account(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn a_token_is_asked_for_the_pods_of_one_gateway_alone_and_for_an_hour() {
        let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let heard = Arc::clone(&asked);
        let server = tower::service_fn(move |request: Request<Body>| {
            let heard = Arc::clone(&heard);
            async move {
                let path = request.uri().path().to_owned();
                let mut object: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
                object["status"] = match path.ends_with("/token") {
                    true => json!({"token": "t", "expirationTimestamp": "2099-01-01T00:00:00Z"}),
                    false => json!({"userInfo": {"username": "system:serviceaccount:system:operator"}}),
                };
                heard.lock().unwrap().push((path, object["spec"].clone()));
                Ok::<_, BoxError>(Response::new(Body::from(object.to_string().into_bytes())))
            }
        });
        let pulse = Liveness::default().pulse("statuses");
        let mut tokens = GatewayTokens::new(Writer::new(Client::new(server, "system"), Leadership::default(), pulse));
        let shown = tokens.of(&["one".to_owned()].into()).await;
        assert_eq!((shown["one"].as_deref(), tokens.account().as_deref()), (Ok("t"), Some("system/operator")));
        let (path, spec) = asked.lock().unwrap().pop().unwrap();
        assert_eq!(path, "/api/v1/namespaces/system/serviceaccounts/operator/token");
        assert_eq!(spec, json!({"audiences": ["hawsepipe.dev/gateway/one"], "expirationSeconds": 3600}));
    }
}
