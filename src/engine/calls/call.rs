//! The steps of one call, from its arrival to its answer.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::value::RawValue;
use tokio::task::unconstrained;
use tracing::Instrument;

use super::arguments::ARGUMENTS;
use super::asked_by_error::asks as asks_by_error;
use super::asked_client::AskedClient;
use super::chain::CallContext;
use super::content::Content;
use super::find::LookupTarget;
use super::meta::CallMeta;
use super::outcome::{CallEnd, Denial};
use super::own_tool::{NamedCall, own_tool};
use super::recheck::{ASKED_IN_ROUNDS, Effect, NewGuards, Sent};
use super::recorder::CallRecorder;
use super::routed_call::Routed;
use super::spans;
use super::task_state::plain_wish;
use super::tool_result::{MODERN_OF_RESOURCES, ResultFacts, leave_out_other_structure, text_result, without_members};
use crate::domain::boxed::boxed;
use crate::domain::item::ItemKind;
use crate::domain::json::doubled_key;
use crate::domain::ports::ToClient;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::upstream::{Answer, InputRound, OutCall, OutMembers, ServerAnswer, UpstreamError};
use crate::domain::version::Era;
use crate::engine::Engine;
use crate::engine::access::admission::Admitted;
use crate::engine::plan::linked_item::Selected;
use crate::engine::plan::snapshot::{Lookup, Snapshot};
use crate::engine::request::{CallRequest, Reply, TaskUse};

impl Engine {
    /// Runs a call and returns the reply. Dropping the future cancels the call.
    pub async fn call(self: &Arc<Self>, request: CallRequest<'_>) -> Reply {
        let (meta, snapshot) = (CallMeta::read(request.meta), self.snapshot());
        // Spans come before the futures: one that is made before something else can panic is copied.
        match NamedCall::of(&snapshot, &request) {
            Some(named) => {
                let request = named.request(request);
                let span = spans::call(&request, &meta);
                // In a box, so that other calls have no room for it.
                boxed(|| self.run_to_end(&snapshot, &request, &meta).instrument(span)).await
            }
            None => {
                let span = spans::call(&request, &meta);
                self.run_to_end(&snapshot, &request, &meta).instrument(span).await
            }
        }
    }

    async fn run_to_end(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        request: &CallRequest<'_>,
        meta: &CallMeta,
    ) -> Reply {
        let mut recorder = CallRecorder::begin(self, &snapshot.linked, request);
        let ceiling = request.ceiling(snapshot);
        let (cut, cancelled) = (self.state.cut.load_full(), recorder.cancelled());
        let end = {
            // A panic ends only this call, and the client still gets an answer. Everything that the call started is
            // dropped, as on cancellation.
            let run = AssertUnwindSafe(self.run_and_settle(snapshot, request, meta, &mut recorder));
            let mut run = pin!(run.catch_unwind());
            tokio::select! {
                biased;
                end = &mut run => end.unwrap_or_else(|_| CallEnd::panicked()),
                // Also where the call has used up what a task may do at once.
                () = unconstrained(tokio::time::sleep(ceiling)) => CallEnd::ceiling_reached(ceiling),
                () = cut.cancelled() => CallEnd::stopped(),
                () = cancelled.cancelled() => CallEnd::cancelled(),
                () = self.state.ended.cancelled() => CallEnd::drained(),
            }
        };
        let end = self.audit_end(end, request.kind, &mut recorder).await;
        self.finish(end, recorder, meta, request)
    }

    /// Like [`Self::run`]. If the client asked for the trace, also waits for the entries that run in the background, so
    /// that the trace shows their outcomes.
    async fn run_and_settle(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        request: &CallRequest<'_>,
        meta: &CallMeta,
        recorder: &mut CallRecorder,
    ) -> CallEnd {
        if let Err(why) = &meta.section {
            return CallEnd::invalid_section(why);
        }
        let end = match (request.task, own_tool(snapshot, request)) {
            (TaskUse::Of(task), _) => self.run_task(snapshot, request, task, meta, recorder).await,
            (_, Some(tool)) => self.run_own_tool(tool, snapshot, request, meta, recorder).await,
            (_, None) => self.run(snapshot, request, meta, recorder).await,
        };
        if meta.trace {
            recorder.gather();
            recorder.traces.settle().await;
        }
        end
    }

