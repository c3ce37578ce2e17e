//! The HTTP interface of gateways and operators: the MCP endpoints, and the admin API on its own port.
//!
//! Uses adapters only through `engine`.

mod access;
mod admin;
mod admin_access;
mod admin_history;
mod admin_plugins;
mod admin_query;
mod admin_values;
mod asked;
mod audited_change;
mod authenticate;
mod client;
mod client_sender;
mod continued;
mod cut_stream;
mod dispatch;
mod elsewhere;
pub mod envelope;
mod exchange;
mod forward;
mod forward_token;
mod forwarded;
mod forwarded_body;
mod forwarded_identity;
mod invocations;
mod legacy;
mod listen;
mod listener_context;
mod mcp;
mod message_sender;
mod modern;
mod offer;
mod openapi;
mod operator;
mod parking;
mod post;
mod protected_resource;
mod replica_client;
mod replica_connector;
mod replicas;
mod requester;
mod response;
mod runs;
mod sealed;
mod session_replicas;
mod session_stream;
mod silent_replicas;
mod status;
mod stopping;
mod stream_place;
mod subscribe;
mod task_forms;
mod tasks;
mod ticks;

pub use admin::{admin_router, metrics_router, openapi_document};
pub use admin_access::CheckToken;
pub use listener_context::ServedListener;
pub use mcp::McpService;
pub use operator::operator_router;

#[cfg(test)]
mod tests;
