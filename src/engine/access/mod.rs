//! Who is let in, and how much each may have under way.

pub(crate) mod addresses;
pub(crate) mod admission;
pub(crate) mod sessions;
