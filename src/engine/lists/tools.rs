//! Reads the list of tools of an upstream, after a probe.

use std::time::Duration;

use super::Lists;
use crate::domain::budget::{Category, NoRoom};
use crate::domain::ids::ObjectKey;
use crate::domain::item::{ItemKind, Listed};
use crate::domain::reason::Reason;
use crate::domain::upstream::{Target, UpstreamError};

/// Which lists a probe makes due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DueLists {
    pub(super) tools: bool,
    /// All others after a connection was made, and else those of which the server does not say how long they are fresh.
    pub(super) others: bool,
}

impl Lists {
    /// Called after a probe that succeeded: reads the tool list if it is due, and returns how long to wait before the
    /// next probe. The list is due at the start, after a reconnection, after the server has reported a change, and at
    /// each probe of a modern server that does not say how long the list is fresh; if it does, when that time is over. The
    /// other lists are read after it.
    pub(super) async fn refresh_tools(&self, target: &Target, due: DueLists, was_connected: bool) -> Option<Duration> {
        let plan = &target.plan;
        let known = self.catalogues.upstream(&plan.key);
        if due.tools || !known.knows_tools() || known.stale {
            let (began, is_announced) = (self.clock.monotonic(), self.take_announced(&plan.key, ItemKind::Tool));
            match self.ask_for_tools(target).await {
                Ok(listed) => {
                    self.in_force.announcing(ItemKind::Tool, is_announced, || self.take_tools(target, listed, began))
                }
                Err(UpstreamError::NoRoom) => self.keep_list(&plan.key, NoRoom),
                Err(error) => {
                    self.catalogues.update(&plan.key, |state| state.announced[ItemKind::Tool as usize] |= is_announced);
                    match &error {
                        UpstreamError::Plugin(_) => return self.note_failure(target, "", &error),
                        _ if error.reason() == Reason::ConnectFailed => {
                            return self.note_failure(target, "tools/list: ", &error);
                        }
                        _ => self.note_tools_unread(target, &error),
                    }
                }
            }
        }
        if due.others {
            let interval = Duration::from_secs(u64::from(plan.health.period_seconds));
            self.catalogues.update(&plan.key, |state| match was_connected {
                true => state.others.ask_untimed(self.clock.monotonic(), interval),
                false => state.others.ask_all(),
            });
        }
        let (wait, now) = (self.note_reachable(target, was_connected), self.clock.monotonic());
        let expires = self.catalogues.upstream(&plan.key).fresh_until.filter(|until| *until > now);
        Some(expires.map_or(wait, |until| wait.min(until - now)))
    }

    fn take_tools(&self, target: &Target, listed: Listed, began: Duration) {
        let (key, now) = (&target.plan.key, self.clock.monotonic());
        let fresh_for = self.fresh_for(&listed, now.saturating_sub(began));
        let was_faulty = self.catalogues.update(key, |state| {
            state.fresh_until = fresh_for.map(|fresh_for| now + fresh_for);
            state.tools_fault.take().is_some()
        });
        let reservation = self.budget.reservation(Category::List);
        match self.catalogues.set_list(key, ItemKind::Tool, listed.masked(&target.mask()), reservation) {
            Ok(has_changed) if has_changed || was_faulty => self.in_force.relist(),
            Ok(_) => {}
            Err(no_room) => self.keep_list(key, no_room),
        }
    }

    /// Records why the list of tools cannot be read. The upstream keeps its other items, and the tools that were read before.
    fn note_tools_unread(&self, target: &Target, error: &UpstreamError) {
        let (key, fault) = (&target.plan.key, format!("{}: {error}", error.reason()));
        let is_news = self.catalogues.update(key, |state| {
            state.stale = true;
            state.tools_fault.replace(fault.clone()) != Some(fault.clone())
        });
        if is_news {
            tracing::warn!(upstream = key.name, "tools/list was not read: {fault}");
            self.in_force.relist();
        }
    }

    async fn ask_for_tools(&self, target: &Target) -> Result<Listed, UpstreamError> {
        let key = &target.plan.key;
        let timeout = self.in_force.snapshot().plan().gateway.limits.list_timeout_ms;
        let timeout = Duration::from_millis(u64::from(timeout));
        // Cleared before the request, so that a change that is reported while the answer is under way causes another
        // request.
        self.catalogues.update(key, |state| state.stale = false);
        let listed = match (target.plan.pipeline(), target.plan.provider()) {
            (Some(plan), _) => self.pipelines.tool_of_pipeline(target, plan, timeout).await,
            (_, Some(provider)) => self.pipelines.provided_tools(target, provider, timeout).await,
            (None, None) => self.servers.list(target, ItemKind::Tool, timeout).await,
        };
        if listed.is_err() {
            self.catalogues.update(key, |state| state.stale = true);
        }
        listed
    }

    /// Keeps the last list until there is room for the new one. The upstream is not to blame, so calls to it continue.
    fn keep_list(&self, key: &ObjectKey, no_room: NoRoom) {
        self.catalogues.update(key, |state| state.stale = true);
        tracing::warn!(upstream = key.name, "its tool list was not taken: {no_room}");
    }
}
