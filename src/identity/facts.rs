//! What a token says of itself, and what is accepted instead: for operators, when it is refused.

use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::{Issuer, MAX_TOKEN};
use crate::domain::plan::AuthenticationPlan;
use crate::domain::refusal::{TokenFacts, TokenValues};

/// Returns what a token has and what the methods accept. The signature is not checked.
pub(super) fn facts(plan: &AuthenticationPlan, issuers: &[Issuer], token: &str) -> TokenFacts {
    let mut parts = token.split('.').filter(|_| token.len() <= MAX_TOKEN);
    let [header, claims] = [parts.next(), parts.next()].map(|part| {
        let json = part.and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        json.and_then(|json| serde_json::from_slice::<Value>(&json).ok()).unwrap_or_default()
    });
    let found = TokenValues {
        iss: TokenValues::texts(claims["iss"].as_str().map(|_| &claims["iss"])),
        aud: TokenValues::texts(claims.get("aud")),
        exp: seconds(&claims["exp"]),
        kid: TokenValues::texts(header["kid"].as_str().map(|_| &header["kid"])),
    };
    let named: Vec<_> = issuers.iter().filter(|known| claims["iss"].as_str() == Some(&*known.plan.issuer)).collect();
    let of = if named.is_empty() { issuers.iter().collect() } else { named };
    let reviewed = plan.token_review.iter().flat_map(|review| &review.audiences);
    let audiences = of.iter().flat_map(|issuer| &issuer.plan.audiences).chain(reviewed);
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let skew = of.iter().map(|issuer| issuer.plan.skew_seconds).max();
    let keys: Vec<_> = of.iter().filter_map(|issuer| issuer.keys.known()).collect();
    let accepted = TokenValues {
        iss: TokenValues::bounded(of.iter().map(|issuer| &*issuer.plan.issuer)),
        aud: TokenValues::bounded(audiences.map(|audience| &**audience)),
        exp: skew.map(|skew| now.saturating_sub(u64::from(skew))),
        kid: TokenValues::bounded(keys.iter().flat_map(|keys| keys.ids())),
    };
    TokenFacts { found, accepted }
}

/// Returns a time that a claim has, in whole seconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn seconds(claim: &Value) -> Option<u64> {
    claim.as_f64().map(|seconds| seconds as u64)
}
