//! Sources of a gateway's plan in a cluster: snapshots that the operator wrote, plugin code in the pod, and Secrets.
//!
//! The pod reads snapshots and Secrets with its own rights: snapshots in its own namespace, and Secrets whose owners
//! granted access.

mod client;
mod code;
mod deadline;
mod failure;
mod granted;
mod last_good;
mod owner;
mod received;
mod secrets;
mod shard_cache;
mod snapshots;
mod tokens;

pub use self::client::{ConnectError, client, connect, infer};
pub use self::code::{Completed, PodCode};
pub use self::owner::GatewayUid;
pub use self::received::Received;
pub use self::secrets::ClusterSecrets;
pub use self::snapshots::{News, Snapshots};
pub use self::tokens::{OperatorTokens, ServiceAccountName};
