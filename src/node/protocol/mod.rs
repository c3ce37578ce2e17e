//! The protocols between the gateway and workers. A protocol turns one input into one answer; which
//! process it speaks to, for how long, and what becomes of the process afterwards is decided elsewhere.

pub mod asks;
pub mod channel;
pub mod codec;
pub mod frame;
mod headers;
pub mod lines;
pub mod once;
pub mod plugin_log;
pub mod shared;
pub mod socket;
pub mod wire;

use tokio::time::Instant;

use crate::domain::plugin::{Failure, Input, Output};
use crate::domain::ports::Host;
use crate::domain::reason::Reason;

/// One call as a worker is asked it.
#[derive(Clone, Copy)]
pub struct PluginCall<'a> {
    /// What the plugin gets.
    pub input: &'a Input<'a>,
    /// When the answer comes too late.
    pub deadline: Instant,
    /// Bytes of its answer's text.
    pub max_output: usize,
    /// What it may ask for meanwhile.
    pub host: &'a dyn Host,
}

/// What one exchange gave, and whether the worker is fit for another.
#[derive(Debug)]
pub struct Exchange {
    /// The answer, or why there is none.
    pub output: Result<Output, Failure>,
    /// Whether both sides stand where a next call can begin.
    pub reusable: bool,
}

impl Exchange {
    /// An answer after which the worker serves on, also where the plugin itself failed.
    pub fn settled(output: Result<Output, Failure>) -> Self {
        Self { output, reusable: true }
    }

    /// An answer, or its failure, after which the worker cannot be used again.
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
