//! Access control: which sessions and calls are accepted, and how many calls each client can have in flight.

pub(crate) mod addresses;
pub(crate) mod admission;
mod deleted;
mod process_keys;
pub(crate) mod seal;
pub(crate) mod session;
pub(crate) mod sessions;
