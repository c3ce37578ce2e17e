//! The protocols between the gateway and workers. A protocol turns one input into one answer. Other modules choose the
//! process, set deadlines, and decide what happens to the process afterwards.

pub mod channel;
pub mod codec;
pub mod frame;
mod headers;
pub mod lines;
pub mod once;
pub mod plugin_log;
pub mod plugin_requests;
pub mod shared;
pub mod socket;
mod stage;
pub mod wire;

use tokio::time::Instant;

use crate::domain::plugin::{Failure, Input, Output};
use crate::domain::ports::Host;
use crate::domain::reason::Reason;

/// One call as it is sent to a worker.
#[derive(Clone, Copy)]
pub struct PluginCall<'a> {
    /// The plugin's input.
    pub input: &'a Input<'a>,
    /// The time after which an answer is too late.
    pub deadline: Instant,
    /// The maximum number of bytes of the answer's text.
    pub max_output: usize,
    /// Answers the plugin's requests during the call.
    pub host: &'a dyn Host,
}

/// The outcome of one exchange, and whether the worker can get another call.
#[derive(Debug)]
pub struct ExchangeOutcome {
    /// The answer, or the failure if there is none.
    pub output: Result<Output, Failure>,
    /// Whether both sides are ready for another call.
    pub reusable: bool,
}

impl ExchangeOutcome {
    /// An outcome after which the worker keeps serving, even if the plugin failed.
    pub fn settled(output: Result<Output, Failure>) -> Self {
        Self { output, reusable: true }
    }

    /// An outcome after which the worker cannot be used again.
    pub fn last(output: Result<Output, Failure>) -> Self {
        Self { output, reusable: false }
    }
}

fn closed() -> Failure {
    Failure::new(Reason::Crashed, "ended before it answered")
}

fn too_large(what: &str, limit: usize) -> Failure {
    Failure::new(Reason::TooLarge, format!("{what} is larger than {limit} bytes"))
}
