//! A steady load while everything around a Guard changes: its code is edited, broken, slow to load and impossible to
//! load, it is deleted and made again, and its upstream restarts in another era. Every answer of the upstream holds a
//! secret that only the Guard takes out.
//!
//! A test that does the same without a cluster runs each time (`tests/it/faults/guarded`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hawsepipe::domain::digest::sha256_hex;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use super::changing::ChangingServer;
use super::harness::{Operated, api, object};
use super::pods::Served;
use crate::gateway::client::Caller;
use crate::gateway::http::get;
use crate::harness::until;

/// How long the load lasts.
const LENGTH: Duration = Duration::from_secs(300);

/// Calls a second.
const RATE: u64 = 50;
/// What the upstream answers every call with, and no client may see.
const SECRET: &str = "card-4929-1234";
/// Answers of a new form of the Guard that are waited for.
const EACH: usize = 25;

/// What is known of the calls.
#[derive(Default)]
struct Tally {
    /// Answers by the word that the Guard put in the place of the secret.
    guarded: BTreeMap<String, usize>,
    /// Calls that were refused or failed while the Guard could run, by what they were told.
    lost: BTreeMap<String, usize>,
    /// Calls that were refused while the Guard was deleted.
    refused: usize,
    /// Answers that no client may get.
    leaks: Vec<String>,
    /// Grows when the Guard is about to be deleted and when it is there again: odd while calls may be refused.
    deletions: usize,
}

impl Tally {
    /// Notes the answer to a call that began when `deletions` was `before`.
    fn note(&mut self, answer: Result<String, String>, before: usize) {
        let could_run = before == self.deletions && before.is_multiple_of(2);
        match answer {
            Ok(body) if body.contains(SECRET) => self.leaks.push(body),
            Ok(body) => match word_of(&body) {
                Some(word) => *self.guarded.entry(word).or_default() += 1,
                None if could_run => *self.lost.entry(body).or_default() += 1,
                None => self.refused += 1,
            },
            Err(error) => *self.lost.entry(error).or_default() += 1,
        }
    }

    fn answered(&self) -> usize {
        self.guarded.values().sum()
    }
}

/// The word in a guarded answer: in its text, and wherever else the upstream put its secret.
fn word_of(body: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(body).ok()?;
    let text = answer["result"]["content"][0]["text"].as_str()?;
    (text.starts_with("word") && answer["result"]["_meta"]["key"] == text).then(|| text.to_owned())
}

/// Code of a Guard that puts `word` in the place of the secret. `first` runs when it is loaded.
fn code(word: &str, first: &str) -> String {
    format!(
        "{first}\nexport default ({{ rawContent }}) =>\n  \
         ({{ text: rawContent.replaceAll('{SECRET}', '{word}'), continue: true }});"
    )
}

struct Soak {
    operated: Operated<'static>,
    served: Served<'static>,
    upstream: ChangingServer,
    tally: Arc<Mutex<Tally>>,
    /// The word of each form of the Guard that may answer, by the digest of its code.
    words: BTreeMap<String, String>,
}

impl Soak {
    async fn start() -> Self {
        let operated = Operated::start().await;
        let upstream = ChangingServer::start().await;
        let headers = json!([{"name": "X-Key", "value": SECRET}]);
        let spec = json!({"authentication": {"anonymous": {}}, "history": {"perPlugin": 100_000}});
        operated
            .apply(&[
                object("MCPGateway", "main", &spec),
                object("MCPUpstream", "up", &json!({"external": {"url": upstream.url(), "headers": headers}})),
                object("Plugin", "redact", &json!({"source": {"inline": code("word0", "")}, "role": "Guard"})),
                object("PluginChain", "answers", &json!({"phase": "Response", "entries": [{"name": "redact"}]})),
            ])
            .await;
        let served = operated.serve("main", &[]).await;
        served.gateway.until_answers("up__whoami", "word0").await;
        operated.until_condition("plugins", "redact", "Programmed", "True Programmed").await;
        let words = [(sha256_hex(code("word0", "").as_bytes()), "word0".to_owned())].into();
        Self { operated, served, upstream, tally: Arc::default(), words }
    }

    async fn write(&self, code: &str) {
        let plugins = api(&self.operated.client, &self.operated.namespace, "plugins");
        let form = object("Plugin", "redact", &json!({"source": {"inline": code}, "role": "Guard"}));
        plugins.patch("redact", &PatchParams::apply("test").force(), &Patch::Apply(&form)).await.unwrap();
    }

    /// Writes a form of the Guard that can run, and gives its word.
    async fn edit(&mut self, first: &str) -> String {
        let word = format!("word{}", self.words.len());
        let code = code(&word, first);
        self.words.insert(sha256_hex(code.as_bytes()), word.clone());
        self.write(&code).await;
        word
    }

