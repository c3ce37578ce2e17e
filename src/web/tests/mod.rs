//! The MCP endpoints and the admin API, against an engine with fake adapters.

mod admin;
pub(super) mod gateway;
mod legacy;
mod modern;
mod refused;
mod replicas;
mod server;
mod sockets;
mod tasks;
mod transport;
