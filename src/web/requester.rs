//! The sender of a request.

use std::net::IpAddr;
use std::sync::Arc;

use crate::domain::identity::Identity;
use crate::domain::secret::SecretText;

/// Who sent a request, and from where.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    pub(super) address: IpAddr,
    pub(super) identity: Arc<Identity>,
    /// The token that proves the identity; `None` if another replica has checked it, or if it was proved in another way.
    pub(super) token: Option<Arc<SecretText>>,
}
