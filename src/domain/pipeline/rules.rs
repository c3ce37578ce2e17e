//! The rules about names in a pipeline (document 002, rules 7 to 9), with the words of the definition of ToolPipeline. They hold
//! for what a manifest declares and for what a plugin returns.

use serde_json::Value;

use crate::domain::plan::{AgentKind, AgentPlan, CustomizationPlan, InsertedPhasePlan, PipelinePlan};

/// Rule 7.
pub const START_AGENT: &str = "startAgent (default coordinator) must be one of agents";
/// Rule 8.
pub const TRANSITIONS: &str = "agents: nextOnSuccess, nextOnFailure and loopBackTo must name one of agents";
/// Rule 9.
pub const BEFORE_OR_AFTER: &str = "insertPhases: give exactly one of before, after";
/// Rule 8, for phases.
pub const PHASES: &str = "insertPhases: before and after must name one of agents";
/// Rule 8, for changes.
pub const CHANGED_AGENTS: &str = "customizations: disabledAgents and agentOverrides must name one of agents";
/// Rule 7, for changes.
pub const START_DISABLED: &str = "customizations: startAgent cannot be disabled";
/// The plugin of an agent.
pub const AGENT_PLUGIN: &str = "an agent of type custom needs `plugin` (a Plugin of type phase); the others have none";
/// The loop of an agent.
pub const LOOP: &str = "loopCondition and loopBackTo go together";
/// The agent after a reflector.
pub const ADJUST_GOES_TO: &str = "agents: config.adjustGoesTo of a reflector must name one of agents";

/// The member of a reflector's configuration with the agent that follows its decision to adjust.
const GOES_TO: &str = "adjustGoesTo";

/// Checks the names in a pipeline and in its customizations. Returns the rules that are broken, each with the name that
/// breaks it.
pub fn check(plan: &PipelinePlan) -> Vec<String> {
    let named = plan.agents.iter().flat_map(|agent| {
        let back = agent.repeat.iter().map(|(_, back)| back);
        agent.next_on_success.iter().chain(&agent.next_on_failure).chain(back)
    });
    let configs = plan.agents.iter().map(|agent| (agent, agent.plugin.config.as_ref()));
    let own = [
        check_names(plan, START_AGENT, [&plan.start_agent]),
        check_names(plan, TRANSITIONS, named),
        check_adjusting(plan, configs),
        check_phases(plan, &plan.phases),
    ];
    let changes = plan.customizations.iter().map(|change| check_change(plan, change));
    own.into_iter().chain(changes).filter_map(Result::err).collect()
}

/// Checks the names in a change of a pipeline.
///
/// # Errors
/// The rule that is broken, and the name that breaks it.
pub fn check_change(plan: &PipelinePlan, change: &CustomizationPlan) -> Result<(), String> {
    let overridden = change.overrides.iter().map(|change| &change.agent);
    check_names(plan, CHANGED_AGENTS, change.disabled_agents.iter().chain(overridden))?;
    if change.disabled_agents.contains(&plan.start_agent) {
        return Err(START_DISABLED.to_owned());
    }
    let changed = change.overrides.iter().filter_map(|change| Some((plan.agent(&change.agent)?, &change.config)));
    check_adjusting(plan, changed.map(|(agent, config)| (&plan.agents[agent], config.as_ref())))?;
    check_phases(plan, &change.phases)
}

/// Checks the agents that reflectors with these configurations name.
fn check_adjusting<'a>(
    plan: &PipelinePlan,
    configs: impl Iterator<Item = (&'a AgentPlan, Option<&'a String>)>,
) -> Result<(), String> {
    let configs = configs.filter(|(agent, _)| agent.kind == AgentKind::Reflector).filter_map(|(_, config)| config);
    let configs = configs.filter_map(|config| serde_json::from_str::<Value>(config).ok());
    let is_wrong = |goes_to: &Value| goes_to.as_str().is_none_or(|name| plan.agent(name).is_none());
    match configs.into_iter().any(|config| config.get(GOES_TO).is_some_and(is_wrong)) {
        true => Err(ADJUST_GOES_TO.to_owned()),
        false => Ok(()),
    }
}

fn check_phases(plan: &PipelinePlan, phases: &[InsertedPhasePlan]) -> Result<(), String> {
    check_names(plan, PHASES, phases.iter().map(|phase| &phase.agent))
}

/// Checks that these are names of agents.
fn check_names<'a>(plan: &PipelinePlan, rule: &str, names: impl IntoIterator<Item = &'a String>) -> Result<(), String> {
    match names.into_iter().find(|name| plan.agent(name).is_none()) {
        Some(name) => {
            let agents: Vec<_> = plan.agents.iter().map(|agent| agent.name.as_str()).collect();
            Err(format!("{rule}; {name:?} is none of {}", agents.join(", ")))
        }
        None => Ok(()),
    }
}
