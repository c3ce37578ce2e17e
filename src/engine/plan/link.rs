//! Links a plan: compiles globs and CEL, merges configurations, inserts secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::api_keys::{admin_methods, methods};
use super::check_places::{CheckPlaces, CheckRoom};
pub(crate) use super::entries::{Globs, LinkedChain, LinkedEntry};
use super::form::{FailedForm, StandIns};
use super::linked_pipeline::LinkedPipeline;
use super::listener_certificates::{ListenerCertificates, listener_certificates};
use super::secret_values::{NamedValues, empty_values, field_of, fit, put_in, secret_states, secret_values};
use crate::config::access::authorize::Rules;
use crate::config::compile::merge_config;
use crate::config::expr::Expression;
use crate::config::redaction::Redaction;
use crate::config::sections::Sections;
use crate::config::variables::OF_ENTRIES;
use crate::domain::digest::revision;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{
    ChainPlan, EntryPlan, PhasePluginPlan, Plan, PluginPlan, Refusal, Runtime, ToolDiscovery, UpstreamPlan,
};
use crate::domain::plugin::Failure;
use crate::domain::ports::{LinkedPlugin, Methods, Secrets};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::report::SecretReport;
use crate::domain::upstream::{Target, UpstreamTarget};
use crate::domain::verdict::EntryRules;

/// A linked plan: its secrets are resolved, and its globs and CEL are compiled. It contains no tool lists.
pub(crate) struct Linked {
    pub(crate) plan: Arc<Plan>,
    /// The chains in the order in which they run.
    pub(crate) chains: Vec<Arc<LinkedChain>>,
    /// The rules of the gateway; `None` if everything is allowed.
    pub(crate) rules: Option<Arc<Rules>>,
    /// The methods of authentication, with their keys.
    pub(crate) methods: Arc<Methods>,
    /// Those of the admin API.
    pub(crate) admin_methods: Arc<Methods>,
    /// The certificates of listeners.
    pub(crate) certificates: Arc<ListenerCertificates>,
    /// The bindings of sections.
    pub(crate) sections: Arc<Sections>,
    /// The upstreams in the plan's order, including those that cannot be reached and therefore refuse calls.
    pub(crate) upstreams: Arc<[LinkedUpstream]>,
    /// The plugins of the plan. Each is linked, or has the reason why it cannot run here.
    pub(crate) plugins: BTreeMap<ObjectKey, Result<Arc<LinkedPlugin>, Failure>>,
    /// Older forms of plugins that run instead of those of the plan.
    pub(crate) stand_ins: StandIns,
    /// Plugins of the plan that could not be loaded.
    pub(crate) not_loaded: Vec<FailedForm>,
    /// The state of each key of a Secret that the plan names.
    pub(crate) secrets: Vec<SecretReport>,
    /// How the content of calls is redacted; `None` if the history does not keep it.
    pub(crate) redaction: Option<Arc<Redaction>>,
    /// Cancels its token when no call or snapshot holds this plan any more.
    let_go: LetGo,
}

#[derive(Default)]
struct LetGo(CancellationToken);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// An upstream with its compiled filters.
pub(crate) struct LinkedUpstream {
    pub(crate) target: Target,
    pub(crate) include: Globs,
    pub(crate) exclude: Globs,
    /// Why calls to the upstream are refused; `None` if they are not.
    pub(crate) refusing: Option<Refusal>,
    /// The pipeline that the gateway runs in the place of a server.
    pub(crate) pipeline: Option<Arc<LinkedPipeline>>,
    /// The places for checks of arguments that take long.
    pub(crate) checks: CheckPlaces,
}

impl LinkedUpstream {
    /// Whether the lists of the upstream are read: it does not refuse its calls, or it is a pipeline, whose tool is known anyway.
    /// Clients could not read a definition with a schema that is not valid.
    pub(crate) fn lists(&self) -> bool {
        let is_readable = |refusal: &Refusal| self.pipeline.is_some() && refusal.reason != Reason::InvalidSchema;
        self.refusing.as_ref().is_none_or(is_readable)
    }
}

