//! The report about this process that the operator reads.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::Views;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{PluginPlan, PrefixMode, TransportPlan};
use crate::domain::plugin::Failure;
use crate::domain::ports::{LinkedPlugin, Loading};
use crate::domain::reason::Reason;
use crate::domain::report::{
    MAX_REFUSALS, MAX_TOOL_BYTES, MAX_TOOLS, NotLoadedReport, PendingReport, PluginReport, PluginState, RefusingReport,
    Report, ToolReport, UpstreamReport, bound_tools,
};
use crate::domain::seen::SeenNames;
use crate::domain::upstream::Target;
use crate::engine::catalogue::pinning::unapproved;
use crate::engine::chains::routed_call::timestamp;
use crate::engine::plan::form::FailedForm;
use crate::engine::plan::link::LinkedUpstream;
use crate::engine::plan::snapshot::Snapshot;

impl Views {
    /// Returns the current report. Equal states have equal reports.
    pub fn report(&self) -> Report {
        let snapshot = self.in_force.snapshot();
        let mut upstreams: Vec<_> =
            snapshot.linked.upstreams.iter().enumerate().map(|(i, u)| self.report_upstream(&snapshot, i, u)).collect();
        upstreams.sort_by(|a, b| a.upstream.cmp(&b.upstream));
        bound_tools(&mut upstreams, MAX_TOOL_BYTES);
        let mut plugins: Vec<_> = snapshot.plan().plugins.iter().map(|p| self.report_plugin(&snapshot, p)).collect();
        plugins.sort_by(|a, b| a.plugin.cmp(&b.plugin));
        Report {
            revision: snapshot.plan().revision.clone(),
            restrictions: snapshot.plan().restrictions.clone(),
            problems: self.problems(&snapshot),
            upstreams,
            not_loaded: snapshot.linked.not_loaded.iter().filter(|lost| lost.own).map(not_loaded).collect(),
            plugins,
            refusing: self.refusing_chains(&snapshot),
            not_in_force: self.not_in_force(&snapshot),
            secrets: snapshot.linked.secrets.clone(),
            sandbox_lacks: self.plugins.sandbox().lacks,
            seal_key: self.seal_key().to_owned(),
            seen_names: self.unpublished_names(&snapshot),
            pending: self.pending.load().as_deref().cloned(),
        }
    }

    /// Sets the revision that should run but cannot, for the report; `None` if there is no such revision.
    pub fn set_pending(&self, pending: Option<PendingReport>) {
        self.pending.store(pending.map(Into::into));
    }

    /// Returns the tool names of the plan's upstreams that other processes do not know.
    fn unpublished_names(&self, snapshot: &Snapshot) -> SeenNames {
        let published = self.catalogues.published.load();
        let keep_own = snapshot.plan().gateway.prefix == PrefixMode::OnConflict;
        let Some(published) = published.as_deref().filter(|_| keep_own) else { return SeenNames::default() };
        let planned: BTreeSet<_> = snapshot.plan().upstreams.iter().map(|upstream| upstream.key.to_string()).collect();
        let mut names = SeenNames::clone(&self.catalogues.seen.borrow());
        names.retain(|upstream| planned.contains(upstream));
        names.subtract(published);
        names
    }