    /// Waits for more answers that this form of the Guard made.
    async fn until_guarded_by(&self, word: &str) {
        let count = || self.tally.lock().unwrap().guarded.get(word).copied().unwrap_or_default();
        let before = count();
        until(&format!("{EACH} more answers say {word}"), async || (count() >= before + EACH).then_some(())).await;
    }

    /// Every way in which a Guard and its upstream change, one after another.
    async fn round(&mut self) {
        let edited = self.edit("").await;
        self.until_guarded_by(&edited).await;
        self.upstream.restart_in_other_era().await;
        self.until_guarded_by(&edited).await;

        self.write("export default (").await;
        self.operated.until_condition("plugins", "redact", "Accepted", "False SyntaxError").await;
        self.until_guarded_by(&edited).await;

        let slow = self.edit("await new Promise((resolve) => setTimeout(resolve, 1500));").await;
        self.until_guarded_by(&slow).await;
        self.upstream.restart_in_other_era().await;

        self.write(&code("never", "throw new Error('it does not load');")).await;
        self.operated.until_condition("plugins", "redact", "Accepted", "False NotLoaded").await;
        self.until_guarded_by(&slow).await;

        self.tally.lock().unwrap().deletions += 1;
        let plugins = api(&self.operated.client, &self.operated.namespace, "plugins");
        plugins.delete("redact", &DeleteParams::default()).await.unwrap();
        let refused = || self.tally.lock().unwrap().refused;
        until("calls are refused", async || (refused() > EACH).then_some(())).await;
        let back = self.edit("").await;
        self.until_guarded_by(&back).await;
        self.tally.lock().unwrap().deletions += 1;
    }

    /// How often the gateway's history says that each form of the Guard ran, by its word.
    async fn recorded(&self) -> BTreeMap<String, usize> {
        let (mut ran, mut cursor) = (BTreeMap::new(), String::new());
        loop {
            let path = format!("/api/v1/executions?plugin=redact&limit=1000{cursor}");
            let page = get(&format!("http://127.0.0.1:{}{path}", self.served.gateway.admin.port()), &[]).await.json();
            for row in page["items"].as_array().unwrap() {
                if row["status"] == "Success" {
                    let revision = row["pluginRevision"].as_str().unwrap();
                    let word = self.words.get(revision).map_or("of no form that was written", String::as_str);
                    *ran.entry(word.to_owned()).or_default() += 1;
                }
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return ran,
            }
        }
    }
}

/// Calls at a steady rate until it is told to stop; then it waits for the answers.
fn load(caller: Caller, tally: Arc<Mutex<Tally>>) -> (oneshot::Sender<()>, JoinHandle<()>) {
    let (stop, mut stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        let (mut calls, mut ticks) = (JoinSet::new(), tokio::time::interval(Duration::from_millis(1000 / RATE)));
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                _ = ticks.tick() => {}
            }
            let (caller, tally) = (caller.clone(), Arc::clone(&tally));
            let before = tally.lock().unwrap().deletions;
            calls.spawn(async move {
                let answer = caller.exchange().await;
                tally.lock().unwrap().note(answer, before);
            });
        }
        calls.join_all().await;
    });
    (stop, task)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: make test-long"]
async fn no_secret_leaves_while_guard_and_upstream_change() {
    let mut soak = Soak::start().await;
    let before = soak.recorded().await;
    let caller = Caller::new(&soak.served.gateway, "up__whoami").await;
    let (stop, calls) = load(caller, Arc::clone(&soak.tally));
    let (began, mut rounds) = (Instant::now(), 0);
    while began.elapsed() < LENGTH {
        soak.round().await;
        rounds += 1;
    }
    let _ = stop.send(());
    calls.await.unwrap();

    let mut ran = soak.recorded().await;
    let tally = soak.tally.lock().unwrap();
    let (answered, lost) = (tally.answered(), tally.lost.values().sum::<usize>());
    println!("{rounds} rounds, {answered} answered, {} refused while it was deleted, {lost} lost", tally.refused);
    assert_eq!(tally.leaks, Vec::<String>::new());
    assert!(lost * 100 <= answered, "{lost} calls of {} were lost: {:#?}", answered + lost, tally.lost);
    for (word, count) in before {
        *ran.get_mut(&word).unwrap() -= count;
    }
    ran.retain(|_, count| *count > 0);
    // A lost call may have run the Guard and then failed; nothing else may differ.
    let missing: Vec<_> = tally.guarded.iter().filter(|(word, count)| ran.get(*word) < Some(count)).collect();
    assert!(missing.is_empty(), "answers without an execution in the history: {missing:?}, recorded {ran:?}");
    let surplus: usize = ran.values().sum::<usize>() - answered;
    assert!(surplus <= lost, "the history has {surplus} executions more than there were answers: {ran:?}");
}