/// Links a plan. `found` are the Problems of the plan, which say why it lacks the code of a plugin. A missing secret
/// becomes a Problem of the plugin or upstream that needs it. The entries of that plugin then fail, and calls to that
/// upstream are refused. The upstreams share `room` for checks of arguments that take long.
pub(crate) fn link(
    plan: Plan,
    found: &[Problem],
    secrets: &impl Secrets,
    room: &Arc<CheckRoom>,
) -> (Linked, Vec<Problem>) {
    let mut problems = Vec::new();
    let upstreams = plan.upstreams.iter().map(|u| link_upstream(&plan, u, secrets, room, &mut problems)).collect();
    let mut plugins = BTreeMap::new();
    for plugin in &plan.plugins {
        let linked = link_plugin(&plan.gateway.runtime, plan.code.get(&plugin.digest), plugin, secrets);
        if let Err(Unlinked::Secret(refusal)) = &linked {
            let object = ObjectId::new(Kind::Plugin, plugin.key.clone());
            problems.push(Problem::error(refusal.reason, object, "spec.env", refusal.message.clone()));
        }
        plugins.insert(plugin.key.clone(), linked.map_err(|why| why.failure(plugin, found)));
    }
    // Rules were checked when the manifest was read. Without all of them, nothing is kept.
    let rules = plan.gateway.history.redact.as_ref();
    let redaction = rules.and_then(|rules| Redaction::new(rules, &secret_values(&plan, secrets)).ok()).map(Arc::new);
    let (methods, unusable) = methods(&plan, secrets);
    let (admin_methods, unusable_token) = admin_methods(&plan, secrets);
    problems.extend(unusable.into_iter().chain(unusable_token));
    let certificates = Arc::new(listener_certificates(&plan.gateway, secrets));
    let secrets = secret_states(&plan, secrets);
    let (methods, admin_methods) = (Arc::new(methods), Arc::new(admin_methods));
    let mut linked =
        Linked { upstreams, secrets, plugins, redaction, methods, admin_methods, certificates, ..Linked::empty(plan) };
    linked.chains = linked.link_chains();
    (linked, problems)
}

fn link_upstream(
    plan: &Plan,
    upstream: &UpstreamPlan,
    secrets: &impl Secrets,
    room: &Arc<CheckRoom>,
    problems: &mut Vec<Problem>,
) -> LinkedUpstream {
    let NamedValues { values: named, proofs, field, are_headers } = NamedValues::of(&upstream.transport);
    let object = ObjectId::new(upstream.kind(), upstream.key.clone());
    let (values, missing) = put_in(&named, secrets, fit(are_headers));
    let (tls, no_proof) = put_in(&proofs, secrets, Ok);
    for (missing, field) in [(&missing, field), (&no_proof, field_of(no_proof.as_ref()))] {
        problems.extend(missing.iter().map(|it| Problem::error(it.reason, object.clone(), field, &it.message)));
    }
    if are_headers {
        let empty = empty_values(&named, &values);
        let warning = |message| Problem::warning(Reason::InvalidSecret, object.clone(), field, message);
        problems.extend(empty.map(warning));
    }
    let max_response_size = upstream.max_response_size.unwrap_or(plan.gateway.limits.max_response_size);
    LinkedUpstream {
        target: Arc::new(UpstreamTarget {
            plan: upstream.clone(),
            values,
            tls,
            allowed_addresses: plan.gateway.allowed_addresses.clone(),
            max_response_size,
        }),
        include: Globs::new(&upstream.include),
        exclude: Globs::new(&upstream.exclude),
        pipeline: upstream.pipeline().map(|plan| Arc::new(LinkedPipeline::new(plan))),
        refusing: upstream.refusing.clone().or(missing).or(no_proof),
        checks: CheckPlaces::new(room),
    }
}

/// Why a plugin cannot be linked.
pub(crate) enum Unlinked {
    /// The plan does not hold the plugin's code.
    Code,
    /// The value of one of the plugin's environment variables is missing.
    Secret(Refusal),
}

impl Unlinked {
    fn failure(self, plugin: &PluginPlan, found: &[Problem]) -> Failure {
        let object = ObjectId::new(Kind::Plugin, plugin.key.clone());
        let of_code = |problem: &&Problem| problem.is_error() && problem.object.as_ref() == Some(&object);
        let message = match (self, &plugin.path, found.iter().find(of_code)) {
            (Self::Secret(refusal), ..) => refusal.message,
            (Self::Code, Some(_), Some(Problem { field, message, reason, .. })) => {
                format!("its code is not accepted: {field}: {message} ({reason})")
            }
            (Self::Code, Some(path), None) => format!("its file {path} was not read"),
            (Self::Code, None, _) => format!("the plan does not hold code {:.12}", plugin.digest),
        };
        Failure::new(Reason::NotLoaded, message)
    }
}

