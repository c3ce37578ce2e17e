//! Edits under load: how long until calls show an edit, and whether a call is lost over it.

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

/// The load: so many clients, each with one call in so long. Together they make 50 calls a second.
const CLIENTS: u32 = 50;
const PERIOD: Duration = Duration::from_secs(1);
/// What calls say before the first edit.
const FIRST: &str = "p0 c0";
/// How often is edited: the plugin's file and the chain in turn.
const EDITS: u32 = 10;
/// Which edit, one of the plugin's file, does not parse.
const BROKEN: u32 = 5;

/// At most so long after an edit calls are to show it, in milliseconds.
pub const AIM_MS: f64 = 250.0;

/// The plugin and its chain; the gateway is the implicit one, with default limits. A plugin that fails fails its call.
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
/// Puts its own word and its configuration's in the place of the content.
const CODE: &str = "export default (_, { config }) => ({ text: `{{word}} ${config.word}`, continue: true });\n";

/// What was edited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edited {
    PluginFile,
    Chain,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Seconds of load.
    pub seconds: f64,
    pub calls: usize,
    /// Calls that failed, by what went wrong.
    pub lost: BTreeMap<String, usize>,
    /// Calls that began after an edit was seen, and were answered as before it.
    pub stale: usize,
    /// The edits that are to be seen.
    pub edits: Vec<Shown>,
}

/// When an edit was seen.
#[derive(Debug, Serialize)]
pub struct Shown {
    pub edited: Edited,
    /// Milliseconds from the write of the file to the end of the first call that showed it; none where no call did.
    pub after_ms: Option<f64>,
}

impl Outcome {
    /// How much of it should not be.
    pub fn errors(&self) -> usize {
        let unseen = self.edits.iter().filter(|edit| edit.after_ms.is_none()).count();
        self.lost.values().sum::<usize>() + self.stale + unseen
    }
}

/// An edit, and what calls say when it is in force.
struct Edit {
    edited: Edited,
    shows: String,
    made: Instant,
}

/// A call, and the text that it was answered with.
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

/// Starts a gateway from a folder of its own, and edits that under load.
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

/// The folder that the gateway watches, and what it says now.
struct Folder {
    scratch: Scratch,
    code: String,
    word: String,
}

impl Folder {
    /// Makes all edits, so far apart. The broken one is not to be seen, so it is not told.
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

    /// As editors do it: a new file takes the old one's place.
    fn put(&self, name: &str, text: &str) -> Result<()> {
        let new = self.scratch.write("new", text)?;
        fs::rename(new, self.scratch.path().join(name)).with_context(|| format!("cannot put {name} in its place"))
    }
}

/// One client: a call in each period, each client a little after the one before it.
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

/// The text of the answer to one call.
async fn call(client: &mut Client, id: u64, tool: &str) -> Result<String> {
    let body = client.call_body(id, tool, r#"{"text":"t","nonce":"n"}"#);
    let answer = message(client.call(tool, body).await?).context("an answer that is no message")?;
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().filter(|_| result["isError"] != true);
    text.map(str::to_owned).with_context(|| format!("not a good result: {answer}"))
}

fn judge(time: Duration, calls: &[Call], edits: &[Edit]) -> Outcome {
    // What calls may say, in the order in which it comes into force, and when each was first seen.
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
