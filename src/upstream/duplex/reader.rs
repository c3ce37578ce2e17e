//! Reads what a server sends: messages, and lines that are not messages.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::value::RawValue;
use tokio::io::AsyncRead;

use super::Duplex;
use super::events::{Completed, EventLines};
use crate::domain::invalid_message::{self, InvalidMessage};
use crate::domain::members::{AnsweredRequests, MessageMembers, number};
use crate::domain::upstream::{Answer, Target, UpstreamError};
use crate::transport::flow::UNASKED;
use crate::transport::rate_limit::RateLimit;
use crate::transport::{Awaited, LastWords, LinePiece, LineReader};
use crate::upstream::context::UpstreamContext;
use crate::upstream::metrics::Dropped;
use crate::upstream::server_message::{self, NotificationKind, ServerMessage};
use crate::upstream::wire::ENVELOPE;

/// The maximum number of bytes of one line that are skipped. If more would have to be skipped, the connection is
/// closed.
const PASSED_OVER: u64 = 256 * 1024 * 1024;
/// The maximum number of bytes at the beginning of a line that are read to make the text for the log.
const READ_OF_IT: usize = 4096;
/// What the data of an event may count towards the rate limit before it does, while no request waits for an answer.
const HELD: u64 = 64 << 10;
/// The maximum number of characters of a line in the log.
const SHOWN: usize = 200;

pub(in crate::upstream) struct DuplexReader {
    target: Target,
    shared: Arc<UpstreamContext>,
    duplex: Duplex,
    /// Receives the first line that is not a message.
    last_words: Arc<LastWords>,
    /// Whether it was already logged that the server sends lines that are not messages.
    warned: bool,
    /// How many bytes were skipped of the line that was last cut off.
    passed_over: u64,
    /// What the lines of the event's data that is being read count towards the rate limit.
    held: u64,
    /// What puts events together; `None` if each line is a message.
    events: Option<EventLines>,
}

/// The kinds of lines: those that a request waited for or may wait for, and all others, whose rate is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineOrigin {
    Awaited,
    /// No request waited for it, nor for the lines before it in the same event.
    Unasked,
    /// It adds nothing to the event, and does not end it.
    Nothing,
}

impl DuplexReader {
    pub(in crate::upstream) fn new(
        target: &Target,
        shared: &Arc<UpstreamContext>,
        duplex: Duplex,
        last_words: Arc<LastWords>,
    ) -> Self {
        let (target, shared) = (Arc::clone(target), Arc::clone(shared));
        Self { target, shared, duplex, last_words, warned: false, passed_over: 0, held: 0, events: None }
    }

    /// Returns this reader for a stream whose messages are events.
    pub(in crate::upstream) fn of_events(self, events: EventLines) -> Self {
        Self { events: Some(events), ..self }
    }

    /// Reads until the end of the stream.
    pub(in crate::upstream) async fn run(mut self, stream: impl AsyncRead + Unpin) {
        let limit = self.target.max_response_size.saturating_add(ENVELOPE);
        let reservation = self.shared.reservation(&self.target.plan.key);
        let lines = LineReader::new(stream, usize::try_from(limit).unwrap_or(usize::MAX), Some(reservation));
        let mut lines = lines.answering(Arc::clone(&self.duplex.calls) as _);
        let unasked = RateLimit::default();
        while let Ok(Some(piece)) = self.while_asked(lines.next()).await {
            let cost = piece.cost();
            let read = match piece {
                LinePiece::Line(line) => Ok(self.take_line(line, cost)),
                LinePiece::Last(line) => Ok(self.take_last(line)),
                LinePiece::Cut(beginning) => {
                    let too_large = UpstreamError::TooLarge(self.target.max_response_size);
                    Ok(self.take_cut(beginning, &too_large))
                }
                LinePiece::Unasked(beginning) => Ok(self.take_cut(beginning, &UpstreamError::TooLarge(UNASKED))),
                LinePiece::NoRoom(beginning) => Ok(self.take_cut(beginning, &UpstreamError::NoRoom)),
                LinePiece::Rest(bytes) | LinePiece::End(bytes) => self.pass_over(bytes.len() as u64),
            };
            match read {
                Ok(LineOrigin::Awaited) => {}
                Ok(origin) => {
                    let held = if origin == LineOrigin::Unasked { std::mem::take(&mut self.held) } else { 0 };
                    unasked.spend(cost + held).await;
                }
                Err(error) => {
                    self.duplex.calls.close(error);
                    break;
                }
            }
        }
        self.duplex.ended.cancel();
    }

