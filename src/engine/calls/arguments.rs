//! The content of a request: what a client may give, and what is sent. The arguments of a tool, as an override of the
//! tool has them. A check can wait for those of other calls, at most as long as the timeout of the call.

use std::borrow::Cow;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::domain::changed_tool::{check_given, completed};
use crate::domain::item::ItemKind;
use crate::domain::plan::ToolOverride;
use crate::domain::raw::RawObject;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::rpc::{REQUEST_TIMEOUT, RpcError};
use crate::domain::skim::Skim;
use crate::domain::upstream::OutMembers;
use crate::engine::chains::outcome::CallEnd;
use crate::engine::chains::routed_call::{ENVELOPE, Routed};
use crate::engine::request::Reply;

/// The member of `params` that has the arguments.
pub(super) const ARGUMENTS: &str = "arguments";

impl<'a> Routed<'a> {
    /// Checks the arguments as the client sent them. Returns the members of `params` that are sent; `None` if request chains
    /// decide on them.
    ///
    /// # Errors
    /// If they do not fit, or if the check takes longer than the timeout of the call.
    pub(super) async fn checked_members(&self) -> Result<Option<OutMembers>, CallEnd> {
        let check = async {
            let fit = self.check_arguments().await;
            fit.map_err(|places| CallEnd::invalid_arguments(self.request.name, &places))?;
            if self.item.request.is_empty() { self.members_to_send(None).await.map(Some) } else { Ok(None) }
        };
        timeout(self.timeout, check).await.map_err(|_| CallEnd::unchecked(self))?
    }

    /// Like [`Self::members_to_send`], within the timeout of the call.
    pub(super) async fn members_in_time(&self, changed: Option<String>) -> Result<OutMembers, CallEnd> {
        timeout(self.timeout, self.members_to_send(changed)).await.map_err(|_| CallEnd::unchecked(self))?
    }

    /// Checks the arguments as the client sent them: against what the override says of them, against the schema that
    /// clients see, and against the server's own if chains over lists show clients another one.
    ///
    /// # Errors
    /// The places that do not fit, one per line.
    async fn check_arguments(&self) -> Result<(), String> {
        self.change.map_or(Ok(()), |change| check_given(&self.content, change))?;
        let (shown, places) = (&self.item.arguments, &self.upstream.checks);
        shown.check(&self.content, places).await?;
        // What an override changes is checked once it is complete.
        let is_complete = self.change.is_none_or(|change| change.arguments.is_empty());
        match self.item.sent.as_ref().filter(|_| is_complete) {
            Some(own) => own.check_completed(&self.content, places, Some(shown), |_| false).await,
            None => Ok(()),
        }
    }

    /// The text that answers the call instead of the server.
    pub(super) fn fixed_answer(&self) -> Option<&'a str> {
        self.change.and_then(|change| change.answer.as_deref())
    }

    /// Returns the members of `params` that are sent besides the name. `changed` is the content as the request chains changed
    /// it; `None` if they did not.
    async fn members_to_send(&self, changed: Option<String>) -> Result<OutMembers, CallEnd> {
        let kind = self.request.kind;
        if kind == ItemKind::Tool {
            let arguments = self.arguments_to_send(changed).await?;
            return Ok(arguments.map(|arguments| (Cow::Borrowed(ARGUMENTS), arguments)).into_iter().collect());
        }
        let params = RawObject::parse(changed.as_deref().unwrap_or(&self.content));
        let params = params.map_err(|_| CallEnd::internal("the parameters of a request are no object"))?;
        let is_content = |member: &str| member != kind.name_member() && !ENVELOPE.contains(&member);
        let members = params.iter().filter(|(member, _)| is_content(member));
        Ok(members.map(|(member, value)| (Cow::Owned(member.to_owned()), value.to_owned())).collect())
    }

    /// Returns the arguments to send: those that the request chains gave, if they changed any, else the client's, with
    /// the values that the override fixes. What was changed or added is checked against the schema again.
    async fn arguments_to_send(&self, changed: Option<String>) -> Result<Option<Box<RawValue>>, CallEnd> {
        let tool = self.request.name;
        let change = self.change.filter(|change| !change.arguments.is_empty() && change.answer.is_none());
        match (change, changed) {
            (None, None) => match &self.content {
                Cow::Borrowed(_) => Ok(self.request.input.map(RawValue::to_owned)),
                Cow::Owned(coerced) => raw(coerced).map(Some),
            },
            (None, Some(text)) => {
                let (shown, places) = (&self.item.arguments, &self.upstream.checks);
                let fits = match &self.item.sent {
                    Some(own) => own.check_completed(&text, places, Some(shown), |_| false).await,
                    None => shown.check_changed(&text, places).await,
                };
                fits.map_err(|places| CallEnd::invalid_changed_arguments(tool, &places))?;
                raw(&text).map(Some)
            }
            (Some(change), changed) => {
                let text = changed.as_deref().unwrap_or(&self.content);
                let sent = match completed(text, change) {
                    Ok(sent) => self.check_sent(sent, change).await,
                    Err(places) => Err(places),
                };
                sent.map(Some).map_err(|places| CallEnd::invalid_completed_arguments(tool, &places))
            }
        }
    }

    async fn check_sent(&self, sent: Box<RawValue>, change: &ToolOverride) -> Result<Box<RawValue>, String> {
        let is_hidden = |name: &str| change.arguments.iter().any(|argument| argument.hidden && argument.name == name);
        let shown = &self.item.arguments;
        let (check, seen) = self.item.sent.as_ref().map_or((shown, None), |own| (own, Some(shown)));
        check.check_completed(sent.get(), &self.upstream.checks, seen, is_hidden).await.map(|()| sent)
    }
}

impl CallEnd {
    /// The end of a call whose arguments were not checked within its timeout.
    fn unchecked(call: &Routed<'_>) -> Self {
        let (limit, field, upstream) = (call.timeout, call.timeout_field(), &call.plan().key.name);
        let message = format!(
            "upstream {upstream}: the arguments were not checked within {limit:?}, which includes the wait for checks of other \
             calls. Nothing was sent; {field} sets how long it may take"
        );
        let reason = Reason::Timeout;
        let error = RpcError::new(REQUEST_TIMEOUT, message).with_data(json!({"reason": reason, "upstream": upstream}));
        Self::new(Reply::Error(error), CallOutcome::Timeout, reason)
    }
}

/// Returns arguments as raw JSON.
fn raw(arguments: &str) -> Result<Box<RawValue>, CallEnd> {
    let raw = Skim::of(arguments.as_bytes()).and_then(Skim::raw).map(RawValue::to_owned);
    raw.ok_or_else(|| CallEnd::internal("the arguments to send are not JSON"))
}
