//! The order of the steps of a run (document 002, execution flow).

use std::collections::VecDeque;

use crate::domain::plan::{AgentPlan, InsertedPhasePlan, PhasePluginPlan, PipelinePlan};

/// Decides which step of a run is next.
#[derive(Debug)]
pub struct PipelineMachine<'a> {
    plan: &'a PipelinePlan,
    /// The agent that is entered next, after the `pending` steps.
    next: Option<usize>,
    /// The agent that succeeded last. Which agent follows it is decided after the phases after it.
    succeeded: Option<usize>,
    /// The agent that follows the one that succeeded last, instead of its `nextOnSuccess`.
    instead: Option<usize>,
    pending: VecDeque<Step<'a>>,
    iterations: u32,
    of_agents: Vec<u32>,
    is_limited: bool,
}

/// One step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// The name of the agent or of the inserted phase.
    pub name: &'a str,
    /// The plugin that the step runs.
    pub plugin: &'a PhasePluginPlan,
    /// Whether the step is an agent.
    pub role: StepRole,
}

/// Whether a step is an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepRole {
    /// The agent with this index in the plan.
    Agent(usize),
    /// An inserted phase.
    Phase,
}

impl<'a> PipelineMachine<'a> {
    /// Starts a run.
    pub fn new(plan: &'a PipelinePlan) -> Self {
        Self {
            plan,
            next: plan.agent(&plan.start_agent),
            succeeded: None,
            instead: None,
            pending: VecDeque::new(),
            iterations: 0,
            of_agents: vec![0; plan.agents.len()],
            is_limited: false,
        }
    }

