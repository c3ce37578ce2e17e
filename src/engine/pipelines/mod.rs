//! Pipelines: tools that the gateway serves itself, by running plugins of type phase (document 002). In a plan, a pipeline is
//! an upstream without a server, so that chains, filters, limits and records cover it like any other.

mod agents;
mod arguments;
mod asked;
mod changed;
mod completion;
mod context;
mod host;
mod json_answer;
mod loops;
mod output;
mod output_type;
mod overrides;
mod plugin_call;
mod provider;
mod run;
pub(crate) mod runs;
mod server;
mod shape;
mod shown_run;
mod step;
mod tasks;

pub(crate) use context::{RunUse, research_type};
pub(in crate::engine) use loops::{applying, customized};
pub use runs::{AnswerError, MAX_KEPT, RunTable};
pub(in crate::engine) use server::probed;
pub(crate) use shape::check_result;
pub use shown_run::{Run, RunStatus};
pub use tasks::RunTool;
