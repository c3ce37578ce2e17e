//! Compiles the objects that users wrote into a plan.
//!
//! This module performs no IO, uses no async runtime and reads no clock; facts about code, files and namespaces are
//! inputs. A bad object is reported as a Problem and never prevents the compilation of the others.

pub mod access;
pub mod compile;
pub mod config_schema;
pub mod expr;
pub mod input;
pub mod nearest;
mod pipeline_input;
mod plugin_file;
pub mod redaction;
mod section_input;
pub mod sections;
pub mod shards;
pub mod variables;
mod wrapper_input;
