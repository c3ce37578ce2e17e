//! The sender of a request.

use std::net::IpAddr;
use std::sync::Arc;

use crate::domain::identity::Identity;

/// Who sent a request, and from where.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    pub(super) address: IpAddr,
    pub(super) identity: Arc<Identity>,
}
