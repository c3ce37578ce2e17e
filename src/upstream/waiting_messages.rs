//! The log messages that wait for one request. A channel takes more memory, and few requests get a message.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::Notify;

/// How many messages may wait for one request. Later ones are dropped meanwhile.
const MAX_WAITING: usize = 32;

/// Messages in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct WaitingMessages {
    messages: Mutex<VecDeque<Box<RawValue>>>,
    added: Notify,
}

impl WaitingMessages {
    /// Adds a message, if not too many wait.
    pub(super) fn add(&self, message: Box<RawValue>) {
        let mut messages = self.lock();
        if messages.len() < MAX_WAITING {
            messages.push_back(message);
            drop(messages);
            self.added.notify_one();
        }
    }

    /// The next message.
    pub(super) async fn next(&self) -> Box<RawValue> {
        loop {
            // A server that sends one message after another must not keep the answer from being taken.
            tokio::task::coop::consume_budget().await;
            if let Some(message) = self.take() {
                return message;
            }
            self.added.notified().await;
        }
    }

    /// The next message, if one waits.
    pub(super) fn take(&self) -> Option<Box<RawValue>> {
        self.lock().pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Box<RawValue>>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
