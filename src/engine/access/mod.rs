//! Access control: which sessions and calls are accepted, and how many calls each client can have in flight.

pub(crate) mod addresses;
pub(crate) mod admission;
mod deleted;
pub mod explained;
pub mod gate;
mod gone;
mod other_replicas;
mod permitted;
pub(crate) mod principals;
pub mod refusals;
mod refused;
mod replica;
pub(crate) mod run_places;
pub mod seal;
pub mod sealed_id;
pub(crate) mod session;
pub mod session_id;
pub(crate) mod sessions;
mod shutdown;
mod stopping;
pub mod task_id;
