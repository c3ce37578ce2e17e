//! Where a gateway in a cluster gets its plan: objects that an operator wrote, code in its own image, Secrets.
//!
//! All of it is read with the pod's own rights: snapshots of its own namespace, and Secrets whose owners granted them.

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
