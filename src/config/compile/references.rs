//! Resolves what pipelines, and upstreams with the tools of a plugin, refer to: plugins, and roles of models.

use super::kept::accepted;
use super::names::{Candidate, is_same_object};
use super::pipelines::PipelineContext;
use super::plugins::permitted;
use super::takes::includes;
use super::{FieldFault, id, is_invalid};
use crate::config::input::PluginInput;
use crate::config::nearest::nearest;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{AgentKind, ModelPlan, PhasePluginPlan, PipelinePlan, Refusal, TransportPlan, UpstreamPlan};
use crate::domain::plugin::PluginKind;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// References that cannot be resolved: the field of each, and why.
type Missing = Vec<(String, Refusal)>;

impl PipelineContext<'_> {
    /// Returns the form that is in force: as written or, if that has `faults`, the last accepted one. A reference that cannot be
    /// resolved is a fault if the last accepted form has none: the edit names what does not exist. Otherwise something was taken
    /// away from the object, or it never had it, and its calls are refused.
    pub(super) fn form_in_force(
        &self,
        written: &UpstreamPlan,
        mut faults: Vec<FieldFault>,
        problems: &mut Vec<Problem>,
    ) -> UpstreamPlan {
        let (mut form, before) = (written.clone(), self.last_accepted(written));
        let missing = self.resolve(&mut form);
        if faults.is_empty() && before.as_ref().is_some_and(|(_, missing)| missing.is_empty()) {
            faults.extend(missing.iter().map(|(field, why)| (why.reason, field.clone(), why.message.clone())));
        }
        let object = id(written.kind(), &written.key);
        let effect = match &before {
            Some((_, missing)) if missing.is_empty() => "The last accepted form runs on",
            _ => "Its calls are refused",
        };
        for (reason, field, message) in &faults {
            problems.push(Problem::error(*reason, object.clone(), field, format!("{message}. {effect}")));
        }
        match (faults.into_iter().next(), before) {
            (Some(_), Some((before, missing))) => {
                let enabled = written.enabled;
                refused(UpstreamPlan { enabled, ..before }, missing, problems)
            }
            (fault, _) => {
                let of_fault = |(reason, field, message)| Refusal { reason, message: format!("{field}: {message}") };
                form.refusing = form.refusing.or_else(|| fault.map(of_fault));
                refused(form, missing, problems)
            }
        }
    }

    /// Returns a form that stays in force whatever it refers to. Its calls are refused if that cannot be resolved.
    pub(super) fn kept_form(&self, mut form: UpstreamPlan, problems: &mut Vec<Problem>) -> UpstreamPlan {
        let missing = self.resolve(&mut form);
        refused(form, missing, problems)
    }

    /// Finds the plugins that make the tools of upstreams.
    pub(super) fn resolve_providers(&self, upstreams: &mut [Candidate], problems: &mut Vec<Problem>) {
        for upstream in upstreams.iter_mut().filter(|upstream| upstream.form.provider().is_some()) {
            upstream.form = match upstream.place {
                Some(_) => self.kept_form(upstream.form.clone(), problems),
                None => self.form_in_force(&upstream.form, Vec::new(), problems),
            };
        }
    }

    /// Returns the form that an object has in the previous plan.
    pub(super) fn before(&self, written: &UpstreamPlan) -> Option<&UpstreamPlan> {
        self.previous?.upstream(&written.key.name).filter(|before| is_same_object(written, before))
    }

    /// Returns the last accepted form of an object, and what of it cannot be resolved now.
    fn last_accepted(&self, written: &UpstreamPlan) -> Option<(UpstreamPlan, Missing)> {
        let mut before = accepted(self.before(written)?)?;
        let missing = self.resolve(&mut before);
        Some((before, missing))
    }

    /// Puts into a form what it refers to. Returns what cannot be resolved.
    fn resolve(&self, plan: &mut UpstreamPlan) -> Missing {
        let key = plan.key.clone();
        match &mut plan.transport {
            _ if plan.refusing.as_ref().is_some_and(|refusal| refusal.reason == Reason::NotImplemented) => Vec::new(),
            TransportPlan::Pipeline(pipeline) => {
                let mut missing = self.resolve_models(pipeline);
                missing.extend(self.resolve_plugins(&key, pipeline));
                missing
            }
            TransportPlan::Plugin(provider) => {
                provider.unavailable = self.unavailable(&key, provider, false);
                provider.unavailable.iter().map(|why| ("spec.plugin".to_owned(), why.clone())).collect()
            }
            TransportPlan::External { .. } | TransportPlan::Process { .. } | TransportPlan::None => Vec::new(),
        }
    }

    /// Adds the models of the gateway. Returns the roles of agents that no model serves.
    fn resolve_models(&self, pipeline: &mut PipelinePlan) -> Missing {
        // Those that a kept form has of the gateway are replaced.
        pipeline.models.retain(|model| !model.is_of_gateway);
        for model in self.models {
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
            let why = Refusal { reason: Reason::ModelRoleNotFound, message };
            missing.push((format!("spec.declared.agents[{index}].modelTier"), why));
        }
        missing
    }

    fn resolve_plugins(&self, key: &ObjectKey, pipeline: &mut PipelinePlan) -> Missing {
        let overridden: Vec<_> = pipeline.configured_by_customizations().cloned().collect();
        let mut missing = Vec::new();
        for (field, plugin) in pipeline.plugins_mut() {
            let is_configured = plugin.config.is_some() || overridden.contains(&plugin.key);
            plugin.unavailable = self.unavailable(key, plugin, is_configured);
            missing.extend(plugin.unavailable.clone().map(|why| (field, why)));
        }
        missing
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

    /// Returns why a pipeline may not use a plugin of another namespace; `None` if it may. `is_configured` tells whether the
    /// pipeline changes the configuration of the plugin.
    fn no_consent(&self, pipeline: &ObjectKey, plugin: &ObjectKey, is_configured: bool) -> Option<String> {
        if plugin.namespace == pipeline.namespace {
            return None;
        }
        let Some(input) = self.plugins.inputs.get(plugin) else {
            let is_unknown =
                is_invalid(self.inputs, Kind::Plugin, plugin) && !self.had(pipeline, plugin, is_configured);
            return is_unknown.then(|| format!("{plugin} is not valid: whom it is shared with is not known"));
        };
        if !permitted(self.inputs, input, &pipeline.namespace) {
            return Some(format!("{plugin} is not shared with {} (its spec.shareWith)", pipeline.namespace));
        }
        (is_configured && !input.config_overrides).then(|| {
            format!("{plugin} does not let other namespaces change its config (its spec.shareWith.configOverrides)")
        })
    }

    /// Returns why a step cannot run its plugin; `None` if it can. `is_configured` tells whether the pipeline changes the
    /// configuration of the plugin.
    fn unavailable(&self, pipeline: &ObjectKey, step: &PhasePluginPlan, is_configured: bool) -> Option<Refusal> {
        let (plugin, input) = (&step.key, self.plugins.inputs.get(&step.key));
        let refusal = |reason, message| Some(Refusal { reason, message });
        if let Some(why) = self.no_consent(pipeline, plugin, is_configured) {
            return refusal(Reason::RefNotPermitted, why);
        }
        match self.plugins.accepted.get(plugin) {
            Some(accepted) if accepted.kind == step.kind && accepted.enabled => self.untaken(plugin, input.copied()),
            Some(accepted) if accepted.kind == step.kind => {
                refusal(Reason::EntryUnavailable, format!("Plugin {plugin} is switched off (its spec.enabled)"))
            }
            Some(accepted) => {
                let (is, wanted) = (accepted.kind.as_str(), step.kind.as_str());
                let user = if step.kind == PluginKind::Phase { "a step" } else { "the field" };
                refusal(
                    Reason::WrongType,
                    format!("Plugin {plugin} is of type {is}: {user} needs one of type {wanted}"),
                )
            }
            None if self.plugins.parsing.contains(plugin) => {
                refusal(Reason::Pending, format!("the code of Plugin {plugin} is being parsed"))
            }
            None if input.is_some() || is_invalid(self.inputs, Kind::Plugin, plugin) => refusal(
                Reason::PluginNotAccepted,
                format!("Plugin {plugin} is not accepted (its own finding says why)"),
            ),
            None => {
                let is_own = plugin.namespace == pipeline.namespace;
                let own = self.plugins.inputs.keys().filter(|key| key.namespace == plugin.namespace && is_own);
                let near = nearest(&plugin.name, own.map(|key| key.name.as_str()));
                let meant = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                refusal(Reason::PluginNotFound, format!("there is no Plugin {plugin}{meant}"))
            }
        }
    }

    /// Returns why the gateway does not take a plugin; `None` if it does. Labels of a plugin that is not valid are not
    /// known, and count as those that the gateway wants.
    fn untaken(&self, plugin: &ObjectKey, input: Option<&PluginInput>) -> Option<Refusal> {
        let (wanted, gateway) = (&self.takes?.plugins, self.gateway);
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

/// Refuses the calls of a form if something that it refers to is missing, and reports that.
fn refused(mut form: UpstreamPlan, missing: Missing, problems: &mut Vec<Problem>) -> UpstreamPlan {
    for (field, Refusal { reason, message }) in missing {
        form.refusing.get_or_insert_with(|| Refusal { reason, message: format!("{field}: {message}") });
        problems.push(Problem::error(reason, id(form.kind(), &form.key), field, message));
    }
    form
}