/// Combines a plugin with its code and the values of its environment.
pub(crate) fn link_plugin(
    runtime: &Runtime,
    code: Option<&String>,
    plugin: &PluginPlan,
    secrets: &impl Secrets,
) -> Result<Arc<LinkedPlugin>, Unlinked> {
    let code = code.ok_or(Unlinked::Code)?;
    let (env, missing) = put_in(&plugin.env, secrets, Ok);
    if let Some(missing) = missing {
        return Err(Unlinked::Secret(missing));
    }
    let pool_size = plugin.pool_size.unwrap_or(runtime.pool_size_per_plugin);
    let exposed: Vec<_> = env.iter().map(|(name, value)| (name, value.expose())).collect();
    let made_of = (
        &plugin.key,
        &plugin.digest,
        &plugin.file_name,
        (&plugin.folder, &plugin.siblings),
        (plugin.protocol, plugin.reuse, plugin.encoding, plugin.concurrency, &plugin.wrapper),
        (&plugin.limits, &plugin.egress, plugin.max_executions, plugin.max_lifetime_seconds),
        // Workers of other plugins than middleware get these once, when they start.
        (!plugin.kind.is_middleware()).then_some((&plugin.version, &plugin.config, &plugin.descriptor)),
    );
    let identity = revision(&(made_of, exposed, pool_size, &runtime.node_executable, runtime.sandbox));
    Ok(Arc::new(LinkedPlugin { plan: plugin.clone(), code: code.as_str().into(), env, identity, pool_size }))
}

impl Linked {
    /// Whether clients find the tools of upstreams by a search, instead of seeing all of them.
    pub(crate) fn finds_tools(&self) -> bool {
        self.plan.gateway.tool_discovery == ToolDiscovery::Search
    }

    /// The keys of the upstreams, in their order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.upstreams.iter().map(|upstream| &upstream.target.plan.key)
    }

    /// Returns the same plan, linked with these older forms and these failed loads.
    pub(crate) fn relinked(&self, stand_ins: StandIns, not_loaded: Vec<FailedForm>) -> Self {
        let mut linked = Self {
            plan: Arc::clone(&self.plan),
            chains: Vec::new(),
            rules: self.rules.clone(),
            methods: Arc::clone(&self.methods),
            admin_methods: Arc::clone(&self.admin_methods),
            certificates: Arc::clone(&self.certificates),
            sections: Arc::clone(&self.sections),
            upstreams: Arc::clone(&self.upstreams),
            plugins: self.plugins.clone(),
            secrets: self.secrets.clone(),
            redaction: self.redaction.clone(),
            stand_ins,
            not_loaded,
            let_go: LetGo::default(),
        };
        linked.chains = linked.link_chains();
        linked
    }

    fn link_chains(&self) -> Vec<Arc<LinkedChain>> {
        self.plan.chains.iter().map(|chain| Arc::new(self.link_chain(chain))).collect()
    }

    fn link_chain(&self, chain: &ChainPlan) -> LinkedChain {
        let mut chain_plan = chain.clone();
        let mut entries = Vec::with_capacity(chain.entries.len());
        for entry in &chain.entries {
            match self.link_entry(chain, entry) {
                Ok(entry) => entries.push(Arc::new(entry)),
                Err(message) => {
                    chain_plan.refusing.get_or_insert(Refusal { reason: Reason::InvalidExpression, message });
                }
            }
        }
        LinkedChain {
            name: chain.key.to_string(),
            upstream_names: Globs::new(&chain.upstreams.names),
            include: Globs::new(&chain.include),
            exclude: Globs::new(&chain.exclude),
            entries,
            plan: chain_plan,
        }
    }

    /// Links an entry with its plugin, in the plan's form or in the older form that runs instead.
    fn link_entry(&self, chain: &ChainPlan, entry: &EntryPlan) -> Result<LinkedEntry, String> {
        let when = entry.when.as_deref().map(|when| Expression::compile(when, OF_ENTRIES)).transpose()?;
        // If the plan says that an entry cannot run, the settings of its plugin are ignored: `enabled: false` or a
        // filter in a manifest that was not accepted must not keep the entry from failing.
        let newest = self.plan.plugin(&entry.plugin).filter(|_| entry.unavailable.is_none());
        let stand_in = self.stand_ins.get(&entry.plugin).filter(|_| newest.is_some());
        let stand_in = stand_in.and_then(|form| Some((form, form.entry(chain, entry)?)));
        let (plugin, plugin_plan, entry) = match (stand_in, &entry.unavailable) {
            (Some((form, older)), _) => (Ok(Arc::clone(&form.plugin)), Some(&form.plugin.plan), older),
            (None, Some(refusal)) => {
                (Err(Failure::new(refusal.reason, refusal.message.clone())), newest, entry.clone())
            }
            (None, None) => (self.plugin(&entry.plugin), newest, entry.clone()),
        };
        let timeout = entry.timeout_ms.or(plugin_plan.and_then(|p| p.timeout_ms));
        let timeout = timeout.unwrap_or(self.plan.gateway.runtime.default_timeout_ms);
        Ok(LinkedEntry {
            rules: EntryRules { phase: chain.phase, role: entry.role, mode: entry.mode, policy: entry.failure_policy },
            name: entry.plugin.to_string(),
            enabled: entry.enabled && newest.is_none_or(|p| p.enabled),
            when,
            config: merge_config(plugin_plan.and_then(|p| p.config.as_deref()), entry.config.as_deref()),
            timeout: Duration::from_millis(u64::from(timeout)),
            filter_upstreams: Globs::new(plugin_plan.map_or(&[], |p| &p.filter_upstreams)),
            filter_tools: Globs::new(plugin_plan.map_or(&[], |p| &p.filter_tools)),
            plugin,
            plan: entry,
        })
    }

    /// Returns the plugin of a step in the form that runs now, or why it cannot run.
    pub(crate) fn plugin_of_step(&self, step: &PhasePluginPlan) -> Result<Arc<LinkedPlugin>, Failure> {
        match (self.stand_ins.get(&step.key), &step.unavailable) {
            (_, Some(refusal)) => Err(Failure::new(refusal.reason, refusal.message.clone())),
            (Some(form), None) => Ok(Arc::clone(&form.plugin)),
            (None, None) => self.plugin(&step.key),
        }
    }

    /// Returns the plugin in the form of the plan, or why it cannot run.
    fn plugin(&self, key: &ObjectKey) -> Result<Arc<LinkedPlugin>, Failure> {
        let missing = || Err(Failure::new(Reason::PluginNotFound, format!("there is no Plugin {key}")));
        self.plugins.get(key).cloned().unwrap_or_else(missing)
    }

    /// Returns, without duplicates and in the form of the plan, the plugins of all enabled entries and steps that can run.
    pub(crate) fn wanted(&self) -> Vec<(&ObjectKey, &Result<Arc<LinkedPlugin>, Failure>)> {
        let entries = self.chains.iter().flat_map(|chain| &chain.entries);
        let used = entries.filter(|entry| entry.enabled && entry.plan.unavailable.is_none());
        let upstreams = self.plan.upstreams.iter();
        let steps = upstreams.flat_map(|upstream| upstream.plugins().chain(upstream.helpers()));
        let steps = steps.filter(|step| step.unavailable.is_none()).map(|step| &step.key);
        let used = used.map(|entry| &entry.plan.plugin).chain(steps);
        let used: BTreeSet<_> = used.chain(self.plan.stage_plugins()).collect();
        used.into_iter().filter_map(|key| self.plugins.get_key_value(key)).collect()
    }
}

