//! The open connections of a listener, and which of them gives way where there are as many as may be.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::task::Id;
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use crate::domain::network::{have_many, network};

/// How long a connection must have been idle to give way: a next request may be on its way.
const IDLE: Duration = Duration::from_secs(1);

/// One of how many connections gives way at once, beside the first.
const BATCH: usize = 128;

/// An open connection.
pub(super) struct OpenConnection {
    /// The network of its client.
    client: IpAddr,
    pub(super) activity: Activity,
    /// Cancelled when the connection is to give way.
    pub(super) gives_way: CancellationToken,
}

impl OpenConnection {
    /// A connection that a client has just made.
    pub(super) fn new(client: IpAddr) -> Arc<Self> {
        let gives_way = CancellationToken::new();
        Arc::new(Self { client: network(client), activity: Activity::default(), gives_way })
    }
}

/// The body of an answer that is a stream. Its connection is not idle until its end.
pub(super) struct StreamBody {
    pub(super) body: Body,
    pub(super) connection: Arc<OpenConnection>,
}

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        self.connection.activity.end();
    }
}

/// The open connections, by the task that serves each.
#[derive(Default)]
pub(super) struct OpenConnections(HashMap<Id, Arc<OpenConnection>>);

impl OpenConnections {
    /// Adds a connection that this task serves.
    pub(super) fn add(&mut self, task: Id, connection: Arc<OpenConnection>) {
        self.0.insert(task, connection);
    }

    /// Forgets the connection that this task has served.
    pub(super) fn remove(&mut self, task: Id) {
        self.0.remove(&task);
    }

    /// The number of open connections.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells connections that have been idle longest to give way: some of those of clients that have at least half as many as
    /// the one that has most, unless these are few among all. Returns whether any was told.
    pub(super) fn make_room(&self) -> bool {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        self.0.values().for_each(|connection| *counts.entry(connection.client).or_default() += 1);
        let has_many = have_many(&counts);
        let of_many = self.0.values().filter(|known| !known.gives_way.is_cancelled() && has_many(&known.client));
        let idle = of_many.filter_map(|connection| Some((connection.activity.idle_for()?, connection)));
        let mut idle: Vec<_> = idle.filter(|(time, _)| *time >= IDLE).collect();
        idle.sort_unstable_by_key(|(time, _)| Reverse(*time));
        idle.truncate(1 + self.len() / BATCH);
        idle.iter().for_each(|(_, connection)| connection.gives_way.cancel());
        !idle.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::Router;
    use hyper_util::service::TowerToHyperService;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    use super::*;
    use crate::transport::serve;

    async fn is_answered(client: &mut TcpStream) -> bool {
        let mut answer = Vec::new();
        while !answer.ends_with(b"ok") {
            if client.read_buf(&mut answer).await.unwrap_or(0) == 0 {
                return false;
            }
        }
        true
    }

    #[tokio::test]
    async fn where_all_places_are_taken_idle_connections_of_the_client_with_most_give_way() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = TowerToHyperService::new(Router::new().fallback(|| async { "ok" }));
        let served = tokio::spawn(serve(listener, router, || 5, CancellationToken::new()));
        let ask = async |from| {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((Ipv4Addr::new(127, 0, 0, from), 0).into()).unwrap();
            let mut client = socket.connect(address).await.unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            client
        };
        let mut few = ask(2).await;
        assert!(is_answered(&mut few).await);
        let mut many = Vec::new();
        for _ in 0..4 {
            let mut client = ask(66).await;
            assert!(is_answered(&mut client).await);
            many.push(client);
        }
        let mut next = ask(3).await;
        assert!(is_answered(&mut next).await, "it waits until another one has been idle for long enough");
        assert_eq!(many[0].read(&mut [0]).await.unwrap(), 0, "the one that was idle longest, of those with most");
        few.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        assert!(is_answered(&mut few).await);
        served.abort();
    }
}
