//! Checks the credentials of clients: JSON Web Tokens (RFC 7519), with the keys that their issuers publish, API keys, and tokens
//! of Kubernetes service accounts.

mod cache;
mod claims;
mod facts;
mod fetch;
mod issuer_keys;
mod key_set;
mod review_queue;
mod token_review;

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use futures_util::future::join_all;
use jsonwebtoken::errors::{Error as TokenError, ErrorKind};
use jsonwebtoken::{Algorithm, Header, Validation, dangerous, decode, decode_header};
use kube::Client;
use serde_json::{Map, Value};

use self::cache::{TokenCache, digest};
use self::claims::identity;
use self::facts::facts;
use self::issuer_keys::IssuerKeys;
use self::key_set::KeySet;
use self::token_review::TokenReviews;
use crate::domain::digest::sha256_hex;
use crate::domain::identity::Identity;
use crate::domain::plan::{AuthenticationPlan, JwtPlan};
use crate::domain::ports::{ApiKey, Authenticate, Credential, FailedIssuer, Methods, Unproved};
use crate::domain::refusal::{Fault, TokenFacts};
use crate::transport::outbound::AddressGuard;

/// The longest token that is read, in bytes.
const MAX_TOKEN: usize = 16 << 10;

/// Checks tokens by the methods of the plan in force.
pub struct Tokens {
    issuers: ArcSwap<Issuers>,
    reviews: TokenReviews,
}

/// The issuers of one plan, and the tokens of theirs that were accepted.
#[derive(Default)]
struct Issuers {
    plan: AuthenticationPlan,
    issuers: Vec<Issuer>,
    cache: TokenCache,
}

struct Issuer {
    plan: JwtPlan,
    algorithms: Vec<Algorithm>,
    keys: Arc<IssuerKeys>,
}

#[async_trait]
impl Authenticate for Tokens {
    async fn prove(
        &self,
        methods: &Methods,
        credential: Credential<'_>,
        from: IpAddr,
    ) -> Result<Arc<Identity>, Unproved> {
        let (Credential::Bearer(text) | Credential::ApiKey(text)) = credential;
        if text.len() > MAX_TOKEN {
            return Err(Unproved::Rejected(Fault::TooLong, format!("it is longer than {MAX_TOKEN} bytes")));
        }
        let are_bearers = methods.plan.api_keys.as_ref().is_some_and(|keys| keys.header.is_none());
        let unknown = match credential {
            Credential::Bearer(_) if methods.plan.jwt.is_empty() => UNKNOWN_KEY,
            Credential::Bearer(token) => match self.token(methods, token).await? {
                Recognized::As(identity) => return Ok(identity),
                Recognized::Not(why) => why,
            },
            Credential::ApiKey(_) => UNKNOWN_KEY,
        };
        let may_be_key = are_bearers == matches!(credential, Credential::Bearer(_));
        let known = may_be_key.then(|| api_key(&methods.api_keys, text)).flatten();
        match (known, &methods.plan.token_review, credential) {
            (Some(identity), ..) => Ok(identity),
            (None, Some(plan), Credential::Bearer(token)) => self.reviews.review(plan, token, from).await,
            _ => Err(rejected(unknown.0, unknown.1)),
        }
    }

    fn facts(&self, methods: &Methods, credential: Credential<'_>) -> TokenFacts {
        let (plan, token) = match credential {
            Credential::Bearer(token) if token.len() <= MAX_TOKEN => (&methods.plan, token),
            _ => return TokenFacts::default(),
        };
        // Methods without issuers, as those of the admin API, are not those of which the keys are kept.
        let known = if plan.jwt.is_empty() { Arc::default() } else { self.methods(plan) };
        let issuers: Vec<_> = known.issuers.iter().map(|issuer| (&issuer.plan, issuer.keys.known())).collect();
        facts(plan, &issuers, token)
    }

    async fn read_issuers(&self, methods: &Methods) {
        if !methods.plan.jwt.is_empty() {
            let guard = AddressGuard { allowed: methods.allowed_addresses.clone() };
            let known = self.methods(&methods.plan);
            join_all(known.issuers.iter().map(|issuer| issuer.keys.current(&guard, |_| true))).await;
        }
        if let Some(plan) = &methods.plan.token_review {
            self.reviews.check(plan).await;
        }
    }

