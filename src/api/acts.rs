//! What counts at once, as the index of a snapshot holds it, and back.

use super::snapshot::{Revocation, SnapshotActs, SnapshotRefusal};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{Acts, Refusal, Revoked};
use crate::domain::reason::Reason;

/// The most revocations that an index holds, which is the schema's bound.
const MAX_REVOKED: usize = 1024;
/// The most of each revision that is not the current one: an index has several, and must fit into etcd.
const MAX_REVOKED_BESIDE: usize = 128;
/// The most characters of a message, which is the schema's bound.
const MAX_MESSAGE: usize = 1024;

/// How an index holds them. Where more was taken away than it has room for, every call is refused.
pub fn written(acts: &Acts) -> SnapshotActs {
    written_within(acts, MAX_REVOKED)
}

/// The same for a revision that is not the current one.
pub fn written_beside(acts: &Acts) -> SnapshotActs {
    written_within(acts, MAX_REVOKED_BESIDE)
}

fn written_within(acts: &Acts, most: usize) -> SnapshotActs {
    let too_many = (acts.revoked.len() > most).then(|| Refusal {
        reason: Reason::GuardUnavailable,
        message: format!(
            "{} objects that the revision names were deleted or are no longer shared, and {most} are the most: \
             let the gateway follow edits again",
            acts.revoked.len()
        ),
    });
    let refusing = acts.refusing.as_ref().or(too_many.as_ref()).map(|refusal| SnapshotRefusal {
        reason: refusal.reason.as_str().to_owned(),
        message: refusal.message.chars().take(MAX_MESSAGE).collect(),
    });
    let revoked: Vec<_> = acts.revoked.iter().take(most).map(revocation).collect();
    SnapshotActs {
        stopped: acts.stopped,
        cancel: acts.stop_cancels.then_some(true),
        refusing,
        revoked: (!revoked.is_empty()).then_some(revoked),
    }
}

/// The same where an index has no room for what was taken away: every call is refused.
pub fn closed(stored: SnapshotActs) -> SnapshotActs {
    let Some(revoked) = stored.revoked else { return stored };
    let refusal = || SnapshotRefusal {
        reason: Reason::GuardUnavailable.as_str().to_owned(),
        message: format!(
            "{} objects that the revision names were deleted or are no longer shared, and the index has no room to name \
             them: let the gateway follow edits again",
            revoked.len()
        ),
    };
    SnapshotActs { revoked: None, refusing: stored.refusing.or_else(|| Some(refusal())), ..stored }
}

/// What an index says. What this version does not know refuses every call.
pub fn read(stored: &SnapshotActs) -> Acts {
    let revoked: Vec<_> = stored.revoked.iter().flatten().map(revoked).collect();
    let unknown = stored.revoked.iter().flatten().zip(&revoked).find(|(_, known)| known.is_none());
    let refusal = stored.refusing.as_ref().map(|refusal| Refusal {
        reason: reason(&refusal.reason, Reason::GuardUnavailable),
        message: refusal.message.clone(),
    });
    let refusing = refusal.or_else(|| {
        let (Revocation { kind, namespace, name, .. }, _) = unknown?;
        let message = format!("{kind} {namespace}/{name} was revoked, which this version of the gateway does not know");
        Some(Refusal { reason: Reason::UnknownFormat, message })
    });
    Acts {
        stopped: stored.stopped,
        stop_cancels: stored.cancel == Some(true),
        refusing,
        revoked: revoked.into_iter().flatten().collect(),
    }
}

fn revocation(revoked: &Revoked) -> Revocation {
    let (kind, key, chain, reason) = match revoked {
        Revoked::Upstream(key) => (Kind::MCPUpstream, key, None, None),
        Revoked::Plugin { plugin, chain, refusal } => (Kind::Plugin, plugin, chain.clone(), Some(refusal.reason)),
    };
    let (chain_namespace, chain) = chain.map(|chain| (chain.namespace, chain.name)).unzip();
    Revocation {
        kind: kind.as_str().to_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        chain_namespace,
        chain,
        reason: reason.map(|reason| reason.as_str().to_owned()),
    }
}

fn revoked(stored: &Revocation) -> Option<Revoked> {
    let key = ObjectKey::new(&stored.namespace, &stored.name);
    if stored.kind == Kind::MCPUpstream.as_str() {
        return Some(Revoked::Upstream(key));
    }
    if stored.kind != Kind::Plugin.as_str() {
        return None;
    }
    let chain = stored.chain_namespace.as_ref().zip(stored.chain.as_ref());
    let reason = reason(stored.reason.as_deref().unwrap_or_default(), Reason::PluginNotFound);
    let refusal = Refusal::of_revoked(reason, &key);
    Some(Revoked::Plugin {
        plugin: key,
        chain: chain.map(|(namespace, name)| ObjectKey::new(namespace, name)),
        refusal,
    })
}

/// The reason of this word; `other` for a word of another version.
fn reason(word: &str, other: Reason) -> Reason {
    Reason::ALL.iter().copied().find(|reason| reason.as_str() == word).unwrap_or(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acts() -> Acts {
        let plugin = |name: &str, chain, reason| {
            let plugin = ObjectKey::new("team", name);
            Revoked::Plugin { refusal: Refusal::of_revoked(reason, &plugin), plugin, chain }
        };
        Acts {
            stopped: true,
            stop_cancels: true,
            refusing: Some(Refusal { reason: Reason::RequiredChainMissing, message: "m".into() }),
            revoked: vec![
                Revoked::Upstream(ObjectKey::new("team", "up")),
                plugin("gone", None, Reason::PluginNotFound),
                plugin("kept", Some(ObjectKey::new("mcp", "c")), Reason::RefNotPermitted),
            ],
        }
    }

    #[test]
    fn what_counts_at_once_comes_back() {
        for acts in [acts(), Acts::default()] {
            assert_eq!(read(&written(&acts)), acts);
        }
        assert_eq!(written(&Acts::default()), SnapshotActs::default());
    }

    #[test]
    fn what_is_not_known_or_does_not_fit_refuses_every_call() {
        let mut newer = written(&Acts { refusing: None, ..acts() });
        newer.revoked.as_mut().unwrap()[1].kind = "Identity".into();
        let refusing = read(&newer).refusing.unwrap();
        assert!(refusing.message.contains("Identity team/gone"), "{refusing:?}");
        let many = vec![Revoked::Upstream(ObjectKey::new("team", "up")); MAX_REVOKED + 1];
        let stored = written(&Acts { revoked: many.clone(), ..Acts::default() });
        assert_eq!(stored.revoked.as_ref().unwrap().len(), MAX_REVOKED);
        assert!(read(&stored).refusing.is_some());
        let beside = written_beside(&Acts { revoked: many[..=MAX_REVOKED_BESIDE].to_vec(), ..Acts::default() });
        assert_eq!(beside.revoked.as_ref().unwrap().len(), MAX_REVOKED_BESIDE);
        assert!(read(&beside).refusing.is_some());
    }
}
