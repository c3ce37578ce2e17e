//! The command `hawsepipe plugin bench`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::args::BenchArgs;
use super::floor::echoes;
use super::subject::Subject;
use super::test_gateway::{TestCase, TestGateway};
use super::test_input::TestInput;
use crate::cli::formats::{ListFormat, ResultFormat};
use crate::cli::output::{column, print_line, print_list, text};
use crate::domain::plugin::Phase;
use crate::telemetry::plugin_log::PluginLog;

/// The content sizes that are always measured: the label, and the number of bytes.
const SIZES: [(&str, usize); 2] = [("1 KB", 1 << 10), ("50 KB", 50 << 10)];
/// How many cold starts are measured.
const COLD: u32 = 5;
/// Limits on the warm-up, in calls and in time. Warm-up calls are not measured, because calls are slower until Node.js
/// has compiled the code.
const WARMING: u64 = 200;
const LONGEST_WARMING: Duration = Duration::from_secs(1);
/// The default number of warm workers that a gateway keeps for a plugin.
const POOL: u32 = 5;

pub async fn bench(args: BenchArgs) -> anyhow::Result<ExitCode> {
    let is_given = args.case.text.is_some() || args.case.input.is_some();
    let mut written = args.case.clone();
    if !is_given {
        written.text = Some("{}".to_owned());
    }
    let (given, config) = TestInput::read(&written)?;
    let mut subject = Subject::new(&args.subject, config, None)?;
    // Captures the plugin's log lines, so that they are not printed.
    let _lines = PluginLog::start()?;
    let phase = phase(&mut subject, &given).await?;
    let mut inputs: Vec<_> = SIZES.map(|(name, bytes)| (name, given.with_text(filler(bytes, phase)))).into();
    inputs.extend(is_given.then_some(("given", given)));
    subject.measure(0);
    let cold = cold(&mut subject, &inputs[0].1).await?;
    subject.measure(args.concurrency.max(POOL));
    let gateway = Arc::new(TestGateway::new()?);
    let mut rows = Vec::new();
    let mut measured = Ok(());
    for (name, input) in inputs {
        match measure(&gateway, &mut subject, &input, &args).await {
            Ok(row) => rows.push(named(row, name)),
            Err(error) => measured = Err(error),
        }
    }
    gateway.end().await;
    measured?;
    let failed = rows.iter().any(|row| row["failed"] != 0);
    print(&args, phase, &cold, &rows)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the phase that the plugin runs in. If the plugin is not accepted, the error lists the plugin's Problems.
async fn phase(subject: &mut Subject, input: &TestInput) -> anyhow::Result<Phase> {
    match subject.read().await?.read {
        Ok(read) => Ok(subject.in_chain(read.plan, &read.plugin, input)?.1),
        Err(problems) => bail!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

/// Measures calls that each start a new worker. Returns the durations of the calls in milliseconds, sorted.
async fn cold(subject: &mut Subject, input: &TestInput) -> anyhow::Result<Vec<f64>> {
    let gateway = TestGateway::new()?;
    let samples = async {
        let (Ok(case), _) = gateway.load(subject, input).await? else { bail!("the plugin changed just now") };
        let mut samples = Vec::new();
        for _ in 0..COLD {
            samples.extend(gateway.execute(&case).await.iter().map(|row| row.duration_ms));
        }
        Ok::<_, anyhow::Error>(samples)
    };
    let samples = samples.await;
    gateway.end().await;
    let mut samples = samples?;
    samples.sort_by(f64::total_cmp);
    Ok(samples)
}

/// The measurements of calls that have the same content.
#[derive(Default)]
struct Samples {
    /// The duration of each call, in milliseconds.
    took: Vec<f64>,
    failed: u64,
    /// The message of one of the failures.
    message: Option<String>,
}

async fn measure(
    gateway: &Arc<TestGateway>,
    subject: &mut Subject,
    input: &TestInput,
    args: &BenchArgs,
) -> anyhow::Result<Value> {
    let (Ok(case), _) = gateway.load(subject, input).await? else { bail!("the plugin changed just now") };
    let case = Arc::new(case);
    calls(gateway, &case, WARMING, LONGEST_WARMING, args.concurrency).await?;
    let started = Instant::now();
    let Samples { mut took, failed, message } =
        calls(gateway, &case, args.count, Duration::from_secs(args.duration), args.concurrency).await?;
    let seconds = started.elapsed().as_secs_f64();
    took.sort_by(f64::total_cmp);
    let bytes = input.text.len();
    let mut floor = tokio::task::spawn_blocking(move || echoes(bytes)).await?.context("no floor")?;
    floor.sort_by(f64::total_cmp);
    Ok(json!({
        "bytes": bytes,
        "calls": took.len(),
        "failed": failed,
        "message": message,
        "perSecond": took.len() as f64 / seconds,
        "p50Ms": percentile(&took, 50),
        "p95Ms": percentile(&took, 95),
        "p99Ms": percentile(&took, 99),
        "floorP50Ms": percentile(&floor, 50),
    }))
}

/// Makes `count` calls, or fewer if `longest` is over before. `concurrency` calls run at the same time.
async fn calls(
    gateway: &Arc<TestGateway>,
    case: &Arc<TestCase>,
    count: u64,
    longest: Duration,
    concurrency: u32,
) -> anyhow::Result<Samples> {
    let (begun, until) = (Arc::new(AtomicU64::new(0)), Instant::now() + longest);
    let mut tasks = JoinSet::new();
    for _ in 0..concurrency {
        let (gateway, case, begun) = (Arc::clone(gateway), Arc::clone(case), Arc::clone(&begun));
        tasks.spawn(async move {
            let mut samples = Samples::default();
            while Instant::now() < until && begun.fetch_add(1, Ordering::Relaxed) < count {
                for row in gateway.execute(&case).await {
                    samples.took.push(row.duration_ms);
                    if row.reason.is_some() {
                        samples.failed += 1;
                        samples.message = samples.message.or(row.error_text).or(row.error_message);
                    }
                }
            }
            samples
        });
    }
    let mut all = Samples::default();
    while let Some(samples) = tasks.join_next().await {
        let Samples { took, failed, message } = samples?;
        all.took.extend(took);
        all.failed += failed;
        all.message = all.message.or(message);
    }
    Ok(all)
}

/// Returns a percentile of sorted samples, by the nearest-rank method.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Makes content of `bytes` bytes: plain words or, in the request phase, a JSON object of arguments that contains them.
fn filler(bytes: usize, phase: Phase) -> String {
    const WORDS: &str = "The quick brown fox jumps over the lazy dog, and nobody minds at all. ";
    let words = |bytes: usize| WORDS.chars().cycle().take(bytes).collect::<String>();
    match phase {
        Phase::Response => words(bytes),
        Phase::Request => {
            let around = r#"{"text":""}"#.len();
            json!({"text": words(bytes.saturating_sub(around))}).to_string()
        }
    }
}

fn named(mut row: Value, name: &str) -> Value {
    row["content"] = json!(name);
    row
}

fn print(args: &BenchArgs, phase: Phase, cold: &[f64], rows: &[Value]) -> anyhow::Result<()> {
    let whole = json!({
        "phase": phase.wire(),
        "concurrency": args.concurrency,
        "cold": {"calls": cold.len(), "p50Ms": percentile(cold, 50)},
        "warm": rows,
    });
    let format = match args.output {
        ResultFormat::Json => ListFormat::Json,
        ResultFormat::Yaml => ListFormat::Yaml,
        ResultFormat::Text => ListFormat::Table,
    };
    let columns = [
        column("CONTENT", |r| text(&r["content"])),
        column("BYTES", |r| text(&r["bytes"])),
        column("CALLS", |r| text(&r["calls"])),
        column("FAILED", |r| text(&r["failed"])),
        column("CALLS/S", |r| format!("{:.0}", r["perSecond"].as_f64().unwrap_or_default())),
        column("P50", |r| ms(&r["p50Ms"])),
        column("P95", |r| ms(&r["p95Ms"])),
        column("P99", |r| ms(&r["p99Ms"])),
        column("FLOOR", |r| ms(&r["floorP50Ms"])),
    ];
    print_list(format, &whole, rows, &columns)?;
    if format == ListFormat::Table {
        let cold = percentile(cold, 50).unwrap_or_default();
        print_line(&format!("\nA call that has to start a worker first: {cold:.1} ms (the median of {COLD})."))?;
        let failure = rows.iter().find_map(|row| row["message"].as_str());
        failure.map_or(Ok(()), |message| print_line(&format!("A call failed: {message}")))?;
    }
    Ok(())
}

fn ms(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, |ms| format!("{ms:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([50, 95, 99].map(|p| percentile(&samples, p)), [Some(50.0), Some(95.0), Some(99.0)]);
        assert_eq!(percentile(&[7.0], 99), Some(7.0));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn filler_has_its_size() {
        assert_eq!(filler(1024, Phase::Response).len(), 1024);
        let arguments = filler(1024, Phase::Request);
        assert_eq!(arguments.len(), 1024);
        assert!(serde_json::from_str::<Value>(&arguments).unwrap().is_object());
    }
}
