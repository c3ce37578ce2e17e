//! The Secrets that a gateway's pods mount.

use std::collections::BTreeSet;

use crate::domain::plan::Plan;
use crate::domain::secret::secret_uses;

/// Maximum number of keys that a pod mounts. Pods report the keys beyond this number as missing.
const MAX_KEYS: usize = 1000;

/// The name of a Secret, and a key in it.
pub(in crate::controller) type SecretKey = (String, String);

/// Returns the keys of Secrets in this namespace that the plans name, at most [`MAX_KEYS`]. Names that no Secret can
/// have are left out, because a single one would make the API server refuse the whole Deployment.
pub(super) fn named(namespace: &str, plans: &[&Plan]) -> BTreeSet<SecretKey> {
    let named = plans.iter().flat_map(|plan| secret_uses(plan));
    let own = named.filter(|(secret, key)| secret.namespace == namespace && is_name(&secret.name) && is_key(key));
    let all: BTreeSet<_> = own.map(|(secret, key)| (secret.name.clone(), key.to_owned())).collect();
    all.into_iter().take(MAX_KEYS).collect()
}

/// Returns the Secrets of this namespace that have API keys of clients.
pub(super) fn with_api_keys(namespace: &str, plans: &[&Plan]) -> BTreeSet<String> {
    let keys = plans.iter().filter_map(|plan| plan.gateway.authentication.api_keys.as_ref());
    let own =
        keys.flat_map(|keys| &keys.secrets).filter(|secret| secret.namespace == namespace && is_name(&secret.name));
    own.map(|secret| secret.name.clone()).collect()
}

/// Whether a Secret can have this name (RFC 1123, subdomain).
fn is_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_word) && label.ends_with(is_word) && label.chars().all(|c| is_word(c) || c == '-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Whether a Secret can have this key (Kubernetes, `IsConfigMapKey`).
fn is_key(key: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=253).contains(&key.len()) && key.chars().all(is_allowed) && key != "." && !key.starts_with("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_secret_can_have_are_known() {
        for name in ["a", "api-key", "a.b-1.c"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a_b", "a/b", "..", "a..b", "a.-b", &"a".repeat(254)] {
            assert!(!is_name(name), "{name}");
        }
        for key in ["key", "tls.crt", ".env", "A_b-1"] {
            assert!(is_key(key), "{key}");
        }
        for key in ["", ".", "..", "..data", "a/b", "a b", &"k".repeat(254)] {
            assert!(!is_key(key), "{key}");
        }
    }
}
