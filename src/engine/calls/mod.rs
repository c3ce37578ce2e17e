//! The steps of one call: it is accepted, routed, passed through its chains, sent, answered and recorded.

mod arguments;
mod asked_back;
pub(crate) mod asked_client;
pub(crate) mod call;
pub(crate) mod chain;
pub mod content;
pub(crate) mod entry_traces;
pub(crate) mod execute;
pub(crate) mod finish;
pub(crate) mod host;
mod input_state;
pub(crate) mod meta;
pub(crate) mod outcome;
mod own_tool;
pub(crate) mod progress;
pub(crate) mod question_traces;
pub(crate) mod ready;
pub(crate) mod recorder;
mod retry;
mod rounds;
pub(crate) mod routed_call;
pub(crate) mod spans;
pub(crate) mod text_block;
pub(crate) mod tool_result;
mod valid_content;
pub(crate) mod when;
