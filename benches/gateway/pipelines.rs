//! Pipelines: what a run costs, and a tool call in it, against the same call by hand.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use http::Uri;
use memchr::memmem;
use serde::Serialize;

use crate::aims::Aim;
use crate::cells::median;
use crate::child::Scratch;
use crate::client::{self, Client, Era, excerpt};
use crate::load::{Load, Measured, Payload, Repeat, measure, slice};
use crate::options::Options;
use crate::system::{Running, System};
use crate::{gateway, upstream};

/// The tool calls of a run that makes any.
const CALLS: u32 = 8;
/// The load of calls by hand, and the size of the text of those in a run.
const LOAD: Load = Load { size: 1024, connections: 1, payload: Payload::Plain };
/// How many microseconds longer than by hand a tool call in a run takes at most.
const STEP_AIM_US: f64 = 60.0;
/// How many times longer than a call with one Module an empty pipeline takes at most.
const EMPTY_AIM: f64 = 1.3;
/// How many milliseconds a run takes at most that makes all its calls of the tool `wait` at once.
const PARALLEL_AIM_MS: f64 = 65.0;

/// The Module that runs on the upstream `modular` alone.
const CHAIN: &str = "---
apiVersion: hawsepipe.dev/v1alpha1
kind: PluginChain
metadata: {name: answers}
spec:
  phase: Response
  upstreams: {names: [modular]}
  entries:
  - {name: first, failurePolicy: Fail}
";
/// A pipeline of one step, and its plugin.
const PIPELINE: &str = "---
apiVersion: hawsepipe.dev/v1alpha1
kind: Plugin
metadata: {name: {{name}}}
spec:
  type: phase
  source:
    inline: |
      {{code}}
---
apiVersion: hawsepipe.dev/v1alpha1
kind: ToolPipeline
metadata: {name: {{name}}}
spec:
  tool: {description: Measures.}
  tools: {include: ['bench__*']}
  declared:
    startAgent: main
    agents: [{name: main, type: custom, plugin: {name: {{name}}}}]
";
/// The names of the pipelines, and their code. A call that returns anything else fails its run.
const EMPTY: (&str, &str) = ("empty", "export const execute = () => ({ output: {} });");
const STEPS: (&str, &str) = (
    "steps",
    "const text = 'lorem ipsum dolor sit amet, '.repeat(40).slice(0, 1024);
      export async function execute(state, ctx) {
        for (let n = 0; n < 8; n += 1) {
          const { content } = await ctx.callTool('bench__echo', { text, nonce: `${n}` });
          if (content[0].text !== `${text} ${n}`) throw new Error('not what was sent');
        }
        return { output: {} };
      }",
);
const PARALLEL: (&str, &str) = (
    "parallel",
    "export async function execute(state, ctx) {
        const calls = Array.from({ length: 8 }, (_, n) => ctx.callTool('bench__wait', { nonce: `${n}` }));
        const results = await Promise.all(calls);
        if (!results.every(({ content }, n) => content[0].text === `waited ${n}`)) throw new Error('not what was sent');
        return { output: {} };
      }",
);

/// The results of the measurement.
#[derive(Serialize)]
pub struct Outcome {
    pub rows: Vec<Row>,
    pub aims: Vec<Aim>,
    errors: usize,
}

/// The medians over the rounds of one kind of call, in microseconds.
#[derive(Serialize)]
pub struct Row {
    pub what: &'static str,
    pub p50_us: f64,
    pub p99_us: f64,
    pub calls_per_second: f64,
}

impl Outcome {
    /// The number of calls that failed.
    pub fn errors(&self) -> usize {
        self.errors
    }
}

/// A client that runs a pipeline, one time after another.
struct Runner {
    client: Client,
    tool: &'static str,
    body: Bytes,
    /// What the answer of a run that made all its calls contains.
    made: Arc<str>,
}

