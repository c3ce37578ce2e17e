//! Tokens that the operator presents to gateways' pods: tokens of its own service account, each valid only for the pods
//! of one gateway (Kubernetes, TokenRequest). They are requested in the background, so that a slow request delays no
//! other gateway.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec, TokenRequestStatus};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::own_account::{OperatorAccount, OwnAccount};
use super::writer::Writer;

/// The lifetime that is requested for a token, in seconds. The API server can decide otherwise.
const LIFE: i64 = 3600;
/// How long to wait for an answer from the API server.
const ANSWER: Duration = Duration::from_secs(2);
/// How long to wait before a failed request is repeated.
const PAUSE: Duration = Duration::from_secs(5);
/// How many tokens are requested concurrently.
const AT_ONCE: usize = 8;

/// Returns the audience of tokens for the pods of the MCPGateway with this uid.
fn audience(uid: &str) -> String {
    format!("hawsepipe.dev/gateway/{uid}")
}

/// The token to present, or why there is none.
pub(super) type Shown = Result<Arc<str>, String>;

/// Tokens for gateways, by gateway uid.
pub(super) struct GatewayTokens {
    requests: Arc<Requests>,
    known: HashMap<String, TokenState>,
    /// Gateways whose token is being requested.
    asked: HashSet<String>,
    under_way: JoinSet<(String, Result<TokenRequestStatus, String>)>,
}

/// Sends requests to the API server.
struct Requests {
    writer: Writer,
    account: OwnAccount,
    places: Semaphore,
}

/// The state of the token for one gateway.
#[derive(Clone)]
struct TokenState {
    shown: Shown,
    /// When to request the next token.
    again: Instant,
    /// When the token expires.
    until: Instant,
}

impl GatewayTokens {
    pub(super) fn new(writer: Writer) -> Self {
        let account = OwnAccount::new(writer.clone());
        let requests = Requests { writer, account, places: Semaphore::new(AT_ONCE) };
        let requests = Arc::new(requests);
        Self { requests, known: HashMap::new(), asked: HashSet::new(), under_way: JoinSet::new() }
    }

    /// Returns the service account whose tokens these are, as `NAMESPACE/NAME`, once it is known.
    pub(super) fn account(&self) -> Option<String> {
        self.requests.account.known().map(ToString::to_string)
    }

    /// Returns the token to present to a gateway's pods, or why there is none; `None` until the first request has
    /// ended.
    pub(super) fn shown(&self, gateway: &str) -> Option<&Shown> {
        self.known.get(gateway).map(|known| &known.shown)
    }

    /// Starts requests for the tokens that these gateways need now, and forgets all other gateways.
    pub(super) fn begin(&mut self, gateways: &BTreeSet<String>) {
        self.known.retain(|uid, _| gateways.contains(uid));
        self.asked.retain(|uid| gateways.contains(uid));
        let now = Instant::now();
        let is_due =
            |uid: &&String| !self.asked.contains(*uid) && self.known.get(*uid).is_none_or(|known| known.again <= now);
        let due: Vec<_> = gateways.iter().filter(is_due).cloned().collect();
        if due.is_empty() {
            return;
        }
        let requests = Arc::clone(&self.requests);
        // The account is looked up once for all of them.
        let account = async move { requests.account.find().await }.boxed().shared();
        for uid in due {
            self.asked.insert(uid.clone());
            let (requests, account) = (Arc::clone(&self.requests), account.clone());
            self.under_way.spawn(async move {
                let found = match account.await {
                    Ok(account) => requests.token(&account, &uid).await,
                    Err(why) => Err(why),
                };
                (uid, found)
            });
        }
    }

    /// Waits until a token arrives or a request for one fails; waits forever if nothing was requested.
    pub(super) async fn hear(&mut self) {
        loop {
            let Some(first) = self.under_way.join_next().await else { return std::future::pending().await };
            let (mut next, mut heard) = (Some(first), false);
            while let Some(done) = next {
                match done {
                    Ok((uid, found)) if self.asked.remove(&uid) => {
                        self.keep(uid, found);
                        heard = true;
                    }
                    Ok(_) => {}
                    // It is not known which request panicked, so all of them are repeated.
                    Err(_) => self.asked.clear(),
                }
                next = self.under_way.try_join_next();
            }
            if heard {
                return;
            }
        }
    }

    /// Records the result of a request. A token that is still valid stays in use until there is a new one.
    fn keep(&mut self, uid: String, found: Result<TokenRequestStatus, String>) {
        let now = Instant::now();
        let known = match found {
            Ok(status) => {
                let left = status.expiration_timestamp.0.duration_since(Timestamp::now());
                let left = Duration::try_from(left).unwrap_or_default();
                TokenState { shown: Ok(status.token.into()), again: now + (left / 2).max(PAUSE), until: now + left }
            }
            Err(why) => match self.known.remove(&uid).filter(|known| known.shown.is_ok() && now < known.until) {
                Some(before) => TokenState { again: now + PAUSE, ..before },
                None => TokenState { shown: Err(why), again: now + PAUSE, until: now },
            },
        };
        self.known.insert(uid, known);
    }
}

impl Requests {
    async fn token(&self, account: &OperatorAccount, uid: &str) -> Result<TokenRequestStatus, String> {
        let api: Api<ServiceAccount> = Api::namespaced(self.writer.client.clone(), &account.namespace);
        let spec = TokenRequestSpec {
            audiences: vec![audience(uid)],
            expiration_seconds: Some(LIFE),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let what = format!("create serviceaccounts/token {} in {}", account.name, account.namespace);
        let parameters = PostParams::default();
        // Cannot fail: the semaphore is never closed.
        let _place = self.places.acquire().await;
        let asked = self.writer.read_beside(&what, api.create_token_request(&account.name, &parameters, &request));
        let made =
            tokio::time::timeout(ANSWER, asked).await.map_err(|_| "the API server does not answer".to_owned())?;
        made.map_err(|error| error.to_string())?.status.ok_or_else(|| "the API server gave no token".to_owned())
    }
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

    #[tokio::test]
    async fn a_token_is_asked_for_beside_the_loop_for_the_pods_of_one_gateway_alone_and_for_an_hour() {
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
        let liveness = Liveness::default();
        let writer = Writer::new(Client::new(server, "system"), Leadership::default(), liveness.pulse("pods"));
        writer.pulse.rests();
        let mut tokens = GatewayTokens::new(writer);
        tokens.begin(&["one".to_owned()].into());
        assert!(tokens.shown("one").is_none(), "it is not answered yet");
        tokens.hear().await;
        assert_eq!(tokens.shown("one").map(Result::as_deref), Some(Ok("t")));
        assert_eq!(tokens.account().as_deref(), Some("system/operator"));
        let later = Instant::now() + Duration::from_secs(3600);
        assert_eq!(liveness.check_at(later), Ok(()), "a request beside the loop is no step of it");
        let (path, spec) = asked.lock().unwrap().pop().unwrap();
        assert_eq!(path, "/api/v1/namespaces/system/serviceaccounts/operator/token");
        assert_eq!(spec, json!({"audiences": ["hawsepipe.dev/gateway/one"], "expirationSeconds": 3600}));
    }
}
