//! The sender of a request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::domain::identity::Identity;
use crate::domain::secret::SecretText;

/// Who sent a request, and from where.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    pub(super) address: IpAddr,
    pub(super) identity: Arc<Identity>,
    /// The token that proves the identity; `None` if another replica has checked it, or if it was proved in another way.
    pub(super) token: Option<Arc<SecretText>>,
}

/// How long a stream may last without a new proof of who reads it, if the client's token does not say so.
const LONGEST: Duration = Duration::from_secs(3600);
/// The shortest time: clients open streams again at once, and a token is accepted a little longer than it says.
const SHORTEST: Duration = Duration::from_secs(5);

impl Requester {
    /// Waits until the client has to prove its identity again: then its streams end, and it opens them anew. Clients without an
    /// identity never have to.
    pub(super) fn until_proved_again(&self) -> impl Future<Output = ()> + Send + 'static {
        let until = (!self.identity.is_anonymous()).then(|| Instant::now() + self.lifetime());
        async move {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        }
    }

    fn lifetime(&self) -> Duration {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let expires = self.identity.claims.get("exp").and_then(serde_json::Value::as_u64);
        let left = expires.map_or(LONGEST, |expires| Duration::from_secs(expires).saturating_sub(now));
        left.clamp(SHORTEST, LONGEST)
    }
}
