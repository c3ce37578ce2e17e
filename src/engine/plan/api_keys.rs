//! The API keys of a gateway, from the Secrets that its plan names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::digest::sha256_hex;
use crate::domain::identity::{Identity, IdentityMethod};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{AdminMethodsPlan, ApiKeysPlan, AuthenticationPlan, Plan};
use crate::domain::ports::{ApiKey, Methods, Secrets};
use crate::domain::problem::Problem;
use crate::domain::secret::{NoSecret, SecretText};

/// What a digest in the place of a key begins with.
const DIGEST: &str = "sha256:";

/// Returns the methods of a plan with its API keys, and a Problem for each key that cannot be accepted.
pub(crate) fn methods(plan: &Plan, secrets: &impl Secrets) -> (Methods, Vec<Problem>) {
    let mut found = Found::default();
    let authentication = &plan.gateway.authentication;
    for (at, secret) in authentication.api_keys.iter().flat_map(|keys| &keys.secrets).enumerate() {
        let subjects = secrets.keys(secret);
        if subjects.is_empty() {
            let message = format!("there is no Secret {secret}, or it has no keys");
            found.faults.push((at, NoSecret::NotFound, message));
        }
        for subject in subjects {
            let key = secrets.secret(secret, &subject).map_err(|why| (why, why.message("its value")));
            let added = key.and_then(|key| digest(&key)).and_then(|digest| {
                let identity = authentication.api_keys.as_ref().map(|plan| identity(plan, &subject)).transpose();
                identity.map(|identity| (digest, identity)).map_err(|why| (NoSecret::Invalid, why))
            });
            match added {
                Ok((digest, Some(identity))) => found.add(at, digest, identity),
                Ok((_, None)) => {}
                Err((why, said)) => found.faults.push((at, why, refused(secret, &subject, &said))),
            }
        }
    }
    found.drop_shared();
    let object = ObjectId::new(Kind::MCPGateway, plan.gateway.key.clone());
    let problem = |(at, why, message): (usize, NoSecret, String)| {
        let field = format!("spec.authentication.apiKeys.secretRefs[{at}]");
        Problem::error(why.reason(), object.clone(), field, message)
    };
    let api_keys = found.keys.into_iter().map(|(digest, (_, identity))| ApiKey { digest, identity }).collect();
    let allowed_addresses = plan.gateway.allowed_addresses.clone();
    let methods = Methods { plan: authentication.clone(), api_keys, allowed_addresses };
    (methods, found.faults.into_iter().map(problem).collect())
}

/// Returns the methods of the admin API with its token, and the Problem of a token that cannot be accepted.
pub(super) fn admin_methods(plan: &Plan, secrets: &impl Secrets) -> (Methods, Option<Problem>) {
    let AdminMethodsPlan { secret, token_review } = &plan.gateway.admin_methods;
    let api_keys = secret.as_ref().map(|_| ApiKeysPlan::default());
    let authentication =
        AuthenticationPlan { api_keys, token_review: token_review.clone(), ..AuthenticationPlan::default() };
    let mut methods = Methods { plan: authentication, ..Methods::default() };
    let Some((secret, key)) = secret else { return (methods, None) };
    let place = format!("key {key:?} of Secret {secret}");
    let token = secrets.secret(secret, key).map_err(|why| (why, why.message(&place)));
    let problem = match token.and_then(|token| digest(&token)) {
        Ok(digest) => {
            methods.api_keys.push(ApiKey { digest, identity: Identity::local() });
            None
        }
        Err((why, said)) => {
            let object = ObjectId::new(Kind::MCPGateway, plan.gateway.key.clone());
            let message = format!("no token of {place} admits to the admin API: {said}");
            // Without the token, nobody can read the Problem from the admin API.
            tracing::warn!("spec.admin.authentication.tokenSecretRef: {message}");
            Some(Problem::error(why.reason(), object, "spec.admin.authentication.tokenSecretRef", message))
        }
    };
    (methods, problem)
}

/// Returns the API keys of a plan that are written in full. No text may show them.
pub(super) fn written(plan: &Plan, secrets: &impl Secrets) -> Vec<SecretText> {
    let named = plan.gateway.authentication.api_keys.iter().flat_map(|keys| &keys.secrets);
    let all =
        named.flat_map(|secret| secrets.keys(secret).into_iter().filter_map(|key| secrets.secret(secret, &key).ok()));
    all.filter(|key| !key.expose().trim().starts_with(DIGEST)).collect()
}

fn refused(secret: &ObjectKey, subject: &str, why: &str) -> String {
    format!("the key of {subject:?} in Secret {secret} is not accepted: {why}")
}

#[derive(Default)]
struct Found {
    /// The places of the Secrets and the identities, by the digests of the keys.
    keys: BTreeMap<String, (usize, Arc<Identity>)>,
    shared: BTreeSet<String>,
    /// The place of the Secret, the kind of the fault, and the message.
    faults: Vec<(usize, NoSecret, String)>,
}

impl Found {
    fn add(&mut self, at: usize, digest: String, identity: Identity) {
        let known = self.keys.get(&digest).filter(|(_, known)| known.subject != identity.subject);
        if let Some((_, known)) = known {
            let message = format!(
                "{:?} and {:?} have the same key, so it is accepted for neither: give each its own",
                known.subject, identity.subject
            );
            self.faults.push((at, NoSecret::Invalid, message));
            self.shared.insert(digest);
        } else {
            self.keys.insert(digest, (at, Arc::new(identity)));
        }
    }

    fn drop_shared(&mut self) {
        self.keys.retain(|digest, _| !self.shared.contains(digest));
    }
}

/// Returns the digest of the key that a Secret has: in full, or only its digest.
fn digest(value: &SecretText) -> Result<String, (NoSecret, String)> {
    let invalid = |why: &str| Err((NoSecret::Invalid, why.to_owned()));
    let value = value.expose().trim();
    let Some(digest) = value.strip_prefix(DIGEST) else {
        return match value {
            "" => invalid("it is empty"),
            _ if value.bytes().any(|byte| !byte.is_ascii_graphic()) => {
                invalid("it has white space or other characters than printable ASCII, which no header can have")
            }
            _ => Ok(sha256_hex(value.as_bytes())),
        };
    };
    let is_hex = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { Ok(digest.to_ascii_lowercase()) } else { invalid("`sha256:` is not followed by 64 hexadecimal digits") }
}

fn identity(plan: &ApiKeysPlan, subject: &str) -> Result<Identity, String> {
    let mut identity = Identity::new(IdentityMethod::ApiKey, "", subject.to_owned())?;
    identity.groups = plan.groups.get(subject).cloned().unwrap_or_default();
    Ok(identity)
}
