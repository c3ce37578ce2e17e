//! A Guard that is edited, broken, deleted and made again under calls: none of them is ever answered without it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::harness::{Operated, api, gateway, object};
use super::pods::Served;
use crate::gateway::client::Caller;
use crate::gateway::upstream;
use crate::harness::until;

/// How many calls there are at the least.
const CALLS: usize = 10_000;
/// How many at a time.
const AT_ONCE: usize = 16;
/// How many of a kind are waited for in each state of the Guard.
const EACH: usize = 100;
/// What the upstream answers every call with, and no client may see.
const MARKER: &str = "card-4929-1234";

/// What is known of the answers.
#[derive(Default)]
struct Tally {
    /// Answers by their text; what was refused or failed by its reason.
    answers: BTreeMap<String, usize>,
    /// What must not be.
    faults: Vec<String>,
    /// Counts when the Guard is about to go and when it is there again: while it is odd, calls may be refused.
    gone: usize,
}

impl Tally {
    /// Notes the answer to a call that began when `gone` was `before`.
    fn note(&mut self, answer: Result<String, String>, before: usize) {
        let (key, is_fault) = match answer.and_then(|body| judged(&body)) {
            Ok(Answered::Guarded(word)) => (word, false),
            Ok(Answered::Withheld(reason)) => (reason, before == self.gone && before.is_multiple_of(2)),
            Err(fault) => (fault, true),
        };
        if is_fault {
            self.faults.push(key);
        } else {
            *self.answers.entry(key).or_default() += 1;
        }
    }

    fn calls(&self) -> usize {
        self.answers.values().sum()
    }
}

/// A way to answer that is right.
enum Answered {
    /// What the Guard made of it.
    Guarded(String),
    /// Nothing of the upstream's: how it ended, and the reason.
    Withheld(String),
}

/// What an answer is; an error is what it must not be.
fn judged(body: &str) -> Result<Answered, String> {
    if body.contains(MARKER) {
        return Err(format!("unguarded: {body}"));
    }
    let answer: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
    let result = &answer["result"];
    if result["isError"] != true {
        let text = result["content"][0]["text"].as_str().filter(|text| text.starts_with("word"));
        return Ok(Answered::Guarded(text.ok_or_else(|| format!("by no Guard of ours: {body}"))?.to_owned()));
    }
    for how in ["refused", "failed"] {
        if let Some(reason) = result["_meta"][format!("hawsepipe.dev/{how}")]["reason"].as_str() {
            return Ok(Answered::Withheld(format!("{how} {reason}")));
        }
    }
    Err(format!("for no reason: {body}"))
}

/// A Guard that puts `word` in the place of the marker.
fn guard(word: &str) -> Value {
    let code = format!(
        "const redacted = (text) => text.replaceAll('{MARKER}', '{word}');\n\
         export default ({{ rawContent }}) => ({{ text: redacted(rawContent), continue: true }});"
    );
    object("Plugin", "redact", &json!({"source": {"inline": code}, "role": "Guard"}))
}

/// A gateway under calls, and the Guard of their answers.
struct Guarded {
    operated: Operated<'static>,
    served: Served<'static>,
    tally: Arc<Mutex<Tally>>,
    /// How many forms of the Guard there were.
    forms: usize,
}

impl Guarded {
    async fn start() -> Self {
        let operated = Operated::start().await;
        let headers = json!([{"name": "X-Key", "value": MARKER}]);
        let external = json!({"url": upstream::start().await, "headers": headers});
        let objects = [
            gateway("main"),
            object("MCPUpstream", "up", &json!({"external": external, "protocol": {"era": "Legacy"}})),
            guard("word0"),
            object("PluginChain", "answers", &json!({"phase": "Response", "entries": [{"name": "redact"}]})),
        ];
        operated.apply(&objects).await;
        let served = operated.serve("main", &[]).await;
        served.gateway.until_answers("up__whoami", "word0").await;
        operated.until_condition("plugins", "redact", "Programmed", "True Programmed").await;
        Self { operated, served, tally: Arc::default(), forms: 1 }
    }

