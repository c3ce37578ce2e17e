//! What servers say outside of the responses to calls. Such a log message belongs to no call whose chains could be asked. So
//! none passes while a Guard is on a response of the upstream, unless its chain lets notifications pass, nor while calls are
//! refused. Then also the URIs that a server chooses are withheld.

use super::Lists;
use crate::domain::ids::ObjectKey;
use crate::domain::log_level::LogLevel;
use crate::domain::plan::UpstreamPlan;
use crate::domain::plugin::{Phase, Role};
use crate::domain::raw::RawObject;
use crate::engine::access::admission::check_plan;
use crate::engine::plan::link::{Linked, LinkedUpstream};
use crate::engine::plan::snapshot::Snapshot;

impl Lists {
    /// Takes a log message of the connection that is for this session alone.
    pub(crate) fn take_log(&self, upstream: &ObjectKey, session: &str, params: String) {
        let level = RawObject::parse(&params).ok();
        let level = level.and_then(|params| LogLevel::parse(params.get("level")?.get()));
        let (Some(level), Some(session)) = (level, self.gate.sessions.known(session)) else { return };
        if self.in_force.snapshot().withholds(upstream) || session.log_level() > level {
            return;
        }
        let is_read = session.streams.in_flight() > 0;
        let dropped = if is_read { session.mailbox.log(&params.into()) } else { 1 };
        if dropped > 0 {
            self.servers.log_dropped(upstream, dropped);
        }
    }
}

impl Lists {
    /// Takes a change of a resource. While texts of the upstream are withheld, or rules decide what each client sees, clients are told which of the
    /// resources that they subscribed to changed, and not which part of it, because the server chooses how that is called.
    pub(crate) fn take_update(&self, upstream: &ObjectKey, uri: &str) {
        let snapshot = self.in_force.snapshot();
        let shows_parts = !snapshot.withholds(upstream) && snapshot.linked.rules.is_none();
        self.subscribers.tell(upstream, uri, shows_parts);
    }
}

impl Snapshot {
    /// Whether texts of this upstream that belong to no call are withheld: calls to it are refused, or guarded.
    fn withholds(&self, upstream: &ObjectKey) -> bool {
        let found = self.linked.upstreams.iter().find(|known| known.target.plan.key == *upstream);
        let passes = |found: &LinkedUpstream| found.refusing.is_none() && !self.linked.hides_log(&found.target.plan);
        check_plan(self).is_err() || !found.is_some_and(passes)
    }
}

impl Linked {
    /// Whether a Guard is on responses of this upstream, in a chain that does not let notifications pass.
    fn hides_log(&self, upstream: &UpstreamPlan) -> bool {
        let on_responses =
            self.chains.iter().filter(|chain| chain.plan.phase == Phase::Response && chain.covers(upstream));
        let mut guarded = on_responses.filter(|chain| !chain.plan.notifications_pass).filter(|chain| {
            let mut entries = chain.entries.iter();
            chain.plan.refusing.is_some() || entries.any(|entry| entry.enforces() && entry.rules.role == Role::Guard)
        });
        guarded.next().is_some()
    }
}
