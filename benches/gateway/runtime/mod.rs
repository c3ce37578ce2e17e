//! Measures the plugin runtime without a gateway: executions in the gateway's pool and sandbox, compared with an echo
//! between two processes and with a process that is started for each call.

mod cold;
mod plugins;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use hawsepipe::node::find_node;
use serde::Serialize;

use crate::aims::Aim;
use crate::floor::Floor;
use crate::load::{quantile, text};
use crate::options::Options;
use cold::{Cold, cpu_seconds};
use plugins::{FOREVER, KINDS, Kind, LINES_LABEL, MODULE, MODULE_LABEL, Rig};

/// Content sizes, in bytes.
const SIZES: [usize; 3] = [1 << 10, 50 << 10, 1 << 20];
/// How many rounds the measurements of one size are split into, so that all kinds of calls take turns.
const ROUNDS: usize = 10;
/// Workers and callers in the measurements of throughput. With two callers for each worker, a worker never waits for
/// its next call.
const THROUGHPUT: [(u32, u32); 4] = [(1, 1), (1, 2), (2, 4), (4, 8)];
/// Calls before those that are measured. They are slower, until the code is compiled.
const WARMING: usize = 300;
/// The deadline of a call that never ends.
const DEADLINE: Duration = Duration::from_millis(50);

/// The results of the measurements.
#[derive(Serialize, Default)]
pub struct Outcome {
    pub calls: Vec<Calls>,
    /// Workers, callers, and the calls a second of a Module with 1 KB of content.
    pub throughput: Vec<(u32, u32, f64)>,
    pub aims: Vec<Aim>,
}

/// The times of one kind of call with one size of content, in microseconds.
#[derive(Serialize, Clone)]
pub struct Calls {
    pub what: String,
    pub bytes: usize,
    pub p50_us: f64,
    pub p99_us: f64,
}

/// How much to measure.
#[derive(Clone, Copy)]
struct Extent {
    /// The number of calls to workers that stay.
    warm: usize,
    /// The number of calls that each start a process.
    starts: usize,
    slice: Duration,
}

impl Outcome {
    /// Returns the median time of a Module's call with this size of content, if it was measured.
    pub fn module_p50_us(&self, bytes: u32) -> Option<f64> {
        let calls = self.calls.iter().find(|calls| calls.what == MODULE_LABEL && calls.bytes == bytes as usize)?;
        Some(calls.p50_us)
    }

    fn add(&mut self, what: impl Into<String>, bytes: usize, mut times: Vec<f64>) -> Result<Calls> {
        times.sort_by(f64::total_cmp);
        let at = |share| quantile(&times, share).context("nothing was measured");
        let calls = Calls { what: what.into(), bytes, p50_us: at(0.5)?, p99_us: at(0.99)? };
        self.calls.push(calls.clone());
        Ok(calls)
    }

    fn hold(&mut self, what: impl Into<String>, found: f64, aim: f64) {
        self.aims.push(Aim { what: what.into(), found, aim, at_least: false });
    }
}

/// Makes all measurements.
pub async fn run(options: &Options) -> Result<Outcome> {
    let extent = match options.quick {
        true => Extent { warm: 300, starts: 5, slice: options.slice() / 4 },
        false => Extent { warm: 3000, starts: 40, slice: options.slice() },
    };
    let mut outcome = Outcome::default();
    let cold = Cold::new(find_node("node".as_ref()).await?)?;
    for bytes in SIZES {
        eprintln!("plugins with {bytes} bytes");
        of_size(bytes, &cold, &extent, &mut outcome).await?;
    }
    starts(&cold, &extent, &mut outcome)?;
    sustained(&cold, &extent, &mut outcome).await?;
    throughput(&extent, &mut outcome).await?;
    idle_memory(&mut outcome).await?;
    overshoot(&extent, &mut outcome).await?;
    Ok(outcome)
}

