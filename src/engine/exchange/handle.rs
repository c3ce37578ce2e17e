//! Numbers by which something is found again.

/// Returns a number for something that a sealed id is to name. It has 60 random bits, so that an id from before a restart
/// names nothing.
pub fn new_handle() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}
