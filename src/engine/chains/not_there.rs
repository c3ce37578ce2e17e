//! The ends of requests for items that are not there, or that their client may not see.

use serde_json::json;

use super::cause::Cause;
use super::ends::CallEnds;
use super::meta::CallMeta;
use super::outcome::{CallEnd, Denial};
use crate::domain::item::{ItemKind, MAX_URI};
use crate::domain::plan::PrefixMode;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::route::Route;
use crate::domain::rpc::{INTERNAL_ERROR, RpcError};
use crate::domain::tool_name::MAX_NAME;
use crate::domain::version::Era;
use crate::engine::plan::link::LinkedUpstream;
use crate::engine::plan::snapshot::{Lookup, Snapshot};
use crate::engine::plan::withheld_item::WithheldItem;
use crate::engine::request::{CallRequest, Caller, Endpoint, ItemName, Reply};

impl CallEnds {
    /// Returns the end of a call of an item that is not there, or that no rule could allow its client: clients cannot
    /// distinguish the two. In a section, it names no other items and upstreams.
    pub(in crate::engine) fn not_there(
        &self,
        snapshot: &Snapshot,
        request: &CallRequest<'_>,
        meta: &CallMeta,
        lookup: &Lookup,
    ) -> CallEnd {
        let kind = request.kind;
        let Some(section) = snapshot.bound_section(meta.place()) else {
            return self.not_found(snapshot, request.item(), request.caller, lookup);
        };
        if let Some(refusal) = section.refusal(section.index()) {
            return self.refused(kind, Denial::refused(None, &refusal));
        }
        let upstream = &snapshot.linked.upstreams[section.index()];
        self.refused_by(snapshot, kind, upstream, request.name).unwrap_or_else(|| {
            let name: String = request.name.chars().take(MAX_URI).collect();
            let hint =
                format!(" (in this section, only what upstream {} offers is there)", section.binding.upstream.name);
            CallEnd::unknown_item(kind, request.caller.era, &name, &hint)
        })
    }

    /// Returns the end of a request whose item was not found, or that its client may not see. It names an upstream because of a
    /// URI only if the client may see a resource with this URI there.
    pub(crate) fn not_found(
        &self,
        snapshot: &Snapshot,
        item: ItemName<'_>,
        caller: &Caller,
        lookup: &Lookup,
    ) -> CallEnd {
        let may_see = |upstream: usize| {
            Route::unlisted(upstream, item.name).is_some_and(|route| snapshot.may_see(caller, &route))
        };
        match lookup {
            Lookup::Ambiguous(first, second) if may_see(*first) && may_see(*second) => {
                self.ambiguous_uri(snapshot, item.name, [*first, *second])
            }
            Lookup::Undecided(upstream) if may_see(*upstream) => self.undecided(snapshot, item, *upstream),
            _ => self.unknown_item(snapshot, item, caller.era),
        }
    }

    /// Returns the end of a call whose item is not currently listed by any upstream.
    fn unknown_item(&self, snapshot: &Snapshot, item: ItemName<'_>, era: Era) -> CallEnd {
        let kind = item.kind;
        let most = if kind.has_name() { MAX_NAME } else { MAX_URI };
        let name: String = item.name.chars().take(most).collect();
        let named = match item.endpoint {
            Endpoint::One(upstream) => Some(upstream),
            Endpoint::All if !kind.has_name() => None,
            Endpoint::All => name.split_once("__").map(|(upstream, _)| upstream),
        };
        let named = named.and_then(|name| snapshot.upstream(name)).map(|index| &snapshot.linked.upstreams[index]);
        let named = named.or_else(|| snapshot.refusing_pipeline(item));
        let Some(upstream) = named else {
            // Any of them may have the item, unless its name would say which.
            let any = !kind.has_name() || snapshot.plan().gateway.prefix != PrefixMode::Always;
            let mut all = snapshot.linked.upstreams.iter().filter(|upstream| any && upstream.target.plan.enabled);
            if let Some((chain, refusal)) =
                all.find_map(|upstream| snapshot.linked.refused_list(&upstream.target.plan, kind, &name))
            {
                return self.refused(kind, Denial::refused(Some(chain), refusal));
            }
            let down = snapshot.linked.upstreams.iter().filter(|upstream| self.down(upstream).is_some());
            let down: Vec<_> = down.map(|upstream| upstream.target.plan.key.name.as_str()).collect();
            let hint = match down.is_empty() {
                true => String::new(),
                // The client may not learn the names of upstreams of which it may see nothing.
                false if snapshot.linked.rules.is_some() => " (some upstreams are down)".to_owned(),
                false => format!(" (upstreams down: {})", down.join(", ")),
            };
            return self.not_offered(snapshot, item, era, &name, &hint);
        };
        let own = &upstream.target.plan.key.name;
        let end = self.refused_by(snapshot, kind, upstream, own_name(&name, own)).unwrap_or_else(|| {
            let hint = format!(" (no such {kind} of upstream {own} is offered now)");
            self.not_offered(snapshot, item, era, &name, &hint)
        });
        CallEnd { cause: Cause::upstream(own), ..end }
    }