/// Measures each kind of call with one size of content. All take turns with the echo and with plain processes, so that
/// other activity on the machine affects them alike.
async fn of_size(bytes: usize, cold: &Cold, extent: &Extent, outcome: &mut Outcome) -> Result<()> {
    let content = text(bytes);
    let mut floor = Floor::start()?;
    let rigs = try_join_all(KINDS.map(async |kind| Rig::start(kind.link(1)).await.map(Arc::new))).await?;
    for (kind, rig) in KINDS.iter().zip(&rigs).filter(|(kind, _)| !kind.starts_anew()) {
        times(rig, *kind, &content, WARMING).await.with_context(|| kind.label)?;
    }
    let (mut echo, mut plain, mut calls) = (Vec::new(), Vec::new(), KINDS.map(|_| Vec::new()));
    for _ in 0..ROUNDS {
        echo.extend(floor.times(bytes, extent.slice / 4)?);
        for _ in 0..extent.starts.div_ceil(ROUNDS) {
            plain.push(cold.plain(&content)?);
        }
        for ((kind, rig), calls) in KINDS.iter().zip(&rigs).zip(&mut calls) {
            let count = if kind.starts_anew() { extent.starts } else { extent.warm };
            calls.extend(times(rig, *kind, &content, count.div_ceil(ROUNDS)).await.with_context(|| kind.label)?);
        }
    }
    for rig in rigs {
        rig.end().await;
    }
    let echo = outcome.add("echo between two processes", bytes, echo)?;
    let plain = outcome.add("a plain process a call", bytes, plain)?;
    let mut lines = f64::NAN;
    for (kind, calls) in KINDS.iter().zip(calls) {
        let calls = outcome.add(kind.label, bytes, calls)?;
        judge(*kind, &calls, &echo, &plain, outcome);
        if kind.is_python && bytes == SIZES[0] {
            outcome.hold(
                format!("{} p50 over that of JavaScript, {bytes} bytes", kind.label),
                calls.p50_us / lines,
                2.0,
            );
        } else if kind.label == LINES_LABEL {
            lines = calls.p50_us;
        }
    }
    Ok(())
}

/// Compares a kind of call with the echo and with plain processes.
fn judge(kind: Kind, calls: &Calls, echo: &Calls, plain: &Calls, outcome: &mut Outcome) {
    let (over_echo, tail, over_cold, once_over_cold) = match calls.bytes {
        1024 => (4.0, 30.0, 1.0 / 400.0, 1.0 / 18.0),
        51200 => (4.0, 15.0, 1.0 / 200.0, 1.0 / 14.0),
        _ => (3.5, 15.0, 1.0 / 20.0, 1.0 / 2.5),
    };
    let mut hold = |what: &str, time: f64, yardstick: f64, aim| {
        outcome.hold(format!("{} {what}, {} bytes", kind.label, calls.bytes), time / yardstick, aim);
    };
    if kind.is_module() {
        hold("p50 over the echo's", calls.p50_us, echo.p50_us, over_echo);
        hold("p99 over the echo's p50", calls.p99_us, echo.p50_us, tail);
        hold("p50 over a process a call", calls.p50_us, plain.p50_us, over_cold);
    } else if kind.starts_anew() {
        hold("p50 over a process a call", calls.p50_us, plain.p50_us, once_over_cold);
    }
}

/// Measures calls, in microseconds. They run in a spawned task, as in the gateway: in the main future they would also
/// measure how another thread wakes the main one.
async fn times(rig: &Arc<Rig>, kind: Kind, content: &str, count: usize) -> Result<Vec<f64>> {
    let (rig, content) = (Arc::clone(rig), content.to_owned());
    tokio::spawn(async move {
        match kind.starts_anew() {
            true => each_ready(&rig, &content, count).await,
            false => one_by_one(&rig, &content, count).await,
        }
    })
    .await?
}

async fn one_by_one(rig: &Rig, content: &str, count: usize) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..count {
        times.push(rig.call(content).await?);
    }
    Ok(times)
}

/// Measures calls one by one, and before each waits until a worker is ready.
async fn each_ready(rig: &Rig, content: &str, count: usize) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..count {
        rig.ready(1).await?;
        times.push(rig.call(content).await?);
    }
    Ok(times)
}

