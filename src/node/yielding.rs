//! The right to execute is given back while a plugin waits for an answer of the gateway, and taken again before it gets
//! that: executions that wait for calls of their own must not keep those calls' plugins from running.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

use super::admission::Admission;
use crate::domain::ports::{Answering, Host, PluginProgress};

/// A host of one execution, which holds that execution's permit.
pub(super) struct Yielding<'a> {
    host: &'a dyn Host,
    admission: &'a Admission,
    held: Mutex<Held>,
}

struct Held {
    /// None while an answer is waited for.
    permit: Option<OwnedSemaphorePermit>,
    /// Answers that are waited for.
    waiting: usize,
}

impl<'a> Yielding<'a> {
    /// The execution has this permit.
    pub(super) fn new(host: &'a dyn Host, admission: &'a Admission, permit: OwnedSemaphorePermit) -> Self {
        Self { host, admission, held: Mutex::new(Held { permit: Some(permit), waiting: 0 }) }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        let mut held = self.lock();
        held.waiting += 1;
        held.permit = None;
    }

    /// With the last answer the execution goes on, so that one waits for the permit. The deadline of the execution ends
    /// that too.
    async fn end(&self) {
        let is_last = {
            let mut held = self.lock();
            held.waiting -= 1;
            held.waiting == 0
        };
        if is_last {
            let permit = self.admission.again().await;
            let mut held = self.lock();
            // It may have asked for more meanwhile.
            held.permit = permit.filter(|_| held.waiting == 0);
        }
    }
}

impl Host for Yielding<'_> {
    fn progress(&self, progress: PluginProgress) {
        self.host.progress(progress);
    }

    fn call_tool<'a>(&'a self, tool: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(async move {
            self.begin();
            let answer = self.host.call_tool(tool, arguments).await;
            self.end().await;
            answer
        })
    }
}
