//! What a token says of itself, and what is accepted instead: for operators, when it is refused.

use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::key_set::KeySet;
use crate::domain::plan::{AuthenticationPlan, JwtPlan};
use crate::domain::refusal::{TokenFacts, TokenValues};

/// Returns what a token has and what the methods accept: the issuers, with the keys that are known. The signature is not checked.
pub(super) fn facts(plan: &AuthenticationPlan, issuers: &[(&JwtPlan, Option<Arc<KeySet>>)], token: &str) -> TokenFacts {
    let mut parts = token.split('.');
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
    let named: Vec<_> = issuers.iter().filter(|known| claims["iss"].as_str() == Some(&*known.0.issuer)).collect();
    let of = if named.is_empty() { issuers.iter().collect() } else { named };
    let reviewed = plan.token_review.iter().flat_map(|review| &review.audiences);
    let audiences = of.iter().flat_map(|issuer| &issuer.0.audiences).chain(reviewed);
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let skew = of.iter().map(|issuer| issuer.0.skew_seconds).max();
    let accepted = TokenValues {
        iss: TokenValues::bounded(of.iter().map(|issuer| &*issuer.0.issuer)),
        aud: TokenValues::bounded(audiences.map(|audience| &**audience)),
        exp: skew.map(|skew| now.saturating_sub(u64::from(skew))),
        kid: TokenValues::bounded(of.iter().filter_map(|issuer| issuer.1.as_ref()).flat_map(|keys| keys.ids())),
    };
    TokenFacts { found, accepted }
}

/// Returns a time that a claim has, in whole seconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn seconds(claim: &Value) -> Option<u64> {
    claim.as_f64().map(|seconds| seconds as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(header: &Value, claims: &Value) -> String {
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        format!("{header}.{claims}.hunter2")
    }

    #[test]
    fn what_a_token_says_is_bounded_and_has_no_signature() {
        let of = |token: &str| facts(&AuthenticationPlan::default(), &[], token).found;
        let long = "x".repeat(5000);
        let claims = json!({"iss": long, "aud": vec![&long; 99], "exp": 1e300, "sub": "hunter2"});
        let found = of(&token(&json!({"kid": long}), &claims));
        assert_eq!([found.iss[0].len(), found.aud.len(), found.aud[0].len(), found.kid[0].len()], [256, 16, 256, 256]);
        assert_eq!(found.exp, Some(u64::MAX));
        assert!(!format!("{found:?}").contains("hunter2"));
        let found = of(&token(&json!([]), &json!({"iss": ["a"], "aud": {"a": 1}, "exp": "soon"})));
        assert_eq!(found, TokenValues::default(), "none of them is of its type");
        for no_token in ["", "hunter2", "a.b.c", "..", &token(&json!("x"), &json!(7))] {
            assert_eq!(of(no_token), TokenValues::default(), "{no_token}");
        }
    }
}
