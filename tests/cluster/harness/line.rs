//! A line to the API server that can be cut: what is connected through it loses its connection, and gets none. Or its
//! connections die in silence: they stay open, and nothing comes through them any more.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Cluster;

/// Passes bytes on until it is cut. Dropped, it is gone.
pub struct Line {
    address: SocketAddr,
    whole: watch::Sender<bool>,
    /// How often all connections of the time died in silence.
    silenced: watch::Sender<u32>,
    _task: JoinSet<()>,
}

impl Line {
    /// One to the cluster's API server.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn to(cluster: &Cluster) -> Self {
        let server = cluster.config().await.cluster_url.authority().expect("it has an address").to_string();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (whole, silenced) = (watch::Sender::new(true), watch::Sender::new(0));
        let mut task = JoinSet::new();
        task.spawn(accept(listener, server.into(), whole.subscribe(), silenced.subscribe()));
        Self { address, whole, silenced, _task: task }
    }

    /// The URL at its near end.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Ends every connection; new ones are closed at once.
    pub fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Nothing passes through the connections of now any more, and nobody is told. New ones pass.
    pub fn silence(&self) {
        self.silenced.send_modify(|times| *times += 1);
    }

    /// New connections pass again.
    pub fn mend(&self) {
        self.whole.send_replace(true);
    }
}

async fn accept(listener: TcpListener, server: Arc<str>, whole: watch::Receiver<bool>, silenced: watch::Receiver<u32>) {
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        if *whole.borrow() {
            connections.spawn(pass(near, Arc::clone(&server), whole.clone(), silenced.clone()));
        }
    }
}

async fn pass(
    mut near: TcpStream,
    server: Arc<str>,
    mut whole: watch::Receiver<bool>,
    mut silenced: watch::Receiver<u32>,
) {
    let begun = *silenced.borrow();
    let Ok(mut far) = TcpStream::connect(&*server).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
        _ = whole.wait_for(|whole| !whole) => return,
        _ = silenced.wait_for(|times| *times != begun) => {}
    }
    // Both ends stay open.
    let _ = whole.wait_for(|whole| !whole).await;
}
