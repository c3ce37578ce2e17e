//! The MCP endpoints and the admin API, against an engine with fake adapters.

mod admin;
mod batches;
mod gateway;
mod legacy;
mod modern;
mod replicas;
mod sockets;
mod transport;