    /// Calls for ever, so many at a time. Dropped, they end.
    async fn calls(&self) -> JoinSet<()> {
        let caller = Caller::new(&self.served.gateway, "up__whoami").await;
        let mut calls = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (caller, tally) = (caller.clone(), Arc::clone(&self.tally));
            calls.spawn(async move {
                loop {
                    let before = tally.lock().unwrap().gone;
                    let answer = caller.exchange().await;
                    tally.lock().unwrap().note(answer, before);
                }
            });
        }
        calls
    }

    /// Writes the Guard, in whatever form.
    async fn write(&self, form: &Value) {
        let params = PatchParams::apply("test").force();
        let plugins = api(&self.operated.client, &self.operated.namespace, "plugins");
        plugins.patch("redact", &params, &Patch::Apply(form)).await.unwrap();
    }

    /// Writes a form of the Guard that there was not yet, and gives its word.
    async fn write_another(&mut self) -> String {
        let word = format!("word{}", self.forms);
        self.forms += 1;
        self.write(&guard(&word)).await;
        word
    }

    async fn break_it(&self) {
        self.write(&object("Plugin", "redact", &json!({"source": {"inline": "export default ("}, "role": "Guard"})))
            .await;
    }

    /// Deletes it. From now on calls may be refused.
    async fn delete(&self) {
        self.tally.lock().unwrap().gone += 1;
        let plugins = api(&self.operated.client, &self.operated.namespace, "plugins");
        plugins.delete("redact", &DeleteParams::default()).await.unwrap();
    }

    /// It is there again: every call that begins now is answered.
    fn is_back(&self) {
        self.tally.lock().unwrap().gone += 1;
    }

    async fn revision(&self) -> String {
        self.served.gateway.report().await.revision
    }

    /// Waits until the gateway runs another revision than this one.
    async fn until_runs_another(&self, than: &str) -> String {
        until("another revision is in force", async || Some(self.revision().await).filter(|now| now != than)).await
    }

    /// Waits for more answers of a kind.
    async fn until_answered(&self, key: &str) {
        let count = || self.tally.lock().unwrap().answers.get(key).copied().unwrap_or_default();
        let before = count();
        until(&format!("{EACH} more answers are {key:?}"), async || {
            let faults = self.tally.lock().unwrap().faults.clone();
            assert!(faults.is_empty(), "{} faults, such as {:#?}", faults.len(), &faults[..faults.len().min(3)]);
            (count() >= before + EACH).then_some(())
        })
        .await;
    }

    /// Edits it, breaks it, deletes it and makes it again, and sees that each of them is in force under calls.
    async fn round(&mut self) {
        let before = self.revision().await;
        let edited = self.write_another().await;
        let whole = self.until_runs_another(&before).await;
        self.until_answered(&edited).await;

        self.break_it().await;
        self.operated.until_condition("plugins", "redact", "Accepted", "False SyntaxError").await;
        self.until_answered(&edited).await;
        assert_eq!(self.revision().await, whole, "what is broken changes nothing that runs");

        self.delete().await;
        let without = self.until_runs_another(&whole).await;
        self.until_answered("refused PluginNotFound").await;

        let back = self.write_another().await;
        self.until_runs_another(&without).await;
        self.until_answered(&back).await;
        self.is_back();
    }

    /// The same without a wait in between, as far as the API server and the operator see it at all.
    async fn hasty_round(&mut self) {
        self.write_another().await;
        self.break_it().await;
        self.delete().await;
        self.write_another().await;
        self.break_it().await;
        let last = self.write_another().await;
        self.until_answered(&last).await;
        self.is_back();
    }
}

#[tokio::test]
async fn no_call_is_answered_without_its_guard() {
    let mut guarded = Guarded::start().await;
    let calls = guarded.calls().await;
    let mut rounds = 0;
    while guarded.tally.lock().unwrap().calls() < CALLS {
        guarded.round().await;
        guarded.hasty_round().await;
        rounds += 1;
    }
    drop(calls);
    let tally = guarded.tally.lock().unwrap();
    assert_eq!(tally.faults, Vec::<String>::new());
    let withheld = tally.answers.iter().filter(|(key, _)| !key.starts_with("word"));
    println!("{} calls in {rounds} rounds, of them withheld: {:?}", tally.calls(), withheld.collect::<Vec<_>>());
}
