//! The open connections of a listener, and which of them gives way where there are as many as may be.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::task::Id;
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use crate::domain::network::{have_many, network};

/// How long a connection must have been idle to give way: a next request may be on its way.
const IDLE: Duration = Duration::from_secs(1);

/// One of how many connections gives way at once, beside the first, so that many that wait get in without many passes.
const BATCH: usize = 128;

/// How long to wait before the maximum and all connections are looked at again where none can give way.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The shortest time between two passes over all connections, each of which costs time for every connection.
const GIVE_WAY: Duration = Duration::from_millis(50);

/// For how long a connection that was told counts as one that ends soon. After that, its client may be reading slowly, and
/// another one is told instead.
const ENDS_SOON: Duration = Duration::from_millis(200);

/// An open connection.
pub(super) struct OpenConnection {
    /// The network of its client.
    client: IpAddr,
    pub(super) activity: Activity,
    /// Cancelled when the connection is to give way.
    pub(super) gives_way: CancellationToken,
    /// When it was told to.
    told_at: OnceLock<Instant>,
}

impl OpenConnection {
    /// A connection that a client has just made.
    pub(super) fn new(client: IpAddr) -> Arc<Self> {
        let (activity, gives_way) = (Activity::default(), CancellationToken::new());
        Arc::new(Self { client: network(client), activity, gives_way, told_at: OnceLock::new() })
    }

    fn give_way(&self, now: Instant) {
        let _ = self.told_at.set(now);
        self.gives_way.cancel();
    }

    fn ends_soon(&self, now: Instant) -> bool {
        self.told_at.get().is_some_and(|at| now.saturating_duration_since(*at) < ENDS_SOON)
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
pub(super) struct OpenConnections {
    open: HashMap<Id, Arc<OpenConnection>>,
    /// When all connections may be looked at again, to see which can give way.
    next_pass: Option<Instant>,
}

impl OpenConnections {
    /// Adds a connection that this task serves.
    pub(super) fn add(&mut self, task: Id, connection: Arc<OpenConnection>) {
        self.open.insert(task, connection);
    }

    /// Forgets the connection that this task has served.
    pub(super) fn remove(&mut self, task: Id) {
        self.open.remove(&task);
    }

    /// The number of open connections.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Makes room where there are at least as many connections as may be, `most`, unless it was tried a moment ago. Returns
    /// how long to wait before the next try.
    pub(super) fn make_room(&mut self, most: usize, now: Instant) -> Duration {
        if let Some(wait) = self.next_pass.and_then(|at| at.checked_duration_since(now)).filter(|wait| !wait.is_zero())
        {
            return wait;
        }
        let excess = self.len().saturating_sub(most);
        let wanted = if excess > 0 { excess + 1 } else { 1 + most / BATCH };
        let ending = self.open.values().filter(|connection| connection.ends_soon(now)).count();
        let told = self.tell(wanted.saturating_sub(ending), now);
        let wait = if told + ending > 0 { GIVE_WAY } else { LOOK_AGAIN };
        self.next_pass = Some(now + wait);
        wait
    }

    /// Tells so many connections that have been idle longest to give way, of clients that have at least half as many as the
    /// one that has most, unless these are few among all. Returns how many there were.
    fn tell(&self, wanted: usize, now: Instant) -> usize {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        self.open.values().for_each(|connection| *counts.entry(connection.client).or_default() += 1);
        let has_many = have_many(&counts);
        let of_many = self.open.values().filter(|known| known.told_at.get().is_none() && has_many(&known.client));
        let idle = of_many.filter_map(|connection| Some((connection.activity.idle_for()?, connection)));
        let mut idle: Vec<_> = idle.filter(|(time, _)| *time >= IDLE).collect();
        idle.sort_unstable_by_key(|(time, _)| Reverse(*time));
        idle.truncate(wanted);
        idle.iter().for_each(|(_, connection)| connection.give_way(now));
        idle.len()
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

    fn told(open: &OpenConnections) -> Vec<Id> {
        let told = open.open.iter().filter(|(_, connection)| connection.gives_way.is_cancelled());
        told.map(|(task, _)| *task).collect()
    }

    #[tokio::test]
    async fn no_more_are_told_than_are_needed_however_many_come_and_go() {
        const MOST: usize = 300;
        let mut open = OpenConnections::default();
        let comes = |open: &mut OpenConnections| {
            open.add(tokio::spawn(async {}).id(), OpenConnection::new(Ipv4Addr::LOCALHOST.into()));
        };
        (0..MOST).for_each(|_| comes(&mut open));
        let began = Instant::now();
        assert_eq!(open.make_room(MOST, began), LOOK_AGAIN, "none is idle yet");
        tokio::time::sleep(IDLE).await;
        assert!(open.make_room(MOST, began + LOOK_AGAIN / 2) <= LOOK_AGAIN / 2 && told(&open).is_empty(), "not yet");
        let mut now = began + LOOK_AGAIN;
        assert_eq!(open.make_room(MOST, now), GIVE_WAY);
        assert_eq!(told(&open).len(), 1 + MOST / BATCH);
        // One ends and another comes, over and over.
        for _ in 0..2 {
            open.remove(told(&open)[0]);
            comes(&mut open);
            assert_eq!(open.make_room(MOST, now), GIVE_WAY);
        }
        assert_eq!(told(&open).len(), 1);
        now += GIVE_WAY;
        open.make_room(MOST, now);
        assert_eq!(told(&open).len(), 1 + MOST / BATCH, "the one that is about to end is one of them");
        now += GIVE_WAY;
        open.make_room(MOST - 9, now);
        assert_eq!(told(&open).len(), 10, "as many as are too many, and one");
        // None of those that were told ends, so others are told instead.
        now += ENDS_SOON;
        open.make_room(MOST - 9, now);
        assert_eq!(told(&open).len(), 20);
    }
}
