//! Invocations of tools that a client creates, watches and cancels by their ids (document 003, ToolInvocationRequest).

mod run;
pub(crate) mod table;

pub use run::InvokeError;
pub use table::{InvocationEntry, InvocationTable};
