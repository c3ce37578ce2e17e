//! Makes an identity of the claims of a token.

use serde_json::{Map, Value};

use crate::domain::identity::{Identity, IdentityMethod};
use crate::domain::plan::JwtPlan;

/// Returns the identity that these claims describe.
///
/// # Errors
/// If they have no subject that can be that of a client.
pub(super) fn identity(plan: &JwtPlan, claims: Map<String, Value>) -> Result<Identity, String> {
    let subject = claims.get(&plan.subject_claim).and_then(Value::as_str);
    let subject = subject.ok_or_else(|| format!("its claim {} is not a string", plan.subject_claim))?.to_owned();
    let mut identity = Identity::new(IdentityMethod::Jwt, &plan.issuer, subject)?;
    identity.groups = claims.get(&plan.groups_claim).map(list).unwrap_or_default();
    // Entra ID has scopes in `scp` (a string, as RFC 9068 has them in `scope`), others have a list there.
    let scopes: Vec<_> = ["scope", "scp"].iter().filter_map(|claim| claims.get(*claim)).flat_map(list).collect();
    identity.scopes = scopes.iter().flat_map(|scopes| scopes.split_whitespace()).map(str::to_owned).collect();
    identity.claims = claims;
    Ok(identity)
}

/// Returns the strings of a list, or a single string as a list of one.
fn list(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_and_scopes_are_read_from_lists_and_texts() {
        let plan = JwtPlan {
            issuer: "https://i".into(),
            audiences: vec!["a".into()],
            algorithms: vec!["RS256".into()],
            jwks_uri: None,
            jwks_ref: None,
            jwks: None,
            refresh_seconds: 300,
            subject_claim: "sub".into(),
            groups_claim: "roles".into(),
            skew_seconds: 30,
        };
        let of = |claims: Value| identity(&plan, claims.as_object().cloned().unwrap_or_default());
        let one = of(json!({"sub": "ann", "roles": ["a", 1, "b"], "scope": "x  y", "groups": ["c"]})).unwrap();
        assert_eq!(
            (one.subject.as_str(), one.groups.join(","), one.scopes.join(",")),
            ("ann", "a,b".into(), "x,y".into())
        );
        let entra = of(json!({"sub": "ann", "roles": "a", "scp": "x y"})).unwrap();
        assert_eq!((entra.groups.join(","), entra.scopes.join(",")), ("a".into(), "x,y".into()));
        assert!(of(json!({})).is_err() && of(json!({"sub": 7})).is_err() && of(json!({"sub": "anonymous"})).is_err());
    }
}
