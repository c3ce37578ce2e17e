//! Runs of pipelines as plain data: the order of steps, the state that steps share, and the sources that a run has found.
//! Nothing here does IO: the engine runs the steps and reports how they ended.

mod citation;
mod customized;
mod customizer;
mod form;
mod machine;
mod output_schema;
pub mod rules;
mod source;
mod stage;
mod state;

pub use citation::cite;
pub use customized::customized;
pub use customizer::{Changes, Customizable, CustomizerResult, PhaseOfPlugin, PipelineConfig};
pub use form::{ANSWERS, Form};
pub use machine::{PipelineMachine, Step, StepRole};
pub use output_schema::check_output_schema;
pub use source::{InvalidSource, NewSource, RUN, SOURCES, Source, Sources};
pub use stage::{check_stage_result, kind_of_stage_function, stage_functions};
pub use state::{RunOutput, RunState, StepResult};
