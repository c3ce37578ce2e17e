//! Notices when namespaces are deleted, and logs which of `--namespaces` do not exist.

use std::collections::{BTreeSet, HashMap};

use kube::ResourceExt;

use super::watches::{Watches, all};

/// The state of namespaces that is remembered between planning rounds.
#[derive(Default)]
pub(super) struct NamespaceTracker {
    /// Uids of the namespaces, by name.
    uids: HashMap<String, Option<String>>,
    /// The namespaces in `--namespaces` that do not exist, as last logged.
    missing: BTreeSet<String>,
}

impl NamespaceTracker {
    /// Returns the namespaces that were deleted since the last call, even if one of the same name exists again: what
    /// was learned about the old one does not hold for the new one. Logs which of `--namespaces` do not exist, if that
    /// changed.
    pub(super) fn look(&mut self, watches: &Watches) -> Vec<String> {
        if watches.cache_sync.unseen(&["namespaces"]).is_some() {
            return Vec::new();
        }
        let uids: HashMap<_, _> =
            all(&watches.namespaces).map(|seen| (seen.name_any(), seen.metadata.uid.clone())).collect();
        let missing = watches.scope.iter().filter(|name| !uids.contains_key(*name)).cloned().collect();
        self.tell(missing);
        let gone = self.uids.iter().filter(|(name, uid)| uids.get(*name) != Some(*uid));
        let gone = gone.map(|(name, _)| name.clone()).collect();
        self.uids = uids;
        gone
    }

    fn tell(&mut self, missing: BTreeSet<String>) {
        for namespace in missing.difference(&self.missing) {
            tracing::warn!(
                namespace,
                "--namespaces names a namespace that does not exist, or that the operator may not get: what is in it \
                 counts once it does"
            );
        }
        for namespace in self.missing.difference(&missing) {
            tracing::info!(namespace, "the namespace exists now");
        }
        self.missing = missing;
    }
}
