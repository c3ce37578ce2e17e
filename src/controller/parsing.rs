//! Code on its way through the parser, beside the rounds: a text that takes long delays nobody outside its namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::doubling::Doubling;
use crate::config::compile::{FoundCode, plugin_code};
use crate::config::input::{Inputs, code_key};
use crate::domain::digest::sha256_hex;
use crate::domain::ports::{CodeFacts, Inspect, Unavailable};

/// How long a round waits for code that it meets for the first time.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same for the first round of a leader, which meets all code.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
/// What the parser finds out makes no more than one round in this time: each may store a revision, and few are kept.
const TOGETHER: Duration = Duration::from_secs(1);
/// The pauses until code that could not be parsed is tried again.
const PAUSES: Doubling = Doubling::new(Duration::from_secs(5), Duration::from_secs(300));
/// After so many deadlines it counts as a fact about the code that the parser does not get through it, until it does: how
/// long it takes depends on the machine too.
const MAX_LATE: usize = 3;
/// The most code texts whose facts are kept.
const MAX_FACTS: usize = 10_000;

/// A text: its namespace, and the key of its facts.
type TextId = (String, String);

/// What is parsed, and what is known from it.
pub(super) struct Parsing<I> {
    inspect: Arc<I>,
    known: Arc<KnownFacts>,
    /// Texts that are parsed now, or wait for it.
    under_way: BTreeMap<TextId, AbortOnDropHandle<()>>,
    /// Of each namespace one text is parsed at a time, so that the others find the parser free.
    turns: BTreeMap<String, Arc<tokio::sync::Mutex<()>>>,
    /// When news made a round last.
    taken: Option<Instant>,
    patience: Duration,
    /// Until code that could not be parsed is tried again.
    pauses: Doubling,
}

/// What is known of code.
struct KnownFacts {
    /// By the key of the code.
    facts: Mutex<BTreeMap<String, Fact>>,
    /// Whether there is more than when it was read last.
    news: AtomicBool,
    /// Told of news.
    changed: Arc<Notify>,
}

/// What counts about code that was tried.
enum Fact {
    /// Nothing: it is tried again.
    Unknown,
    /// The parser took too long: it is tried again.
    Late(CodeFacts),
    /// The parser said so.
    Answer(CodeFacts),
}

impl Fact {
    fn facts(&self) -> Option<&CodeFacts> {
        match self {
            Self::Unknown => None,
            Self::Late(facts) | Self::Answer(facts) => Some(facts),
        }
    }
}

impl<I: Inspect + 'static> Parsing<I> {
    /// Nothing is known yet. `changed` is told of each answer.
    pub(super) fn new(inspect: I, changed: Arc<Notify>) -> Self {
        Self {
            inspect: Arc::new(inspect),
            known: Arc::new(KnownFacts { facts: Mutex::default(), news: AtomicBool::new(false), changed }),
            under_way: BTreeMap::new(),
            turns: BTreeMap::new(),
            taken: None,
            patience: FIRST_PATIENCE,
            pauses: PAUSES,
        }
    }

    /// Adds what is known of the plugins' code. Code that was not met before is waited for, but not for long.
    pub(super) async fn inspect(&mut self, inputs: &mut Inputs) {
        let patience = std::mem::replace(&mut self.patience, PATIENCE);
        let code = inputs.plugins.iter().filter_map(|plugin| Some((plugin, plugin_code(inputs, plugin)?)));
        let wanted: BTreeMap<TextId, FoundCode<'_>> = code
            .map(|(plugin, code)| {
                let key = code_key(&sha256_hex(code.text.as_bytes()), &code.file_name);
                ((plugin.key.namespace.clone(), key), code)
            })
            .collect();
        // What is not answered by then wakes the loop.
        let _ = timeout(patience, join_all(self.begin(&wanted))).await;
        (inputs.facts, inputs.parsing) = self.known.of(wanted.keys().map(|(_, key)| key));
    }

    /// Whether a round is made because more is known than what the last one had.
    pub(super) fn take_news(&mut self, now: Instant) -> bool {
        let takes = self.next_news(now).is_some_and(|wait| wait.is_zero());
        if takes {
            self.taken = Some(now);
        }
        takes
    }

    /// How long until [`Self::take_news`] holds; none where nothing is new.
    pub(super) fn next_news(&self, now: Instant) -> Option<Duration> {
        let since = self.taken.map_or(TOGETHER, |taken| now.saturating_duration_since(taken));
        self.has_news().then(|| TOGETHER.saturating_sub(since))
    }

    fn has_news(&self) -> bool {
        self.known.news.load(Ordering::Acquire)
    }

    /// Parses nothing any more until a plan is made.
    pub(super) fn rest(&mut self) {
        self.under_way.clear();
        self.patience = FIRST_PATIENCE;
    }

    /// Has what is `wanted` and not known parsed, and nothing else. What it gives end when the code that was not met
    /// before was tried once.
    fn begin(&mut self, wanted: &BTreeMap<TextId, FoundCode<'_>>) -> Vec<oneshot::Receiver<()>> {
        self.under_way.retain(|id, task| wanted.contains_key(id) && !task.is_finished());
        self.turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        let mut begun = Vec::new();
        for (id, code) in wanted {
            if self.known.is_answered(&id.1) || self.under_way.contains_key(id) {
                continue;
            }
            let (tried, is_tried) = oneshot::channel();
            let text = CodeText {
                key: id.1.clone(),
                text: code.text.to_owned(),
                file_name: code.file_name.clone(),
                turn: Arc::clone(self.turns.entry(id.0.clone()).or_default()),
                inspect: Arc::clone(&self.inspect),
                known: Arc::clone(&self.known),
            };
            let task = AbortOnDropHandle::new(tokio::spawn(text.parse(self.pauses, tried)));
            self.under_way.insert(id.clone(), task);
            begun.push(is_tried);
        }
        begun
    }
}

