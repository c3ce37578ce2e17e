//! Access control: which sessions and calls are accepted, and how many calls each client can have in flight.

pub(crate) mod addresses;
pub(crate) mod admission;
mod deleted;
mod gone;
mod replica;
pub(crate) mod seal;
pub(crate) mod sealed_id;
pub(crate) mod session;
pub(crate) mod session_id;
pub(crate) mod sessions;