    /// Returns the end of a call of an item that this upstream does not offer because it, or a chain over its list, refuses all,
    /// or because it is down.
    pub(super) fn refused_by(
        &self,
        snapshot: &Snapshot,
        kind: ItemKind,
        upstream: &LinkedUpstream,
        own_name: &str,
    ) -> Option<CallEnd> {
        let plan = &upstream.target.plan;
        if let Some(refusal) = &upstream.refusing {
            return Some(self.refused(kind, Denial::refused(None, refusal)));
        }
        if let Some(why) = self.down(upstream) {
            return Some(CallEnd::upstream_down(kind, &plan.key.name, &why));
        }
        let (chain, refusal) = snapshot.linked.refused_list(plan, kind, own_name)?;
        Some(self.refused(kind, Denial::refused(Some(chain), refusal)))
    }

    /// Returns the end of the use of a resource of which it is not known whether chains over lists withhold it.
    fn undecided(&self, snapshot: &Snapshot, item: ItemName<'_>, upstream: usize) -> CallEnd {
        let upstream = &snapshot.linked.upstreams[upstream];
        self.refused_by(snapshot, item.kind, upstream, item.name).unwrap_or_else(|| {
            self.metrics.refused(Reason::ListUnread);
            let own = &upstream.target.plan.key.name;
            CallEnd { cause: Cause::upstream(own), ..list_unread(own) }
        })
    }

    /// Returns the end of a call whose item is not there or is withheld, which clients cannot tell apart. The log says why it
    /// is withheld.
    fn not_offered(&self, snapshot: &Snapshot, item: ItemName<'_>, era: Era, name: &str, hint: &str) -> CallEnd {
        let kind = item.kind;
        // With rules, a name can be meant that the client must not learn.
        let meant = snapshot.linked.rules.is_none().then(|| item.endpoint.did_you_mean(snapshot, kind, name));
        let meant = meant.unwrap_or_default();
        let end = CallEnd::unknown_item(kind, era, name, &format!("{hint}{meant}"));
        let withheld = snapshot.withheld(&self.catalogues, &item.endpoint, kind, item.name);
        let Some(WithheldItem { upstream, name, why }) = withheld else { return end };
        let target = &snapshot.linked.upstreams[upstream].target;
        let (upstream, shown) = (&*target.plan.key.name, kind.shown(&name));
        tracing::info!(
            upstream,
            item = &*target.mask().masked(&shown),
            "a request names a {kind} that is withheld: {why}"
        );
        CallEnd { reason: Some(Reason::Withheld.to_string()), ..end }
    }

    /// Returns the end of the reading of a resource that templates of several upstreams fit. None of them may take the URIs
    /// of another.
    fn ambiguous_uri(&self, snapshot: &Snapshot, uri: &str, upstreams: [usize; 2]) -> CallEnd {
        self.metrics.refused(Reason::ItemConflict);
        let uri: String = uri.chars().take(MAX_URI).collect();
        CallEnd::ambiguous_uri(&uri, upstreams.map(|index| &*snapshot.linked.upstreams[index].target.plan.key.name))
    }

    /// Returns why the last attempt to reach an upstream failed, or that it is starting, in words that clients can see. `None` if
    /// the attempt succeeded, if a list of the upstream was ever read, or if the upstream is disabled.
    fn down(&self, upstream: &LinkedUpstream) -> Option<String> {
        let state = self.catalogues.upstream(&upstream.target.plan.key);
        let is_unknown = state.catalogue.is_none() && upstream.target.plan.enabled;
        let why = state.starting(self.clock.monotonic()).or(state.down);
        why.filter(|_| is_unknown)
    }
}

/// Returns the server's own name of an item with this public name, as far as the name shows it.
fn own_name<'a>(public: &'a str, upstream: &str) -> &'a str {
    public.strip_prefix(upstream).and_then(|rest| rest.strip_prefix("__")).unwrap_or(public)
}

/// The end of the use of a resource while the list of resources of its upstream is unread, which chains have to see.
fn list_unread(upstream: &str) -> CallEnd {
    let reason = Reason::ListUnread;
    let message = format!(
        "the gateway could not read resources/list of upstream {upstream}, so that it is not known which resources its plugins \
         withhold. Nothing was sent. Until it can, only what a list names can be used"
    );
    let data = json!({"reason": reason, "upstream": upstream});
    CallEnd::new(Reply::Error(RpcError::new(INTERNAL_ERROR, message).with_data(data)), CallOutcome::Refused, reason)
}
