//! What a call sends to its client before its answer.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::domain::ports::ToClient;

/// The most messages that wait for a slow client; the oldest go first.
const MAX_WAITING: usize = 256;

/// Messages on their way to one client, in order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<VecDeque<String>>,
    filled: Notify,
}

impl Outbox {
    fn push(&self, message: String) {
        let mut waiting = self.lock();
        if waiting.len() >= MAX_WAITING {
            waiting.pop_front();
        }
        waiting.push_back(message);
        drop(waiting);
        self.filled.notify_one();
    }

    /// The next message, where there is one.
    pub(super) fn pop(&self) -> Option<String> {
        self.lock().pop_front()
    }

    /// Waits for a message, which stays.
    pub(super) async fn filled(&self) {
        while self.lock().is_empty() {
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way back to a client that asked for progress under a token, or did not.
pub(super) struct Progress<'a> {
    /// Raw JSON.
    pub(super) token: Option<&'a str>,
    /// Where it goes.
    pub(super) outbox: &'a Outbox,
}

impl ToClient for Progress<'_> {
    fn progress(&self, params: Box<RawValue>) {
        let Some(token) = self.token else { return };
        let Some(rest) = params.get().trim_start().strip_prefix('{') else { return };
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        self.outbox.push(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token}{comma}{rest}}}"#
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(params: &str) -> Option<String> {
        let outbox = Outbox::default();
        let progress = Progress { token: Some("\"t\""), outbox: &outbox };
        progress.progress(RawValue::from_string(params.into()).unwrap());
        outbox.pop()
    }

    #[test]
    fn progress_carries_the_client_s_token_and_the_rest_as_it_came() {
        let head = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t""#;
        assert_eq!(sent(r#"{"progress": 1.0}"#).unwrap(), format!("{head},\"progress\": 1.0}}}}"));
        assert_eq!(sent("{}").unwrap(), format!("{head}}}}}"));
        assert_eq!(sent("[]"), None);
    }

    #[test]
    fn a_slow_client_loses_the_oldest() {
        let outbox = Outbox::default();
        (0..MAX_WAITING + 2).for_each(|n| outbox.push(n.to_string()));
        assert_eq!(outbox.pop().as_deref(), Some("2"));
    }
}
