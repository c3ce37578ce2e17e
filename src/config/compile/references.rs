//! Resolves what pipelines, and upstreams with the tools of a plugin, refer to: plugins, and roles of models.

use super::plugins::permit;
use super::takes::includes;
use super::world::World;
use super::{FieldFault, is_invalid};
use crate::config::nearest::nearest;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{AgentKind, ModelPlan, PhasePluginPlan, PipelinePlan, Refusal, TransportPlan, UpstreamPlan};
use crate::domain::plugin::PluginKind;
use crate::domain::reason::Reason;

impl World<'_> {
    /// Puts into an upstream or pipeline what it refers to. Returns what cannot be resolved; the form then refuses calls.
    pub(super) fn resolve(&self, form: &mut UpstreamPlan) -> Vec<FieldFault> {
        let key = form.key.clone();
        let missing = match &mut form.transport {
            _ if form.refusing.as_ref().is_some_and(|refusal| refusal.reason == Reason::NotImplemented) => Vec::new(),
            TransportPlan::Pipeline(pipeline) => {
                let mut missing = self.resolve_models(pipeline);
                missing.extend(self.resolve_plugins(&key, pipeline));
                pipeline.helpers = self.helpers(&key);
                missing
            }
            TransportPlan::Plugin(provider) => {
                provider.unavailable = self.unavailable(&key, provider, false);
                provider.unavailable.iter().map(|why| fault("spec.plugin".to_owned(), why)).collect()
            }
            TransportPlan::External { .. } | TransportPlan::Process { .. } | TransportPlan::None => Vec::new(),
        };
        let refusal = missing.first().map(refusal_of);
        form.refusing = form.refusing.take().or(refusal);
        missing
    }

    /// Adds the models of the gateway. Returns the roles of agents that no model serves.
    fn resolve_models(&self, pipeline: &mut PipelinePlan) -> Vec<FieldFault> {
        // Those that a kept form has of the gateway are replaced.
        pipeline.models.retain(|model| !model.is_of_gateway);
        for model in &self.gateway.models {
            if pipeline.models.iter().all(|own| own.role != model.role) {
                pipeline.models.push(ModelPlan { is_of_gateway: true, ..model.clone() });
            }
        }
        let mut missing = Vec::new();
        for (index, agent) in pipeline.agents.iter().enumerate().filter(|(_, agent)| agent.enabled) {
            let plugin = (agent.kind == AgentKind::Custom).then_some(agent.plugin.key.name.as_str());
            let Some(role) = agent.model_role.as_ref().filter(|role| pipeline.model(plugin, role).is_none()) else {
                continue;
            };
            let message = format!("no model of role {role} in spec.models of the pipeline or of the gateway");
            missing.push((Reason::ModelRoleNotFound, format!("spec.declared.agents[{index}].modelTier"), message));
        }
        missing
    }

    fn resolve_plugins(&self, key: &ObjectKey, pipeline: &mut PipelinePlan) -> Vec<FieldFault> {
        let overridden: Vec<_> = pipeline.configured_by_customizations().cloned().collect();
        let mut missing = Vec::new();
        for (field, plugin) in pipeline.plugins_mut() {
            let is_configured = plugin.config.is_some() || overridden.contains(&plugin.key);
            plugin.unavailable = self.unavailable(key, plugin, is_configured);
            missing.extend(plugin.unavailable.as_ref().map(|why| fault(field, why)));
        }
        missing
    }

    /// Returns the wrappers of the stage types that steps of a pipeline can run: those of its namespace, then those that others share
    /// with it.
    fn helpers(&self, pipeline: &ObjectKey) -> Vec<PhasePluginPlan> {
        let accepted =
            self.plugins.accepted.values().filter(|plugin| plugin.wrapper.is_some() && plugin.kind.is_stage());
        let steps = accepted.map(|plugin| PhasePluginPlan {
            key: plugin.key.clone(),
            config: None,
            kind: plugin.kind,
            unavailable: None,
        });
        let mut helpers: Vec<_> = steps.filter(|step| self.unavailable(pipeline, step, false).is_none()).collect();
        helpers.sort_by_key(|helper| helper.key.namespace != pipeline.namespace);
        helpers
    }

    /// Whether a pipeline could run a plugin in the previous plan, with a configuration of its own if `is_configured`. An invalid
    /// plugin still consents to that.
    fn had(&self, pipeline: &ObjectKey, plugin: &ObjectKey, is_configured: bool) -> bool {
        let form = self.previous.and_then(|plan| plan.upstream(&pipeline.name)).filter(|form| form.key == *pipeline);
        form.is_some_and(|form| {
            form.plugins().any(|step| {
                step.key == *plugin && step.unavailable.is_none() && (form.configures(step) || !is_configured)
            })
        })
    }

    /// Like [`permit`], for a plugin that may not exist. An invalid one still consents to what `had_it` finds; one that does not
    /// exist needs no consent, because it cannot run.
    pub(super) fn consent(
        &self,
        user: &ObjectKey,
        plugin: &ObjectKey,
        configures: bool,
        had_it: impl FnOnce() -> bool,
    ) -> Result<(), Refusal> {
        let is_foreign_and_invalid =
            || plugin.namespace != user.namespace && is_invalid(self.inputs, Kind::Plugin, plugin);
        let permitted = match self.plugins.inputs.get(plugin) {
            Some(input) => permit(self.inputs, input, user, configures),
            None if is_foreign_and_invalid() && !had_it() => {
                Err(format!("{plugin} is not valid: whom it is shared with is not known"))
            }
            None => Ok(()),
        };
        permitted.map_err(|message| Refusal { reason: Reason::RefNotPermitted, message })
    }

    /// Returns why a plugin that has no accepted form cannot run. `why` is the fault of the plugin, where that is known.
    pub(super) fn without_form(&self, plugin: &ObjectKey, why: Option<&str>) -> Refusal {
        let (reason, message) = if self.plugins.parsing.contains(plugin) {
            // Calls cannot wait for the next plan and must not skip a Guard, so they are refused until the code is parsed.
            (Reason::Pending, format!("the code of Plugin {plugin} is being parsed"))
        } else if self.plugins.inputs.contains_key(plugin) || is_invalid(self.inputs, Kind::Plugin, plugin) {
            let why = why.unwrap_or("its own finding says why");
            (Reason::PluginNotAccepted, format!("Plugin {plugin} is not accepted ({why})"))
        } else {
            (Reason::PluginNotFound, format!("there is no Plugin {plugin}"))
        };
        Refusal { reason, message }
    }

    /// Returns why a step cannot run its plugin; `None` if it can. `is_configured` tells whether the pipeline changes the
    /// configuration of the plugin.
    fn unavailable(&self, pipeline: &ObjectKey, step: &PhasePluginPlan, is_configured: bool) -> Option<Refusal> {
        let plugin = &step.key;
        // A plugin that the gateway does not take needs no consent. Else the next plan would give another reason.
        let had_it = || self.untaken(plugin).is_some() || self.had(pipeline, plugin, is_configured);
        if let Err(refusal) = self.consent(pipeline, plugin, is_configured, had_it) {
            return Some(refusal);
        }
        let (reason, message) = match self.plugins.accepted.get(plugin) {
            Some(accepted) if accepted.kind == step.kind && accepted.enabled => return self.untaken(plugin),
            Some(accepted) if accepted.kind == step.kind => {
                (Reason::EntryUnavailable, format!("Plugin {plugin} is switched off (its spec.enabled)"))
            }
            Some(accepted) => {
                let (is, wanted) = (accepted.kind.as_str(), step.kind.as_str());
                let user = if step.kind == PluginKind::Phase { "a step" } else { "the field" };
                (Reason::WrongType, format!("Plugin {plugin} is of type {is}: {user} needs one of type {wanted}"))
            }
            None => {
                let Refusal { reason, message } = self.without_form(plugin, None);
                let is_own = plugin.namespace == pipeline.namespace && reason == Reason::PluginNotFound;
                let own = self.plugins.inputs.keys().filter(|key| key.namespace == plugin.namespace && is_own);
                let near = nearest(&plugin.name, own.map(|key| key.name.as_str()));
                (reason, message + &near.map(|near| format!("; did you mean {near}?")).unwrap_or_default())
            }
        };
        Some(Refusal { reason, message })
    }

    /// Returns why the gateway does not take a plugin; `None` if it does. Labels of a plugin that is not valid are not
    /// known, and count as those that the gateway wants.
    fn untaken(&self, plugin: &ObjectKey) -> Option<Refusal> {
        let (wanted, gateway, input) = (&self.takes?.plugins, &self.gateway.key, self.plugins.inputs.get(plugin));
        let why = if !includes(&wanted.namespaces, &gateway.namespace, &plugin.namespace, self.inputs) {
            format!("namespace {}: add it to spec.plugins.namespaces of the gateway", plugin.namespace)
        } else if input.is_some_and(|input| !wanted.selector.matches(&input.labels)) {
            "its labels: give it those of spec.plugins.selector of the gateway".to_owned()
        } else {
            return None;
        };
        let message = format!("gateway {gateway} does not take Plugin {plugin}, because of {why}");
        Some(Refusal { reason: Reason::RefNotPermitted, message })
    }
}

/// Returns an earlier form of an upstream or pipeline, if it was accepted. What it refers to is found anew for each plan.
pub(super) fn accepted(before: &UpstreamPlan) -> Option<UpstreamPlan> {
    let is_of_reference = |refusal: &Refusal| {
        let mut unavailable = before.plugins().filter_map(|step| step.unavailable.as_ref());
        refusal.reason == Reason::ModelRoleNotFound || unavailable.any(|step| step.reason == refusal.reason)
    };
    let is_accepted = before.refusing.as_ref().is_none_or(is_of_reference);
    is_accepted.then(|| UpstreamPlan { refusing: None, ..before.clone() })
}

fn fault(field: String, why: &Refusal) -> FieldFault {
    (why.reason, field, why.message.clone())
}

/// Returns the refusal of calls because of a fault.
pub(super) fn refusal_of((reason, field, message): &FieldFault) -> Refusal {
    Refusal { reason: *reason, message: format!("{field}: {message}") }
}
