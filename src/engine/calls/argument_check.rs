//! The check of a call's arguments before anything is sent. It can wait for those of other calls: so it has a time limit, and
//! what came into force meanwhile counts.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::poll;
use serde_json::json;
use tokio::time::{Instant, timeout, timeout_at};

use super::outcome::{CallEnd, REQUEST_TIMEOUT};
use super::routed_call::Routed;
use crate::domain::plan::ToolOverride;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::rpc::RpcError;
use crate::domain::upstream::OutMembers;
use crate::engine::plan::schema::Arguments;
use crate::engine::request::Reply;

/// The check of the arguments of one call, on every snapshot that the call goes on with until it is sent.
#[derive(Default)]
pub(super) struct ArgumentCheck {
    /// The members of `params` that are sent; `None` if request chains decide on them.
    pub(super) members: Option<OutMembers>,
    /// When the first check began to wait.
    waits_since: Option<Instant>,
    /// What the arguments were checked against, if that took a wait.
    passed: Option<Rules>,
}

/// What arguments are checked against.
struct Rules {
    shown: Arc<Arguments>,
    own: Option<Arc<Arguments>>,
    change: Option<ToolOverride>,
    has_chains: bool,
}

impl Rules {
    fn of(call: &Routed<'_>) -> Self {
        let item = call.item;
        let (shown, own, change) = (Arc::clone(&item.arguments), item.sent.clone(), call.change.cloned());
        Self { shown, own, change, has_chains: !item.request.is_empty() }
    }

    fn are_those_of(&self, call: &Routed<'_>) -> bool {
        let item = call.item;
        Arc::ptr_eq(&self.shown, &item.arguments)
            && self.own.as_ref().map(Arc::as_ptr) == item.sent.as_ref().map(Arc::as_ptr)
            && self.change.as_ref() == call.change
            && self.has_chains != item.request.is_empty()
    }
}

impl ArgumentCheck {
    /// Checks the arguments of the call, unless they have passed the same check. Returns whether it waited for that.
    ///
    /// # Errors
    /// If they do not fit, or if the waits of all checks of the call take longer than its timeout.
    pub(super) async fn has_waited(&mut self, call: &Routed<'_>) -> Result<bool, CallEnd> {
        if self.passed.as_ref().is_some_and(|passed| passed.are_those_of(call)) {
            return Ok(false);
        }
        let mut checked = pin!(call.checked_members());
        if let Poll::Ready(members) = poll!(checked.as_mut()) {
            self.members = members?;
            return Ok(false);
        }
        let until = *self.waits_since.get_or_insert_with(Instant::now) + call.timeout;
        self.members = timeout_at(until, checked).await.map_err(|_| CallEnd::unchecked(call))??;
        self.passed = Some(Rules::of(call));
        Ok(true)
    }
}

impl Routed<'_> {
    /// Checks the arguments as the client sent them. Returns the members of `params` that are sent; `None` if request chains
    /// decide on them.
    async fn checked_members(&self) -> Result<Option<OutMembers>, CallEnd> {
        let fit = self.check_arguments().await;
        fit.map_err(|places| CallEnd::invalid_arguments(self.request.name, &places))?;
        if self.item.request.is_empty() { self.members_to_send(None).await.map(Some) } else { Ok(None) }
    }

    /// Like [`Self::members_to_send`], within the timeout of the call.
    pub(super) async fn members_in_time(&self, changed: Option<String>) -> Result<OutMembers, CallEnd> {
        timeout(self.timeout, self.members_to_send(changed)).await.map_err(|_| CallEnd::unchecked(self))?
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
