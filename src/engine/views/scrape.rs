//! Renders all metrics. Gauges of the current state are read when the metrics are scraped.

use std::borrow::Cow;

use super::Views;
use crate::domain::budget::Category;
use crate::domain::plugin::{FailurePolicy, Mode, Role};
use crate::engine::catalogue::pinning::unapproved;
use crate::engine::plan::link::{Linked, LinkedChain};
use crate::telemetry::scrape_input::{PlannedNames, ScrapeInput};

/// Returns all metrics in the text format of Prometheus.
pub fn render_metrics(views: &Views) -> String {
    let snapshot = views.in_force.snapshot();
    let chains = &snapshot.linked.chains;
    let refusing = chains.iter().filter_map(|chain| Some((&*chain.name, views.loads.refusing(chain)?.reason.as_str())));
    let weakened = chains.iter().filter(|chain| is_weakened(chain)).map(|chain| (&*chain.name, "GuardWeakened"));
    let upstreams = snapshot.linked.upstreams.iter().map(|upstream| &upstream.target.plan);
    let pinned = upstreams.filter(|plan| plan.pinning.is_some());
    let unapproved = pinned.map(|plan| {
        let state = views.catalogues.upstream(&plan.key);
        (&*plan.key.name, unapproved(plan, state.catalogue.as_deref(), &state.first_seen).len())
    });
    views.metrics.render(&ScrapeInput {
        load: views.plugins.load(),
        workers: views.plugins.workers(),
        refusing: refusing.collect(),
        failing_open: weakened.collect(),
        unapproved: unapproved.collect(),
        names: names(&snapshot.linked),
        held: Category::ALL.map(|what| (what.as_label(), views.budget.held(what), views.budget.refused(what))).into(),
        dropped: views.records.dropped(),
        written: views.records.written(),
        queued: views.records.queued(),
        audit: views.audit.port.as_ref().map(|audit| audit.totals()).unwrap_or_default(),
    })
}

/// Returns the names that metrics can have series for, including plugins that chains name but that do not exist.
fn names(linked: &Linked) -> PlannedNames<'_> {
    let entries = linked.chains.iter().flat_map(|chain| &chain.entries).map(|entry| Cow::Borrowed(&*entry.name));
    let plugins = linked.plan.plugins.iter().map(|plugin| Cow::Owned(plugin.key.to_string()));
    PlannedNames {
        plugins: entries.chain(plugins).collect(),
        chains: linked.chains.iter().map(|chain| &*chain.name).collect(),
        upstreams: linked.upstreams.iter().map(|upstream| &*upstream.target.plan.key.name).collect(),
    }
}

/// Whether a call can pass although a Guard of the chain failed or runs as a shadow.
fn is_weakened(chain: &LinkedChain) -> bool {
    let mut guards = chain.entries.iter().filter(|entry| entry.enabled && entry.rules.role == Role::Guard);
    guards.any(|entry| match entry.plan.mode {
        Mode::Enforce => entry.rules.policy != FailurePolicy::Fail,
        Mode::Shadow => entry.plan.unavailable.is_none(),
    })
}
