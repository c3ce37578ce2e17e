//! Edits under load: how long it takes until calls show an edit, and whether calls fail because of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use http::Uri;
use serde::Serialize;

use crate::child::Scratch;
use crate::client::{self, Client, Era, message};
use crate::gateway;
use crate::options::Options;
use crate::upstream;

/// The load: each client makes one call in each period, which are 50 calls a second together.
const CLIENTS: u32 = 50;
const PERIOD: Duration = Duration::from_secs(1);
/// The text of answers before the first edit.
const FIRST: &str = "p0 c0";
/// How many edits are made, in turn of the plugin's file and of the chain.
const EDITS: u32 = 10;
/// The number of the edit that makes the plugin's file unparsable.
const BROKEN: u32 = 5;

/// The aim for the time from an edit to the first call that shows it, in milliseconds.
pub const AIM_MS: f64 = 250.0;

/// The plugin. It is a Guard, so a call fails if the plugin does. No MCPGateway is declared, so default limits apply.
const PLUGIN: &str = "---
apiVersion: hawsepipe.dev/v1alpha1
kind: Plugin
metadata: {name: mark}
spec:
  role: Guard
  source: {path: mark.mjs}
";
const CHAIN: &str = "apiVersion: hawsepipe.dev/v1alpha1
kind: PluginChain
metadata: {name: answers}
spec:
  phase: Response
  entries:
  - {name: mark, config: {word: {{word}}}}
";
/// The plugin's code: replaces the content with a word of its own and the word in the configuration.
const CODE: &str = "export default (_, { config }) => ({ text: `{{word}} ${config.word}`, continue: true });\n";

/// The kind of an edit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edited {
    PluginFile,
    Chain,
}

/// The results of the measurement.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// How long the load lasted, in seconds.
    pub seconds: f64,
    pub calls: usize,
    /// The number of failed calls, by error.
    pub lost: BTreeMap<String, usize>,
    /// The number of calls that began after another call showed an edit, but were answered as before that edit.
    pub stale: usize,
    /// The edits that calls should show, which are all but the broken one.
    pub edits: Vec<Shown>,
}

/// When calls first showed an edit.
#[derive(Debug, Serialize)]
pub struct Shown {
    pub edited: Edited,
    /// Milliseconds from the write of the file to the end of the first call that showed it; `None` if no call did.
    pub after_ms: Option<f64>,
}

impl Outcome {
    /// The number of failed calls, stale calls, and edits that no call showed.
    pub fn errors(&self) -> usize {
        let unseen = self.edits.iter().filter(|edit| edit.after_ms.is_none()).count();
        self.lost.values().sum::<usize>() + self.stale + unseen
    }
}

/// An edit, and the text of answers while it is in force.
struct Edit {
    edited: Edited,
    shows: String,
    made: Instant,
}

/// A call, and the text of its answer.
struct Call {
    began: Instant,
    ended: Instant,
    answer: Result<String>,
}

impl Call {
    fn says(&self, text: &str) -> bool {
        self.answer.as_ref().is_ok_and(|answer| answer == text)
    }
}

/// Starts a gateway from a new folder of manifests, and edits these under load.
pub async fn run(options: &Options) -> Result<Outcome> {
    let time = Duration::from_secs(if options.quick { 6 } else { 30 });
    let (scratch, era) = (Scratch::new("edits")?, Era::Legacy);
    fs::create_dir(scratch.path().join("plugins"))?;
    let mut folder = Folder { scratch, code: "p0".into(), word: "c0".into() };
    folder.write_code()?;
    folder.write_chain()?;
    let (_upstream, at) = upstream::start(era)?;
    folder.scratch.write("manifests.yaml", &format!("{}{PLUGIN}", gateway::upstream_manifest(&at, era)))?;
    let (process, endpoint) = gateway::start(Path::new(gateway::BINARY), folder.scratch.path())?;
    let tool = client::wait_for_tool(&endpoint, era, "echo", Some(&process)).await?;
    eprintln!("edits under load: {} s", time.as_secs());

    let began = Instant::now();
    let callers = (0..CLIENTS).map(|number| call_until(began + time, number, &endpoint, era, &tool));
    let (calls, edits) = tokio::try_join!(try_join_all(callers), folder.edit(time / (EDITS + 1)))?;
    let calls: Vec<Call> = calls.into_iter().flatten().collect();
    let outcome = judge(time, &calls, &edits);
    for (error, count) in &outcome.lost {
        eprintln!("edits under load: {count} calls were lost: {error}");
    }
    Ok(outcome)
}

