//! From a plan to what runs: globs and CEL compiled, configurations merged, secrets put in.

use std::sync::Arc;
use std::time::Duration;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::config::compile::merge_config;
use crate::config::expr::Expression;
use crate::domain::chain::EntryRules;
use crate::domain::digest::revision;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{
    ChainPlan, EntryPlan, NamedValue, Plan, PluginPlan, Refusal, TransportPlan, UpstreamPlan, ValueSource,
};
use crate::domain::plugin::{Failure, FailurePolicy, Mode, Phase};
use crate::domain::ports::{LinkedPlugin, Secrets};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::report::{SecretReport, SecretState};
use crate::domain::secret::{NoSecret, SecretText, secret_uses};
use crate::domain::upstream::{Target, UpstreamTarget};

/// A plan that can run, apart from tool lists.
pub(super) struct Linked {
    pub(super) plan: Arc<Plan>,
    /// In the order in which they run.
    pub(super) chains: Vec<Arc<LinkedChain>>,
    /// In the plan's order; a refusal where one cannot be reached as it should.
    pub(super) upstreams: Vec<LinkedUpstream>,
    /// Whether the keys of Secrets that it names were found.
    pub(super) secrets: Vec<SecretReport>,
    /// Fires when no call and no snapshot is left that holds it.
    let_go: LetGo,
}

/// Fires when it is dropped.
#[derive(Default)]
struct LetGo(CancellationToken);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// An upstream with its filters.
pub(super) struct LinkedUpstream {
    pub(super) target: Target,
    pub(super) include: Globs,
    pub(super) exclude: Globs,
    /// Why its calls are refused.
    pub(super) refusing: Option<Refusal>,
}

/// A chain with its globs, and its entries ready to run.
pub(super) struct LinkedChain {
    pub(super) name: String,
    pub(super) plan: ChainPlan,
    upstream_names: Globs,
    include: Globs,
    exclude: Globs,
    pub(super) entries: Vec<Arc<LinkedEntry>>,
}

/// An entry ready to run.
pub(super) struct LinkedEntry {
    pub(super) plan: EntryPlan,
    pub(super) rules: EntryRules,
    /// The plugin, as `namespace/name`.
    pub(super) name: String,
    /// The plugin, or why it cannot run here.
    pub(super) plugin: Result<Arc<LinkedPlugin>, Failure>,
    /// Whether entry and plugin are both enabled.
    pub(super) enabled: bool,
    pub(super) when: Option<Expression>,
    pub(super) config: Option<Box<RawValue>>,
    pub(super) timeout: Duration,
    filter_upstreams: Globs,
    filter_tools: Globs,
}

/// A list of globs; none matches everything.
#[derive(Default)]
pub(super) struct Globs(Option<GlobSet>);

impl Globs {
    /// An empty list is [`Globs::any`]. One that does not compile (the compiler refused it before) matches nothing.
    fn new(globs: &[String]) -> Self {
        if globs.is_empty() {
            return Self(None);
        }
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            if let Ok(glob) = GlobBuilder::new(glob).build() {
                set.add(glob);
            }
        }
        Self(Some(set.build().unwrap_or_default()))
    }

    /// Whether the list is empty or one of it matches.
    pub(super) fn admits(&self, word: &str) -> bool {
        self.0.as_ref().is_none_or(|set| set.is_match(word))
    }

    /// Whether one of the list matches.
    pub(super) fn names(&self, word: &str) -> bool {
        self.0.as_ref().is_some_and(|set| set.is_match(word))
    }
}

impl LinkedChain {
    /// Whether it covers an upstream at all.
    pub(super) fn covers(&self, upstream: &UpstreamPlan) -> bool {
        let scope = &self.plan.upstreams;
        let in_reach = scope.namespace.as_ref().is_none_or(|namespace| *namespace == upstream.key.namespace);
        let labelled = || scope.selector.as_ref().is_some_and(|selector| selector.matches(&upstream.labels));
        in_reach && (scope.all || self.upstream_names.names(&upstream.key.name) || labelled())
    }

    /// Whether it selects calls of `method` to this tool of this upstream.
    pub(super) fn selects(&self, method: &str, upstream: &UpstreamPlan, tool: &str) -> bool {
        self.covers(upstream)
            && self.plan.methods.iter().any(|m| m == method)
            && self.include.admits(tool)
            && !self.exclude.names(tool)
    }
}

impl LinkedEntry {
    /// Whether the plugin's own filter lets it run on this tool of this upstream.
    pub(super) fn admits(&self, upstream: &str, tool: &str) -> bool {
        self.filter_upstreams.admits(upstream) && self.filter_tools.admits(tool)
    }

