//! Restrictions, which take effect immediately in all revisions.

use serde::{Deserialize, Serialize};

use super::Refusal;
use crate::domain::digest::revision;
use crate::domain::ids::ObjectKey;
use crate::domain::reason::Reason;

/// The stop switch, a refusal of all calls, and the objects that were revoked since the running plan was compiled.
///
/// While a gateway is pinned to an older revision, edits do not take effect. Restrictions do, because users rely on
/// them when they stop a gateway, delete an object or withdraw consent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restrictions {
    /// Whether the stop switch is set (`spec.stopped`).
    pub stopped: bool,
    /// Whether `stopMode` is `Cancel`, so that stopping also ends calls in flight.
    pub stop_cancels: bool,
    /// If set, every call is refused.
    pub refusing: Option<Refusal>,
    /// Upstreams and plugins that must no longer be used.
    pub revoked: Vec<Revoked>,
}

/// An object that a plan names and that must no longer be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Revoked {
    /// An upstream or pipeline that was deleted, or is no longer for the gateway.
    Upstream(ObjectKey),
    /// A plugin that was deleted, or that a chain, a pipeline or an upstream must no longer use.
    Plugin {
        /// The revoked plugin.
        plugin: ObjectKey,
        /// The chain, pipeline or upstream that must not use it; `None` means all.
        chain: Option<ObjectKey>,
        /// Why the plugin was revoked.
        refusal: Refusal,
    },
}

/// Version of the meaning of [`Restrictions`] and of their digest. It must be increased when either changes.
const FORMAT: u32 = 2;

impl Restrictions {
    /// Returns a digest that differs between restrictions with different effects; empty if nothing is restricted. It
    /// begins with the format (see [`Self::format_of`]), followed by a hyphen and 12 hex characters. Messages do not
    /// change the digest, because another version can word them differently.
    pub fn digest(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        let refusing = self.refusing.as_ref().map(|refusal| refusal.reason);
        let revoked: Vec<_> = self.revoked.iter().map(Revoked::what).collect();
        format!("{FORMAT}-{}", revision(&(self.stopped, self.stop_cancels, refusing, revoked)))
    }

    /// Returns the format at the beginning of a digest; empty for the empty digest.
    pub fn format_of(digest: &str) -> &str {
        digest.split_once('-').map_or("", |(format, _)| format)
    }
}

impl Revoked {
    /// Returns what is revoked, without messages: the object, and for a plugin the chain and the reason.
    fn what(&self) -> (&ObjectKey, Option<&ObjectKey>, Option<Reason>) {
        match self {
            Self::Upstream(key) => (key, None, None),
            Self::Plugin { plugin, chain, refusal } => (plugin, chain.as_ref(), Some(refusal.reason)),
        }
    }
}

impl Refusal {
    /// Returns why an entry must no longer run `plugin`.
    pub fn of_revoked(reason: Reason, plugin: &ObjectKey) -> Self {
        let message = match reason {
            Reason::PluginNotFound => format!("there is no Plugin {plugin}"),
            Reason::WrapperNotAllowed => format!("the gateway no longer allows the wrapper {plugin}"),
            _ => {
                format!("{plugin} is no longer shared with the namespace that uses it, or not with a config of its own")
            }
        };
        Self { reason, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns restrictions that refuse all calls with the message `words` and revoke the plugin `name` with the same
    /// message.
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
        assert_eq!((Restrictions::format_of(&digest), Restrictions::format_of("")), ("2", ""));
        assert_eq!(digest, "2-769c0ac6e29e", "a change of the digest needs another format");
    }
}
