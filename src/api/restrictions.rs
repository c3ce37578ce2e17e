//! Converts restrictions into the form in which the index of a snapshot stores them (field `acts`), and back.

use super::snapshot::{Revocation, SnapshotRefusal, SnapshotRestrictions};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{Refusal, Restrictions, Revoked};
use crate::domain::reason::Reason;

/// Maximum number of revocations in an index, as in the schema.
const MAX_REVOKED: usize = 1024;
/// Maximum number of revocations for each revision that is not current: an index has several such revisions and must
/// fit into etcd.
const MAX_REVOKED_OF_OLDER: usize = 128;
/// Maximum number of characters in a message, as in the schema.
const MAX_MESSAGE: usize = 1024;

/// Returns the form in which an index stores restrictions. If there are more revocations than the index has room for,
/// every call is refused.
pub fn written(restrictions: &Restrictions) -> SnapshotRestrictions {
    written_within(restrictions, MAX_REVOKED)
}

/// Like [`written`], for a revision that is not the current one.
pub fn written_of_older(restrictions: &Restrictions) -> SnapshotRestrictions {
    written_within(restrictions, MAX_REVOKED_OF_OLDER)
}

fn written_within(restrictions: &Restrictions, most: usize) -> SnapshotRestrictions {
    let too_many = (restrictions.revoked.len() > most).then(|| Refusal {
        reason: Reason::GuardUnavailable,
        message: format!(
            "{} objects that the revision names were deleted or are no longer shared, and {most} are the most: \
             let the gateway follow edits again",
            restrictions.revoked.len()
        ),
    });
    let refusing = restrictions.refusing.as_ref().or(too_many.as_ref()).map(|refusal| SnapshotRefusal {
        reason: refusal.reason.as_str().to_owned(),
        message: refusal.message.chars().take(MAX_MESSAGE).collect(),
    });
    let revoked: Vec<_> = restrictions.revoked.iter().take(most).map(revocation).collect();
    SnapshotRestrictions {
        stopped: restrictions.stopped,
        cancel: restrictions.stop_cancels.then_some(true),
        refusing,
        revoked: (!revoked.is_empty()).then_some(revoked),
    }
}

/// Replaces the revocations with a refusal of every call, for an index that has no room for the revocations.
pub fn closed(stored: SnapshotRestrictions) -> SnapshotRestrictions {
    let Some(revoked) = stored.revoked else { return stored };
    let refusal = || SnapshotRefusal {
        reason: Reason::GuardUnavailable.as_str().to_owned(),
        message: format!(
            "{} objects that the revision names were deleted or are no longer shared, and the index has no room to name \
             them: let the gateway follow edits again",
            revoked.len()
        ),
    };
    SnapshotRestrictions { revoked: None, refusing: stored.refusing.or_else(|| Some(refusal())), ..stored }
}

/// Returns the restrictions that an index holds. If they revoke an object of a kind that this version does not know,
/// every call is refused.
pub fn read(stored: &SnapshotRestrictions) -> Restrictions {
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
    Restrictions {
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

/// Returns the reason with this name, or `other` if this version does not know the name.
fn reason(word: &str, other: Reason) -> Reason {
    Reason::named(word).unwrap_or(other)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::snapshot::SnapshotIndex;

    fn restrictions() -> Restrictions {
        let plugin = |name: &str, chain, reason| {
            let plugin = ObjectKey::new("team", name);
            Revoked::Plugin { refusal: Refusal::of_revoked(reason, &plugin), plugin, chain }
        };
        Restrictions {
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
        for restrictions in [restrictions(), Restrictions::default()] {
            assert_eq!(read(&written(&restrictions)), restrictions);
        }
        assert_eq!(written(&Restrictions::default()), SnapshotRestrictions::default());
    }

    #[test]
    fn what_is_not_known_refuses_every_call() {
        let mut newer = written(&Restrictions { refusing: None, ..restrictions() });
        newer.revoked.as_mut().unwrap()[1].kind = "Identity".into();
        let refusing = read(&newer).refusing.unwrap();
        assert!(refusing.message.contains("Identity team/gone"), "{refusing:?}");
    }

    /// Returns the restrictions that a pod of this version reads from an index whose field `acts` has this value.
    fn of_index(acts: &Value) -> Restrictions {
        let older = json!({"revision": "a", "formatVersion": 1, "shards": [], "acts": acts});
        let index = json!({"current": "b", "revisions": [older], "acts": acts});
        let index: SnapshotIndex = serde_json::from_value(index).unwrap();
        let [current, older] = [&index.restrictions, &index.revisions[0].restrictions];
        assert_eq!(current, older);
        read(current.as_ref().unwrap())
    }

    #[test]
    fn what_another_version_says_refuses_every_call_and_is_not_taken_for_the_same() {
        let known = restrictions();
        let whole = serde_json::to_value(written(&known)).unwrap();
        assert_eq!(of_index(&whole), known, "what an older operator writes is a part of what a newer one may");
        let with = |change: &dyn Fn(&mut Value)| {
            let mut newer = serde_json::to_value(written(&Restrictions { refusing: None, ..restrictions() })).unwrap();
            change(&mut newer);
            of_index(&newer)
        };
        let newer = [
            with(&|acts| acts["paused"] = json!(["team"])),
            with(&|acts| acts["revoked"][0]["unless"] = json!("read")),
            with(&|acts| acts["revoked"][0]["kind"] = json!("Identity")),
            with(&|acts| acts["stopped"] = json!("Soon")),
        ];
        for (place, found) in newer.iter().enumerate() {
            assert_eq!(found.refusing.as_ref().unwrap().reason, Reason::UnknownFormat, "{found:?}");
            assert_ne!(found.digest(), known.digest());
            assert_eq!(found.stopped, place < 3, "what is understood counts");
        }
    }

    #[test]
    fn what_does_not_fit_refuses_every_call() {
        let many = vec![Revoked::Upstream(ObjectKey::new("team", "up")); MAX_REVOKED + 1];
        let stored = written(&Restrictions { revoked: many.clone(), ..Restrictions::default() });
        assert_eq!(stored.revoked.as_ref().unwrap().len(), MAX_REVOKED);
        assert!(read(&stored).refusing.is_some());
        let of_older = written_of_older(&Restrictions {
            revoked: many[..=MAX_REVOKED_OF_OLDER].to_vec(),
            ..Restrictions::default()
        });
        assert_eq!(of_older.revoked.as_ref().unwrap().len(), MAX_REVOKED_OF_OLDER);
        assert!(read(&of_older).refusing.is_some());
    }
}
