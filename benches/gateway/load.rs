//! Closed-loop load: each client has one call in flight and checks every answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use futures_util::future::try_join_all;
use memchr::memmem;
use serde::Serialize;
use serde_json::json;

use crate::client::{Client, excerpt, message};
use crate::procfs::tree_cpu_seconds;
use crate::system::Running;

/// The times of calls, in microseconds.
pub type Latencies = Vec<f64>;

/// How long clients make calls before these are measured.
const WARM_UP: Duration = Duration::from_millis(300);
/// If calls are slow, a slice is extended up to this factor, until there are two answers for each client.
const PATIENCE: u32 = 4;
/// How many different errors are reported.
const MAX_KINDS: usize = 4;

/// The kind of text in calls and answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// JSON as text, as most servers send it: one byte in five is a backslash
    Json,
    /// Words that need no escaping
    Plain,
}

impl Payload {
    /// Makes text of `size` bytes as it stands in a JSON string.
    fn text(self, size: usize) -> String {
        if self == Self::Plain {
            return text(size);
        }
        let mut json = String::with_capacity(size + 128);
        for number in 0.. {
            let record = json!({"id": number, "name": format!("item {number}"), "tags": ["new", "sale"], "ok": true});
            let quoted = record.to_string().replace('"', "\\\"");
            if json.len() + quoted.len() >= size {
                break;
            }
            json = json + &quoted + "\\n";
        }
        let rest = size - json.len();
        json + &text(rest)
    }
}

/// The load that clients make.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Load {
    /// The bytes of text in each call and its answer.
    pub size: u32,
    /// The number of concurrent clients, each with its own connection.
    pub connections: u16,
    pub payload: Payload,
}

/// The results of one slice.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Measured {
    /// The number of measured calls, which are those that began after the warm-up.
    pub calls: usize,
    /// `None` if no call succeeded.
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub calls_per_second: f64,
    /// The CPU time of the process tree between client and upstream, in microseconds; `None` if there is none.
    pub cpu_us_per_call: Option<f64>,
    /// The number of failed calls, by error.
    pub errors: BTreeMap<String, usize>,
}

/// The state that the clients of a slice share.
#[derive(Default)]
struct Progress {
    phase: AtomicU8,
    /// The number of calls that succeeded during the measurement, including those that began in the warm-up.
    ended: AtomicUsize,
}

impl Progress {
    /// The first phase, 0, is the warm-up.
    const COUNTING: u8 = 1;
    const OVER: u8 = 2;

    fn is(&self, phase: u8) -> bool {
        self.phase.load(Ordering::Relaxed) == phase
    }

    fn enter(&self, phase: u8) {
        self.phase.store(phase, Ordering::Relaxed);
    }

    fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct Tally {
    latencies: Latencies,
    errors: BTreeMap<String, usize>,
}

/// A client that makes requests of one kind, one after another.
pub trait Repeat: Sized + Send + 'static {
    /// Makes one request, checks the answer, and returns the time until its last byte arrived.
    fn once(&mut self) -> impl Future<Output = Result<Duration>> + Send;

    /// Ends the client's session.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Calls the tool `echo` of a system with this load, and measures for `time`.
pub async fn slice(system: &Running, load: Load, time: Duration) -> Result<Measured> {
    let open = (0..load.connections).map(|number| Caller::open(system, load, number));
    let callers = try_join_all(open).await.with_context(|| format!("{} gives no session", system.system.label()))?;
    measure(callers, system.process.as_ref().map(|process| process.id()), time).await
}

/// Has all clients make their requests, and measures for `time`. `process` is the one between client and upstream.
pub async fn measure<C: Repeat>(clients: Vec<C>, process: Option<u32>, time: Duration) -> Result<Measured> {
    let (progress, connections) = (Arc::new(Progress::default()), clients.len());
    let calling: Vec<_> =
        clients.into_iter().map(|client| tokio::spawn(repeat(client, Arc::clone(&progress)))).collect();

    tokio::time::sleep(WARM_UP).await;
    let (cpu_before, began) = (cpu(process).await?, Instant::now());
    progress.enter(Progress::COUNTING);
    tokio::time::sleep(time).await;
    while progress.ended() < 2 * connections && began.elapsed() < time * PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    progress.enter(Progress::OVER);
    let (took, cpu_after) = (began.elapsed().as_secs_f64(), cpu(process).await?);

    let mut all = Tally::default();
    for caller in calling {
        all.add(caller.await?);
    }
    all.latencies.sort_by(f64::total_cmp);
    let cpu_us = cpu_before.zip(cpu_after).map(|(before, after)| (after - before) * 1e6);
    let ended = progress.ended() as f64;
    Ok(Measured {
        calls: all.latencies.len(),
        p50_us: quantile(&all.latencies, 0.5),
        p99_us: quantile(&all.latencies, 0.99),
        calls_per_second: ended / took,
        cpu_us_per_call: cpu_us.filter(|_| ended > 0.0).map(|cpu_us| cpu_us / ended),
        errors: all.errors,
    })
}

/// Reads the CPU time on another thread, because walking through all processes takes longer than a call.
async fn cpu(process: Option<u32>) -> Result<Option<f64>> {
    Ok(tokio::task::spawn_blocking(move || process.and_then(tree_cpu_seconds)).await?)
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        for (kind, count) in other.errors {
            self.failed(kind, count);
        }
    }