    async fn run(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        request: &CallRequest<'_>,
        meta: &CallMeta,
        recorder: &mut CallRecorder,
    ) -> CallEnd {
        let _admitted = match self.admit(snapshot, request) {
            Ok(admitted) => admitted,
            Err(error) => return self.not_admitted(&error),
        };
        // Asks the gate again, because another plan can have come into force while the call waited for its upstream or for a
        // Guard.
        let sought = LookupTarget::Named(request.item());
        let (current, found) = match self.find_guarded(snapshot, sought).await {
            Ok(looked_up) => looked_up,
            Err(error) => return self.not_admitted(&error),
        };
        let found = current.usable(found, request.within.is_some_and(|within| within.is_of_pipeline));
        let Lookup::Found(found) = found else { return self.not_there(&current, request, meta, &found) };
        let call = Routed::new(&current, &found, request, meta, recorder.record());
        // The rules come first: else a section would show which items of other upstreams are there.
        if let Some(end) = self.denied(&call, recorder).or_else(|| self.outside_section(&call, recorder)) {
            return end;
        }
        if !self.state.in_routing(&call.plan().key) {
            self.try_again(call.plan()).await;
        }
        let mut at_upstream = Admitted::default();
        if let Some(end) = self.end_before_check(&call, &mut at_upstream, recorder) {
            return end;
        }
        let members = match call.checked_members().await {
            Ok(members) => members,
            Err(end) => return end,
        };
        // The check can have waited for those of other calls.
        if let Err(error) = self.gate(&self.snapshot()) {
            return self.not_admitted(&error);
        }
        let client = AskedClient::new(self, &call, recorder);
        self.run_guarded(&call, &client, members, recorder).await
    }

    /// Returns the end of a call that is not sent, if that shows before its arguments are checked against schemas. Otherwise
    /// the call counts against the limit of its upstream.
    fn end_before_check(
        &self,
        call: &Routed<'_>,
        at_upstream: &mut Admitted,
        recorder: &mut CallRecorder,
    ) -> Option<CallEnd> {
        let request = call.request;
        recorder.routed(&call.facts.upstream, &call.facts.shown);
        let limits = &call.snapshot.plan().gateway.limits;
        let admitted = self.admit_upstream(at_upstream, call.plan());
        if let Err(error) = admitted.and_then(|()| self.admit_run(at_upstream, limits, call.plan(), request)) {
            return Some(self.not_admitted(&error));
        }
        if let Some(refusal) = call.refusing() {
            return Some(self.refused(request.kind, Denial::refused(None, refusal)));
        }
        recorder.traces.begin(request.kind.used_by(), call.item.chains());
        if (call.item.reads_arguments() || call.snapshot.linked.rules.as_ref().is_some_and(|it| it.read_calls()))
            && let Some(steps) = doubled_key(&call.content)
        {
            return Some(CallEnd::doubled_argument(request.kind, &steps));
        }
        // This cannot be checked earlier: the upstream's tool list marks the arguments that headers repeat, and that
        // list may have been read only now.
        if let Some(check) = request.check_mirrored
            && let Err(mismatch) = check(&call.item.mirrored)
        {
            return Some(CallEnd::new(Reply::Error(mismatch), CallOutcome::RpcError, Reason::HeaderMismatch));
        }
        let (when, content) = (call.when(&call.content), || Content::Arguments(call.content.clone().into_owned()));
        let denial = self.cannot_guard(call.item.chains(), &when, content, &mut recorder.traces)?;
        Some(self.refused(request.kind, denial))
    }

