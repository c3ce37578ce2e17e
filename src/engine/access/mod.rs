//! Access control: who is let in, and how many calls each can have in flight.

pub(crate) mod addresses;
pub(crate) mod admission;
pub(crate) mod sessions;
