//! The state of upstreams: probes of their health, and their tool lists.

pub(crate) mod probes;
pub(crate) mod probing;
pub(crate) mod state;