impl Runner {
    async fn open(endpoint: &Uri, tool: &'static str, calls: u32) -> Result<Self> {
        let client = Client::open(endpoint, Era::Legacy).await?;
        let body = client.call_body(1, tool, r#"{"prompt":"x"}"#);
        Ok(Self { client, tool, body, made: format!(r#""toolCalls":{calls}"#).into() })
    }
}

impl Repeat for Runner {
    async fn once(&mut self) -> Result<Duration> {
        let began = Instant::now();
        let answer = self.client.call(self.tool, self.body.clone()).await?;
        let took = began.elapsed();
        let is_good =
            [r#""status":"completed""#, &self.made].iter().all(|it| memmem::find(answer, it.as_bytes()).is_some());
        ensure!(is_good, "not a good run: {}", excerpt(answer));
        Ok(took)
    }

    async fn close(self) {
        self.client.close().await;
    }
}

/// What is measured, in this order in each round.
const KINDS: [&str; 5] =
    ["a call by hand", "a call with 1 Module", "an empty pipeline", "8 calls in a run", "8 calls of 50 ms at once"];

/// Measures calls by hand and runs in turn, over one connection.
pub async fn run(options: &Options) -> Result<Outcome> {
    let (scratch, era) = (Scratch::new("pipelines")?, Era::Legacy);
    let (_upstream, at) = upstream::start(era)?;
    let file = scratch.write("pipelines.yaml", &manifests(&at, era))?;
    let (process, endpoint) = gateway::start(Path::new(gateway::BINARY), &file)?;
    for tool in ["bench__echo", "modular__echo", EMPTY.0, STEPS.0, PARALLEL.0] {
        client::wait_for_tool(&endpoint, era, tool, Some(&process)).await?;
    }
    let echo = |tool: &str| Running {
        system: System::Gateway,
        era,
        endpoint: endpoint.clone(),
        authorization: None,
        tool: tool.to_owned(),
        process: None,
    };
    let (plain, modular) = (echo("bench__echo"), echo("modular__echo"));
    let mut rounds: [Vec<Measured>; KINDS.len()] = Default::default();
    for round in 1..=options.rounds() {
        eprintln!("pipelines: round {round} of {}", options.rounds());
        rounds[0].push(slice(&plain, LOAD, options.slice()).await?);
        rounds[1].push(slice(&modular, LOAD, options.slice()).await?);
        for (kind, (tool, calls)) in [(EMPTY.0, 0), (STEPS.0, CALLS), (PARALLEL.0, CALLS)].into_iter().enumerate() {
            let runner = Runner::open(&endpoint, tool, calls).await?;
            rounds[kind + 2].push(measure(vec![runner], None, options.slice()).await?);
        }
    }
    let failed = rounds.iter().flatten().flat_map(|measured| &measured.errors);
    let errors =
        failed.inspect(|(error, count)| eprintln!("pipelines: {count} calls failed: {error}")).map(|(_, n)| n).sum();
    let rows = KINDS.into_iter().zip(&rounds).map(|(what, rounds)| Row::of(what, rounds));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    Ok(Outcome { aims: aims(&rounds).context("a round without a call")?, rows, errors })
}

fn manifests(upstream: &Uri, era: Era) -> String {
    let upstreams = ["bench", "modular"].map(|name| gateway::named_upstream_manifest(name, upstream, era));
    let pipeline = |(name, code): (&str, &str)| PIPELINE.replace("{{name}}", name).replace("{{code}}", code);
    let pipelines = [EMPTY, STEPS, PARALLEL].map(pipeline).concat();
    let module = gateway::MODULE.replace("{{name}}", "first");
    format!("{}{}{module}{CHAIN}{pipelines}", gateway::GATEWAY, upstreams.join("---"))
}

impl Row {
    fn of(what: &'static str, rounds: &[Measured]) -> Result<Self> {
        let of =
            |figure: fn(&Measured) -> Option<f64>| median(rounds.iter().filter_map(figure)).context("no call ended");
        Ok(Self {
            what,
            p50_us: of(|measured| measured.p50_us)?,
            p99_us: of(|measured| measured.p99_us)?,
            calls_per_second: of(|measured| Some(measured.calls_per_second))?,
        })
    }
}

/// Returns the figures with their aims: the medians over the rounds of what each round has found.
fn aims(rounds: &[Vec<Measured>; KINDS.len()]) -> Option<Vec<Aim>> {
    let count = rounds[0].len();
    let of = |figure: &dyn Fn([f64; KINDS.len()]) -> f64| {
        let found: Option<Vec<f64>> = (0..count)
            .map(|round| {
                let mut p50 = [0.0; KINDS.len()];
                for (p50, rounds) in p50.iter_mut().zip(rounds) {
                    *p50 = rounds.get(round)?.p50_us?;
                }
                Some(figure(p50))
            })
            .collect();
        median(found?)
    };
    let aim = |what: &str, found, aim| Aim { what: what.to_owned(), found, aim, at_least: false };
    let step = of(&|[hand, _, empty, steps, _]| (steps - empty) / f64::from(CALLS) - hand)?;
    let empty = of(&|[_, module, empty, _, _]| empty / module)?;
    let parallel = of(&|[.., parallel]| parallel / 1e3)?;
    Some(vec![
        aim("p50 that a tool call of a step takes longer than by hand, in us", step, STEP_AIM_US),
        aim("p50 of an empty pipeline, over that of a call with 1 Module", empty, EMPTY_AIM),
        aim("p50 of a run with eight calls of a 50 ms tool at once, in ms", parallel, PARALLEL_AIM_MS),
    ])
}
