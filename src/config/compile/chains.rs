//! Chains: which the gateway takes, their last accepted form, the order in which they run.

use super::plugins::{self, Plugins};
use super::resolve::{self, Found};
use super::{id, takes, values};
use crate::config::digest::revision;
use crate::config::expr::Expression;
use crate::config::input::{ChainInput, EntryInput, Inputs};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{ChainPlan, EntryPlan, GatewayPlan, Plan, Refusal, UpstreamPlan, UpstreamScope};
use crate::domain::plugin::{FailurePolicy, Phase, Role};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// A fault of a chain as it is written: reason, field, message.
type Fault = (Reason, String, String);

/// What chains are compiled against.
pub(super) struct World<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) gateway: &'a GatewayPlan,
    pub(super) plugins: &'a Plugins<'a>,
    pub(super) upstreams: &'a [UpstreamPlan],
}

/// The chains that the gateway takes, in the order in which they run.
pub(super) fn compile(
    inputs: &Inputs,
    previous: Option<&Plan>,
    gateway: &GatewayPlan,
    plugins: &Plugins<'_>,
    upstreams: &[UpstreamPlan],
    problems: &mut Vec<Problem>,
) -> Vec<ChainPlan> {
    let world = World { inputs, gateway, plugins, upstreams };
    let mut chains = Vec::new();
    for chain in &inputs.chains {
        if world.takes(chain, problems) {
            let accepted = previous.and_then(|p| p.chain(&chain.key)).filter(|c| c.refusing.is_none());
            chains.push(world.compile_one(chain, accepted, problems));
        }
    }
    for invalid in inputs.invalid.iter().filter(|o| o.id.kind == Kind::PluginChain) {
        let accepted = previous.and_then(|p| p.chain(&invalid.id.key)).filter(|c| c.refusing.is_none());
        let form = accepted.cloned().or_else(|| world.refusing_form(&invalid.id.key, invalid.chain.as_ref()));
        chains.extend(form);
    }
    for chain in &mut chains {
        resolve::resolve(&world, chain, problems);
        chain.revision = String::new();
        let digests: Vec<_> =
            chain.entries.iter().map(|e| plugins.accepted.get(&e.plugin).map(|p| &p.digest)).collect();
        chain.revision = revision(&(&*chain, digests));
    }
    // The tenants' chains first, then the owner's, so that the owner has the last word.
    chains.sort_by(|a, b| (a.owner, a.order, &a.key).cmp(&(b.owner, b.order, &b.key)));
    chains
}

