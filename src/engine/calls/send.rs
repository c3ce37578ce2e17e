//! Sends a call: to its server, or to the pipeline, the plugin or the text that answers in the place of one. A server can ask for
//! input in its result (MCP 2026-07-28, multi-round-trip requests): the client answers by sending the call once more. For a client
//! of the legacy era, the gateway asks it in the middle of its call and sends the call itself.

use std::sync::Arc;

use serde_json::value::RawValue;
use tracing::Instrument;

use super::Calls;
use super::arguments::ARGUMENTS;
use super::arrived::Arrived;
use super::recorder::CallRecorder;
use super::retry::send_until_answered;
use crate::domain::boxed::boxed;
use crate::domain::upstream::{InputRound, OutCall, OutMembers, UpstreamError};
use crate::domain::version::Era;
use crate::engine::chains::asked_client::AskedClient;
use crate::engine::chains::input_questions::InputQuestions;
use crate::engine::chains::input_state::Answered;
use crate::engine::chains::outcome::CallEnd;
use crate::engine::chains::recheck::{ASKED_IN_ROUNDS, Effect, Sent};
use crate::engine::chains::routed_call::Routed;
use crate::engine::chains::spans;
use crate::engine::chains::task_state::plain_wish;
use crate::engine::chains::tool_result::text_result;
use crate::engine::chains::unchecked::{GuardedClient, Unchecked};
use crate::engine::plan::linked_item::Selected;
use crate::engine::request::TaskUse;

/// How often one call is sent, at most.
const MAX_ROUNDS: usize = 16;

impl Calls {
    /// Sends the call until the server has answered it. A result that asks a client of the modern era for input is
    /// returned as an answer, since that client itself sends the call once more.
    pub(super) async fn send_in_rounds(
        self: &Arc<Self>,
        arrived: &mut Arrived<'_>,
        client: &AskedClient<'_>,
        members: &mut OutMembers,
        Answered { round, early }: &mut Answered,
    ) -> Result<Unchecked, CallEnd> {
        let (call, recorder) = (client.call, &mut arrived.recorder);
        recorder.sends(|| call.as_content(members));
        for _ in 0..MAX_ROUNDS {
            let answer = self.send(call, (client, client), members, std::mem::take(round), recorder).await?;
            if !answer.facts().asks_back {
                return Ok(answer);
            }
            let client_is_asked = call.request.caller.era == Era::Modern && call.request.within.is_none();
            let is_modern = answer.era() == Era::Modern;
            if client_is_asked && (is_modern || call.item.watches_questions()) {
                let Some(given) = early.take().filter(|_| is_modern) else { return Ok(answer) };
                let Some(next) = client.answers_early(&given, &answer).await? else { return Ok(answer) };
                *round = next;
                continue;
            }
            if !is_modern {
                // To a server of the legacy era the member means nothing: it has executed the call.
                return Ok(answer.not_asking_back());
            }
            *round = match InputQuestions::of(&answer) {
                Ok(questions) => questions.ask(client).await?,
                Err(why) => return Err(self.ends.upstream_failed(call, &UpstreamError::Protocol(why.to_owned()))),
            };
        }
        let why = format!("it asked for input {MAX_ROUNDS} times and did not answer the call");
        Err(self.ends.upstream_failed(call, &UpstreamError::Protocol(why)))
    }

    /// Sends the call once, unless it may not be sent any more. `members` are lent to it, and are the same when it is answered.
    /// `asked` is the client of the call; `client` can add something to what the server says to it.
    ///
    /// # Errors
    /// The end of the call, if the upstream does not answer, or if the call ends while it asks its client.
    pub(super) async fn send(
        self: &Arc<Self>,
        call: &Routed<'_>,
        (client, asked): (&dyn GuardedClient, &AskedClient<'_>),
        members: &mut OutMembers,
        round: InputRound,
        recorder: &mut CallRecorder,
    ) -> Result<Unchecked, CallEnd> {
        let answered = if round.responses.is_some() { ASKED_IN_ROUNDS } else { &[] };
        self.chains.recheck(call, Effect::Send(answered), Sent::Members(members))?;
        let sent = self.send_once(call, client, members, round, recorder);
        tokio::select! {
            biased;
            sent = sent => sent.map_err(|error| asked.take_end().unwrap_or_else(|| self.ends.upstream_failed(call, &error))),
            end = asked.ended() => Err(end),
        }
    }

    async fn send_once(
        self: &Arc<Self>,
        call: &Routed<'_>,
        client: &dyn GuardedClient,
        members: &mut OutMembers,
        round: InputRound,
        recorder: &mut CallRecorder,
    ) -> Result<Unchecked, UpstreamError> {
        let task = call.request.open_task();
        if let Some(text) = call.fixed_answer().filter(|_| task.is_none()) {
            return Ok(Unchecked::of_gateway(call.request.caller.era, text_result(text)));
        }
        if call.plan().is_served_here() {
            recorder.asked();
            let arguments = members.iter().find(|(name, _)| name == ARGUMENTS).map(|(_, value)| &**value);
            let result = boxed(|| self.pipelines.run_here(call, client, arguments)).await;
            return take_answer(call, Unchecked::of_gateway(call.request.caller.era, result), recorder);
        }
        let span = spans::upstream(call, || self.catalogues.facts(&call.plan().key));
        let mut out = OutCall {
            kind: call.request.kind,
            name: call.facts.tool.clone(),
            members: std::mem::take(members),
            meta: call.meta.sent_in(&span),
            wants_progress: call.request.wants_progress,
            log_level: call.request.log_level,
            timeout: call.timeout,
            extend_on_progress: call.plan().extend_on_progress,
            client: call.client_key(),
            watch: call.item.question_watch(),
            account: call.request.reservation.account().cloned(),
            token: call.request.caller.token.clone().filter(|_| call.plan().exchanges_tokens()),
            round,
            asked_log_level: self.gate.asked_log_level(call.request),
            task: task.map(|task| task.out()),
            task_wish: task_wish(call),
        };
        recorder.asked();
        let within = span.clone();
        let answered = send_until_answered((&self.servers, &self.metrics), call, &mut out, client, recorder)
            .instrument(within)
            .await;
        *members = out.members;
        spans::answered(&span, answered.as_ref());
        let answered = answered.inspect_err(|_| recorder.answered())?;
        take_answer(call, answered, recorder)
    }
}

/// Records that the call was answered, and reserves memory for the answer.
fn take_answer(
    call: &Routed<'_>,
    answered: Unchecked,
    recorder: &mut CallRecorder,
) -> Result<Unchecked, UpstreamError> {
    recorder.answered();
    recorder.was_answered = true;
    call.request.reservation.resize(answered.size()).map_err(|_| UpstreamError::NoRoom)?;
    Ok(answered)
}

/// The wish of a client of the legacy era that its call goes on as a task. Where plugins check the request, it has nothing that
/// they do not see.
fn task_wish(call: &Routed<'_>) -> Option<Box<RawValue>> {
    let TaskUse::Begins(task) = call.request.task else { return None };
    let is_checked = call.item.request.iter().any(Selected::checks);
    Some(if is_checked { plain_wish(task) } else { task.to_owned() })
}
