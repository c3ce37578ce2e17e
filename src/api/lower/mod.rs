//! From the typed objects to the compiler's inputs: defaults that the object alone decides are filled in, and what
//! this version does not do is said.
//!
//! An object must be checked (`api::check`) before it comes here.

mod chain;
mod core;
mod document;
mod findings;
mod gateway;
mod place;
mod plugin;
mod shared;
#[cfg(test)]
mod tests;
mod upstream;

use self::chain::{chain, invalid_chain};
pub use self::core::{config_map, namespace, secret};
pub use self::document::{Lowered, document};
use self::findings::not_served;
use self::gateway::gateway;
pub use self::place::Place;
use self::plugin::plugin;
use self::upstream::upstream;
pub use self::upstream::{ENABLE, enable_word};
