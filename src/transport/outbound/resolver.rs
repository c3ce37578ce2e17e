//! Resolves names of hosts, and checks their addresses before one of them is dialled.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::{Service, ServiceExt};

use super::address_guard::AddressGuard;

/// Resolves the name of a host once for each connection. A connection goes to one of the addresses that were checked.
#[derive(Clone, Debug)]
pub(super) struct GuardedResolver {
    pub(super) guard: Option<AddressGuard>,
    pub(super) port: u16,
}

impl Service<Name> for GuardedResolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { guard, port } = self.clone();
        Box::pin(async move {
            let found: Vec<_> = GaiResolver::new().oneshot(name).await?.collect();
            for address in &found {
                let checked = guard.as_ref().map_or(Ok(()), |guard| guard.check(SocketAddr::new(address.ip(), port)));
                checked.map_err(io::Error::other)?;
            }
            Ok(found.into_iter())
        })
    }
}