    fn failed(&mut self, kind: String, count: usize) {
        let known = self.errors.len() < MAX_KINDS || self.errors.contains_key(&kind);
        *self.errors.entry(if known { kind } else { "others".into() }).or_default() += count;
    }
}

struct Caller {
    client: Client,
    tool: String,
    text: String,
    /// A unique name, by which answers to another caller are detected.
    name: String,
    calls: u64,
}

impl Caller {
    async fn open(system: &Running, load: Load, number: u16) -> Result<Self> {
        let client = Client::open_as(&system.endpoint, system.era, system.authorization.as_ref()).await?;
        let (tool, text) = (system.tool.clone(), load.payload.text(load.size as usize));
        Ok(Self { client, tool, text, name: format!("caller{number}"), calls: 0 })
    }
}

/// Has one client make requests until the slice is over.
async fn repeat(mut client: impl Repeat, progress: Arc<Progress>) -> Tally {
    let mut tally = Tally::default();
    while !progress.is(Progress::OVER) {
        let counts = progress.is(Progress::COUNTING);
        match client.once().await {
            Ok(took) => {
                if counts {
                    tally.latencies.push(took.as_secs_f64() * 1e6);
                }
                let inside = usize::from(progress.is(Progress::COUNTING));
                progress.ended.fetch_add(inside, Ordering::Relaxed);
            }
            Err(error) => {
                // Failures in the warm-up count too. A broken connection is not replaced, so its calls go on failing.
                tally.failed(format!("{error:#}"), 1);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    client.close().await;
    tally
}

impl Repeat for Caller {
    async fn close(self) {
        self.client.close().await;
    }

    async fn once(&mut self) -> Result<Duration> {
        self.calls += 1;
        let nonce = format!("{}call{:08}", self.name, self.calls);
        let arguments = format!(r#"{{"text":"{}","nonce":"{nonce}"}}"#, self.text);
        let body = self.client.call_body(self.calls, &self.tool, &arguments);
        let began = Instant::now();
        let answer = self.client.call(&self.tool, body).await?;
        let took = began.elapsed();
        // Finding the short nonce is fast. Then only the text before it is compared.
        let at = memmem::find(answer, nonce.as_bytes()).unwrap_or_default();
        let text = answer[..at].strip_suffix(b" ").filter(|text| text.ends_with(self.text.as_bytes()));
        ensure!(text.is_some(), "not what was sent: {}", excerpt(answer));
        if self.calls == 1 {
            let result = &message(answer).context("an answer that is no message")?["result"];
            let text =
                result["content"][0]["text"].as_str().and_then(|text| text.strip_suffix(&nonce)?.strip_suffix(' '));
            let sent: String = serde_json::from_str(&format!("\"{}\"", self.text))?;
            ensure!(text == Some(&*sent) && result["isError"] != true, "not a good result: {result}");
        }
        Ok(took)
    }
}

/// Makes `size` bytes of text that needs no escaping in JSON.
pub fn text(size: usize) -> String {
    "lorem ipsum dolor sit amet, ".chars().cycle().take(size).collect()
}

/// Returns a quantile of sorted times; `share` is from 0 to 1.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((share * last as f64).round() as usize).copied()
}
