//! Namespaces that come and go.

use std::collections::{BTreeSet, HashMap};

use kube::ResourceExt;

use super::watches::{Watches, all};

/// What is remembered of namespaces between two rounds of planning.
#[derive(Default)]
pub(super) struct Namespaces {
    /// Their uids, by their names.
    uids: HashMap<String, Option<String>>,
    /// Those of `--namespaces` that do not exist, as they were told last.
    missing: BTreeSet<String>,
}

impl Namespaces {
    /// Looks at what there is now, and gives those that are gone, whether or not another has the name: what was learned
    /// of one does not count for the next. Names those of `--namespaces` that do not exist, where that is new.
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
                "--namespaces names a namespace that does not exist: what is in it counts once it does"
            );
        }
        for namespace in self.missing.difference(&missing) {
            tracing::info!(namespace, "the namespace exists now");
        }
        self.missing = missing;
    }
}
