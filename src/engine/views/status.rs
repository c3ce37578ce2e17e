//! The status of the gateway as a whole.

use schemars::JsonSchema;
use serde::Serialize;

use super::Views;
use super::dependencies::dependency_problems;
use super::objects::{ChainView, UpstreamView};
use super::plugins::PluginView;
use super::sections::SectionView;
use crate::domain::ports::RecentFailures;
use crate::domain::problem::{Level, Problem};
use crate::domain::reason::Reason;
use crate::domain::report::{OWN_SEAL_KEY, PendingReport};
use crate::engine::plan::snapshot::Snapshot;

/// The state of the gateway: what runs, and what is wrong with it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
    /// The gateway, as `namespace/name`.
    pub gateway: String,
    /// The version of the program.
    pub version: &'static str,
    /// Revision of the plan in force; empty before the first plan.
    pub revision: String,
    /// Whether the stop switch refuses every call.
    pub stopped: bool,
    /// What has stopped the gateway, `spec.stopped` or `admin API`; absent if it is not stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<&'static str>,
    /// Why the plan refuses every call, apart from the stop switch; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusing: Option<String>,
    /// A revision that should run but cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingReport>,
    /// `shared` if session ids are sealed with keys from a file, so that other replicas can take sessions over; else
    /// `own`.
    pub seal_key: &'static str,
    /// Number of tools that the gateway offers now.
    pub tools: usize,
    /// Every upstream of the plan.
    pub upstreams: Vec<UpstreamView>,
    /// Every plugin of the plan.
    pub plugins: Vec<PluginView>,
    /// All chains of the plan, in the order in which they run.
    pub chains: Vec<ChainView>,
    /// Every binding of a section, in the order of the plan.
    pub sections: Vec<SectionView>,
    /// Problems with the plan, with linking it, and with the tool lists; and why edits of manifests are not in force, if
    /// all of them are left out.
    pub problems: Vec<Problem>,
}

/// How long executions of plugins count as recent, in milliseconds.
const RECENT_MS: u64 = 300_000;

impl Views {
    /// Returns the recent executions of a plugin that failed; `None` if none did.
    pub(super) fn recent_failures(&self, plugin_id: &str) -> Option<RecentFailures> {
        self.records.failures(plugin_id, self.clock.unix_millis().saturating_sub(RECENT_MS))
    }

    /// Returns `shared` if this process shares keys for session ids with other replicas, else `own`.
    pub(super) fn seal_key(&self) -> &'static str {
        if self.gate.sessions().is_shared() { "shared" } else { OWN_SEAL_KEY }
    }

    /// Returns the problems of a snapshot, those of the endpoints of this process, and those of what it depends on.
    pub(super) fn problems(&self, snapshot: &Snapshot) -> Vec<Problem> {
        let mut problems = dependency_problems(self, snapshot);
        // The compiler does not know whether the command line names a store.
        let is_known = |problem: &&Problem| problem.reason != Reason::AuditUnavailable;
        problems.extend(snapshot.problems().iter().filter(is_known).cloned());
        problems.extend(self.endpoints.problems());
        problems
    }

    /// Returns what has stopped the gateway: `spec.stopped`, or `admin API`. `None` if it is not stopped.
    pub fn stopped_by(&self) -> Option<&'static str> {
        let by_admin = || self.gate.is_stopped_by_admin().then_some("admin API");
        self.in_force.snapshot().plan().gateway.stopped.then_some("spec.stopped").or_else(by_admin)
    }

    /// Returns the current status.
    pub fn status(&self) -> StatusView {
        let snapshot = self.in_force.snapshot();
        let gateway = &snapshot.plan().gateway;
        let frozen = self.readings.failure().map(|why| {
            let message = format!("no edit of the manifests counts until this is put right: {why}");
            Problem::without_object(Level::Error, Reason::PreviousRevision, message)
        });
        StatusView {
            gateway: gateway.key.to_string(),
            version: env!("CARGO_PKG_VERSION"),
            revision: snapshot.plan().revision.clone(),
            stopped: self.stopped_by().is_some(),
            stopped_by: self.stopped_by(),
            refusing: gateway.refusing.as_ref().map(|refusal| refusal.message.clone()),
            pending: self.pending.load().as_deref().cloned(),
            seal_key: self.seal_key(),
            tools: snapshot.routes.tools().filter(|route| route.public.is_some()).count(),
            upstreams: self.upstreams(),
            plugins: self.plugins(),
            chains: self.chains(),
            sections: SectionView::all(&snapshot.plan().sections),
            problems: frozen.into_iter().chain(self.problems(&snapshot)).collect(),
        }
    }
}
