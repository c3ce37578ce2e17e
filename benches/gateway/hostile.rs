//! A hostile upstream beside a good one: how much longer calls of the good one take.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Uri;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::aims::Aim;
use crate::cells::median;
use crate::child::Scratch;
use crate::client::{self, Client, Era};
use crate::hostile_upstream::TOOLS;
use crate::load::{Load, Measured, Payload, slice};
use crate::options::Options;
use crate::system::{Running, System};
use crate::{gateway, hostile_upstream, upstream};

/// The load on the good upstream.
const LOAD: Load = Load { size: 1024, connections: 16, payload: Payload::Plain };
/// How many clients call each tool of the hostile upstream.
const CALLERS: usize = 2;
/// How long they wait after each call.
const PAUSE: Duration = Duration::from_millis(100);
/// How many times longer than alone the good upstream's p99 is at most.
const AIM: f64 = 2.0;

/// The results of the measurement.
#[derive(Serialize)]
pub struct Outcome {
    pub rows: Vec<Row>,
    pub aims: Vec<Aim>,
    errors: usize,
}

/// Calls of the good upstream: the medians over the rounds, in microseconds.
#[derive(Serialize)]
pub struct Row {
    pub what: &'static str,
    pub p50_us: f64,
    pub p99_us: f64,
    pub calls_per_second: f64,
}

impl Outcome {
    /// The number of calls of the good upstream that failed.
    pub fn errors(&self) -> usize {
        self.errors
    }
}

/// Measures calls of the good upstream in turn alone and beside calls of the hostile one.
pub async fn run(options: &Options) -> Result<Outcome> {
    let (scratch, era) = (Scratch::new("hostile")?, Era::Legacy);
    let (_good, at) = upstream::start(era)?;
    let (_bad, bad) = hostile_upstream::start()?;
    let upstreams = [gateway::upstream_manifest(&at, era), gateway::named_upstream_manifest("bad", &bad, era)];
    let manifests = gateway::GATEWAY.to_owned() + &upstreams.join("---");
    let (process, endpoint) = gateway::start(Path::new(gateway::BINARY), &scratch.write("hostile.yaml", &manifests)?)?;
    let tool = client::wait_for_tool(&endpoint, era, "echo", Some(&process)).await?;
    client::wait_for_tool(&endpoint, era, TOOLS[0], Some(&process)).await?;
    let good = Running { system: System::Gateway, era, endpoint, authorization: None, tool, process: Some(process) };
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for round in 1..=options.rounds() {
        eprintln!("a hostile upstream: round {round} of {}", options.rounds());
        alone.push(slice(&good, LOAD, options.slice()).await?);
        let mut callers = JoinSet::new();
        for tool in TOOLS.iter().flat_map(|tool| [*tool; CALLERS]) {
            callers.spawn(call(good.endpoint.clone(), format!("bad__{tool}")));
        }
        beside.push(slice(&good, LOAD, options.slice()).await?);
        // What was called goes on for a while at the gateway, unless the clients close their connections.
        callers.shutdown().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let errors = alone.iter().chain(&beside).flat_map(|m| m.errors.values()).sum();
    let (alone, beside) = (Row::of("alone", &alone)?, Row::of("beside a hostile upstream", &beside)?);
    let what = "p99 of the good upstream beside a hostile one, over its p99 alone".to_owned();
    let aim = Aim { what, found: beside.p99_us / alone.p99_us, aim: AIM, at_least: false };
    Ok(Outcome { rows: vec![alone, beside], aims: vec![aim], errors })
}

/// Calls a tool of the hostile upstream again and again, whatever comes of it.
async fn call(endpoint: Uri, tool: String) {
    loop {
        if let Ok(mut client) = Client::open(&endpoint, Era::Modern).await {
            let body = client.call_body(1, &tool, "{}");
            let _ = client.call(&tool, body).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Row {
    pub fn of(what: &'static str, rounds: &[Measured]) -> Result<Self> {
        let row = || {
            Some(Self {
                what,
                p50_us: median(rounds.iter().filter_map(|m| m.p50_us))?,
                p99_us: median(rounds.iter().filter_map(|m| m.p99_us))?,
                calls_per_second: median(rounds.iter().map(|m| m.calls_per_second))?,
            })
        };
        row().with_context(|| format!("{what}: no call succeeded"))
    }
}