    /// Whether it acts: it is enabled and no shadow.
    pub(super) fn enforces(&self) -> bool {
        self.enabled && self.plan.mode == Mode::Enforce
    }

    /// Whether no call may pass without it.
    pub(super) fn must_run(&self) -> bool {
        self.enforces() && self.rules.policy == FailurePolicy::Fail
    }
}

/// Links a plan. What lacks is a Problem, and fails with its reason where it is used.
pub(super) fn link(plan: Plan, secrets: &impl Secrets) -> (Linked, Vec<Problem>) {
    let mut problems = Vec::new();
    let upstreams = plan.upstreams.iter().map(|u| link_upstream(&plan, u, secrets, &mut problems)).collect();
    let plugins: Vec<_> =
        plan.plugins.iter().map(|p| (&p.key, link_plugin(&plan, p, secrets, &mut problems))).collect();
    let find = |key: &ObjectKey| plugins.iter().find(|(k, _)| *k == key).map(|(_, plugin)| plugin);
    let chains = plan.chains.iter().map(|chain| Arc::new(link_chain(&plan, chain, &find))).collect();
    let secrets = secret_states(&plan, secrets);
    (Linked { upstreams, chains, secrets, ..Linked::empty(plan) }, problems)
}

fn link_upstream(
    plan: &Plan,
    upstream: &UpstreamPlan,
    secrets: &impl Secrets,
    problems: &mut Vec<Problem>,
) -> LinkedUpstream {
    let (values, field) = match &upstream.transport {
        TransportPlan::External { headers, .. } => (&headers[..], "spec.external.headers"),
        TransportPlan::Process { env, .. } => (&env[..], "spec.process.env"),
        TransportPlan::None => (&[][..], ""),
    };
    let object = ObjectId::new(Kind::MCPUpstream, upstream.key.clone());
    let (values, missing) = put_in(values, secrets);
    if let Some(missing) = &missing {
        problems.push(Problem::error(missing.reason, object, field, &missing.message));
    }
    let max_response_size = upstream.max_response_size.unwrap_or(plan.gateway.limits.max_response_size);
    LinkedUpstream {
        target: Arc::new(UpstreamTarget { plan: upstream.clone(), values, max_response_size }),
        include: Globs::new(&upstream.include),
        exclude: Globs::new(&upstream.exclude),
        refusing: upstream.refusing.clone().or(missing),
    }
}

fn link_plugin(
    plan: &Plan,
    plugin: &PluginPlan,
    secrets: &impl Secrets,
    problems: &mut Vec<Problem>,
) -> Result<Arc<LinkedPlugin>, Failure> {
    let not_loaded = |message| Failure::new(Reason::NotLoaded, message);
    let Some(code) = plan.code.get(&plugin.digest) else {
        return Err(not_loaded(match &plugin.path {
            Some(path) => {
                format!("its file {path} was never accepted (the finding of the Plugin says why)")
            }
            None => format!("the plan does not hold code {:.12}", plugin.digest),
        }));
    };
    let (env, missing) = put_in(&plugin.env, secrets);
    if let Some(Refusal { reason, message }) = missing {
        let object = ObjectId::new(Kind::Plugin, plugin.key.clone());
        problems.push(Problem::error(reason, object, "spec.env", message.clone()));
        return Err(not_loaded(message));
    }
    let runtime = &plan.gateway.runtime;
    let pool_size = plugin.pool_size.unwrap_or(runtime.pool_size_per_plugin);
    let exposed: Vec<_> = env.iter().map(|(name, value)| (name, value.expose())).collect();
    let made_of = (
        &plugin.key,
        &plugin.digest,
        &plugin.file_name,
        (&plugin.folder, &plugin.siblings),
        (plugin.protocol, plugin.reuse, plugin.encoding, plugin.concurrency),
        (&plugin.limits, &plugin.egress, plugin.max_executions, plugin.max_lifetime_seconds),
    );
    let identity = revision(&(made_of, exposed, pool_size, &runtime.node_executable, runtime.sandbox));
    Ok(Arc::new(LinkedPlugin { plan: plugin.clone(), code: code.as_str().into(), env, identity, pool_size }))
}

/// Values by name, and why the first missing one is.
fn put_in(values: &[NamedValue], secrets: &impl Secrets) -> (Vec<(String, SecretText)>, Option<Refusal>) {
    let mut known = Vec::with_capacity(values.len());
    let mut missing = None;
    for NamedValue { name, value } in values {
        let (found, optional, place) = match value {
            ValueSource::Literal(text) => (Ok(SecretText::new(text)), false, String::new()),
            ValueSource::Secret { secret, key, optional } => {
                (secrets.secret(secret, key), *optional, format!("key {key:?} of Secret {secret}"))
            }
            ValueSource::Environment(variable) => {
                let found = secrets.environment(variable).ok_or(NoSecret::NotFound);
                (found, false, format!("the gateway's environment variable {variable}"))
            }
        };
        match found {
            Ok(value) => known.push((name.clone(), value)),
            Err(_) if optional => {}
            Err(why) => {
                let message = format!("{name}: {}", why.message(&place));
                missing.get_or_insert(Refusal { reason: why.reason(), message });
            }
        }
    }
    (known, missing)
}

