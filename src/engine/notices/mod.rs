//! Notifications outside of the answers to requests: changes of lists and resources, and log messages of servers.
//! Reports of servers arrive through `take_update`, `take_log` and `announcing` of `Lists` and `InForce`; the stream of a client
//! reads its [`Mailbox`] and follows its [`ListChanges`].

mod list_changes;
mod mailbox;
mod subscription;
mod subscriptions;

pub use list_changes::ListChanges;
pub use mailbox::{Mailbox, Notice};
pub use subscription::Subscription;
pub(in crate::engine) use subscription::Unsubscribe;
pub use subscriptions::{MAX_OF_CLIENT, Subscribers};
