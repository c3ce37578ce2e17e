//! Turns objects into the compiler's inputs: checks them, fills in the defaults that depend only on the object, and
//! reports settings that this version does not implement.
//!
//! [`document()`] checks an object with `api::check` before it lowers the object.

mod access;
mod access_tests;
mod chain;
mod core;
mod document;
mod findings;
mod gateway;
mod managed;
mod model;
mod pipeline;
mod place;
mod plugin;
mod route_hosts;
mod runtime;
mod section;
mod shared;
#[cfg(test)]
mod tests;
mod tools;
mod upstream;

use self::chain::{chain, invalid_chain};
pub use self::core::{config_map, namespace, secret};
pub use self::document::{Lowered, document};
use self::findings::not_served;
use self::gateway::gateway;
use self::pipeline::pipeline;
pub use self::place::ManifestSource;
use self::plugin::plugin;
use self::section::section;
use self::upstream::upstream;
pub use self::upstream::{ENABLE, enable_word};
