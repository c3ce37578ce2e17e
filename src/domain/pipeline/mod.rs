//! Runs of pipelines as plain data: the order of steps, the state that steps share, and the sources that a run has found.
//! Nothing here does IO: the engine runs the steps and reports how they ended.

mod citation;
mod customized;
mod machine;
mod source;
mod state;

pub use citation::cite;
pub use customized::customized;
pub use machine::{PipelineMachine, Step, StepRole};
pub use source::{InvalidSource, NewSource, Source, Sources};
pub use state::{RunState, StepResult};
