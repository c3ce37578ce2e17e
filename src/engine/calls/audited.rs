//! The rows of a call in the audit trail: one before it is sent, one when it has ended.

use super::outcome::{CallEnd, Denial};
use super::recorder::{AuditState, CallRecorder};
use super::routed_call::Routed;
use crate::domain::audit::{AuditBegin, AuditEnd, AuditError, AuditMode, AuditRow, RpcOutcome, TransportOutcome};
use crate::domain::item::ItemKind;
use crate::domain::reason::Reason;
use crate::domain::record::{CallOutcome, CallRecord};
use crate::engine::Engine;
use crate::engine::request::Reply;

impl Engine {
    /// Adds a row for a call that is about to be sent. If the mode is Required and the row is not stored, returns the end of
    /// the call.
    pub(super) async fn audit_begin(&self, call: &Routed<'_>, recorder: &mut CallRecorder) -> Result<(), CallEnd> {
        let mode = self.audit_mode();
        if mode == AuditMode::Off || recorder.audit != AuditState::None {
            return Ok(());
        }
        let record = recorder.record();
        let row = AuditRow::Begin(AuditBegin {
            at: self.clock.unix_millis(),
            request_id: record.request_id.clone(),
            within: record.within.clone(),
            principal: record.principal.clone(),
            method: record.method,
            upstream: record.upstream.clone(),
            tool: record.tool.clone(),
        });
        self.audit(mode, row).await.map_err(|error| self.unaudited(call.request.kind, &error))?;
        recorder.audit = AuditState::Begun;
        Ok(())
    }

    /// Adds a row for the end of a call. If the mode is Required and the row is not stored, returns an end without the
    /// answer.
    pub(super) async fn audit_end(&self, end: CallEnd, kind: ItemKind, recorder: &mut CallRecorder) -> CallEnd {
        let mode = self.audit_mode();
        let is_unaudited = end.reason.as_deref() == Some(Reason::AuditUnavailable.as_str());
        if mode == AuditMode::Off || is_unaudited {
            return end;
        }
        recorder.gather();
        let (rpc, is_error) = match &end.reply {
            Reply::Result(_) => (RpcOutcome::Result, Some(end.outcome != CallOutcome::Ok)),
            Reply::Error(_) | Reply::UpstreamError(_) => (RpcOutcome::Error, None),
        };
        let row = AuditEnd { rpc: Some(rpc), is_error, ..self.audit_row(end.outcome, end.reason.as_deref(), recorder) };
        let stored = self.audit(mode, AuditRow::End(row)).await;
        recorder.audit = AuditState::Ended;
        match stored {
            Ok(()) => end,
            Err(error) => self.unaudited(kind, &error),
        }
    }

    /// Adds a row for the end of a call that was dropped after it had begun.
    pub(super) fn audit_dropped(&self, recorder: &CallRecorder) {
        if recorder.audit == AuditState::Begun
            && let Some(audit) = &self.audit
        {
            audit.record(AuditRow::End(self.audit_row(CallOutcome::Cancelled, None, recorder)));
        }
    }

    fn audit_row(&self, outcome: CallOutcome, reason: Option<&str>, recorder: &CallRecorder) -> AuditEnd {
        let CallRecord { request_id, upstream_ms, .. } = recorder.recorded();
        let failed = matches!(outcome, CallOutcome::Timeout | CallOutcome::Cancelled) || reason.is_some();
        let transport = match upstream_ms {
            None => TransportOutcome::NotSent,
            Some(_) if failed && !recorder.was_answered => TransportOutcome::Failed,
            Some(_) => TransportOutcome::Answered,
        };
        AuditEnd {
            at: self.clock.unix_millis(),
            request_id: request_id.clone(),
            outcome,
            // The words of a plugin can quote content.
            reason: reason.and_then(Reason::named).map(|reason| reason.to_string()),
            transport,
            rpc: None,
            is_error: None,
            entries: recorder.traces.entries.iter().map(Into::into).collect(),
        }
    }

    /// The mode of the gateway; `Off` if there is no store and none is required.
    fn audit_mode(&self) -> AuditMode {
        match self.snapshot().plan().gateway.audit {
            AuditMode::BestEffort if !self.audit.as_ref().is_some_and(|audit| audit.is_open()) => AuditMode::Off,
            mode => mode,
        }
    }

    async fn audit(&self, mode: AuditMode, row: AuditRow) -> Result<(), AuditError> {
        let Some(audit) = &self.audit else { return Err(AuditError::NoStore) };
        if mode == AuditMode::Required {
            return audit.store(row).await;
        }
        audit.record(row);
        Ok(())
    }

    fn unaudited(&self, kind: ItemKind, error: &AuditError) -> CallEnd {
        // The text of the store's error has its address: it is for the log.
        let why = match error {
            AuditError::NoStore => error.to_string(),
            AuditError::Store(_) => "the store does not take it; the log of the gateway has the reason".to_owned(),
        };
        let text = format!("audit.mode of the gateway is Required, and the call cannot be recorded: {why}");
        self.refused(kind, Denial::without_cause(Reason::AuditUnavailable, text))
    }
}