    /// Runs the request chains, sends the call to the upstream, and runs the response chains. `checked` are the members of
    /// `params` that are sent; `None` if request chains decide on them.
    async fn run_guarded(
        self: &Arc<Self>,
        call: &Routed<'_>,
        client: &AskedClient<'_>,
        checked: Option<OutMembers>,
        recorder: &mut CallRecorder,
    ) -> CallEnd {
        let method = call.request.kind.used_by();
        let context = CallContext::of(&call.facts, method, client);
        let mut sent = match checked {
            Some(members) => members,
            None => match self.members_of_chains((call, client), context, recorder).await {
                Ok(members) => members,
                Err(end) => return end,
            },
        };
        if let Some(end) = self.denied_as_sent(call, &sent) {
            return end;
        }
        let (answered, facts) = match self.send_in_rounds(call, client, &mut sent, recorder).await {
            Ok(answered) => answered,
            Err(end) => return end,
        };
        let new = match self.recheck(call, Effect::Answer(&[]), Sent::Members(&sent)) {
            Ok(new) => new,
            Err(end) => return end,
        };
        self.end_answered(call, (client, context), (answered, facts), (&sent, new), recorder).await
    }

    /// Returns the end of a call that its upstream has answered: the answer after the response chains, or what the server asks the
    /// client. `new` are the entries that came into force since the call began.
    async fn end_answered(
        self: &Arc<Self>,
        call: &Routed<'_>,
        (client, context): (&AskedClient<'_>, CallContext<'_>),
        (answered, facts): (ServerAnswer, ResultFacts),
        (sent, new): (&OutMembers, NewGuards),
        recorder: &mut CallRecorder,
    ) -> CallEnd {
        if let Some(end) = self.unclear(call, &answered, facts) {
            return end;
        }
        // New Guards run on answers only, not on what asks the client, or begins a task.
        let asks = facts.asks_back || matches!(&answered.answer, Answer::Error(error) if asks_by_error(error));
        let is_other = asks || facts.unclear || facts.begins_task || matches!(call.request.task, TaskUse::Begins(_));
        if let Some(denial) = new.denial().filter(|_| is_other) {
            return self.refused(call.request.kind, denial);
        }
        let era = answered.era;
        let mut answered = match client.asks_by_error(answered.answer).await {
            Ok(answer) => ServerAnswer { era, answer },
            Err(end) => return end,
        };
        // The chains over the questions can take long.
        if asks
            && !facts.asks_back
            && let Some(end) = self.denied_since(call, sent)
        {
            return end;
        }
        if let Some(end) = self.task_begun(call, &answered, facts) {
            return end;
        }
        if facts.asks_back {
            let end = client.asks_back(answered.answer, facts).await;
            return self.denied_since(call, sent).unwrap_or(end);
        }
        if call.request.kind == ItemKind::Resource && is_foreign(call, era) {
            answered.answer = without_members(answered.answer, &MODERN_OF_RESOURCES);
        }
        let can_be_other = era == Era::Modern || !call.item.response.is_empty() || !new.response.is_empty();
        let end = self.run_response_chains(call, context, (answered, facts), (Some(sent), new), recorder).await;
        for_client(call, can_be_other, end)
    }

    /// Runs the request chains on the content, and returns the members of `params` that are sent.
    async fn members_of_chains(
        self: &Arc<Self>,
        (call, client): (&Routed<'_>, &AskedClient<'_>),
        context: CallContext<'_>,
        recorder: &mut CallRecorder,
    ) -> Result<OutMembers, CallEnd> {
        let content = Content::Arguments(call.content.clone().into_owned());
        let when = call.when(&call.content);
        let chains = self.run_chains(context, &call.item.request, &when, &content, &mut recorder.traces);
        match chains.await.map_err(|end| end.of_call(call.request.kind))? {
            None => call.members_in_time(None).await,
            Some(Content::Arguments(text)) => {
                client.changed_to(&text);
                call.members_in_time(Some(text)).await
            }
            Some(_) => Err(CallEnd::internal("a request chain gave no arguments")),
        }
    }

