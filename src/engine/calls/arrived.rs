//! A call from its arrival to its end.

use std::sync::Arc;

use super::Calls;
use super::recorder::CallRecorder;
use crate::engine::access::admission::Admitted;
use crate::engine::chains::meta::CallMeta;
use crate::engine::chains::routed_call::Routed;
use crate::engine::plan::snapshot::{Found, Snapshot};
use crate::engine::request::CallRequest;

/// A call that has arrived, with its record.
pub(super) struct Arrived<'a> {
    /// The plan that was in force when the call arrived.
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) request: &'a CallRequest<'a>,
    pub(super) meta: &'a CallMeta,
    pub(super) recorder: CallRecorder,
    /// The places that the call takes of the limits on calls in flight.
    pub(super) places: Admitted,
}

/// An item in the plan that was in force when it was found.
pub(super) struct FoundItem {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) found: Found,
}

impl<'a> Arrived<'a> {
    pub(super) fn begin(
        calls: &Arc<Calls>,
        snapshot: Arc<Snapshot>,
        request: &'a CallRequest<'a>,
        meta: &'a CallMeta,
    ) -> Self {
        let recorder = CallRecorder::begin(calls, &snapshot.linked, request);
        Self { snapshot, request, meta, recorder, places: Admitted::default() }
    }

    /// Returns the call of an item, and records which item it is.
    pub(super) fn routed<'c>(&mut self, FoundItem { snapshot, found }: &'c FoundItem) -> Routed<'c>
    where
        'a: 'c,
    {
        let call = Routed::new(snapshot, found, self.request, self.meta, self.recorder.record());
        self.recorder.routed(&call.facts.upstream, &call.facts.shown);
        call
    }

    /// Begins the traces of the entries on the call.
    pub(super) fn begin_traces(&mut self, call: &Routed<'_>) {
        self.recorder.traces.begin(call.request.kind.used_by(), call.item.chains());
    }

    /// Gives the places back.
    pub(super) fn release_places(&mut self) {
        self.places = Admitted::default();
    }

    /// If the client asked for the trace, waits for the entries that run in the background, so that the trace shows their outcomes.
    pub(super) async fn settle(&mut self) {
        if self.meta.trace {
            self.recorder.gather();
            self.recorder.traces.settle().await;
        }
    }
}
