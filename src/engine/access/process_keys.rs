//! The keys of a process: those that it shares with other replicas, and one of its own as long as it shares none.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use super::seal::SealKeys;

/// Seals what clients bring back.
#[derive(Default)]
pub(in crate::engine) struct ProcessKeys {
    /// The keys that seal session ids too, so that other replicas can take over sessions; `None` if this process shares no
    /// keys.
    shared: ArcSwapOption<SealKeys>,
    own: OnceLock<Option<SealKeys>>,
}

impl ProcessKeys {
    /// Sets the keys that this process shares with other replicas.
    pub(super) fn share(&self, keys: SealKeys) {
        self.shared.store(Some(Arc::new(keys)));
    }

    /// Returns the keys that this process shares with other replicas.
    pub(super) fn shared(&self) -> Option<Arc<SealKeys>> {
        self.shared.load_full()
    }

    /// Encrypts a text that a client is to bring back to this process or to a replica; `scope` is authenticated with it.
    /// `None` only if the system provides no random numbers.
    pub(in crate::engine) fn seal(&self, scope: &[u8], text: Vec<u8>) -> Option<String> {
        match self.shared() {
            Some(keys) => keys.seal_bytes(scope, text),
            None => self.own()?.seal_bytes(scope, text),
        }
    }

    /// Decrypts what was [sealed](Self::seal) for this scope. Returns `None` for everything else.
    pub(in crate::engine) fn open(&self, scope: &[u8], sealed: &str) -> Option<Vec<u8>> {
        match self.shared() {
            Some(keys) => keys.open_bytes(scope, sealed),
            None => self.own()?.open_bytes(scope, sealed),
        }
    }

    fn own(&self) -> Option<&SealKeys> {
        self.own.get_or_init(SealKeys::of_process).as_ref()
    }
}
