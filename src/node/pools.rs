//! Every plugin's pool.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::pool::WorkerPool;
use crate::domain::plugin::Failure;

/// Every pool, by what its workers are made of.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pub(super) by_identity: HashMap<String, Arc<WorkerPool>>,
    /// The program that was last looked for.
    pub(super) last_program: Option<PathBuf>,
    /// No plugin runs.
    pub(super) refusing: Option<Failure>,
}

impl Pools {
    /// Does something with each pool.
    pub(super) fn each(&self, action: impl Fn(&Arc<WorkerPool>)) {
        self.by_identity.values().for_each(action);
    }
}
