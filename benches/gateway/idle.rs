//! Streams of notifications on which nothing happens: the memory that the gateway takes for them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::Uri;
use http_body_util::BodyExt;
use serde::Serialize;

use crate::aims::Aim;
use crate::child::Scratch;
use crate::client::{self, Client, Era, Listening};
use crate::procfs::resident_bytes;
use crate::{gateway, upstream};

/// Half of them are GET streams of sessions, half are those of modern clients.
pub const STREAMS: usize = 10_000;
/// The most that they may take of the gateway's memory, in megabytes.
const AIM: f64 = 300.0;
/// How many streams are opened at the same time.
const AT_A_TIME: usize = 32;
/// How long nothing happens before the memory is read.
const IDLE: Duration = Duration::from_secs(5);

/// The results of the measurement, in megabytes of the gateway's process.
#[derive(Serialize)]
pub struct Outcome {
    pub before_mb: f64,
    pub after_mb: f64,
    /// With all streams closed again.
    pub closed_mb: f64,
    pub aims: Vec<Aim>,
    errors: usize,
}

impl Outcome {
    /// The number of streams that ended by themselves.
    pub fn errors(&self) -> usize {
        self.errors
    }
}

/// Opens the streams, waits, and reads the gateway's memory.
pub async fn run() -> Result<Outcome> {
    let (scratch, era) = (Scratch::new("idle")?, Era::Legacy);
    let (_upstream, at) = upstream::start(era)?;
    let limits = format!("limits:\n    maxConnections: {0}\n    maxStreams: {0}", STREAMS * 2);
    let manifests = gateway::GATEWAY.replace("limits:", &limits) + &gateway::upstream_manifest(&at, era);
    let (process, endpoint) = gateway::start(Path::new(gateway::BINARY), &scratch.write("idle.yaml", &manifests)?)?;
    client::wait_for_tool(&endpoint, era, "echo", Some(&process)).await?;
    let memory = || -> Result<f64> {
        Ok(resident_bytes(process.id()).context("the gateway's memory cannot be read")? as f64 / 1e6)
    };
    let before_mb = memory()?;
    let opening = stream::iter(0..STREAMS).map(|number| open(&endpoint, [Era::Legacy, Era::Modern][number % 2]));
    let mut streams: Vec<Listening> = opening.buffer_unordered(AT_A_TIME).try_collect().await?;
    eprintln!("{} idle streams", streams.len());
    tokio::time::sleep(IDLE).await;
    let after_mb = memory()?;
    let errors = streams.iter_mut().filter_map(has_ended).count();
    drop(streams);
    tokio::time::sleep(IDLE).await;
    let what = format!("megabytes that {STREAMS} idle streams take");
    let aims = vec![Aim { what, found: after_mb - before_mb, aim: AIM, at_least: false }];
    Ok(Outcome { before_mb, after_mb, closed_mb: memory()?, aims, errors })
}

async fn open(endpoint: &Uri, era: Era) -> Result<Listening> {
    Client::open(endpoint, era).await?.listen().await
}

/// `Some` if a stream is at its end, after what was said on it.
fn has_ended(stream: &mut Listening) -> Option<()> {
    loop {
        match stream.body.frame().now_or_never()? {
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Some(()),
        }
    }
}
