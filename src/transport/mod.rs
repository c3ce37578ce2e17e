//! What several adapters need of sockets, pipes and processes: connections of an HTTP server, connections to other hosts,
//! bodies of requests, event streams, lines of a pipe to and from a process, and processes that end with all that they
//! started. Of MCP, it knows only the headers that repeat parts of the body.

mod accept;
mod activity;
mod bind;
mod connections;
pub mod flow;
mod gateway_mark;
#[cfg(feature = "gateway")]
pub mod issuer;
mod last_words;
mod launcher;
mod line_reader;
#[cfg(feature = "gateway")]
mod listener_tls;
pub mod mcp_headers;
mod open_connections;
#[cfg(feature = "gateway")]
pub mod outbound;
mod peer;
#[cfg(feature = "gateway")]
mod pem;
mod process_group;
mod process_tree;
pub mod rate_limit;
#[cfg(feature = "gateway")]
mod replica_tls;
mod request_body;
#[cfg(feature = "gateway")]
pub mod retry_after;
pub mod sse;
mod stdin_queue;

pub use self::accept::Accept;
pub use self::bind::{EVERYWHERE, bind};
pub use self::connections::{ConnectionBounds, MAX_CONNECTIONS, serve, serve_over};
pub use self::gateway_mark::GatewayMark;
pub use self::last_words::LastWords;
pub use self::launcher::{ServerLauncher, find, server_main};
pub use self::line_reader::{Awaited, LinePiece, LineReader};
#[cfg(feature = "gateway")]
pub use self::listener_tls::ListenerTls;
pub use self::peer::{Channel, Handshake, Peer, Plain, peer_address};
pub use self::process_group::{ProcessEnd, ProcessGroup};
pub use self::process_tree::{Descendants, zombies_of};
#[cfg(feature = "gateway")]
pub use self::replica_tls::ReplicaTls;
pub use self::request_body::{BodyError, is_encoded, is_json, read_body};
pub use self::stdin_queue::{NotSent, StdinQueue, stdin_queue};