    /// Returns the transport of an upstream, as status has it.
    fn transport(&self, target: &Target) -> Option<&'static str> {
        match target.plan.transport {
            TransportPlan::External { .. } if self.servers.is_over_sse(target) => Some("SSE"),
            TransportPlan::External { .. } => Some("StreamableHTTP"),
            TransportPlan::Process { .. } => Some("Stdio"),
            TransportPlan::Pipeline(_) => Some("Pipeline"),
            TransportPlan::Plugin(_) => Some("Plugin"),
            TransportPlan::None => None,
        }
    }

    fn report_upstream(&self, snapshot: &Snapshot, index: usize, upstream: &LinkedUpstream) -> UpstreamReport {
        let plan = &upstream.target.plan;
        let (state, now) = (self.catalogues.upstream(&plan.key), self.clock.monotonic());
        let mut report = UpstreamReport {
            upstream: plan.key.to_string(),
            connection_state: state.connection_state(now, snapshot.call_timeout(plan)),
            failures: state.health.failures,
            auto_disabled: !state.health.in_routing(),
            auto_disabled_at: state.auto_disabled_at.map(timestamp),
            enable: plan.enable.clone(),
            last_connected_at: state.connected_at.map(timestamp),
            error: state.error(upstream.refusing.as_ref(), now),
            transport: self.transport(&upstream.target).map(str::to_owned),
            ..UpstreamReport::default()
        };
        if let Some(facts) = state.facts {
            (report.era, report.version) = (Some(format!("{:?}", facts.era)), Some(facts.version));
            (report.server_name, report.server_version) = (facts.server_name, facts.server_version);
        }
        if let Some(list) = state.catalogue {
            let unapproved = unapproved(plan, Some(&list), &state.first_seen);
            report.tool_count = Some(u32::try_from(list.tools().count()).unwrap_or(u32::MAX));
            report.tools_revision = Some(list.tools_revision().to_owned());
            let routes = snapshot.routes.tools().filter(|route| route.upstream == index);
            let public: HashMap<_, _> = routes.map(|route| (route.item.name.as_str(), &route.public)).collect();
            let tools = list.pins().map(|(tool, sha256)| ToolReport {
                name: tool.clone(),
                r#as: public.get(tool.as_str()).and_then(|name| (*name).clone()),
                sha256: sha256.clone(),
                approved: plan.pinning.as_ref().map(|_| !unapproved.contains_key(tool.as_str())),
            });
            report.tools = tools.collect();
            report.tools.truncate(MAX_TOOLS);
        }
        report
    }

    /// Returns plugins that run in an older form or whose first form is still being loaded, and the chains that name
    /// them.
    fn not_in_force(&self, snapshot: &Snapshot) -> Vec<ObjectId> {
        let linked = &snapshot.linked;
        let is_underway = |newest: &Arc<LinkedPlugin>| self.plugins.loading(newest) == Loading::Underway;
        let wanted = linked.wanted().into_iter();
        let late = wanted
            .filter(|(key, newest)| linked.stand_ins.contains_key(*key) || newest.as_ref().is_ok_and(is_underway));
        let late: BTreeSet<_> = late.map(|(key, _)| key).collect();
        let chains = snapshot.plan().chains.iter();
        let chains = chains.filter(|chain| chain.entries.iter().any(|entry| late.contains(&entry.plugin)));
        let plugins = late.iter().map(|key| ObjectId::new(Kind::Plugin, (*key).clone()));
        let mut found: Vec<_> =
            plugins.chain(chains.map(|chain| ObjectId::new(Kind::PluginChain, chain.key.clone()))).collect();
        found.sort();
        found
    }

    fn refusing_chains(&self, snapshot: &Snapshot) -> Vec<RefusingReport> {
        let chains = snapshot.linked.chains.iter();
        let mut refusing: Vec<_> =
            chains.filter_map(|chain| Some((&chain.name, self.loads.refusing(chain)?))).collect();
        refusing.sort_by_key(|(chain, _)| *chain);
        let reported = refusing.into_iter().enumerate().map(|(place, (chain, refusal))| RefusingReport {
            chain: chain.clone(),
            reason: refusal.reason.as_str().to_owned(),
            message: if place < MAX_REFUSALS { refusal.message } else { String::new() },
        });
        reported.collect()
    }

    fn report_plugin(&self, snapshot: &Snapshot, plugin: &PluginPlan) -> PluginReport {
        let entry = snapshot.linked.entry_of(&plugin.key);
        let failure = entry.and_then(|entry| self.loads.unable(entry));
        let state = match &failure {
            _ if !plugin.enabled => PluginState::Disabled,
            Some(_) => PluginState::Failed,
            None if entry.is_none() && !snapshot.plan().has_step_of(&plugin.key) => PluginState::Registered,
            None => PluginState::Enabled,
        };
        let failure = failure.filter(|_| state == PluginState::Failed);
        let reason = |failure: &Failure| match self.plugins.sandbox().refusal() {
            Some(_) => Reason::SandboxUnavailable,
            None => failure.reason,
        };
        let stand_in = snapshot.linked.stand_ins.get(&plugin.key).map(|form| &form.plugin);
        let code = stand_in.map(|older| &*older.code);
        let code = code.or_else(|| snapshot.plan().code.get(&plugin.digest).map(String::as_str));
        let plugin = stand_in.map_or(plugin, |older| &older.plan);
        PluginReport {
            plugin: plugin.key.to_string(),
            state,
            reason: failure.as_ref().map(|failure| reason(failure).as_str().to_owned()),
            message: failure.map(|failure| failure.message),
            digest: plugin.digest.clone(),
            size_bytes: code.and_then(|code| u64::try_from(code.len()).ok()),
            protocol: code.map(|_| format!("{:?}", plugin.protocol)),
        }
    }
}

fn not_loaded(lost: &FailedForm) -> NotLoadedReport {
    NotLoadedReport {
        plugin: lost.plugin.to_string(),
        digest: lost.digest.clone(),
        message: lost.failure.message.clone(),
    }
}
