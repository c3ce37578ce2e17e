//! Warm Node.js workers: protocol, worker, pool, inspection. Implements `domain::ports::{RunPlugin, Inspect}`.
//!
//! A call takes a [lease](seat_lease) of a [`seat`] at a [`worker`] from its plugin's [`pool`] and exchanges messages
//! with the worker by its [`protocol`]. The [`starter`] starts workers: it [writes the code to disk](installed_code)
//! and starts a process with the [`launcher`]. A [`wrapper`] is a program of another language. [`maintenance`] replaces or ends idle workers. [`execution_limits`]
//! bounds all plugins together, and [`execution_queue`] those that wait.

pub mod discovery;
pub mod egress;
pub mod execution_limits;
pub mod execution_queue;
#[cfg(test)]
mod fixture;
pub mod inspect;
pub mod installed_code;
mod last_words;
pub mod launcher;
pub mod loading;
pub mod log_mask;
pub mod maintenance;
pub mod metrics;
pub mod output_drain;
pub mod places;
mod pool;
mod pools;
pub mod private;
pub mod process;
pub mod protocol;
pub mod sandbox;
mod scaling;
pub mod seat;
pub mod seat_lease;
mod seat_queue;
pub mod spawn;
pub mod starter;
pub mod stats;
mod thrown;
pub mod worker;
pub mod workers;
pub mod wrapper;
mod yielding;

pub use discovery::{NodeError, NodeRuntime, find_node};
pub use inspect::{Inspector, inspect_main};
pub use launcher::{Launcher, sandbox_main};
pub use metrics::WorkerMetrics;
pub use sandbox::hide_memory;
pub use starter::Lifetimes;
pub use workers::Workers;