    /// Sends the call once, unless it may not be sent any more. `members` are lent to it, and are the same when it is answered.
    /// `asked` is the client of the call; `client` can add something to what the server says to it.
    ///
    /// # Errors
    /// The end of the call, if the upstream does not answer, or if the call ends while it asks its client.
    pub(super) async fn send(
        self: &Arc<Self>,
        call: &Routed<'_>,
        (client, asked): (&dyn ToClient, &AskedClient<'_>),
        members: &mut OutMembers,
        round: InputRound,
        recorder: &mut CallRecorder,
    ) -> Result<ServerAnswer, CallEnd> {
        let answered = if round.responses.is_some() { ASKED_IN_ROUNDS } else { &[] };
        self.recheck(call, Effect::Send(answered), Sent::Members(members))?;
        let sent = self.send_once(call, client, members, round, recorder);
        tokio::select! {
            biased;
            sent = sent => sent.map_err(|error| asked.take_end().unwrap_or_else(|| self.upstream_failed(call, &error))),
            end = asked.ended() => Err(end),
        }
    }

    async fn send_once(
        self: &Arc<Self>,
        call: &Routed<'_>,
        client: &dyn ToClient,
        members: &mut OutMembers,
        round: InputRound,
        recorder: &mut CallRecorder,
    ) -> Result<ServerAnswer, UpstreamError> {
        let task = call.request.open_task();
        if let Some(text) = call.fixed_answer().filter(|_| task.is_none()) {
            // It has nothing of either era.
            return Ok(ServerAnswer { era: call.request.caller.era, answer: Answer::Result(text_result(text)) });
        }
        if call.plan().is_served_here() {
            recorder.asked();
            let arguments = members.iter().find(|(name, _)| name == ARGUMENTS).map(|(_, value)| &**value);
            let result = boxed(|| self.run_here(call, client, arguments)).await;
            let answer = ServerAnswer { era: call.request.caller.era, answer: Answer::Result(result) };
            return take_answer(call, answer, recorder);
        }
        let span = spans::upstream(call, || self.state.facts(&call.plan().key));
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
            asked_log_level: self.asked_log_level(call.request),
            task: task.map(|task| task.out()),
            task_wish: task_wish(call),
        };
        recorder.asked();
        let within = span.clone();
        let answered = self.send_until_answered(call, &mut out, client, recorder).instrument(within).await;
        *members = out.members;
        spans::answered(&span, answered.as_ref().map(|answered| &answered.answer));
        let answered = answered.inspect_err(|_| recorder.answered())?;
        take_answer(call, answered, recorder)
    }
}

/// Whether an answer of this era is for a client of the legacy era, and in the words of the modern one.
pub(super) fn is_foreign(call: &Routed<'_>, era: Era) -> bool {
    call.request.caller.era == Era::Legacy && era == Era::Modern
}

/// Records that the call was answered, and reserves memory for the answer.
fn take_answer(
    call: &Routed<'_>,
    answered: ServerAnswer,
    recorder: &mut CallRecorder,
) -> Result<ServerAnswer, UpstreamError> {
    recorder.answered();
    recorder.was_answered = true;
    let (Answer::Result(text) | Answer::Error(text)) = &answered.answer;
    call.request.reservation.resize(text.get().len() as u64).map_err(|_| UpstreamError::NoRoom)?;
    Ok(answered)
}

/// Returns the end of a call with a result that its client can read. `can_be_other` is whether a modern server or a plugin made
/// it, which can have structure that clients of the legacy era cannot read.
fn for_client(call: &Routed<'_>, can_be_other: bool, mut end: CallEnd) -> CallEnd {
    if let (Reply::Result(result), Era::Legacy, true) = (&mut end.reply, call.request.caller.era, can_be_other) {
        leave_out_other_structure(result);
    }
    end
}

/// The wish of a client of the legacy era that its call goes on as a task. Where plugins check the request, it has nothing that
/// they do not see.
fn task_wish(call: &Routed<'_>) -> Option<Box<RawValue>> {
    let TaskUse::Begins(task) = call.request.task else { return None };
    let is_checked = call.item.request.iter().any(Selected::checks);
    Some(if is_checked { plain_wish(task) } else { task.to_owned() })
}