/// The folder that the gateway watches, and the current words in the plugin's code and in the chain.
struct Folder {
    scratch: Scratch,
    code: String,
    word: String,
}

impl Folder {
    /// Makes all edits, `between` apart. The result leaves out the broken one, which no call should show.
    async fn edit(&mut self, between: Duration) -> Result<Vec<Edit>> {
        let mut edits = Vec::new();
        for number in 1..=EDITS {
            tokio::time::sleep(between).await;
            let made = Instant::now();
            let edited = match number {
                BROKEN => {
                    self.put("plugins/mark.mjs", "export default (")?;
                    continue;
                }
                _ if number % 2 == 1 => {
                    self.code = format!("p{number}");
                    self.write_code()?;
                    Edited::PluginFile
                }
                _ => {
                    self.word = format!("c{number}");
                    self.write_chain()?;
                    Edited::Chain
                }
            };
            edits.push(Edit { edited, shows: format!("{} {}", self.code, self.word), made });
        }
        Ok(edits)
    }

    fn write_code(&self) -> Result<()> {
        self.put("plugins/mark.mjs", &CODE.replace("{{word}}", &self.code))
    }

    fn write_chain(&self) -> Result<()> {
        self.put("chain.yaml", &CHAIN.replace("{{word}}", &self.word))
    }

    /// Replaces a file by renaming a new one, as editors do.
    fn put(&self, name: &str, text: &str) -> Result<()> {
        let new = self.scratch.write("new", text)?;
        fs::rename(new, self.scratch.path().join(name)).with_context(|| format!("cannot put {name} in its place"))
    }
}

/// Makes one call in each period. The clients are spread evenly over the period.
async fn call_until(until: Instant, number: u32, endpoint: &Uri, era: Era, tool: &str) -> Result<Vec<Call>> {
    let mut client = Client::open(endpoint, era).await?;
    let mut calls = Vec::new();
    let first = tokio::time::Instant::now() + PERIOD * number / CLIENTS;
    let mut ticks = tokio::time::interval_at(first, PERIOD);
    loop {
        ticks.tick().await;
        let began = Instant::now();
        if began >= until {
            client.close().await;
            return Ok(calls);
        }
        let answer = call(&mut client, calls.len() as u64, tool).await;
        calls.push(Call { began, ended: Instant::now(), answer });
    }
}

/// Makes one call and returns the text of its answer.
async fn call(client: &mut Client, id: u64, tool: &str) -> Result<String> {
    let body = client.call_body(id, tool, r#"{"text":"t","nonce":"n"}"#);
    let answer = message(client.call(tool, body).await?).context("an answer that is no message")?;
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().filter(|_| result["isError"] != true);
    text.map(str::to_owned).with_context(|| format!("not a good result: {answer}"))
}

fn judge(time: Duration, calls: &[Call], edits: &[Edit]) -> Outcome {
    // All valid texts of answers, in the order of the edits, and when each was first seen.
    let said: Vec<&str> = [FIRST].into_iter().chain(edits.iter().map(|edit| &*edit.shows)).collect();
    let first = |text: &str| calls.iter().filter(|call| call.says(text)).map(|call| call.ended).min();
    let seen: Vec<Option<Instant>> = said.iter().map(|text| first(text)).collect();
    let (mut lost, mut stale) = (BTreeMap::new(), 0);
    for call in calls {
        let newer = said.iter().position(|text| call.says(text)).map(|at| &seen[at + 1..]);
        match (&call.answer, newer) {
            (Ok(_), Some(newer)) => stale += usize::from(newer.iter().flatten().any(|seen| *seen < call.began)),
            (Ok(text), None) => *lost.entry(format!("what no edit made: {text}")).or_default() += 1,
            (Err(error), _) => *lost.entry(format!("{error:#}")).or_default() += 1,
        }
    }
    let after = |(edit, seen): (&Edit, &Option<Instant>)| Shown {
        edited: edit.edited,
        after_ms: seen.map(|seen| seen.duration_since(edit.made).as_secs_f64() * 1e3),
    };
    let edits = edits.iter().zip(&seen[1..]).map(after).collect();
    Outcome { seconds: time.as_secs_f64(), calls: calls.len(), lost, stale, edits }
}
