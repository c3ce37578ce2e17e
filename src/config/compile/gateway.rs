//! Compiles the gateway's own settings, and checks the chains that it requires.

use super::plugins::Plugins;
use crate::config::input::{GatewayInput, Inputs};
use crate::domain::audit::AuditMode;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{
    AdminMethodsPlan, AuthenticationPlan, ChainPlan, GatewayPlan, GatewayTakes, HistoryPlan, Limits, Namespaces, Plan,
    PrefixMode, Refusal, Runtime, Takes, ToolDiscovery,
};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Returns the gateway's settings as written or, if they are invalid, as last accepted. A gateway that is invalid and
/// was never accepted refuses every call. A folder that declares no gateway has the implicit one.
pub(super) fn compile(inputs: &Inputs, previous: Option<&Plan>) -> GatewayPlan {
    if let Some(gateway) = &inputs.gateway {
        return gateway.plan.clone();
    }
    let Some(invalid) = inputs.invalid.iter().find(|o| o.id.kind == Kind::MCPGateway) else {
        return implicit(inputs);
    };
    let accepted = accepted(previous, &invalid.id.key).map(|plan| plan.gateway.clone());
    let mut gateway = accepted.unwrap_or_else(|| GatewayPlan {
        key: invalid.id.key.clone(),
        declared: true,
        refusing: Some(Refusal {
            reason: Reason::InvalidObject,
            message: format!("{} is not valid, and no accepted form of it is known", invalid.id),
        }),
        ..implicit(inputs)
    });
    gateway.audit = gateway.awaited_audit.take().unwrap_or(gateway.audit);
    // `require` decides again whether every required chain is in force.
    gateway.refusing.take_if(|refusal| refusal.reason == Reason::RequiredChainMissing);
    // The stop switch works even if the object is invalid.
    gateway.stopped = invalid.off.unwrap_or(gateway.stopped);
    gateway
}

/// Returns which objects the gateway takes: as written, else as last accepted, else none. The implicit gateway has
/// `None`, which means that it takes all objects.
pub(super) fn takes(inputs: &Inputs, previous: Option<&Plan>) -> Option<GatewayTakes> {
    if let Some(gateway) = &inputs.gateway {
        return Some(written_takes(gateway));
    }
    let invalid = inputs.invalid.iter().find(|o| o.id.kind == Kind::MCPGateway)?;
    let nothing = || {
        let nobody = Takes { namespaces: Namespaces::Names(Vec::new()), ..Takes::default() };
        let [upstreams, chains, pipelines, sections, plugins] = std::array::from_fn(|_| nobody.clone());
        GatewayTakes { upstreams, chains, pipelines, sections, plugins }
    };
    Some(accepted(previous, &invalid.id.key).and_then(|plan| plan.takes.clone()).unwrap_or_else(nothing))
}

/// Returns which objects a gateway takes, as written.
pub(super) fn written_takes(gateway: &GatewayInput) -> GatewayTakes {
    let GatewayInput { upstreams, chains, pipelines, sections, plugins, .. } = gateway.clone();
    GatewayTakes { upstreams, chains, pipelines, sections, plugins }
}

/// Returns the settings of the running plan, if it is a plan of the gateway that the inputs declare.
pub(super) fn accepted_settings<'a>(inputs: &Inputs, previous: Option<&'a Plan>) -> Option<&'a GatewayPlan> {
    let key = &inputs.gateway.as_ref()?.plan.key;
    accepted(previous, key).map(|plan| &plan.gateway)
}

/// Returns the running plan if it is a plan of this gateway and the gateway was declared, not implicit.
fn accepted<'a>(previous: Option<&'a Plan>, key: &ObjectKey) -> Option<&'a Plan> {
    previous.filter(|plan| plan.gateway.declared && plan.gateway.key == *key)
}

/// Returns the gateway of a folder that declares none. It is open to every client, but listens on loopback only.
pub fn implicit(inputs: &Inputs) -> GatewayPlan {
    GatewayPlan {
        key: ObjectKey::new("default", "hawsepipe"),
        declared: false,
        stopped: false,
        stop_cancels: false,
        listeners: Vec::new(),
        anonymous: false,
        authentication: AuthenticationPlan::default(),
        authorization: None,
        prefix: PrefixMode::Always,
        max_name_length: None,
        tool_discovery: ToolDiscovery::All,
        offers_invalid_tools: false,
        allowed_addresses: Vec::new(),
        limits: Limits::default(),
        runtime: Runtime { plugin_dir: inputs.default_plugin_dir.clone(), ..Runtime::default() },
        session_idle_seconds: 3600,
        history_per_plugin: 1000,
        history: HistoryPlan::default(),
        audit: AuditMode::default(),
        awaited_audit: None,
        log_level: None,
        tracing: None,
        admin_authentication: false,
        admin_methods: AdminMethodsPlan::default(),
        models: Vec::new(),
        required: Vec::new(),
        refusing: None,
    }
}

/// Returns the refusal of every call if the required chain `key` does not exist, or `None` if it exists.
pub(super) fn refusal_of_missing(inputs: &Inputs, key: &ObjectKey) -> Option<Refusal> {
    let is_there =
        inputs.chains.iter().any(|chain| chain.key == *key) || super::is_invalid(inputs, Kind::PluginChain, key);
    (!is_there).then(|| Refusal {
        reason: Reason::RequiredChainMissing,
        message: not_in_force_message(key, "it does not exist"),
    })
}

fn not_in_force_message(key: &ObjectKey, why: &str) -> String {
    format!("the required chain {key} is not in force: {why}. Every call is refused until it is")
}

/// Refuses every call unless each required chain is in force.
pub(super) fn require(
    gateway: &mut GatewayPlan,
    chains: &[ChainPlan],
    plugins: &Plugins<'_>,
    problems: &mut Vec<Problem>,
) {
    for key in &gateway.required {
        let Some(why) = why_not_in_force(chains, plugins, key) else { continue };
        let message = not_in_force_message(key, why);
        let object = super::id(Kind::MCPGateway, &gateway.key);
        problems.push(Problem::error(Reason::RequiredChainMissing, object, "spec.chains.required", message.clone()));
        gateway.refusing.get_or_insert(Refusal { reason: Reason::RequiredChainMissing, message });
    }
}

fn why_not_in_force(chains: &[ChainPlan], plugins: &Plugins<'_>, key: &ObjectKey) -> Option<&'static str> {
    let Some(chain) = chains.iter().find(|c| c.key == *key) else {
        return Some("it does not exist, or it does not name this gateway");
    };
    if chain.refusing.is_some() {
        return Some("it is not accepted");
    }
    (!chain.entries.iter().any(|e| plugins.enable(e))).then_some("none of its entries is enabled")
}