    /// Handles the beginning of a line whose rest is skipped, for the reason `why`. If the line answers requests, only
    /// these fail.
    fn take_cut(&mut self, beginning: &[u8], why: &UpstreamError) -> LineOrigin {
        self.passed_over = 0;
        match &mut self.events {
            Some(events) => match events.cut(beginning) {
                Some(beginning) => self.take_large(&beginning, why),
                None => LineOrigin::Unasked,
            },
            None => self.take_large(beginning, why),
        }
    }

    /// Waits for the next piece of the stream. Meanwhile drops the event that is being read if it is large and no request
    /// waits for an answer any more.
    async fn while_asked<T>(&mut self, next: impl Future<Output = T>) -> T {
        let mut next = pin!(next);
        if !self.events.as_ref().is_some_and(EventLines::is_large) {
            return next.await;
        }
        tokio::select! {
            biased;
            piece = &mut next => return piece,
            () = self.duplex.calls.none_wait() => {}
        }
        if let Some(beginning) = self.events.as_mut().and_then(EventLines::drop_unasked) {
            self.take_large(&beginning, &UpstreamError::TooLarge(UNASKED));
        }
        next.await
    }

    /// Handles the beginning of a message that is dropped for the reason `why`.
    fn take_large(&self, beginning: &[u8], why: &UpstreamError) -> LineOrigin {
        if self.fail(&MessageMembers::read(beginning).whose(), why) {
            return LineOrigin::Awaited;
        }
        self.shared.metrics.dropped(&self.target.plan.key.name, Dropped::Large);
        tracing::warn!(upstream = %self.target.plan.key, "a message was dropped: {why}");
        LineOrigin::Unasked
    }

    /// Fails the requests that an unusable message answers; others keep waiting. Returns false if it answers none.
    fn fail(&self, whose: &AnsweredRequests, reason: &UpstreamError) -> bool {
        let calls = &self.duplex.calls;
        match whose {
            AnsweredRequests::Calls(ids) => ids.iter().filter(|id| calls.fail(**id, reason.clone())).count() > 0,
            AnsweredRequests::SomeCall => calls.fail_sole(reason.clone()),
            AnsweredRequests::Nobody => false,
        }
    }

    /// Counts skipped bytes of a line that was cut off. Returns an error if there are too many. Skipping is not limited
    /// in rate, because answers to other requests come after the line.
    fn pass_over(&mut self, size: u64) -> Result<LineOrigin, UpstreamError> {
        self.passed_over += size;
        match self.passed_over > PASSED_OVER {
            true => Err(UpstreamError::TooLarge(self.target.max_response_size)),
            false => Ok(LineOrigin::Awaited),
        }
    }

    /// Handles the text after the last newline. An incomplete message is not reported, because the waiting calls fail
    /// anyway: the process has ended.
    fn take_last(&mut self, line: &[u8]) -> LineOrigin {
        if self.events.is_some() {
            // An event that no empty line ends is incomplete.
            return LineOrigin::Unasked;
        }
        let breaks_off = line.trim_ascii_start().first() == Some(&b'{') && !MessageMembers::read(line).whole;
        if breaks_off { LineOrigin::Unasked } else { self.take(line) }
    }

    /// Handles a line: a message, or a part of an event. `cost` is what it counts towards the rate limit.
    fn take_line(&mut self, line: &[u8], cost: u64) -> LineOrigin {
        let Some(events) = &mut self.events else { return self.take(line) };
        let calls = &self.duplex.calls;
        let origin = match events.take(line, || calls.any_waits()) {
            Completed::Message(message) => {
                let origin = self.take(&message);
                drop(message);
                self.events.iter_mut().for_each(EventLines::release);
                origin
            }
            Completed::Dropped(beginning, why) => self.take_large(&beginning, &why),
            // Whether a request waits for it is known when it is complete.
            Completed::Part if self.held + cost <= HELD || calls.any_waits() => {
                self.held += cost;
                return LineOrigin::Awaited;
            }
            Completed::Nothing if !line.is_empty() => return LineOrigin::Nothing,
            Completed::Part | Completed::Nothing => LineOrigin::Unasked,
        };
        if origin == LineOrigin::Awaited {
            self.held = 0;
        }
        origin
    }

