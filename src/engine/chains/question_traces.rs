//! The traces of the chains that ran on the questions of one call's server, and on the answers to these.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::entry_traces::EntryTraces;
use crate::domain::method::Method;
use crate::domain::record::EntryOutcome;
use crate::engine::plan::linked_item::Selected;

/// The maximum number of traces of questions that the record of one call has room for. A question that finds none is
/// refused, because nothing would prove what ran on it.
const MAX_TRACES: usize = 512;

/// The traces of all questions of one call.
#[derive(Default)]
pub(crate) struct QuestionTraces(Mutex<State>);

#[derive(Default)]
struct State {
    /// The traces of questions that were answered or refused.
    ended: EntryTraces,
    /// The number of traces of all questions so far.
    count: usize,
}

/// The traces of one question, which belong to those of the call once this value is dropped.
pub(crate) struct OneQuestion<'a> {
    pub(crate) traces: EntryTraces,
    all: &'a QuestionTraces,
}

impl QuestionTraces {
    /// Begins the traces of a question on which these chains run; `None` if there is no room for them.
    pub(in crate::engine) fn begin<'s>(
        &self,
        method: Method,
        chains: impl Iterator<Item = &'s Selected>,
    ) -> Option<OneQuestion<'_>> {
        let mut traces = EntryTraces::default();
        traces.begin(method, chains);
        let mut state = self.lock();
        let count = state.count + traces.entries.len();
        if count > MAX_TRACES {
            return None;
        }
        state.count = count;
        Some(OneQuestion { traces, all: self })
    }

    /// Takes the traces of questions that have ended.
    pub(in crate::engine) fn take(&self) -> EntryTraces {
        std::mem::take(&mut self.lock().ended)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OneQuestion<'_> {
    /// Whether one of the first chains that were begun has an entry that [checks](Selected::checks) and has run.
    pub(in crate::engine) fn was_checked(&self, first: &[Selected]) -> bool {
        let entries = first.iter().flat_map(|selected| selected.chain.entries.iter().zip(&selected.filter_admits));
        let mut traced = entries.zip(&self.traces.entries);
        traced.any(|((entry, admits), trace)| *admits && entry.checks() && trace.outcome == EntryOutcome::Ran)
    }
}

impl Drop for OneQuestion<'_> {
    fn drop(&mut self) {
        self.all.lock().ended.append(std::mem::take(&mut self.traces));
    }
}
