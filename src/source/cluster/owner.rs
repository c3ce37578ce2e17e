//! The uid of the MCPGateway that a pod runs.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The uid of the pod's MCPGateway, read from the owner reference of the index. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct GatewayUid(Arc<ArcSwapOption<String>>);

impl GatewayUid {
    /// Returns the uid, or `None` until an index with an owner reference was read.
    pub(super) fn get(&self) -> Option<Arc<String>> {
        self.0.load_full()
    }

    /// Stores the uid from the index of the gateway `name`.
    pub(super) fn read(&self, index: &ObjectMeta, name: &str) {
        let mut owners = index.owner_references.iter().flatten();
        let owner = owners.find(|owner| {
            owner.kind == "MCPGateway" && owner.name == name && owner.api_version.starts_with("hawsepipe.dev/")
        });
        self.0.store(owner.map(|owner| Arc::new(owner.uid.clone())));
    }
}
