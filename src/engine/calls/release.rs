//! The last chains of a call: those over the answer of its upstream, which nothing gives to the client before.

use std::sync::Arc;

use super::call::is_foreign;
use super::chain::{CallContext, ChainEnd};
use super::content::Content;
use super::outcome::CallEnd;
use super::recheck::{Effect, NewGuards, Sent};
use super::recorder::CallRecorder;
use super::routed_call::Routed;
use super::tool_result::{ResultFacts, without_members};
use crate::domain::json::doubled_key;
use crate::domain::question::RESULT_TYPE;
use crate::domain::upstream::{Answer, OutMembers, ServerAnswer, UpstreamError};
use crate::domain::version::Era;
use crate::engine::Engine;

impl Engine {
    /// Runs the response chains on the upstream's answer, and then the entries that came into force during the call. Their `when`
    /// expressions see what was `sent`; `None` if that is not known.
    pub(super) async fn run_response_chains(
        self: &Arc<Self>,
        call: &Routed<'_>,
        context: CallContext<'_>,
        (ServerAnswer { era, answer }, facts): (ServerAnswer, ResultFacts),
        (sent, new): (Option<&OutMembers>, NewGuards),
        recorder: &mut CallRecorder,
    ) -> CallEnd {
        let is_guarded = call.item.is_guarded() || !new.response.is_empty();
        if call.item.response.is_empty() && !is_guarded {
            return CallEnd::answered(answer, facts);
        }
        let context = CallContext {
            // A Guard on the request too: a key that stands twice can hide from it that the server asks for input.
            unique_keys: is_guarded,
            reservation: Some(call.request.reservation),
            ..context
        };
        let content = Content::Answer(answer);
        if context.unique_keys
            && let Some(steps) = content.doubled_key()
        {
            return self.withheld(call, &steps);
        }
        let changed = match self.run_all_response_chains(call, context, &content, (sent, new), recorder).await {
            Ok(changed) => changed,
            Err(end) => return end,
        };
        match (changed, content) {
            (None, Content::Answer(answer)) => CallEnd::answered(answer, facts),
            (Some(Content::Answer(answer)), _) if is_foreign(call, era) => {
                CallEnd::answered_anew(without_members(answer, &[RESULT_TYPE]))
            }
            (Some(Content::Answer(answer)), _) => CallEnd::answered_anew(answer),
            _ => CallEnd::internal("a response chain gave no answer"),
        }
    }

    /// Returns the end of a call of whose result it is not clear what the server wants: it may ask the client for input that
    /// chains must see. A key that stands twice is told elsewhere where a Guard is on the call.
    pub(super) fn unclear(&self, call: &Routed<'_>, answered: &ServerAnswer, facts: ResultFacts) -> Option<CallEnd> {
        let is_told = || {
            let Answer::Result(result) = &answered.answer else { return false };
            call.item.is_guarded() && doubled_key(result.get()).is_some()
        };
        let why = if facts.mistyped && answered.era == Era::Modern {
            "the resultType of its result is not a string"
        } else if facts.unclear && call.item.watches_questions() && !is_told() {
            "its result has a member twice, or one whose name cannot be decoded"
        } else {
            return None;
        };
        Some(self.upstream_failed(call, &UpstreamError::Protocol(why.into())))
    }

    /// Runs the chains of the call, then the entries that are new, and so on until none came into force while others ran. Returns the
    /// content if an entry changed it.
    async fn run_all_response_chains(
        self: &Arc<Self>,
        call: &Routed<'_>,
        context: CallContext<'_>,
        content: &Content,
        (sent, new): (Option<&OutMembers>, NewGuards),
        recorder: &mut CallRecorder,
    ) -> Result<Option<Content>, CallEnd> {
        let mut context = context;
        let text = |is_read: bool| match sent {
            Some(sent) if is_read => call.as_content(sent),
            Some(_) => String::new(),
            None => "{}".to_owned(),
        };
        let of_call = |end: ChainEnd| end.of_call(call.request.kind);
        let (shown, traces) = (text(call.item.recalls_arguments()), &mut recorder.traces);
        let when = call.when(&shown);
        let own = self.run_chains(context, &call.item.response, &when, content, traces).await;
        let (mut changed, mut due, mut ran) = (own.map_err(of_call)?, new.response, Vec::new());
        loop {
            traces.begin(call.request.kind.used_by(), due.iter());
            let (shown, current) = (text(!due.is_empty()), changed.as_ref().unwrap_or(content));
            let when = call.when(&shown);
            let after = self.run_chains(context, &due, &when, current, traces).await.map_err(of_call)?;
            changed = after.or(changed);
            ran.append(&mut due);
            // All of these chains can take long.
            due = self.recheck(call, Effect::Answer(&ran), sent.map_or(Sent::Unchanged, Sent::Members))?.response;
            if due.is_empty() {
                return Ok(changed);
            }
            let guarded = std::mem::replace(&mut context.unique_keys, true);
            if let Some(steps) = changed.as_ref().unwrap_or(content).doubled_key().filter(|_| !guarded) {
                return Err(self.withheld(call, &steps));
            }
        }
    }
}
