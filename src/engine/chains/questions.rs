//! What an answer asks: input of the client, in its result or its error, or that the client follows a task.

use std::sync::Arc;

use super::Chains;
use super::asked_by_error::asks as asks_by_error;
use super::asked_client::AskedClient;
use super::outcome::CallEnd;
use super::recheck::NewGuards;
use super::routed_call::Routed;
use super::unchecked::Unchecked;
use crate::domain::json::doubled_key;
use crate::domain::upstream::{Answer, OutMembers, UpstreamError};
use crate::domain::version::Era;
use crate::engine::request::TaskUse;

impl Chains {
    /// Ends the call with an answer that is none: one that asks the client, once its questions have passed their chains, one that
    /// begins a task, or one of which it is not clear what it is. `new` are the entries that came into force since the call
    /// began; they run on answers only.
    pub(in crate::engine) async fn questions(
        self: &Arc<Self>,
        client: &AskedClient<'_>,
        answer: &mut Unchecked,
        (sent, new): (&OutMembers, &NewGuards),
    ) -> Result<(), CallEnd> {
        let (call, facts) = (client.call, answer.facts());
        let ended = |end: Option<CallEnd>| end.map_or(Ok(()), Err);
        ended(self.unclear(call, answer))?;
        let asks_by_error = matches!(answer.unseen(), Answer::Error(error) if asks_by_error(error));
        let begins_task = facts.begins_task || matches!(call.request.task, TaskUse::Begins(_));
        if facts.asks_back || asks_by_error || facts.unclear || begins_task {
            ended(new.denial().map(|denial| self.ends.refused(call.request.kind, denial)))?;
        }
        client.asks_by_error(answer).await?;
        // The chains over the questions can take long.
        if asks_by_error {
            ended(self.denied_since(call, sent))?;
        }
        ended(self.task_begun(call, answer))?;
        if !facts.asks_back {
            return Ok(());
        }
        let end = client.asks_back(answer).await;
        Err(self.denied_since(call, sent).unwrap_or(end))
    }

    /// Returns the end of a call of whose result it is not clear what the server wants: it may ask the client for input that
    /// chains must see. If a Guard is on the call, a later stage reports a key that stands twice.
    fn unclear(&self, call: &Routed<'_>, answer: &Unchecked) -> Option<CallEnd> {
        let facts = answer.facts();
        let is_reported = || {
            let Answer::Result(result) = answer.unseen() else { return false };
            call.item.is_guarded() && doubled_key(result.get()).is_some()
        };
        let why = if facts.mistyped && answer.era() == Era::Modern {
            "the resultType of its result is not a string"
        } else if facts.unclear && call.item.watches_questions() && !is_reported() {
            "its result has a member twice, or one whose name cannot be decoded"
        } else {
            return None;
        };
        Some(self.ends.upstream_failed(call, &UpstreamError::Protocol(why.into())))
    }
}
