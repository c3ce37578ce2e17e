//! Forwards the progress of a call, and the log messages and questions of its server, to the client.

use std::future::ready;
use std::sync::{Mutex, PoisonError};

use serde_json::value::RawValue;

use crate::domain::ports::{Answering, ToClient};
use crate::domain::question::Question;
use crate::domain::raw::RawObject;
use crate::engine::plan::snapshot::{LinkedItem, Selected};

/// Forwards the progress of one call, from its server and its plugins. MCP requires that the values for one progress
/// token increase, so values that do not increase are dropped. If a Guard checks the response, only the numbers are
/// forwarded, because text could contain data that the Guard removes; for the same reason log messages are dropped, and
/// questions refused.
pub(crate) struct Progress<'a> {
    client: &'a dyn ToClient,
    guarded: bool,
    /// Whether questions of the server are refused.
    asks_nobody: bool,
    /// The last progress value that was forwarded.
    last: Mutex<f64>,
}

impl<'a> Progress<'a> {
    /// Forwards what belongs to a call of `item`.
    pub(crate) fn of(client: &'a dyn ToClient, item: &LinkedItem) -> Self {
        Self { asks_nobody: hides_questions(item), ..Self::new(client, is_guarded(item)) }
    }

    fn new(client: &'a dyn ToClient, guarded: bool) -> Self {
        Self { client, guarded, asks_nobody: guarded, last: Mutex::new(f64::NEG_INFINITY) }
    }

    fn rises(&self, progress: f64) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let rises = progress > *last;
        if rises {
            *last = progress;
        }
        rises
    }
}

impl ToClient for Progress<'_> {
    fn progress(&self, params: Box<RawValue>) {
        let Ok(object) = RawObject::parse(params.get()) else { return };
        let progress = object.get("progress").and_then(|progress| progress.get().parse().ok());
        if !progress.is_some_and(|progress| self.rises(progress)) {
            return;
        }
        if !self.guarded {
            return self.client.progress(params);
        }
        let mut numbers = RawObject::default();
        for key in ["progress", "total"] {
            let number =
                object.get(key).filter(|value| value.get().starts_with(|c: char| c == '-' || c.is_ascii_digit()));
            if let Some(number) = number {
                numbers.set(key, number.to_owned());
            }
        }
        self.client.progress(numbers.to_raw());
    }

    fn message(&self, params: Box<RawValue>) {
        if !self.guarded {
            self.client.message(params);
        }
    }

    fn ask(&self, question: Question) -> Answering<'_> {
        if self.asks_nobody {
            let why = "a Guard is on this call, and would not see the question and its answer";
            return Box::pin(ready(question.refused(why)));
        }
        self.client.ask(question)
    }
}

/// Whether progress texts and log messages are withheld from the client, because a Guard checks the tool's response in
/// a chain that does not set `notifications: Pass`.
pub(crate) fn is_guarded(tool: &LinkedItem) -> bool {
    tool.response.iter().any(|selected| !selected.chain.plan.notifications_pass && selected.guards())
}

/// Whether questions of the server are not put to the client, because a Guard that is on the call would not see them or
/// would not see the answers, which go to the server as arguments do. A chain that sets `notifications: Pass` lets only
/// notifications pass.
pub(crate) fn hides_questions(item: &LinkedItem) -> bool {
    item.guards_response() || item.request.iter().any(Selected::guards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Client(Mutex<Vec<String>>);

    impl ToClient for Client {
        fn progress(&self, _: Box<RawValue>) {}

        fn message(&self, params: Box<RawValue>) {
            self.0.lock().unwrap().push(params.get().to_owned());
        }
    }

    #[test]
    fn log_messages_pass_unless_a_guard_is_on_the_response() {
        let params = r#"{"level":"info","data":"a secret"}"#;
        for (guarded, heard) in [(false, vec![params.to_owned()]), (true, vec![])] {
            let client = Client::default();
            Progress::new(&client, guarded).message(RawValue::from_string(params.into()).unwrap());
            assert_eq!(*client.0.lock().unwrap(), heard, "{guarded}");
        }
    }
}
