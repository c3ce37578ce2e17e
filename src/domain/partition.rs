//! Partitions of the values that plugins store (`ctx.store`): whose values a run reads and writes. The manifest and the caller decide,
//! never the plugin.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::digest::sha256_hex;
use super::identity::{Identity, IdentityMethod};

/// The partition that all runs of pipelines with the scope `Shared` have in common.
pub const SHARED: &str = "shared";

/// Whose values the runs of a pipeline write. All of them also read those of [`SHARED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum StoreScope {
    /// Those of runs of the same conversation by the same caller.
    #[default]
    Conversation,
    /// Those of runs of the same caller. One that proves no identity has those of its conversation.
    Principal,
    /// Those of all runs with this scope.
    Shared,
}

impl StoreScope {
    /// Returns the scope that runs of a caller have: without an identity, there is no principal.
    #[must_use]
    pub fn of(self, identity: &Identity) -> Self {
        match self {
            Self::Principal if identity.method == IdentityMethod::Anonymous => Self::Conversation,
            scope => scope,
        }
    }

    /// Returns the key of the partition of a run. The same conversation of another identity is another partition.
    pub fn partition(self, identity: &Identity, conversation: &str) -> String {
        match self.of(identity) {
            Self::Shared => SHARED.to_owned(),
            Self::Principal => sha256_hex(json!(["principal", identity.key()]).to_string().as_bytes()),
            Self::Conversation => {
                sha256_hex(json!(["conversation", conversation, identity.key()]).to_string().as_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_callers_have_a_partition_in_common() {
        let jwt = |issuer, subject: &str| Identity::new(IdentityMethod::Jwt, issuer, subject.into()).unwrap();
        let api_key = Identity::new(IdentityMethod::ApiKey, "default/keys", "ann".into()).unwrap();
        let callers = [jwt("https://a", "ann"), jwt("https://b", "ann"), jwt("https://a", "bob"), api_key];
        for scope in [StoreScope::Conversation, StoreScope::Principal] {
            let keys: HashSet<_> = callers.iter().map(|caller| scope.partition(caller, "c")).collect();
            assert_eq!(keys.len(), callers.len(), "{scope:?}");
        }
        let ann = &callers[0];
        let partitions = |scope: StoreScope| ["c", "d"].map(|conversation| scope.partition(ann, conversation));
        let [one, other] = partitions(StoreScope::Conversation);
        assert_ne!(one, other);
        let [one, other] = partitions(StoreScope::Principal);
        assert_eq!(one, other);
        assert_eq!(partitions(StoreScope::Shared), [SHARED, SHARED]);
    }

    #[test]
    fn a_caller_without_identity_has_its_conversations_alone() {
        let anonymous = Identity::anonymous();
        let of = |scope: StoreScope, conversation| scope.partition(&anonymous, conversation);
        assert_ne!(of(StoreScope::Principal, "c"), of(StoreScope::Principal, "d"));
        assert_eq!(of(StoreScope::Principal, "c"), of(StoreScope::Conversation, "c"));
    }
}
