//! A pipeline, ready to run: its globs, conditions and the schema of its output are compiled.

use super::entries::Globs;
use crate::config::expr::Expression;
use crate::config::variables::{OF_CUSTOMIZATIONS, OF_LOOPS, OF_WRITERS};
use crate::domain::digest::revision;
use crate::domain::plan::PipelinePlan;
use crate::domain::schema::{BoundedSchema, PreparedSchema};

/// A pipeline, ready to run.
pub(crate) struct LinkedPipeline {
    pub(crate) plan: PipelinePlan,
    include: Globs,
    exclude: Globs,
    /// The condition of each agent's loop; `None` if it has none.
    pub(crate) loops: Vec<Option<Expression>>,
    /// The condition of each customization; `None` if it always holds.
    pub(crate) customizations: Vec<Option<Expression>>,
    /// The condition that callers must meet to write shared values; `None` if nobody may write them.
    pub(crate) writers: Option<Expression>,
    /// A digest of the pipeline.
    pub(crate) revision: String,
    /// The schema of the output; `None` if any object fits.
    pub(crate) output: Option<BoundedSchema>,
}

impl LinkedPipeline {
    /// Links a pipeline. The compiler has checked what is compiled here.
    pub(crate) fn new(plan: &PipelinePlan) -> Self {
        let condition = |text: &str| Expression::compile(text, OF_LOOPS).ok();
        let loops = plan.agents.iter().map(|agent| condition(&agent.repeat.as_ref()?.0)).collect();
        let when = |text: &String| Expression::compile(text, OF_CUSTOMIZATIONS).ok();
        let schema = plan.output_schema.as_deref();
        Self {
            plan: plan.clone(),
            include: Globs::new(&plan.include),
            exclude: Globs::new(&plan.exclude),
            loops,
            customizations: plan.customizations.iter().map(|change| when(change.when.as_ref()?)).collect(),
            writers: plan.store.writers.as_ref().and_then(|text| Expression::compile(text, OF_WRITERS).ok()),
            revision: revision(plan),
            output: schema.and_then(|schema| PreparedSchema::parse(schema).and_then(|it| it.compile()).ok()),
        }
    }

    /// Whether steps can call the tool with this public name.
    pub(crate) fn allows(&self, tool: &str) -> bool {
        self.include.names(tool) && !self.exclude.names(tool)
    }
}
