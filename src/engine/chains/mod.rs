//! The chains of a call: over its request, over the questions that its server asks meanwhile, and over its answer. Only this folder
//! reads what a server answered before its chains ran.

pub(crate) mod asked_back;
pub(crate) mod asked_by_error;
pub(crate) mod asked_client;
pub(crate) mod cause;
pub(crate) mod chain;
pub mod content;
pub(crate) mod entry_traces;
pub(crate) mod execute;
pub(crate) mod host;
pub(crate) mod input_questions;
pub(crate) mod input_state;
pub(crate) mod meta;
pub(crate) mod outcome;
pub(crate) mod plugin_run;
pub(crate) mod progress;
pub(crate) mod question_traces;
pub(crate) mod questions;
pub(crate) mod ready;
pub(crate) mod recheck;
pub(crate) mod release;
pub(crate) mod released;
pub(crate) mod routed_call;
pub(crate) mod spans;
pub(crate) mod task_answers;
pub(crate) mod task_state;
pub(crate) mod text_block;
pub(crate) mod tool_result;
pub(crate) mod unchecked;
pub(crate) mod valid_content;
pub(crate) mod when;
