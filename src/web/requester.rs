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
        // The time can have a fraction (RFC 7519, 2, NumericDate).
        let expires = self.identity.claims.get("exp").and_then(serde_json::Value::as_f64);
        let expires = expires.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let left = expires.map_or(LONGEST, |expires| expires.saturating_sub(now));
        left.clamp(SHORTEST, LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::identity::IdentityMethod;

    #[test]
    fn a_stream_lasts_as_long_as_the_token_of_its_client() {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        for (expires, least, most) in [
            (json!(now + 60), 58, 60),
            (json!(now as f64 + 60.5), 58, 61),
            (json!(now as f64 - 60.5), 5, 5),
            (json!(now + 86_400), 3600, 3600),
            (json!(1e300), 3600, 3600),
            (json!(null), 3600, 3600),
        ] {
            let mut identity = Identity::new(IdentityMethod::Jwt, "i", "ann".into()).unwrap();
            identity.claims.insert("exp".into(), expires.clone());
            let requester = Requester { address: [127, 0, 0, 1].into(), identity: Arc::new(identity), token: None };
            let lifetime = requester.lifetime().as_secs();
            assert!((least..=most).contains(&lifetime), "{expires}: {lifetime}");
        }
    }
}
