//! Which process this is, so that it knows its own requests when an upstream's URL leads them back to it.

use std::sync::LazyLock;

use uuid::Uuid;

/// The header of requests to upstreams that names the gateway's process.
pub const INSTANCE_HEADER: &str = "hawsepipe-instance";

/// This process, as the header names it.
pub static INSTANCE: LazyLock<String> = LazyLock::new(|| Uuid::new_v4().simple().to_string());
