//! Restrictions, which count at once whatever revision a gateway runs.

use serde::{Deserialize, Serialize};

use super::Refusal;
use crate::domain::digest::revision;
use crate::domain::ids::ObjectKey;
use crate::domain::reason::Reason;

/// The stop switch, a refusal of every call, and what was taken away since the plan that runs was compiled.
///
/// Edits wait while a gateway is pinned to an older plan. These do not: who stops a gateway, deletes an object or
/// withdraws consent relies on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restrictions {
    /// `spec.stopped`.
    pub stopped: bool,
    /// Whether `stopMode` is `Cancel`.
    pub stop_cancels: bool,
    /// Every call is refused.
    pub refusing: Option<Refusal>,
    /// What may not run any more.
    pub revoked: Vec<Revoked>,
}

/// Something that a plan names and that was taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Revoked {
    /// An upstream that was deleted, or is no longer shared with the gateway.
    Upstream(ObjectKey),
    /// A plugin that was deleted, or that a chain may no longer name.
    Plugin {
        /// The plugin.
        plugin: ObjectKey,
        /// The chain that may not name it; none is every chain.
        chain: Option<ObjectKey>,
        /// Why.
        refusal: Refusal,
    },
}

/// What [`Restrictions`] mean, and how their digest is made: raised with each change of either.
const FORMAT: u32 = 1;

impl Restrictions {
    /// By what two of them are told apart that do not do the same: the format, which [`Self::format_of`] finds, and twelve hex
    /// characters. Empty where there is nothing to restrict. Messages do nothing: another version may word them otherwise.
    pub fn digest(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        let refusing = self.refusing.as_ref().map(|refusal| refusal.reason);
        let revoked: Vec<_> = self.revoked.iter().map(Revoked::what).collect();
        format!("{FORMAT}-{}", revision(&(self.stopped, self.stop_cancels, refusing, revoked)))
    }

    /// The format of a digest; empty where there is nothing to restrict.
    pub fn format_of(digest: &str) -> &str {
        digest.split_once('-').map_or("", |(format, _)| format)
    }
}

impl Revoked {
    /// It without words: the object, and of a plugin the chain and the reason.
    fn what(&self) -> (&ObjectKey, Option<&ObjectKey>, Option<Reason>) {
        match self {
            Self::Upstream(key) => (key, None, None),
            Self::Plugin { plugin, chain, refusal } => (plugin, chain.as_ref(), Some(refusal.reason)),
        }
    }
}

impl Refusal {
    /// Why an entry may not run `plugin` any more.
    pub fn of_revoked(reason: Reason, plugin: &ObjectKey) -> Self {
        let message = match reason {
            Reason::PluginNotFound => format!("there is no Plugin {plugin}"),
            _ => format!("{plugin} is no longer shared with the chain's namespace as the chain uses it"),
        };
        Self { reason, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Restrictions that refuse with these words, and revoke a plugin of this name with them.
    fn restrictions(name: &str, words: &str) -> Restrictions {
        let refusal = |reason| Refusal { reason, message: words.to_owned() };
        let plugin = ObjectKey::new("team", name);
        Restrictions {
            refusing: Some(refusal(Reason::RequiredChainMissing)),
            revoked: vec![Revoked::Plugin { plugin, chain: None, refusal: refusal(Reason::PluginNotFound) }],
            ..Restrictions::default()
        }
    }

    #[test]
    fn other_words_are_the_same_restrictions() {
        let digest = restrictions("p", "a").digest();
        assert_eq!(digest, restrictions("p", "b").digest());
        let stopped = Restrictions { stopped: true, ..restrictions("p", "a") };
        let upstream =
            Restrictions { revoked: vec![Revoked::Upstream(ObjectKey::new("team", "p"))], ..restrictions("p", "a") };
        let free = Restrictions { refusing: None, ..restrictions("p", "a") };
        for other in [restrictions("q", "a"), stopped, upstream, free] {
            assert_ne!(digest, other.digest(), "{other:?}");
        }
        assert_eq!(Restrictions::default().digest(), "");
        assert_eq!((Restrictions::format_of(&digest), Restrictions::format_of("")), ("1", ""));
        assert_eq!(digest, "1-769c0ac6e29e", "a change of the digest needs another format");
    }
}