/// What is known of each key of a Secret that the plan names.
fn secret_states(plan: &Plan, secrets: &impl Secrets) -> Vec<SecretReport> {
    let state = |(secret, key): (&ObjectKey, &str)| SecretReport {
        namespace: secret.namespace.clone(),
        name: secret.name.clone(),
        key: key.to_owned(),
        state: secrets.secret(secret, key).map_or_else(NoSecret::state, |_| SecretState::Found),
    };
    secret_uses(plan).into_iter().map(state).collect()
}

fn link_chain<'a>(
    plan: &Plan,
    chain: &ChainPlan,
    find: &impl Fn(&ObjectKey) -> Option<&'a Result<Arc<LinkedPlugin>, Failure>>,
) -> LinkedChain {
    let mut chain_plan = chain.clone();
    let mut entries = Vec::with_capacity(chain.entries.len());
    for entry in &chain.entries {
        match link_entry(plan, chain.phase, entry, find(&entry.plugin)) {
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

fn link_entry(
    plan: &Plan,
    phase: Phase,
    entry: &EntryPlan,
    plugin: Option<&Result<Arc<LinkedPlugin>, Failure>>,
) -> Result<LinkedEntry, String> {
    let when = entry.when.as_deref().map(Expression::compile).transpose()?;
    // What cannot run is not excused by the settings of a plugin that nobody vouches for.
    let plugin_plan = plan.plugin(&entry.plugin).filter(|_| entry.unavailable.is_none());
    let plugin = match (&entry.unavailable, plugin) {
        (Some(refusal), _) => Err(Failure::new(refusal.reason, refusal.message.clone())),
        (None, Some(plugin)) => plugin.clone(),
        (None, None) => Err(Failure::new(Reason::PluginNotFound, format!("there is no Plugin {}", entry.plugin))),
    };
    let timeout = entry.timeout_ms.or(plugin_plan.and_then(|p| p.timeout_ms));
    let timeout = timeout.unwrap_or(plan.gateway.runtime.default_timeout_ms);
    Ok(LinkedEntry {
        rules: EntryRules { phase, role: entry.role, mode: entry.mode, policy: entry.failure_policy },
        name: entry.plugin.to_string(),
        enabled: entry.enabled && plugin_plan.is_none_or(|p| p.enabled),
        when,
        config: merge_config(plugin_plan.and_then(|p| p.config.as_deref()), entry.config.as_deref()),
        timeout: Duration::from_millis(u64::from(timeout)),
        filter_upstreams: Globs::new(plugin_plan.map_or(&[], |p| &p.filter_upstreams)),
        filter_tools: Globs::new(plugin_plan.map_or(&[], |p| &p.filter_tools)),
        plugin,
        plan: entry.clone(),
    })
}

impl Linked {
    /// A plan of which nothing is linked.
    pub(super) fn empty(plan: Plan) -> Self {
        let (chains, upstreams, secrets) = (Vec::new(), Vec::new(), Vec::new());
        Self { plan: Arc::new(plan), chains, upstreams, secrets, let_go: LetGo::default() }
    }

    /// Cancelled when no call and no snapshot is left that holds it.
    pub(super) fn let_go(&self) -> CancellationToken {
        self.let_go.0.clone()
    }

    /// Every upstream.
    pub(super) fn targets(&self) -> Vec<Target> {
        self.upstreams.iter().map(|upstream| Arc::clone(&upstream.target)).collect()
    }

    /// The first entry that names a plugin.
    pub(super) fn entry_of(&self, plugin: &ObjectKey) -> Option<&Arc<LinkedEntry>> {
        self.chains.iter().flat_map(|chain| &chain.entries).find(|entry| entry.plan.plugin == *plugin)
    }

    /// The plugins that enabled entries name, each once.
    pub(super) fn used_plugins(&self) -> Vec<Arc<LinkedPlugin>> {
        let mut used: Vec<Arc<LinkedPlugin>> = Vec::new();
        let entries = self.chains.iter().flat_map(|chain| &chain.entries).filter(|entry| entry.enabled);
        for plugin in entries.filter_map(|entry| entry.plugin.as_ref().ok()) {
            if !used.iter().any(|u| u.identity == plugin.identity) {
                used.push(Arc::clone(plugin));
            }
        }
        used
    }
}
