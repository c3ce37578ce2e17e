//! The form of the output of a pipeline, by a plugin of type output-type (document 002, `OutputTypeProvider`).

use std::time::Duration;

use serde_json::value::RawValue;

use super::Pipelines;
use super::changed::parse;
use super::context::RunContext;
use super::output::RunFailure;
use super::server::listed;
use crate::domain::item::Listed;
use crate::domain::pipeline::{Step, StepRole, check_output_schema};
use crate::domain::plan::{AgentKind, OutputTypePlan, PipelinePlan, SynthesizerConfig, SynthesizerPlan};
use crate::domain::raw::RawObject;
use crate::domain::reason::Reason;
use crate::domain::upstream::{Target, UpstreamError};

/// The functions of such a plugin.
pub(super) const GET_SCHEMA: &str = "getOutputSchema";
pub(super) const GET_CONFIG: &str = "getSynthesizerConfig";
pub(super) const GET_PROMPT: &str = "getSynthesizerPrompt";
/// The member of the definition of a tool with the schema of its output.
const OUTPUT_SCHEMA: &str = "outputSchema";

impl Pipelines {
    /// Returns the list of tools of a pipeline: its own, with the schema of the output that its plugin gives.
    ///
    /// # Errors
    /// If the plugin fails, or gives no schema of an output.
    pub(in crate::engine) async fn tool_of_pipeline(
        &self,
        target: &Target,
        plan: &PipelinePlan,
        timeout: Duration,
    ) -> Result<Listed, UpstreamError> {
        // Without the plugin, calls are refused, so that there is no output.
        let usable = plan.output_type.as_ref().filter(|output| output.plugin.unavailable.is_none());
        let Some(OutputTypePlan { plugin, .. }) = usable else { return listed(plan, None) };
        let schema = self.ask_plugin(target, plugin, GET_SCHEMA, timeout).await.map_err(UpstreamError::Plugin)?;
        let of_plugin = |(reason, why): (Reason, String)| {
            UpstreamError::OfPlugin(reason, format!("{GET_SCHEMA} of Plugin {}: {why}", plugin.key))
        };
        check_output_schema(&schema).map_err(of_plugin)?;
        let schema =
            RawValue::from_string(schema).map_err(|why| of_plugin((Reason::InvalidSchema, why.to_string())))?;
        listed(plan, Some((OUTPUT_SCHEMA, schema)))
    }
}

impl RunContext<'_> {
    /// Puts into a pipeline what its plugin says of the output. What the manifest says takes precedence.
    pub(super) async fn shape_output(
        &self,
        plan: &mut PipelinePlan,
        output: &OutputTypePlan,
    ) -> Result<(), RunFailure> {
        let schema = self.listed_schema().ok_or_else(|| {
            let message = format!("the schema that Plugin {} gives is not known yet", output.plugin.key);
            RunFailure::new(Reason::InvalidSchema, message)
        })?;
        let name = format!("output/{}", output.plugin.key.name);
        let step = Step { name: &name, plugin: &output.plugin, role: StepRole::Phase };
        let config = self.call_plugin(step, GET_CONFIG, Vec::new(), config).await?;
        let prompt: Option<String> = self.call_plugin(step, GET_PROMPT, Vec::new(), parse).await?;
        let config = output.written.clone().or(config);
        for agent in plan.agents.iter_mut().filter(|agent| agent.kind == AgentKind::Synthesizer) {
            let default = || agent.kind.default_role().map(str::to_owned);
            agent.model_role = agent.model_role.take().or_else(|| config.model_tier.clone()).or_else(default);
        }
        plan.output_schema = Some(schema);
        plan.synthesizer = SynthesizerPlan { prompt, ..config.plan() };
        Ok(())
    }

    /// Returns the schema of the output that clients see.
    fn listed_schema(&self) -> Option<String> {
        let catalogue = self.pipelines.catalogues.upstream(&self.call.plan().key).catalogue?;
        let (tool, _) = catalogue.tools().next()?;
        let definition = RawObject::parse(tool.definition.get()).ok()?;
        Some(definition.get(OUTPUT_SCHEMA)?.get().to_owned())
    }
}

/// Reads the result of `getSynthesizerConfig`.
pub(super) fn config(json: &str) -> Result<SynthesizerConfig, String> {
    let config: SynthesizerConfig = parse(json)?.unwrap_or_default();
    match config.is_in_bounds() {
        true => Ok(config),
        false => Err("its maxTokens is not from 1 to 1000000, or its temperature not from 0 to 2".to_owned()),
    }
}

/// Returns a prompt with its placeholders filled: `{query}`, `{findings}`, `{sources}` and `{schema}`. What fills one is not
/// read again.
pub(super) fn filled(template: &str, values: &[(&str, String)]) -> String {
    let (mut text, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let found = values.iter().find_map(|(name, value)| Some((value, after.strip_prefix(name)?.strip_prefix('}')?)));
        match found {
            Some((value, left)) => {
                text.push_str(value);
                rest = left;
            }
            None => {
                text.push('{');
                rest = after;
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_once() {
        let values = [("query", "{schema}?".to_owned()), ("schema", "{}".to_owned())];
        assert_eq!(filled("a {query} { {other} {schema}", &values), "a {schema}? { {other} {}");
        assert_eq!(filled("{{query}", &values), "{{schema}?");
    }
}