/// One text on its way.
struct CodeText<I> {
    key: String,
    text: String,
    file_name: String,
    turn: Arc<tokio::sync::Mutex<()>>,
    inspect: Arc<I>,
    known: Arc<KnownFacts>,
}

impl<I: Inspect> CodeText<I> {
    /// Asks until there is an answer. That the parser could not be asked says nothing of the code, however often.
    async fn parse(self, mut pauses: Doubling, tried: oneshot::Sender<()>) {
        let (mut tried, mut late) = (Some(tried), 0);
        loop {
            let found = {
                let _turn = self.turn.lock().await;
                if self.known.is_answered(&self.key) {
                    // The same text stands in another namespace.
                    return;
                }
                self.inspect.inspect(&self.text, &self.file_name).await
            };
            match found {
                Ok(facts) => return self.known.learn(&self.key, Fact::Answer(facts)),
                Err(error) => {
                    self.known.tried(&self.key);
                    late += usize::from(matches!(error, Unavailable::Late(_)));
                    if late == MAX_LATE {
                        let message = format!("cannot be parsed within bounds: {error}, {MAX_LATE} times");
                        self.known.learn(&self.key, Fact::Late(CodeFacts::unparsed(message)));
                        pauses.longest();
                    }
                    tracing::warn!("{error}; this is tried again");
                }
            }
            drop(tried.take());
            sleep(pauses.pause()).await;
        }
    }
}

impl KnownFacts {
    fn facts(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Fact>> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_answered(&self, key: &str) -> bool {
        matches!(self.facts().get(key), Some(Fact::Answer(_)))
    }

    /// Code was tried: that is news where it was not before.
    fn tried(&self, key: &str) {
        if !self.facts().contains_key(key) {
            self.learn(key, Fact::Unknown);
        }
    }

    fn learn(&self, key: &str, fact: Fact) {
        self.facts().insert(key.to_owned(), fact);
        self.news.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// What is known of these, and those that were not tried yet. There is no news after that.
    fn of<'k>(&self, keys: impl Iterator<Item = &'k String>) -> (BTreeMap<String, CodeFacts>, BTreeSet<String>) {
        self.news.store(false, Ordering::Release);
        let keys: BTreeSet<_> = keys.collect();
        let mut known = self.facts();
        bound(&mut known, &keys, MAX_FACTS);
        let (tried, untried): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| known.contains_key(*key));
        let facts = |key: &String| Some((key.clone(), known.get(key)?.facts()?.clone()));
        (tried.into_iter().filter_map(facts).collect(), untried.into_iter().cloned().collect())
    }
}

/// Forgets facts that are not `wanted` where more than `most` are known.
fn bound<F>(known: &mut BTreeMap<String, F>, wanted: &BTreeSet<&String>, most: usize) {
    if known.len() > most {
        known.retain(|key, _| wanted.contains(key));
    }
}

#[cfg(test)]
mod tests;
