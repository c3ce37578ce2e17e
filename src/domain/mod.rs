//! The domain of the gateway as plain data and pure functions: plans, calls, chains, records.
//!
//! Invariant: no IO, no async runtime, no clock, no Kubernetes. Time is passed in as a parameter, and everything that
//! reaches outside is a trait in [`ports`].

pub mod announcement;
pub mod apps;
pub mod audit;
pub mod batch;
pub mod boxed;
pub mod budget;
pub mod caching;
pub mod capabilities;
pub mod causes;
pub mod changed_tool;
pub mod code_file;
pub mod definition;
pub mod digest;
pub mod egress;
pub mod extensions;
pub mod header_text;
pub mod health;
pub mod history;
pub mod ids;
pub mod instance;
pub mod invalid_message;
pub mod invocation;
pub mod item;
pub mod json;
pub mod json_spellings;
pub mod kept_form;
pub mod limits;
pub mod log_level;
mod masked_json;
pub mod members;
pub mod method;
pub mod mirror;
pub mod network;
pub mod own_keys;
pub mod pin;
pub mod plan;
pub mod plugin;
pub mod plugin_progress;
pub mod ports;
pub mod problem;
pub mod question;
pub mod quoted;
pub mod raw;
pub mod reason;
pub mod record;
pub mod report;
pub mod route;
pub mod rpc;
pub mod sandbox;
#[cfg(feature = "gateway")]
pub mod schema;
pub mod search;
pub mod secret;
pub mod seen;
pub mod skim;
pub mod splice;
pub mod task;
pub mod tokens;
pub mod tool_name;
pub mod turns;
pub mod upstream;
mod upstream_error;
pub mod verdict;
pub mod version;
