//! What plugins of type pipeline-customizer return (document 002, `PipelineCustomizer` and `PhaseProvider`), and the pipeline
//! that results.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::customized::customized;
use super::rules;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{
    AgentKind, AgentOverridePlan, AgentPlan, CustomizationPlan, InsertedPhasePlan, PhasePluginPlan, PipelinePlan,
};
use crate::domain::plugin::PluginKind;

/// The maximum number of agents, and of phases, as in manifests.
const MAX_STEPS: usize = 32;
/// The maximum length of a name.
const MAX_NAME: usize = 63;

/// Everything that a customizer returns for one run.
#[derive(Debug, Default)]
pub struct CustomizerResult {
    /// The result of `getPipelineConfig`.
    pub config: Option<PipelineConfig>,
    /// The result of `getPipelineCustomizations`.
    pub changes: Option<Changes>,
    /// The result of `getPhases`.
    pub phases: Vec<PhaseOfPlugin>,
}

/// A pipeline in place of the declared one. The names of document 002 count too.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PipelineConfig {
    #[serde(alias = "start_agent")]
    start_agent: Option<String>,
    #[serde(alias = "max_iterations")]
    max_iterations: Option<u32>,
    #[serde(alias = "timeout_seconds")]
    timeout_seconds: Option<u32>,
    agents: Vec<AgentConfig>,
}

/// An agent of such a pipeline.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AgentConfig {
    name: Option<String>,
    #[serde(alias = "agentType", alias = "agent_type")]
    r#type: String,
    enabled: Option<bool>,
    #[serde(alias = "model_tier")]
    model_tier: Option<String>,
    plugin: Option<String>,
    config: Option<Map<String, Value>>,
    #[serde(alias = "next_on_success")]
    next_on_success: Option<String>,
    #[serde(alias = "next_on_failure")]
    next_on_failure: Option<String>,
    #[serde(alias = "loop_condition")]
    loop_condition: Option<String>,
    #[serde(alias = "loop_back_to")]
    loop_back_to: Option<String>,
}

/// Changes to a pipeline.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Changes {
    #[serde(alias = "disabled_agents")]
    disabled_agents: Option<Vec<String>>,
    #[serde(alias = "agent_overrides")]
    agent_overrides: Option<BTreeMap<String, AgentChange>>,
    #[serde(alias = "insert_phases")]
    insert_phases: Option<Vec<PhaseOfPlugin>>,
}

/// Changes to one agent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AgentChange {
    #[serde(alias = "model_tier")]
    model_tier: Option<String>,
    enabled: Option<bool>,
    config: Option<Map<String, Value>>,
}

/// A plugin that runs before or after an agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseOfPlugin {
    name: String,
    plugin: String,
    before: Option<String>,
    after: Option<String>,
    config: Option<Map<String, Value>>,
}

/// The pipeline that a customizer changes.
#[derive(Clone, Copy, Debug)]
pub struct Customizable<'a> {
    /// The pipeline as the manifest declares it: customizers can use its plugins.
    pub declared: &'a PipelinePlan,
    /// The namespace of the pipeline.
    pub namespace: &'a str,
}

