//! The steps of one call: it is accepted, routed, passed through its chains, sent, answered and recorded.

mod admit;
mod arguments;
mod arrived;
mod audited;
mod checks;
pub(crate) mod finish;
mod own_tool;
pub(crate) mod recorder;
mod request_chains;
mod retry;
mod rounds;
mod route;
mod rules;
pub(crate) mod section;
mod send;
pub(crate) mod stages;
pub(crate) mod task_id;
mod tasks;
mod waiting;
