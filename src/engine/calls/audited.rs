//! The rows of a call in the audit trail: one before it is sent, one when it has ended.

use super::Calls;
use super::recorder::{AuditState, CallRecorder};
use crate::domain::audit::{
    AuditBegin, AuditCall, AuditEnd, AuditError, AuditMode, AuditRow, RpcOutcome, TransportOutcome,
};
use crate::domain::item::ItemKind;
use crate::domain::reason::Reason;
use crate::domain::record::{CallOutcome, CallRecord};
use crate::engine::chains::outcome::{CallEnd, Denial};
use crate::engine::chains::routed_call::Routed;
use crate::engine::request::Reply;

/// Returns who calls which item. `named` is the upstream that the call names, if it was not routed to one.
fn audit_call(record: &CallRecord, named: Option<String>) -> AuditCall {
    AuditCall {
        within: record.within.clone(),
        principal: record.principal.clone(),
        user: record.user.clone(),
        method: record.method,
        upstream: named.filter(|_| record.upstream.is_empty()).unwrap_or_else(|| record.upstream.clone()),
        tool: record.tool.clone(),
    }
}

impl Calls {
    /// Adds a row for a call that is about to be sent. If the mode is Required and the row is not stored, returns the end of
    /// the call.
    pub(super) async fn audit_begin(&self, call: &Routed<'_>, recorder: &mut CallRecorder) -> Result<(), CallEnd> {
        let mode = self.audit.mode();
        if mode == AuditMode::Off || recorder.audit != AuditState::None {
            return Ok(());
        }
        let record = recorder.recorded();
        let (request_id, call_of) = (record.request_id.clone(), audit_call(record, None));
        let row = AuditRow::Begin(AuditBegin { at: self.clock.unix_millis(), request_id, call: call_of });
        let stored = self.audit.queue(mode, row);
        // The row has an end from now on, also if the call is dropped while it waits.
        recorder.audit = AuditState::Begun;
        stored.await.map_err(|error| self.unaudited(call.request.kind, &error))
    }

    /// Adds a row for the end of a call. If the mode is Required and the row is not stored, returns an end without the
    /// answer.
    pub(super) async fn audit_end(&self, mut end: CallEnd, kind: ItemKind, recorder: &mut CallRecorder) -> CallEnd {
        let cause = end.cause.take().map(|cause| *cause).unwrap_or_default();
        recorder.record().rule = cause.rule;
        let mode = self.audit.mode();
        let is_unaudited = end.reason.as_deref() == Some(Reason::AuditUnavailable.as_str());
        recorder.gather();
        if mode == AuditMode::Off || is_unaudited {
            // The beginning can be stored all the same, so it has an end, for which the call does not wait.
            if recorder.audit == AuditState::Begun
                && let Some(audit) = &self.audit.port
            {
                let row = self.audit_row(end.outcome, end.reason.as_deref(), cause.upstream, recorder);
                audit.record(AuditRow::End(row));
                recorder.audit = AuditState::Ended;
            }
            return end;
        }
        let (rpc, is_error) = match &end.reply {
            Reply::Result(_) => (RpcOutcome::Result, Some(end.outcome != CallOutcome::Ok)),
            Reply::Error(_) | Reply::UpstreamError(_) => (RpcOutcome::Error, None),
        };
        let row = self.audit_row(end.outcome, end.reason.as_deref(), cause.upstream, recorder);
        let stored = self.audit.queue(mode, AuditRow::End(AuditEnd { rpc: Some(rpc), is_error, ..row }));
        // The row is queued: it is the only end, also if the call is dropped while it waits.
        recorder.audit = AuditState::Ended;
        match stored.await {
            Ok(()) => end,
            Err(error) => self.unaudited(kind, &error),
        }
    }

    /// Adds a row for the end of a call that was dropped after it had begun.
    pub(super) fn audit_dropped(&self, recorder: &CallRecorder) {
        if recorder.audit == AuditState::Begun
            && let Some(audit) = &self.audit.port
        {
            audit.record(AuditRow::End(self.audit_row(CallOutcome::Cancelled, None, None, recorder)));
        }
    }

    /// `named` is the upstream that the call names, if it was not routed to one.
    fn audit_row(
        &self,
        outcome: CallOutcome,
        reason: Option<&str>,
        named: Option<String>,
        recorder: &CallRecorder,
    ) -> AuditEnd {
        let record = recorder.recorded();
        let CallRecord { request_id, upstream_ms, .. } = record;
        let failed = matches!(outcome, CallOutcome::Timeout | CallOutcome::Cancelled) || reason.is_some();
        let transport = match upstream_ms {
            None => TransportOutcome::NotSent,
            Some(_) if failed && !recorder.was_answered => TransportOutcome::Failed,
            Some(_) => TransportOutcome::Answered,
        };
        AuditEnd {
            at: self.clock.unix_millis(),
            request_id: request_id.clone(),
            call: audit_call(record, named),
            outcome,
            // The words of a plugin can quote content.
            reason: reason.and_then(Reason::named).map(|reason| reason.to_string()),
            rule: record.rule.clone(),
            transport,
            rpc: None,
            is_error: None,
            entries: recorder.traces.entries.iter().map(Into::into).collect(),
        }
    }

    fn unaudited(&self, kind: ItemKind, error: &AuditError) -> CallEnd {
        // The text of the store's error has its address: it is for the log.
        let why = match error {
            AuditError::NoStore => error.to_string(),
            AuditError::Store(_) => "the store does not take it; the log of the gateway has the reason".to_owned(),
        };
        let text = format!("audit.mode of the gateway is Required, and the call cannot be recorded: {why}");
        self.ends.refused(kind, Denial::without_cause(Reason::AuditUnavailable, text))
    }
}
