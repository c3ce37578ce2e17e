//! What a call sends to its client before its answer.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::domain::log_level::LogLevel;
use crate::domain::ports::ToClient;
use crate::domain::raw::RawObject;
use crate::domain::rpc::request;

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

/// What a client wants to hear before the answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted<'a> {
    /// The token, raw JSON, under which it wants progress; none where it wants none.
    pub(super) progress: Option<&'a str>,
    /// The least grave log message; none where it wants none.
    pub(super) log_level: Option<LogLevel>,
}

/// The way back to a client.
pub(super) struct WayBack<'a> {
    /// What goes this way.
    pub(super) wanted: Wanted<'a>,
    /// Where it goes.
    pub(super) outbox: &'a Outbox,
}

impl ToClient for WayBack<'_> {
    fn progress(&self, params: Box<RawValue>) {
        let Some(token) = self.wanted.progress else { return };
        let Some(rest) = params.get().trim_start().strip_prefix('{') else { return };
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        self.outbox.push(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token}{comma}{rest}}}"#
        ));
    }

    fn message(&self, params: Box<RawValue>) {
        let Ok(object) = RawObject::parse(params.get()) else { return };
        let level = object.get("level").and_then(|level| LogLevel::parse(level.get()));
        if self.wanted.log_level.is_some_and(|least| level.is_some_and(|level| level >= least)) {
            self.outbox.push(request(None, "notifications/message", Some(&params)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(params: &str) -> Option<String> {
        let outbox = Outbox::default();
        let wanted = Wanted { progress: Some("\"t\""), log_level: None };
        WayBack { wanted, outbox: &outbox }.progress(RawValue::from_string(params.into()).unwrap());
        outbox.pop()
    }

    #[test]
    fn log_messages_pass_from_the_wanted_level_on() {
        let outbox = Outbox::default();
        let tell = |log_level: Option<LogLevel>, params: &str| {
            let wanted = Wanted { progress: None, log_level };
            WayBack { wanted, outbox: &outbox }.message(RawValue::from_string(params.into()).unwrap());
            outbox.pop()
        };
        let params = r#"{"level":"warning","data": 1.0}"#;
        let message = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#);
        assert_eq!(tell(Some(LogLevel::Warning), params), Some(message.clone()));
        assert_eq!(tell(Some(LogLevel::Debug), params), Some(message));
        assert_eq!(tell(Some(LogLevel::Error), params), None);
        assert_eq!(tell(None, params), None);
        assert_eq!(tell(Some(LogLevel::Debug), r#"{"level":"loud"}"#), None);
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