    /// Returns the next step; `None` if the run is over. `holds` tells whether the loop condition of the agent with this
    /// index holds.
    pub fn next(&mut self, holds: impl FnOnce(usize) -> bool) -> Option<Step<'a>> {
        if let Some(step) = self.pending.pop_front() {
            return Some(step);
        }
        if let Some(index) = self.succeeded.take() {
            let AgentPlan { repeat, next_on_success, .. } = &self.plan.agents[index];
            let back = repeat.as_ref().filter(|_| holds(index)).map(|(_, agent)| agent);
            let named = |name: &String| self.plan.agent(name);
            let instead = self.instead.take();
            self.next = match back {
                Some(back) => named(back),
                None => instead.or_else(|| next_on_success.as_ref().and_then(named)),
            };
        }
        let index = self.enabled_agent()?;
        if self.iterations == self.plan.max_iterations {
            (self.is_limited, self.next) = (true, None);
            return None;
        }
        self.iterations += 1;
        self.of_agents[index] += 1;
        self.next = None;
        let agent = &self.plan.agents[index];
        self.pending.extend(self.phases(agent, true));
        self.pending.push_back(Step { name: &agent.name, plugin: &agent.plugin, role: StepRole::Agent(index) });
        self.pending.pop_front()
    }

    /// Records how a step ended. Returns whether the run goes on: it does not after the failure of an agent that no other
    /// agent follows. A phase that fails does not end the run.
    pub fn ended(&mut self, step: Step<'a>, has_succeeded: bool) -> bool {
        let StepRole::Agent(index) = step.role else { return true };
        let agent = &self.plan.agents[index];
        if has_succeeded {
            self.succeeded = Some(index);
            self.pending.extend(self.phases(agent, false));
            return true;
        }
        self.next = agent.next_on_failure.as_deref().and_then(|name| self.plan.agent(name));
        self.next.is_some()
    }

    /// Makes this agent follow the one that has just succeeded, unless that goes back. Names of no agent have no effect.
    pub fn goes_to(&mut self, agent: &str) {
        self.instead = self.plan.agent(agent);
    }

    /// Ends the run.
    pub fn finish(&mut self) {
        (self.next, self.succeeded) = (None, None);
        self.pending.clear();
    }

    /// The number of times that agents were run.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// The number of times that the agent with this index was run.
    pub fn iterations_of(&self, agent: usize) -> u32 {
        self.of_agents[agent]
    }

    /// Whether the run ended because it reached `maxIterations`.
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Returns the next agent that is enabled, without those that are skipped before it.
    fn enabled_agent(&self) -> Option<usize> {
        let mut index = self.next?;
        // As many steps as there are agents: longer ways go in a circle of disabled ones.
        for _ in &self.plan.agents {
            let agent = &self.plan.agents[index];
            if agent.enabled {
                return Some(index);
            }
            index = self.plan.agent(agent.next_on_success.as_deref()?)?;
        }
        None
    }

    fn phases(&self, agent: &AgentPlan, before: bool) -> impl Iterator<Item = Step<'a>> + use<'a> {
        let (plan, name) = (self.plan, agent.name.clone());
        let of_agent = move |phase: &&InsertedPhasePlan| phase.agent == name && phase.is_before == before;
        let step =
            |phase: &'a InsertedPhasePlan| Step { name: &phase.name, plugin: &phase.plugin, role: StepRole::Phase };
        plan.phases.iter().filter(of_agent).map(step)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::ids::ObjectKey;
    use crate::domain::plan::{AgentKind, PipelineBudgets, SynthesizerPlan};
    use crate::domain::plugin::PluginKind;

    fn plugin() -> PhasePluginPlan {
        PhasePluginPlan { key: ObjectKey::new("ns", "p"), config: None, kind: PluginKind::Phase, unavailable: None }
    }

    /// A phase as `name<agent` or `name>agent`.
    fn phase(text: &&str) -> InsertedPhasePlan {
        let (name, agent, is_before) = match text.split_once('<') {
            Some((name, agent)) => (name, agent, true),
            None => text.split_once('>').map(|(name, agent)| (name, agent, false)).unwrap(),
        };
        InsertedPhasePlan { name: name.into(), plugin: plugin(), agent: agent.into(), is_before }
    }

    /// Agents as `name>next`, `name!on_failure` and `name<back_to`; disabled ones begin with `-`.
    pub(in super::super) fn plan(agents: &[&str], phases: &[&str]) -> PipelinePlan {
        let agent = |text: &&str| {
            let (text, enabled) = text.strip_prefix('-').map_or((*text, true), |rest| (rest, false));
            let after = |mark: char| {
                let rest = text.split_once(mark)?.1;
                Some(rest.split(['>', '!', '<']).next()?.to_owned())
            };
            AgentPlan {
                name: text.split(['>', '!', '<']).next().unwrap().to_owned(),
                enabled,
                kind: AgentKind::Custom,
                model_role: None,
                plugin: plugin(),
                next_on_success: after('>'),
                next_on_failure: after('!'),
                repeat: after('<').map(|back| ("true".to_owned(), back)),
            }
        };
        let agents: Vec<_> = agents.iter().map(agent).collect();
        PipelinePlan {
            definition: String::new(),
            query_argument: "prompt".into(),
            include: Vec::new(),
            exclude: Vec::new(),
            budgets: PipelineBudgets { timeout_seconds: 1, max_tool_calls: 1, max_llm_calls: 1, max_input: 1 },
            start_agent: agents[0].name.clone(),
            max_iterations: 5,
            agents,
            phases: phases.iter().map(phase).collect(),
            helpers: Vec::new(),
            store: Default::default(),
            output_schema: None,
            output_type: None,
            customizations: Vec::new(),
            customizers: Vec::new(),
            prompt_providers: Vec::new(),
            is_report: false,
            models: Vec::new(),
            synthesizer: SynthesizerPlan::default(),
        }
    }

    /// The steps of a run in which the loop condition holds `loops` times and the steps named in `failing` fail.
    fn steps(plan: &PipelinePlan, mut loops: u32, failing: &[&str]) -> String {
        let mut machine = PipelineMachine::new(plan);
        let mut names = Vec::new();
        let mut goes_on = true;
        while goes_on {
            let holds = |_| {
                let holds = loops > 0;
                loops = loops.saturating_sub(1);
                holds
            };
            let Some(step) = machine.next(holds) else { break };
            names.push(step.name.to_owned());
            goes_on = machine.ended(step, !failing.contains(&step.name));
        }
        if machine.is_limited() {
            names.push("limit".to_owned());
        }
        if !goes_on {
            names.push("failed".to_owned());
        }
        names.join(" ")
    }

    #[test]
    fn steps_follow_transitions_loops_and_inserted_phases() {
        let chain = plan(&["a>b!c", "b>c<a", "c"], &["before<b", "after>b"]);
        assert_eq!(steps(&chain, 0, &[]), "a before b after c");
        assert_eq!(steps(&chain, 1, &[]), "a before b after a before b after c");
        assert_eq!(steps(&chain, 9, &[]), "a before b after a before b after a limit");
        assert_eq!(steps(&chain, 0, &["a"]), "a c");
        assert_eq!(steps(&chain, 0, &["b"]), "a before b failed");
        assert_eq!(steps(&chain, 0, &["before", "after"]), "a before b after c");
        assert_eq!(steps(&plan(&["a>b", "-b>c", "c"], &["x<b"]), 0, &[]), "a c");
        assert_eq!(steps(&plan(&["a>b", "-b>c", "-c>b"], &[]), 0, &[]), "a");
    }
}
