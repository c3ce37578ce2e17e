//! The input from which a server's objects are built.

use crate::api::upstream::MCPUpstreamSpec;
use crate::api::upstream::managed::{Managed, ManagedTransport};
use crate::controller::owner::Owner;
use crate::controller::workload::PodSettings;

/// Everything that the objects of a server depend on.
pub(in crate::controller) struct ServerInput<'a> {
    pub(in crate::controller) owner: &'a Owner,
    pub(in crate::controller) spec: &'a MCPUpstreamSpec,
    pub(in crate::controller) managed: &'a Managed,
    pub(in crate::controller) pods: &'a PodSettings,
}

impl ServerInput<'_> {
    /// Whether the server runs below the bridge.
    pub(super) fn is_stdio(&self) -> bool {
        self.managed.transport() == ManagedTransport::Stdio
    }

    /// Returns the ServiceAccount that the spec names, if it names one.
    pub(super) fn written_account(&self) -> Option<&str> {
        self.managed.service_account_name.as_deref().filter(|name| !name.is_empty())
    }
}