/// Compares cold starts in the sandbox with plain ones. They take turns, so that other activity on the machine affects
/// both alike.
fn starts(cold: &Cold, extent: &Extent, outcome: &mut Outcome) -> Result<()> {
    let (mut plain, mut sandboxed) = (Vec::new(), Vec::new());
    for _ in 0..2 * extent.starts {
        plain.push(cold.plain("")?);
        sandboxed.push(cold.sandboxed("")?);
    }
    let plain = outcome.add("a plain process, without content", 0, plain)?;
    let sandboxed = outcome.add("a sandboxed process, without content", 0, sandboxed)?;
    outcome.hold("cold start in the sandbox over a plain one", sandboxed.p50_us / plain.p50_us, 1.2);
    Ok(())
}

/// Measures the sustained rate of Once calls, and compares it with the rate that the CPU time of a process start
/// allows.
async fn sustained(cold: &Cold, extent: &Extent, outcome: &mut Outcome) -> Result<()> {
    let before = cpu_seconds()?;
    for _ in 0..2 * extent.starts {
        cold.plain("")?;
    }
    let seconds = (cpu_seconds()? - before) / (2 * extent.starts) as f64;
    let cores = std::thread::available_parallelism()?.get();
    let rig = Arc::new(Rig::start(Kind::once().link(u32::try_from(2 * cores)?)).await?);
    let per_second = rate(&rig, 2 * cores, &text(SIZES[0]), 4 * extent.slice).await?;
    let found = per_second / (cores as f64 / seconds);
    outcome.aims.push(Aim {
        what: "Once, sustained rate over cores / CPU seconds of a start".into(),
        found,
        aim: 0.5,
        at_least: true,
    });
    rig.end().await;
    Ok(())
}

/// Measures the calls a second of `callers` callers, each with one call in flight.
async fn rate(rig: &Arc<Rig>, callers: usize, content: &str, time: Duration) -> Result<f64> {
    let (began, until) = (Instant::now(), Instant::now() + time);
    let calling = (0..callers).map(|_| {
        let (rig, content) = (Arc::clone(rig), content.to_owned());
        tokio::spawn(async move {
            let mut calls = 0;
            while Instant::now() < until {
                rig.call(&content).await?;
                calls += 1;
            }
            anyhow::Ok(calls)
        })
    });
    let calls: u32 = try_join_all(calling).await?.into_iter().sum::<Result<u32>>()?;
    Ok(f64::from(calls) / began.elapsed().as_secs_f64())
}

async fn throughput(extent: &Extent, outcome: &mut Outcome) -> Result<()> {
    let content = text(SIZES[0]);
    for (workers, callers) in THROUGHPUT {
        let rig = Arc::new(Rig::start(Kind::module(MODULE).link(workers)).await?);
        // The pool grows with demand, so this first run starts all workers.
        rate(&rig, callers as usize, &content, Duration::from_secs(1)).await?;
        let per_second = rate(&rig, callers as usize, &content, extent.slice).await?;
        outcome.throughput.push((workers, callers, per_second));
        rig.end().await;
    }
    Ok(())
}

/// Measures the private memory of an idle worker that has served a call.
async fn idle_memory(outcome: &mut Outcome) -> Result<()> {
    let rig = Rig::start(Kind::module(MODULE).link(1)).await?;
    rig.call(&text(SIZES[0])).await?;
    rig.ready(1).await?;
    let pid = rig.available().next().context("no worker waits")?.pid;
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let field =
        |name| rollup.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse().ok());
    let kibibytes: f64 = field("Private_Dirty:").context("the system does not say what is private")?;
    outcome.hold("private memory of an idle worker, MiB", kibibytes / 1024.0, 12.0);
    rig.end().await;
    Ok(())
}

/// Measures how long after its deadline a call that never ends is answered.
async fn overshoot(extent: &Extent, outcome: &mut Outcome) -> Result<()> {
    let rig = Rig::start(Kind::module(FOREVER).link(2)).await?;
    let mut late = Vec::new();
    for _ in 0..2 * extent.starts {
        rig.ready(1).await?;
        let began = Instant::now();
        rig.failure(DEADLINE).await?;
        late.push((began.elapsed() - DEADLINE).as_secs_f64() * 1e6);
    }
    let late = outcome.add("answer after the deadline", 0, late)?;
    outcome.hold("answer after the deadline, p99 in ms", late.p99_us / 1e3, 25.0);
    rig.end().await;
    Ok(())
}