impl Customizable<'_> {
    /// Returns a pipeline with what a customizer returned.
    ///
    /// # Errors
    /// The rule that the pipeline would break, in the words of the definition of ToolPipeline.
    pub fn apply(self, before: &PipelinePlan, returned: CustomizerResult) -> Result<PipelinePlan, String> {
        let CustomizerResult { config, changes, phases } = returned;
        let mut plan = before.clone();
        if let Some(config) = config {
            self.replace(&mut plan, config)?;
        }
        let changes = changes.unwrap_or(Changes { disabled_agents: None, agent_overrides: None, insert_phases: None });
        let inserted = changes.insert_phases.into_iter().flatten().chain(phases);
        let change = CustomizationPlan {
            name: String::new(),
            when: None,
            disabled_agents: changes.disabled_agents.unwrap_or_default(),
            overrides: changes.agent_overrides.into_iter().flatten().map(overridden).collect(),
            phases: inserted.map(|phase| self.phase(phase)).collect::<Result<_, _>>()?,
        };
        rules::check_change(&plan, &change)?;
        plan = customized(plan, &change);
        rules::check(&plan).into_iter().next().map_or(Ok(()), Err)?;
        self.check_bounds(before, &plan)?;
        Ok(plan)
    }

    /// Replaces the agents. Phases of agents that are gone do not run.
    fn replace(self, plan: &mut PipelinePlan, config: PipelineConfig) -> Result<(), String> {
        let limits = [
            ("maxIterations", config.max_iterations, &mut plan.max_iterations),
            ("timeoutSeconds", config.timeout_seconds, &mut plan.budgets.timeout_seconds),
        ];
        for (name, wanted, limit) in limits {
            match wanted {
                Some(wanted) if !(1..=*limit).contains(&wanted) => {
                    return Err(format!("{name}: {wanted} is not from 1 to {limit}, the limit of the manifest"));
                }
                wanted => *limit = wanted.unwrap_or(*limit),
            }
        }
        plan.start_agent = config.start_agent.unwrap_or_else(|| AgentKind::Coordinator.as_str().to_owned());
        plan.agents = config.agents.into_iter().map(|agent| self.agent(agent)).collect::<Result<_, _>>()?;
        let agents: Vec<_> = plan.agents.iter().map(|agent| agent.name.clone()).collect();
        plan.phases.retain(|phase| agents.contains(&phase.agent));
        Ok(())
    }

    fn agent(self, written: AgentConfig) -> Result<AgentPlan, String> {
        let kind = AgentKind::named(&written.r#type).ok_or("agents: a type is none of those of agents")?;
        let plugin = match (&written.plugin, kind) {
            (Some(plugin), AgentKind::Custom) => self.plugin(plugin, written.config)?,
            (None, AgentKind::Custom) | (Some(_), _) => return Err(rules::AGENT_PLUGIN.to_owned()),
            (None, _) => PhasePluginPlan {
                key: ObjectKey::new(self.namespace, ""),
                config: written.config.map(text),
                kind: PluginKind::Phase,
                unavailable: None,
            },
        };
        let repeat = match (written.loop_condition, written.loop_back_to) {
            (Some(condition), Some(back)) => Some((condition, back)),
            (None, None) => None,
            _ => return Err(rules::LOOP.to_owned()),
        };
        let same = self.declared.agents.iter().find(|agent| agent.kind == kind && kind != AgentKind::Custom);
        let role = same.map_or(kind.default_role(), |agent| agent.model_role.as_deref());
        Ok(AgentPlan {
            name: written.name.unwrap_or(written.r#type),
            enabled: written.enabled.unwrap_or(true),
            kind,
            model_role: written.model_tier.or(role.map(str::to_owned)),
            plugin,
            next_on_success: written.next_on_success,
            next_on_failure: written.next_on_failure,
            repeat,
        })
    }

    fn phase(self, written: PhaseOfPlugin) -> Result<InsertedPhasePlan, String> {
        let PhaseOfPlugin { name, plugin, before, after, config } = written;
        let is_before = before.is_some();
        let (Some(agent), None) = (if is_before { (before, after) } else { (after, None) }) else {
            return Err(rules::BEFORE_OR_AFTER.to_owned());
        };
        Ok(InsertedPhasePlan { name, plugin: self.plugin(&plugin, config)?, agent, is_before })
    }

    /// Returns a plugin of type phase that the manifest names, so that it is checked, loaded and counted in the annotations.
    fn plugin(self, name: &str, config: Option<Map<String, Value>>) -> Result<PhasePluginPlan, String> {
        let mut known = self.declared.plugins().filter(|plugin| plugin.kind == PluginKind::Phase);
        let known = known.find(|known| known.key.name == name || known.key.to_string() == name).ok_or_else(|| {
            format!(
                "plugin {name:.128} is not in the manifest: name it there, for example in an agent that is disabled"
            )
        })?;
        Ok(PhasePluginPlan { config: config.map(text), ..known.clone() })
    }

    /// Checks what the schema checks in manifests. The configuration of a plugin of another namespace stays as it was.
    fn check_bounds(self, before: &PipelinePlan, plan: &PipelinePlan) -> Result<(), String> {
        let is_own = |plugin: &&PhasePluginPlan| plugin.key.namespace == self.namespace || plugin.config.is_none();
        let mut changed = plan.plugins().filter(|plugin| !is_own(plugin));
        if let Some(plugin) = changed.find(|plugin| before.plugins().all(|known| known != *plugin)) {
            return Err(format!("config: Plugin {} is of another namespace, and keeps its config", plugin.key));
        }
        if plan.agents.len() > MAX_STEPS || plan.phases.len() > MAX_STEPS {
            return Err(format!("agents, insertPhases: at most {MAX_STEPS} of each"));
        }
        let agents: Vec<_> = plan.agents.iter().map(|agent| &agent.name).collect();
        if (1..agents.len()).any(|index| agents[index..].contains(&agents[index - 1])) {
            return Err("agents: two have the same name".to_owned());
        }
        let phases = plan.phases.iter().map(|phase| &phase.name);
        match agents.into_iter().chain(phases).all(|name| is_label(name)) {
            true => Ok(()),
            false => Err(format!("a name is not 1 to {MAX_NAME} characters of a-z, 0-9 and -")),
        }
    }
}

fn overridden((agent, change): (String, AgentChange)) -> AgentOverridePlan {
    let AgentChange { model_tier, enabled, config } = change;
    AgentOverridePlan { agent, model_role: model_tier, enabled, config: config.map(text) }
}

fn text(config: Map<String, Value>) -> String {
    Value::Object(config).to_string()
}

fn is_label(name: &str) -> bool {
    let is_taken = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_taken)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::machine::tests::plan;
    use super::*;

    /// Applies what functions return, as JSON, to a pipeline of the agents a and b.
    fn applied(config: Value, changes: Value, phases: Value) -> Result<PipelinePlan, String> {
        let declared = plan(&["a>b", "b"], &["late>b"]);
        let returned = CustomizerResult {
            config: serde_json::from_value(config).unwrap(),
            changes: serde_json::from_value(changes).unwrap(),
            phases: serde_json::from_value(phases).unwrap(),
        };
        Customizable { declared: &declared, namespace: "ns" }.apply(&declared, returned)
    }

    fn config(agents: &Value) -> Result<PipelinePlan, String> {
        applied(json!({"startAgent": "a", "agents": agents}), Value::Null, json!([]))
    }

    #[test]
    fn what_a_customizer_returns_obeys_the_rules_of_manifests() {
        let agent = |more: Value| {
            let mut agent = json!({"name": "a", "type": "custom", "plugin": "p"});
            more.as_object().unwrap().iter().for_each(|(key, value)| agent[key] = value.clone());
            agent
        };
        for (more, words) in [
            (json!({"name": "c"}), rules::START_AGENT),
            (json!({"nextOnFailure": "none"}), rules::TRANSITIONS),
            (json!({"loopCondition": "true", "loopBackTo": "none"}), rules::TRANSITIONS),
            (json!({"loopBackTo": "a"}), rules::LOOP),
            (json!({"type": "planner"}), rules::AGENT_PLUGIN),
            (json!({"plugin": null}), rules::AGENT_PLUGIN),
            (json!({"type": "reflector", "plugin": null, "config": {"adjustGoesTo": "none"}}), rules::ADJUST_GOES_TO),
            (json!({"type": "banana"}), "agents: a type is none of those of agents"),
        ] {
            let why = config(&json!([agent(more.clone())])).unwrap_err();
            assert!(why.starts_with(words), "{more}: {why}");
        }
        let plugin = config(&json!([agent(json!({"plugin": "other"}))])).unwrap_err();
        assert!(plugin.starts_with("plugin other is not in the manifest"), "{plugin}");
        assert_eq!(config(&json!([agent(json!({})), agent(json!({}))])).unwrap_err(), "agents: two have the same name");
        let name = config(&json!([agent(json!({})), agent(json!({"name": "x: y"}))])).unwrap_err();
        assert!(name.starts_with("a name is not"), "{name}");
        let slow = applied(json!({"timeoutSeconds": 2, "agents": []}), Value::Null, json!([])).unwrap_err();
        assert_eq!(slow, "timeoutSeconds: 2 is not from 1 to 1, the limit of the manifest");
        for (changes, words) in [
            (json!({"disabledAgents": ["a"]}), rules::START_DISABLED),
            (json!({"disabledAgents": ["none"]}), rules::CHANGED_AGENTS),
            (json!({"agentOverrides": {"none": {"enabled": false}}}), rules::CHANGED_AGENTS),
            (json!({"insertPhases": [{"name": "x", "plugin": "p"}]}), rules::BEFORE_OR_AFTER),
            (
                json!({"insertPhases": [{"name": "x", "plugin": "p", "after": "a", "before": "b"}]}),
                rules::BEFORE_OR_AFTER,
            ),
            (json!({"insertPhases": [{"name": "x", "plugin": "p", "after": "none"}]}), rules::PHASES),
        ] {
            let why = applied(Value::Null, changes.clone(), json!([])).unwrap_err();
            assert!(why.starts_with(words), "{changes}: {why}");
        }
    }

    #[test]
    fn a_customizer_replaces_agents_and_adds_phases() {
        let agents = json!([{"agent_type": "synthesizer"}, {"name": "a", "type": "custom", "plugin": "ns/p",
            "next_on_success": "synthesizer"}]);
        let wanted = json!({"start_agent": "a", "max_iterations": 2, "agents": agents});
        let phase = json!({"name": "x", "plugin": "p", "before": "a"});
        let changed = applied(wanted, Value::Null, json!([phase])).unwrap();
        let names: Vec<_> = changed.agents.iter().map(|agent| (&*agent.name, agent.model_role.as_deref())).collect();
        assert_eq!(names, [("synthesizer", Some("complex")), ("a", None)]);
        let phases: Vec<_> = changed.phases.iter().map(|phase| &*phase.name).collect();
        assert_eq!((phases, changed.max_iterations), (vec!["x"], 2), "the agent of the phase late is gone");
    }

    #[test]
    fn a_plugin_of_another_namespace_keeps_its_config() {
        let mut declared = plan(&["a"], &[]);
        declared.agents[0].plugin.key = ObjectKey::new("other", "p");
        let apply = |change: Value| {
            let changes = serde_json::from_value(json!({"agentOverrides": {"a": change}})).unwrap();
            let returned = CustomizerResult { changes: Some(changes), ..CustomizerResult::default() };
            Customizable { declared: &declared, namespace: "ns" }.apply(&declared, returned)
        };
        assert!(apply(json!({"modelTier": "x"})).is_ok());
        assert!(apply(json!({"config": {"x": 1}})).unwrap_err().contains("Plugin other/p is of another namespace"));
    }
}
