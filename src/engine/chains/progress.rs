//! Forwards the progress of a call, and the log messages of its server, to the client.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;

use super::Chains;
use super::routed_call::Routed;
use super::task_state::{is_short_number, task_note};
use crate::domain::identity::Identity;
use crate::domain::ports::ToClient;
use crate::domain::raw::RawObject;
use crate::domain::task::OpenTask;
use crate::engine::plan::linked_item::LinkedItem;

/// Forwards the progress of one call, from its server and its plugins. MCP requires that the values for one progress
/// token increase, so values that do not increase are dropped. If a Guard checks the response, only the numbers are
/// forwarded, because text could contain data that the Guard removes; for the same reason log messages are dropped.
pub(crate) struct Progress<'a> {
    client: &'a dyn ToClient,
    guarded: bool,
    /// The call, which a Guard can cover since it began.
    call: Option<(&'a Chains, &'a Routed<'a>)>,
    /// The task that the call waits for.
    task: Option<&'a OpenTask>,
    /// The last progress value that was forwarded.
    last: Mutex<f64>,
}

impl<'a> Progress<'a> {
    /// Forwards what belongs to a call, or to the wait for a task that it began.
    pub(crate) fn of(chains: &'a Chains, call: &'a Routed<'a>) -> Self {
        let (client, task) = (call.request.client, call.request.open_task());
        let last = Mutex::new(f64::NEG_INFINITY);
        Self { client, guarded: is_guarded(call.item), call: Some((chains, call)), task, last }
    }

    fn is_guarded(&self) -> bool {
        self.guarded || self.call.is_some_and(|(chains, call)| chains.is_guarded_since(call))
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
    fn latest_identity(&self) -> Option<Arc<Identity>> {
        self.client.latest_identity()
    }

    fn progress(&self, params: Box<RawValue>) {
        let Ok(object) = RawObject::parse(params.get()) else { return };
        let progress = object.get("progress").and_then(|progress| progress.get().parse().ok());
        if !progress.is_some_and(|progress| self.rises(progress)) {
            return;
        }
        if !self.is_guarded() {
            return self.client.progress(params);
        }
        let mut numbers = RawObject::default();
        for key in ["progress", "total"] {
            if let Some(number) = object.get(key).filter(|value| is_short_number(value)) {
                numbers.set(key, number.to_owned());
            }
        }
        if numbers.get("progress").is_none() {
            return;
        }
        if let Some(note) = self.task.and_then(|task| task_note(object.get("_meta")?, &task.id)) {
            numbers.set("_meta", note);
        }
        self.client.progress(numbers.to_raw());
    }

    fn message(&self, params: Box<RawValue>) {
        if !self.is_guarded() {
            self.client.message(params);
        }
    }

    fn stream_ended(&self, retry: Option<Duration>) {
        self.client.stream_ended(retry);
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

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    fn progress(client: &Client, guarded: bool) -> Progress<'_> {
        Progress { client, guarded, call: None, task: None, last: Mutex::new(f64::NEG_INFINITY) }
    }

    impl ToClient for Client {
        fn progress(&self, params: Box<RawValue>) {
            self.message(params);
        }

        fn message(&self, params: Box<RawValue>) {
            self.0.lock().unwrap().push(params.get().to_owned());
        }
    }

    #[test]
    fn log_messages_pass_unless_a_guard_is_on_the_response() {
        let params = r#"{"level":"info","data":"a secret"}"#;
        for (guarded, heard) in [(false, vec![params.to_owned()]), (true, vec![])] {
            let client = Client::default();
            progress(&client, guarded).message(raw(params));
            assert_eq!(*client.0.lock().unwrap(), heard, "{guarded}");
        }
    }

    #[test]
    fn numbers_whose_digits_could_be_text_do_not_pass_a_guard() {
        let client = Client::default();
        let guarded = progress(&client, true);
        guarded.progress(raw(r#"{"progress":0.1151011099114101116,"total":9}"#));
        guarded.progress(raw(r#"{"progress":1,"total":0.1151011099114101116115101099114}"#));
        guarded.progress(raw(r#"{"progress":1.7976931348623157e+308,"message":"a secret"}"#));
        let expected = [
            r#"{"progress":0.1151011099114101116,"total":9}"#,
            r#"{"progress":1}"#,
            r#"{"progress":1.7976931348623157e+308}"#,
        ];
        guarded.progress(raw(&format!(r#"{{"progress":1.8{}e+308}}"#, "1".repeat(30))));
        assert_eq!(*client.0.lock().unwrap(), expected);
    }
}
