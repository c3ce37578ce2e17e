//! The pools of all plugins.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::pool::WorkerPool;
use crate::domain::plugin::Failure;

/// All pools, by the identity of their plugin.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pub(super) by_identity: HashMap<String, Arc<WorkerPool>>,
    /// The Node.js program that was last looked for; `None` before the first search.
    pub(super) last_program: Option<PathBuf>,
    /// The failure of every execution, if no plugin may run.
    pub(super) refusing: Option<Failure>,
}

impl Pools {
    pub(super) fn each(&self, action: impl Fn(&Arc<WorkerPool>)) {
        self.by_identity.values().for_each(action);
    }
}
