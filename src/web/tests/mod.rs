//! The endpoint and the admin API against an engine over plain structs.

mod admin;
mod gateway;
mod legacy;
mod modern;
mod sockets;
mod transport;