    fn failed_issuers(&self, methods: &Methods) -> Vec<FailedIssuer> {
        if methods.plan.jwt.is_empty() {
            return Vec::new();
        }
        let known = self.methods(&methods.plan);
        let failed = known.issuers.iter().enumerate().filter_map(|(place, Issuer { plan, keys, .. })| {
            let (why, has_keys) = (keys.failure()?, keys.known().is_some());
            Some(FailedIssuer { place, issuer: plan.issuer.clone(), why, has_keys })
        });
        failed.collect()
    }

    fn failed_reviews(&self) -> Option<String> {
        self.reviews.failure()
    }
}

/// Returns the identity that an API key proves. How long that takes says nothing about the known keys.
fn api_key(known: &[ApiKey], key: &str) -> Option<Arc<Identity>> {
    let digest = sha256_hex(key.as_bytes());
    let is_same = |known: &ApiKey| verify_slices_are_equal(known.digest.as_bytes(), digest.as_bytes()).is_ok();
    let found = known.iter().fold(None, |found, known| if is_same(known) { Some(known) } else { found });
    found.map(|known| Arc::clone(&known.identity))
}

/// Whether the issuers of the plan are those that a token is for.
enum Recognized {
    /// The token is of one of them, and proves this identity.
    As(Arc<Identity>),
    /// It is of none of them, for this reason. Another method can know it.
    Not((Fault, &'static str)),
}

impl Tokens {
    /// Creates a check of credentials. `client` is of the API server that reviews tokens of service accounts; `None` outside a
    /// cluster.
    pub fn new(client: Option<Client>) -> Self {
        Self { issuers: ArcSwap::default(), reviews: TokenReviews::new(client) }
    }

    async fn token(&self, methods: &Methods, token: &str) -> Result<Recognized, Unproved> {
        let guard = AddressGuard { allowed: methods.allowed_addresses.clone() };
        let methods = self.methods(&methods.plan);
        let digest = digest(token);
        if let Some(known) = methods.cache.find(&digest) {
            // Also has the keys fetched again, if that is due.
            let keys = methods.issuers[known.issuer].keys.current(&guard, |_| true).await;
            let keys = keys.map_err(Unproved::Unavailable)?;
            if let Some(identity) = known.identity_by(&keys) {
                return Ok(Recognized::As(identity));
            }
        }
        let (Ok(header), Ok(decoded)) = (decode_header(token), dangerous::insecure_decode::<Map<String, Value>>(token))
        else {
            return Ok(Recognized::Not(UNREADABLE));
        };
        let issuer = decoded.claims.get("iss").and_then(Value::as_str);
        let Some(at) = methods.issuers.iter().position(|known| Some(&*known.plan.issuer) == issuer) else {
            return Ok(Recognized::Not((Fault::UnknownIssuer, "no issuer that is accepted here has issued it")));
        };
        let issuer = &methods.issuers[at];
        let (identity, keys, until) = issuer.verify(token, &header, &guard).await?;
        methods.cache.add(digest, at, &identity, keys, until);
        Ok(Recognized::As(identity))
    }

    /// Returns the issuers of this plan. Known keys of issuers are kept when the plan changes; accepted tokens are not.
    fn methods(&self, plan: &AuthenticationPlan) -> Arc<Issuers> {
        let known = self.issuers.load_full();
        if known.plan == *plan {
            return known;
        }
        // Requests that come at the same time share the keys, and so wait for an issuer together.
        self.issuers.rcu(|known| match known.plan == *plan {
            true => Arc::clone(known),
            false => Arc::new(Issuers::new(plan, known)),
        });
        let known = self.issuers.load_full();
        if known.plan == *plan { known } else { Arc::new(Issuers::new(plan, &known)) }
    }
}

const UNREADABLE: (Fault, &str) = (Fault::NotAToken, "it is no JSON Web Token with an algorithm that can be accepted");
const UNKNOWN_KEY: (Fault, &str) = (Fault::UnknownApiKey, "it is no API key of this gateway");

fn rejected(fault: Fault, why: &str) -> Unproved {
    Unproved::Rejected(fault, why.to_owned())
}

impl Issuers {
    fn new(plan: &AuthenticationPlan, previous: &Self) -> Self {
        let issuer = |jwt: &JwtPlan| {
            let known = previous.issuers.iter().map(|issuer| &issuer.keys).find(|keys| keys.are_of(jwt)).cloned();
            let keys = known.unwrap_or_else(|| Arc::new(IssuerKeys::new(jwt)));
            let algorithms = jwt.algorithms.iter().filter_map(|name| name.parse().ok()).filter(is_asymmetric);
            Issuer { plan: jwt.clone(), algorithms: algorithms.collect(), keys }
        };
        Self { plan: plan.clone(), issuers: plan.jwt.iter().map(issuer).collect(), cache: TokenCache::default() }
    }
}

/// Whether a token with this algorithm can be made only by the holder of a private key, whatever the plan says.
fn is_asymmetric(algorithm: &Algorithm) -> bool {
    !matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512)
}

impl Issuer {
    /// Checks a token of this issuer. Returns the identity that it proves, the keys by which it does, and the time until which
    /// it does, in Unix seconds.
    async fn verify(
        &self,
        token: &str,
        header: &Header,
        guard: &AddressGuard,
    ) -> Result<(Arc<Identity>, Arc<KeySet>, u64), Unproved> {
        if !self.algorithms.contains(&header.alg) {
            return Err(Unproved::Rejected(
                Fault::WrongAlgorithm,
                format!("its algorithm {:?} is not accepted", header.alg),
            ));
        }
        if header.crit.is_some() {
            return Err(rejected(Fault::WrongHeader, "its header has `crit`, of which nothing is supported here"));
        }
        if !header.typ.as_deref().is_none_or(is_access_token) {
            return Err(rejected(Fault::WrongHeader, "its `typ` is not that of an access token"));
        }
        let has_key = |keys: &KeySet| keys.find(header).is_some();
        let keys = self.keys.current(guard, has_key).await.map_err(Unproved::Unavailable)?;
        let key = keys.find(header).ok_or_else(|| rejected(Fault::UnknownKey, &keys.lacks(header)))?;
        let claims = decode::<Map<String, Value>>(token, key, &self.validation(header.alg));
        let claims = claims.map_err(|error| why(&error))?.claims;
        let until = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the library has checked the number"
        )]
        let until = (until as u64).saturating_add(u64::from(self.plan.skew_seconds));
        let identity = identity(&self.plan, claims).map_err(|why| Unproved::Rejected(Fault::InvalidClaim, why))?;
        Ok((Arc::new(identity), keys, until))
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut wanted = Validation::new(algorithm);
        wanted.leeway = u64::from(self.plan.skew_seconds);
        wanted.validate_nbf = true;
        wanted.set_audience(&self.plan.audiences);
        wanted.set_issuer(&[&self.plan.issuer]);
        wanted.set_required_spec_claims(&["exp", "aud", "iss"]);
        wanted
    }
}

/// Whether `typ` is that of an access token (RFC 9068) or of a token in general (RFC 7519, 5.1).
fn is_access_token(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt")
}

fn why(error: &TokenError) -> Unproved {
    match error.kind() {
        ErrorKind::ExpiredSignature => rejected(Fault::Expired, "it has expired"),
        ErrorKind::ImmatureSignature => rejected(Fault::NotYetValid, "it is not valid yet"),
        ErrorKind::InvalidAudience => rejected(Fault::WrongAudience, "it is for another audience"),
        ErrorKind::InvalidIssuer => rejected(Fault::UnknownIssuer, "it is of another issuer"),
        ErrorKind::MissingRequiredClaim(claim) => rejected(Fault::InvalidClaim, &format!("it has no {claim}")),
        ErrorKind::InvalidClaimFormat(claim) => rejected(Fault::InvalidClaim, &format!("its {claim} is not a time")),
        _ => rejected(Fault::WrongSignature, "its signature is not valid"),
    }
}
