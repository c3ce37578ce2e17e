//! What a process writes to its stdout: messages, and what is none.

use std::sync::Arc;

use tokio::process::ChildStdout;

use super::Wire;
use super::flow::Flow;
use super::lines::{Lines, Piece};
use super::log::printable;
use crate::domain::upstream::{Target, UpstreamError, UpstreamEvent};
use crate::upstream::cut::{Cut, read_cut};
use crate::upstream::metrics::Dropped;
use crate::upstream::shared::Shared;
use crate::upstream::wire::{self, ENVELOPE, Incoming, Notice};

/// The most bytes of a line that are passed over; one that does not end is given up, and the process with it.
const PASSED_OVER: u64 = 256 * 1024 * 1024;
/// Characters of a line that are shown.
const SHOWN: usize = 200;

/// Reads what one process writes to its stdout.
pub(super) struct Reader {
    target: Target,
    shared: Arc<Shared>,
    wire: Wire,
    /// Whether it was said that the process writes what is no message.
    warned: bool,
    /// Bytes of the last line that was too long that were passed over.
    passed_over: u64,
}

/// Whether somebody waited for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Awaited,
    Unasked,
}

impl Reader {
    /// For a process of `target`.
    pub(super) fn new(target: &Target, shared: &Arc<Shared>, wire: Wire) -> Self {
        Self { target: Arc::clone(target), shared: Arc::clone(shared), wire, warned: false, passed_over: 0 }
    }

    /// Reads until the end.
    pub(super) async fn run(mut self, stdout: ChildStdout) {
        let limit = self.target.max_response_size.saturating_add(ENVELOPE);
        let mut lines = Lines::new(stdout, usize::try_from(limit).unwrap_or(usize::MAX));
        let mut unasked = Flow::of_bytes();
        while let Ok(Some(piece)) = lines.next().await {
            let size = piece.size();
            let read = match piece {
                Piece::Line(line) => self.take(line),
                Piece::Cut(beginning) => self.take_cut(beginning),
                Piece::Rest(size) => self.pass_over(size as u64),
            };
            match read {
                Ok(Line::Awaited) => {}
                Ok(Line::Unasked) => unasked.spend(size).await,
                Err(error) => {
                    self.wire.calls.close(error);
                    break;
                }
            }
        }
        self.wire.ended.cancel();
    }

    /// Deals with the beginning of a line that is too long. Only the call that it answers fails, where that can be told.
    fn take_cut(&mut self, beginning: &[u8]) -> Result<Line, UpstreamError> {
        self.passed_over = 0;
        let too_large = UpstreamError::TooLarge(self.target.max_response_size);
        match read_cut(beginning) {
            Cut::Answer(id) if self.wire.calls.fail(id, too_large.clone()) => Ok(Line::Awaited),
            Cut::Answer(_) | Cut::Unasked => {
                self.shared.metrics.dropped(&self.target.plan.key.name, Dropped::Large);
                tracing::warn!(upstream = %self.target.plan.key, "a message was dropped: {too_large}");
                Ok(Line::Unasked)
            }
            Cut::Unknown => Err(too_large),
        }
    }

    /// Passes over the rest of a line that was too long, as fast as it comes: other answers wait behind it.
    fn pass_over(&mut self, size: u64) -> Result<Line, UpstreamError> {
        self.passed_over += size;
        match self.passed_over > PASSED_OVER {
            true => Err(UpstreamError::TooLarge(self.target.max_response_size)),
            false => Ok(Line::Awaited),
        }
    }

    /// Deals with one line. What is no JSON object at all is taken for words to people and passed over, as is a JSON
    /// object that is no JSON-RPC message; an object that breaks off, or text that is not UTF-8, ends the connection.
    fn take(&mut self, line: &[u8]) -> Result<Line, UpstreamError> {
        match wire::read(line) {
            Ok(Incoming::Answer { id, answer }) => {
                let id = id.and_then(|id| id.get().parse().ok());
                if id.is_some_and(|id| self.wire.calls.answer(id, answer)) {
                    return Ok(Line::Awaited);
                }
                tracing::debug!(upstream = %self.target.plan.key, "an answer that nobody waits for was dropped");
            }
            Ok(Incoming::Request { id, method }) => self.wire.offer(wire::reply(id, &method)),
            Ok(Incoming::Notification { notice: Notice::Progress, params }) => {
                if let Some((token, params)) = wire::progress(params) {
                    self.wire.calls.progress(token, params);
                }
            }
            Ok(Incoming::Notification { notice: Notice::ToolsChanged, .. }) => {
                self.shared.events.tell(UpstreamEvent::ToolsChanged(self.target.plan.key.clone()));
            }
            Ok(Incoming::Notification { .. }) => {}
            Err(fault) => {
                let is_object = line.trim_ascii_start().first() == Some(&b'{');
                if is_object && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err()
                    || str::from_utf8(line).is_err()
                {
                    return Err(UpstreamError::Protocol(fault.into()));
                }
                self.warn_of(line);
            }
        }
        Ok(Line::Unasked)
    }

    /// Says once that the process writes what is no message, and how that begins.
    fn warn_of(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        self.shared.metrics.dropped(&self.target.plan.key.name, Dropped::Stray);
        if std::mem::replace(&mut self.warned, true) {
            return;
        }
        let begins: String = printable(&self.target.mask(), line).chars().take(SHOWN).collect();
        tracing::warn!(
            upstream = %self.target.plan.key,
            "it writes to stdout what is not an MCP message, which is passed over; a server must log to stderr: {begins}"
        );
    }
}