impl World<'_> {
    /// A gateway takes chains of the namespaces it says; one of another namespace must name the gateway besides.
    fn takes(&self, chain: &ChainInput, problems: &mut Vec<Problem>) -> bool {
        let Some(gateway) = &self.inputs.gateway else { return true };
        let own = &self.gateway.key.namespace;
        let required = self.gateway.required.contains(&chain.key);
        let taken = required || takes::takes(&gateway.chains, own, &chain.key.namespace, &chain.labels, self.inputs);
        let names_it = match chain.gateways.is_empty() {
            true => chain.key.namespace == *own,
            false => chain.gateways.contains(&self.gateway.key),
        };
        if taken != names_it {
            let message = match taken {
                true => format!("{} takes it, but it does not name that gateway in spec.gateways", self.gateway.key),
                false => format!("it names {}, which does not take it (spec.chains of the gateway)", self.gateway.key),
            };
            problems.push(Problem::warning(
                Reason::NotTaken,
                id(Kind::PluginChain, &chain.key),
                "spec.gateways",
                message,
            ));
        }
        taken && names_it
    }

    fn is_owner(&self, key: &ObjectKey) -> bool {
        key.namespace == self.gateway.key.namespace || self.gateway.required.contains(key)
    }

    fn compile_one(&self, chain: &ChainInput, accepted: Option<&ChainPlan>, problems: &mut Vec<Problem>) -> ChainPlan {
        match self.accept(chain, accepted) {
            Ok(plan) => plan,
            Err((reason, field, mut message)) => {
                let form = accepted.cloned().unwrap_or_else(|| {
                    message.push_str(". No form of it was ever accepted, so it refuses each call that it selects");
                    let refusing = Some(Refusal { reason, message: message.clone() });
                    ChainPlan { entries: Vec::new(), refusing, ..self.form(chain) }
                });
                if form.refusing.is_none() {
                    message.push_str(". The last accepted form runs on");
                }
                problems.push(Problem::error(reason, id(Kind::PluginChain, &chain.key), field, message));
                form
            }
        }
    }

    /// The chain as written, or what is wrong with it.
    fn accept(&self, chain: &ChainInput, accepted: Option<&ChainPlan>) -> Result<ChainPlan, Fault> {
        let names = chain.upstreams.as_ref().map_or(&[][..], |u| &u.names);
        let globs = [
            ("spec.upstreams.names", names),
            ("spec.tools.include", &chain.include),
            ("spec.tools.exclude", &chain.exclude),
        ];
        if let Some((field, message)) = globs.into_iter().find_map(|(field, globs)| values::bad_glob(field, globs)) {
            return Err((Reason::InvalidPattern, field, message));
        }
        for (index, entry) in chain.entries.iter().enumerate() {
            self.accept_entry(chain, entry, index, accepted)?;
        }
        Ok(self.form(chain))
    }

    fn accept_entry(
        &self,
        chain: &ChainInput,
        entry: &EntryInput,
        index: usize,
        accepted: Option<&ChainPlan>,
    ) -> Result<(), Fault> {
        let field = format!("spec.entries[{index}]");
        if let Some(when) = &entry.when {
            Expression::compile(when).map_err(|e| (Reason::InvalidExpression, format!("{field}.when"), e))?;
        }
        // An edit that names what cannot be had is a mistake while another form runs; what was there and went away is
        // an act, which counts at once.
        let is_new = accepted.is_some_and(|form| !form.entries.iter().any(|e| e.plugin == entry.plugin));
        let found = resolve::find(self, &chain.key.namespace, &entry.plugin, chain.phase);
        if let (Found::Missing(refusal), true) = (&found, is_new) {
            return Err((refusal.reason, field, refusal.message.clone()));
        }
        let Some(plugin) = self.plugins.inputs.get(&entry.plugin) else { return Ok(()) };
        if plugin.role == Role::Observe && entry.failure_policy == Some(FailurePolicy::Fail) {
            let message = format!("{} is an Observe plugin, off the call's path: it cannot fail the call", plugin.key);
            return Err((Reason::InvalidConfig, format!("{field}.failurePolicy"), message));
        }
        let foreign = plugin.key.namespace != chain.key.namespace;
        if foreign && entry.config.is_some() && !plugin.config_overrides {
            let message = format!(
                "{} does not let other namespaces change its config (its shareWith.configOverrides)",
                plugin.key
            );
            return Err((Reason::RefNotPermitted, format!("{field}.config"), message));
        }
        let config = plugins::merge_config(plugin.config.as_deref(), entry.config.as_deref());
        plugins::check_config(plugin, config.as_deref())
            .map_err(|message| (Reason::InvalidConfig, format!("{field}.config"), message))
    }

    fn form(&self, chain: &ChainInput) -> ChainPlan {
        let owner = self.is_owner(&chain.key);
        let upstreams = chain.upstreams.clone();
        ChainPlan {
            key: chain.key.clone(),
            revision: String::new(),
            phase: chain.phase,
            order: chain.order,
            owner,
            methods: chain.methods.clone(),
            upstreams: UpstreamScope {
                namespace: (!owner).then(|| chain.key.namespace.clone()),
                all: upstreams.is_none(),
                names: upstreams.as_ref().map(|u| u.names.clone()).unwrap_or_default(),
                selector: upstreams.and_then(|u| u.selector),
            },
            include: chain.include.clone(),
            exclude: chain.exclude.clone(),
            notifications_pass: chain.notifications_pass,
            entries: chain.entries.iter().enumerate().map(|(place, entry)| plan_entry(entry, place)).collect(),
            refusing: None,
        }
    }

    /// A chain that is not valid and never was: it refuses what it selects, as far as that could be read.
    fn refusing_form(&self, key: &ObjectKey, chain: Option<&ChainInput>) -> Option<ChainPlan> {
        let message = format!("PluginChain {key} is not valid, and no form of it was ever accepted");
        let refusing = Some(Refusal { reason: Reason::InvalidObject, message });
        let everything = ChainInput {
            key: key.clone(),
            labels: Default::default(),
            phase: Phase::Request,
            order: 100,
            gateways: Vec::new(),
            upstreams: None,
            include: Vec::new(),
            exclude: Vec::new(),
            methods: vec!["tools/call".into()],
            notifications_pass: false,
            entries: Vec::new(),
        };
        let chain = chain.unwrap_or(&everything);
        let globs = [&chain.include, &chain.exclude];
        let readable = globs.iter().all(|g| values::bad_glob("", g).is_none())
            && chain.upstreams.as_ref().is_none_or(|u| values::bad_glob("", &u.names).is_none());
        let form = self.form(if readable { chain } else { &everything });
        let taken = self.takes(chain, &mut Vec::new());
        taken.then_some(ChainPlan { entries: Vec::new(), refusing, ..form })
    }
}

fn plan_entry(entry: &EntryInput, place: usize) -> EntryPlan {
    EntryPlan {
        plugin: entry.plugin.clone(),
        place: u32::try_from(place).unwrap_or(u32::MAX),
        enabled: entry.enabled,
        timeout_ms: entry.timeout_ms,
        max_tokens: entry.max_tokens,
        order: entry.order,
        config: entry.config.clone(),
        view: entry.view,
        when: entry.when.clone(),
        written_policy: entry.failure_policy,
        failure_policy: entry.failure_policy.unwrap_or(FailurePolicy::Fail),
        mode: entry.mode,
        role: Role::Guard,
        unavailable: None,
    }
}
