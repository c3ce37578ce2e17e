//! Forwards the progress of a call, and the log messages of its server, to the client.

use std::sync::{Mutex, PoisonError};

use serde_json::value::RawValue;

use crate::domain::ports::ToClient;
use crate::domain::raw::RawObject;
use crate::engine::plan::linked_item::LinkedItem;

/// Forwards the progress of one call, from its server and its plugins. MCP requires that the values for one progress
/// token increase, so values that do not increase are dropped. If a Guard checks the response, only the numbers are
/// forwarded, because text could contain data that the Guard removes; for the same reason log messages are dropped.
pub(crate) struct Progress<'a> {
    client: &'a dyn ToClient,
    guarded: bool,
    /// The last progress value that was forwarded.
    last: Mutex<f64>,
}

impl<'a> Progress<'a> {
    /// Forwards what belongs to a call of `item`.
    pub(crate) fn of(client: &'a dyn ToClient, item: &LinkedItem) -> Self {
        Self::new(client, is_guarded(item))
    }

    fn new(client: &'a dyn ToClient, guarded: bool) -> Self {
        Self { client, guarded, last: Mutex::new(f64::NEG_INFINITY) }
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
}

/// Whether progress texts and log messages are withheld from the client, because a Guard checks the tool's response in
/// a chain that does not set `notifications: Pass`.
pub(crate) fn is_guarded(tool: &LinkedItem) -> bool {
    tool.response.iter().any(|selected| !selected.chain.plan.notifications_pass && selected.guards())
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
