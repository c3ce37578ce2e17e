//! A list of 1,000 tools from 20 upstreams, against a hop that passes on a list of as many.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use http::Uri;
use serde::Serialize;
use serde_json::{Value, json};

use crate::aims::Aim;
use crate::cells::median;
use crate::child::{Child, Scratch};
use crate::client::{Client, Era, message};
use crate::load::{Measured, Repeat, measure};
use crate::options::Options;
use crate::{gateway, hop, upstream};

const UPSTREAMS: usize = 20;
const TOOLS: usize = 1000;
/// Concurrent clients, each with its own connection.
const CONNECTIONS: [usize; 2] = [1, 16];
/// How many times longer than through the hop a page takes at most, and how much more processor time.
const AIM: f64 = 2.0;
/// How long the gateway can take until it lists all tools.
const START: Duration = Duration::from_secs(30);

/// The results of the measurement.
#[derive(Serialize)]
pub struct Outcome {
    /// The bytes of all pages of the gateway's list.
    pub bytes: usize,
    pub rows: Vec<Row>,
    pub aims: Vec<Aim>,
    errors: usize,
}

/// The medians over the rounds, for one system and number of connections. Times are of one page, in microseconds.
#[derive(Serialize)]
pub struct Row {
    pub system: &'static str,
    pub connections: usize,
    pub p50_us: f64,
    pub p99_us: f64,
    pub pages_per_second: f64,
    pub cpu_us_per_page: f64,
}

/// A request for a page, and the length of its answer in bytes.
type Page = (Bytes, usize);

/// What serves the list.
struct Lister {
    name: &'static str,
    endpoint: Uri,
    pages: Arc<[Page]>,
    process: Child,
}

/// A client that reads one page after another.
struct Reader {
    client: Client,
    pages: Arc<[Page]>,
    next: usize,
}

impl Outcome {
    /// The number of pages that failed.
    pub fn errors(&self) -> usize {
        self.errors
    }
}

impl Repeat for Reader {
    async fn once(&mut self) -> Result<Duration> {
        let (body, length) = &self.pages[self.next % self.pages.len()];
        self.next += 1;
        let began = Instant::now();
        let answer = self.client.send_body("tools/list", body.clone()).await?;
        let took = began.elapsed();
        ensure!(answer.len() == *length, "a page has {} bytes instead of {length}", answer.len());
        Ok(took)
    }

    async fn close(self) {
        self.client.close().await;
    }
}

/// Starts the gateway and the hop, and has clients read their lists.
pub async fn run(options: &Options) -> Result<Outcome> {
    let (scratch, era) = (Scratch::new("lists")?, Era::Legacy);
    let (_parts, part) = upstream::start_with_tools(era, TOOLS / UPSTREAMS)?;
    let (_whole, whole) = upstream::start_with_tools(era, TOOLS)?;
    let upstreams = (0..UPSTREAMS).map(|n| gateway::named_upstream_manifest(&format!("up{n:02}"), &part, era));
    let manifests = gateway::GATEWAY.to_owned() + &upstreams.collect::<Vec<_>>().join("---");
    let file = scratch.write("lists.yaml", &manifests)?;
    let (process, endpoint) = gateway::start(Path::new(gateway::BINARY), &file)?;
    let ours = Lister { name: "gateway", pages: pages(&endpoint).await?, endpoint, process };
    let (process, endpoint) = hop::start(&whole)?;
    let theirs = Lister { name: "bare hop", pages: pages(&endpoint).await?, endpoint, process };
    let (mut rows, mut errors) = (Vec::new(), 0);
    for connections in CONNECTIONS {
        eprintln!("lists of {TOOLS} tools, {connections} connections");
        let mut rounds: [Vec<Measured>; 2] = Default::default();
        for _ in 0..options.rounds() {
            for (lister, rounds) in [&theirs, &ours].into_iter().zip(&mut rounds) {
                rounds.push(lister.slice(connections, options.slice()).await?);
            }
        }
        errors += rounds.iter().flatten().flat_map(|m| m.errors.values()).sum::<usize>();
        for (lister, rounds) in [&theirs, &ours].into_iter().zip(&rounds) {
            rows.push(Row::of(lister.name, connections, rounds).context("no page was read")?);
        }
    }
    let bytes = ours.pages.iter().map(|(_, length)| length).sum();
    let aims = rows.chunks(2).flat_map(|pair| aims(&pair[0], &pair[1])).collect();
    Ok(Outcome { bytes, rows, aims, errors })
}

impl Lister {
    async fn slice(&self, connections: usize, time: Duration) -> Result<Measured> {
        let mut readers = Vec::with_capacity(connections);
        for next in 0..connections {
            let client = Client::open(&self.endpoint, Era::Legacy).await?;
            readers.push(Reader { client, pages: Arc::clone(&self.pages), next });
        }
        measure(readers, Some(self.process.id()), time).await
    }
}

impl Row {
    fn of(system: &'static str, connections: usize, rounds: &[Measured]) -> Option<Self> {
        Some(Self {
            system,
            connections,
            p50_us: median(rounds.iter().filter_map(|m| m.p50_us))?,
            p99_us: median(rounds.iter().filter_map(|m| m.p99_us))?,
            pages_per_second: median(rounds.iter().map(|m| m.calls_per_second))?,
            cpu_us_per_page: median(rounds.iter().filter_map(|m| m.cpu_us_per_call))?,
        })
    }
}

fn aims(hop: &Row, gateway: &Row) -> [Aim; 2] {
    let of = |what: &str, found| {
        let plural = if gateway.connections == 1 { "" } else { "s" };
        let what = format!("{what} at {} connection{plural}, over the hop's", gateway.connections);
        Aim { what, found, aim: AIM, at_least: false }
    };
    [of("p50 of a page", gateway.p50_us / hop.p50_us), of("CPU a page", gateway.cpu_us_per_page / hop.cpu_us_per_page)]
}

/// Reads a list until it has all tools, and returns the requests for its pages.
async fn pages(endpoint: &Uri) -> Result<Arc<[Page]>> {
    let until = Instant::now() + START;
    loop {
        match read_pages(endpoint).await {
            Ok((TOOLS, pages)) => return Ok(pages.into()),
            Ok((count, _)) if Instant::now() > until => anyhow::bail!("{endpoint} lists {count} tools"),
            Err(error) if Instant::now() > until => return Err(error),
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Reads all pages. Returns the number of tools, and the requests.
async fn read_pages(endpoint: &Uri) -> Result<(usize, Vec<Page>)> {
    let mut client = Client::open(endpoint, Era::Legacy).await?;
    let (mut count, mut pages, mut params) = (0, Vec::new(), json!({}));
    loop {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params});
        let body = Bytes::from(request.to_string());
        let answer = client.send_body("tools/list", body.clone()).await?;
        pages.push((body, answer.len()));
        let result = &message(answer).context("an answer that is no message")?["result"];
        count += result["tools"].as_array().map_or(0, Vec::len);
        match &result["nextCursor"] {
            Value::String(cursor) => params = json!({"cursor": cursor}),
            _ => break,
        }
    }
    client.close().await;
    Ok((count, pages))
}