impl Linked {
    /// Creates a linked plan without upstreams, plugins and chains.
    pub(crate) fn empty(plan: Plan) -> Self {
        Self {
            rules: plan.gateway.authorization.as_ref().map(|rules| Arc::new(Rules::new(rules))),
            methods: Arc::default(),
            admin_methods: Arc::default(),
            certificates: Arc::default(),
            sections: Arc::new(Sections::new(&plan.sections)),
            plan: Arc::new(plan),
            chains: Vec::new(),
            upstreams: Arc::new([]),
            plugins: BTreeMap::new(),
            stand_ins: StandIns::new(),
            not_loaded: Vec::new(),
            secrets: Vec::new(),
            redaction: None,
            let_go: LetGo::default(),
        }
    }

    /// Returns a token that is cancelled when no call or snapshot holds this plan any more.
    pub(crate) fn let_go(&self) -> CancellationToken {
        self.let_go.0.clone()
    }

    /// Returns the upstreams that are servers.
    pub(crate) fn targets(&self) -> Vec<Target> {
        let served = self.upstreams.iter().filter(|upstream| upstream.pipeline.is_none());
        served.map(|upstream| Arc::clone(&upstream.target)).collect()
    }

    /// Returns the first entry that names a plugin and, by the plan, can run it.
    pub(crate) fn entry_of(&self, plugin: &ObjectKey) -> Option<&Arc<LinkedEntry>> {
        let is_of_it = |entry: &&Arc<LinkedEntry>| entry.plan.plugin == *plugin && entry.plan.unavailable.is_none();
        self.chains.iter().flat_map(|chain| &chain.entries).find(is_of_it)
    }
}
