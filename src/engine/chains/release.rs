//! The last chains of a call: those over the answer of its upstream, which nothing gives to the client before.

use std::sync::Arc;

use super::Chains;
use super::asked_client::AskedClient;
use super::chain::{CallContext, ChainEnd};
use super::content::Content;
use super::entry_traces::EntryTraces;
use super::outcome::CallEnd;
use super::recheck::{Effect, NewGuards, Sent};
use super::released::Released;
use super::routed_call::Routed;
use super::tool_result::{MODERN_OF_RESOURCES, leave_out_other_structure, without_members};
use super::unchecked::Unchecked;
use crate::domain::item::ItemKind;
use crate::domain::question::RESULT_TYPE;
use crate::domain::upstream::{OutMembers, ServerAnswer};
use crate::domain::version::Era;
use crate::engine::request::Reply;

impl Chains {
    /// Runs the response chains on an answer, and writes what they let pass as the client of the call can read it.
    pub(in crate::engine) async fn release(
        self: &Arc<Self>,
        client: &AskedClient<'_>,
        answer: Unchecked,
        (sent, new): (&OutMembers, NewGuards),
        traces: &mut EntryTraces,
    ) -> Result<Released, CallEnd> {
        let (call, context) = (client.call, client.call_context());
        // A modern server or a plugin can make structure that clients of the legacy era cannot read.
        let can_be_other = answer.era() == Era::Modern || !call.item.response.is_empty() || !new.response.is_empty();
        let is_foreign_resource = call.request.kind == ItemKind::Resource && is_foreign(call, answer.era());
        let answer = if is_foreign_resource { answer.without_members(&MODERN_OF_RESOURCES) } else { answer };
        let mut end = self.run_response_chains(call, context, answer, (Some(sent), new), traces).await;
        if let (Reply::Result(result), Era::Legacy, true) = (&mut end.reply, call.request.caller.era, can_be_other) {
            leave_out_other_structure(result);
        }
        Ok(Released::new(end))
    }

    /// Runs the response chains on the upstream's answer, and then the entries that came into force during the call. Their `when`
    /// expressions see what was `sent`; `None` if that is not known.
    pub(in crate::engine) async fn run_response_chains(
        self: &Arc<Self>,
        call: &Routed<'_>,
        context: CallContext<'_>,
        answer: Unchecked,
        (sent, new): (Option<&OutMembers>, NewGuards),
        traces: &mut EntryTraces,
    ) -> CallEnd {
        let facts = answer.facts();
        let ServerAnswer { era, answer } = answer.open();
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
            return self.ends.withheld(call, &steps);
        }
        let changed = match self.run_all_response_chains(call, context, &content, (sent, new), traces).await {
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

    /// Runs the chains of the call, then the entries that are new, and so on until none came into force while others ran. Returns the
    /// content if an entry changed it.
    async fn run_all_response_chains(
        self: &Arc<Self>,
        call: &Routed<'_>,
        context: CallContext<'_>,
        content: &Content,
        (sent, new): (Option<&OutMembers>, NewGuards),
        traces: &mut EntryTraces,
    ) -> Result<Option<Content>, CallEnd> {
        let mut context = context;
        let text = |is_read: bool| match sent {
            Some(sent) if is_read => call.as_content(sent),
            Some(_) => String::new(),
            None => "{}".to_owned(),
        };
        let of_call = |end: ChainEnd| end.of_call(call.request.kind);
        let shown = text(call.item.recalls_arguments());
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
                return Err(self.ends.withheld(call, &steps));
            }
        }
    }
}

/// Whether an answer of this era is for a client of the legacy era, and in the words of the modern one.
fn is_foreign(call: &Routed<'_>, era: Era) -> bool {
    call.request.caller.era == Era::Legacy && era == Era::Modern
}