    fn take(&mut self, line: &[u8]) -> LineOrigin {
        let mut awaited = false;
        for message in invalid_message::messages(line) {
            awaited |= match server_message::read(message) {
                Ok(message) => self.handle(message),
                Err(fault) => self.take_broken(message, &fault),
            };
        }
        if awaited { LineOrigin::Awaited } else { LineOrigin::Unasked }
    }

    /// Handles one message. Returns whether a request waited for the message.
    fn handle(&mut self, message: ServerMessage<'_>) -> bool {
        let calls = &self.duplex.calls;
        match message {
            ServerMessage::Answer { id, answer } => return self.handle_answer(id, answer),
            ServerMessage::Notification { notice: NotificationKind::Progress, params } => {
                if let Some((token, params)) = server_message::progress(params.as_deref())
                    && !calls.progress(token, params)
                {
                    self.shared.metrics.dropped(&self.target.plan.key.name, Dropped::Progress);
                }
            }
            ServerMessage::Notification { notice: NotificationKind::Acknowledged, params } => {
                if let Some((Some(id), uris)) = server_message::acknowledged(params.as_deref()) {
                    calls.acknowledge(id, uris);
                }
            }
            other => {
                // A server of the modern era ends a stream of notifications as one of the legacy era withdraws a question.
                if let ServerMessage::Notification { notice: NotificationKind::Cancelled, params } = &other
                    && let Some(stream) = server_message::cancelled(params.as_deref())
                    && let Ok(stream) = stream.get().parse()
                {
                    calls.forget_stream(stream);
                }
                self.duplex.notices(&self.shared).take(other);
            }
        }
        false
    }

    fn handle_answer(&mut self, id: Option<&RawValue>, answer: Answer) -> bool {
        let calls = &self.duplex.calls;
        let id_number = id.and_then(|id| number(id.get()));
        // A line has room for more than its result.
        let limit = self.target.max_response_size;
        if let (Some(id), Answer::Result(result)) = (id_number, &answer)
            && result.get().len() as u64 > limit
        {
            return calls.fail(id, UpstreamError::TooLarge(limit));
        }
        match id_number {
            Some(id) if calls.answer(id, answer) => return true,
            // The request was given up, or has already been answered.
            Some(id) if calls.was_opened(id) => return false,
            _ => {}
        }
        if self.strays() {
            tracing::warn!(
                upstream = %self.target.plan.key,
                "it sent an answer whose id is not that of any request"
            );
        }
        false
    }

    /// Handles a text that is not a valid message. The requests that the text answers fail. Any other text is skipped.
    /// Returns whether a request failed.
    fn take_broken(&mut self, text: &[u8], fault: &InvalidMessage) -> bool {
        if self.fail(&fault.whose, &UpstreamError::Protocol(fault.message.into())) {
            return true;
        }
        self.warn_of(text, if fault.may_be_shown(text) { None } else { Some(fault.message) });
        false
    }

    /// Counts a line that is not a usable message. Returns true for the first such line.
    fn strays(&mut self) -> bool {
        self.shared.metrics.dropped(&self.target.plan.key.name, Dropped::Stray);
        self.duplex.strays.fetch_add(1, Ordering::Relaxed);
        !std::mem::replace(&mut self.warned, true)
    }

    fn beginning(&self, line: &[u8]) -> String {
        let line = &line[..line.len().min(READ_OF_IT)];
        self.target.mask().printable(line).chars().take(SHOWN).collect()
    }

    /// Counts a line that is not a message, unless it is empty. For the first such line, logs how it begins or, if
    /// `message` is set, that description of its fault: the line may then contain an answer, which plugins may have to
    /// guard.
    fn warn_of(&mut self, line: &[u8], message: Option<&str>) {
        if line.trim_ascii().is_empty() {
            return;
        }
        if !self.strays() {
            return;
        }
        let begins = message.map_or_else(|| self.beginning(line), str::to_owned);
        if message.is_none() {
            self.last_words.add(&begins);
        }
        if self.events.is_some() {
            tracing::warn!(
                upstream = %self.target.plan.key,
                "it sends events that are not MCP messages, which are passed over: {begins}"
            );
            return;
        }
        tracing::warn!(
            upstream = %self.target.plan.key,
            "it writes to stdout what is not an MCP message, which is passed over; a server must log to stderr: {begins}"
        );
    }
}
