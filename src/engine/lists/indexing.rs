//! Keeps the index up to date in which clients find tools (`toolDiscovery: Search`), beside calls and the swap of snapshots.

use std::sync::Arc;

use super::Lists;
use crate::domain::item::ItemKind;
use crate::engine::catalogue::tool_index::ToolIndex;
use crate::engine::plan::snapshot::Snapshot;

/// What is logged of an index that could not be built, besides the panic.
const NOT_BUILT: &str =
    "the index of tools could not be built: until tools change, search_tools finds those of the index before";

impl Lists {
    /// Builds the index whenever tools change, for ever.
    pub(super) async fn index_tools(self: Arc<Self>) {
        loop {
            self.index_newest().await;
        }
    }

    /// Builds the index of the newest snapshot, and waits for the next one.
    async fn index_newest(&self) {
        let published = self.in_force.published.notified();
        tokio::pin!(published);
        // Registers before the look, so that no snapshot between the look and the wait is missed.
        published.as_mut().enable();
        let before = self.catalogues.tool_index.left_out();
        let snapshot = self.in_force.snapshot();
        match snapshot.finds_tools() {
            true => drop(self.tool_index(&snapshot).await),
            false => self.catalogues.tool_index.clear().await,
        }
        // The problems of a snapshot name what the index has no room for.
        if self.catalogues.tool_index.left_out() != before {
            self.in_force.relist();
        }
        published.await;
    }

    /// Returns the index of the tools of this snapshot, once it is built. If it cannot be built, returns the one before, in
    /// which newer tools are not found; `None` if there was none.
    pub(crate) async fn tool_index(&self, snapshot: &Arc<Snapshot>) -> Option<Arc<ToolIndex>> {
        let build = async || {
            let of = Arc::clone(snapshot);
            let built = tokio::task::spawn_blocking(move || {
                ToolIndex::build(&of.routes, |upstream| of.linked.keys().nth(upstream).cloned())
            })
            .await;
            built
                .inspect_err(|why| {
                    if why.is_panic() {
                        tracing::error!("{NOT_BUILT}")
                    }
                })
                .ok()
        };
        self.catalogues.tool_index.of(snapshot.list_revisions().of(ItemKind::Tool), build).await
    }
}
