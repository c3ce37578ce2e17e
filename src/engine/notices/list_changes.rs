//! Tells when the lists that clients see change.

use std::sync::{Arc, PoisonError};

use tokio::sync::watch;

use crate::domain::item::ItemKind;
use crate::engine::plan::in_force::InForce;
use crate::engine::plan::snapshot::ListRevisions;

/// What is known of the lists at one moment.
#[derive(Clone, Debug)]
struct Marks {
    revisions: ListRevisions,
    /// How often servers have announced changes of lists of each kind.
    announced: [u64; ItemKind::ALL.len()],
}

/// Follows the changes of lists for one client. The snapshot itself would keep its plan alive.
pub struct ListChanges {
    in_force: Arc<InForce>,
    lists: watch::Receiver<()>,
    known: Marks,
}

impl ListChanges {
    /// Begins with the lists as they are.
    pub fn new(in_force: &Arc<InForce>) -> Self {
        let lists = in_force.lists();
        Self { known: in_force.list_marks(), lists, in_force: Arc::clone(in_force) }
    }

    /// Waits until lists have changed, or a server has announced that its own has. Returns their kinds, of which templates
    /// are none: they change with resources. `None` once the gateway ends.
    pub async fn next(&mut self) -> Option<Vec<ItemKind>> {
        loop {
            self.lists.changed().await.ok()?;
            let newest = self.in_force.list_marks();
            let known = std::mem::replace(&mut self.known, newest);
            let has_changed = |kind: ItemKind| {
                self.known.revisions.of(kind) != known.revisions.of(kind)
                    || self.known.announced[kind as usize] != known.announced[kind as usize]
            };
            let changed = ItemKind::ANNOUNCED.into_iter();
            let changed = changed
                .filter(|kind| has_changed(*kind) || *kind == ItemKind::Resource && has_changed(ItemKind::Template));
            let changed: Vec<_> = changed.collect();
            if !changed.is_empty() {
                return Some(changed);
            }
        }
    }
}

impl InForce {
    fn list_marks(&self) -> Marks {
        let announced = *self.catalogues.announced.lock().unwrap_or_else(PoisonError::into_inner);
        Marks { revisions: self.snapshot().list_revisions().clone(), announced }
    }

    /// Runs `take`, which takes a list that was read. If a server had announced that this list of items of this kind has
    /// changed, clients are told, even if what they see has not changed.
    pub(crate) fn announcing(&self, kind: ItemKind, is_announced: bool, take: impl FnOnce()) {
        if !is_announced {
            return take();
        }
        self.catalogues.announced.lock().unwrap_or_else(PoisonError::into_inner)[kind as usize] += 1;
        take();
        self.lists.send_replace(());
    }
}
