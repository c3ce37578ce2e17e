//! Parses plugin code in the background, so that code that takes long to parse delays the plans of other namespaces
//! only briefly.

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

/// How long a round waits for code that was not parsed before.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the first round of a leader waits. All code is new to it.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
/// The shortest time between two rounds that parser results cause. Each round can store a revision, and only few
/// revisions are kept.
const TOGETHER: Duration = Duration::from_secs(1);
/// The pauses before code that could not be parsed is tried again.
const PAUSES: Doubling = Doubling::new(Duration::from_secs(5), Duration::from_secs(300));
/// After the parser has exceeded its deadline this many times, code counts as unparsable until the parser gets through
/// it. Once is not enough, because parsing time also depends on the machine.
const MAX_LATE: usize = 3;
/// If facts about more than this many pieces of code are stored, those about code that no plugin uses any more are
/// dropped.
const MAX_FACTS: usize = 10_000;

/// Identifies a text: its namespace, and the key of its facts.
type TextId = (String, String);

/// Parses code, and remembers the results.
pub(super) struct Parsing<I> {
    inspect: Arc<I>,
    known: Arc<KnownFacts>,
    /// Texts that are being parsed, or wait to be parsed.
    under_way: BTreeMap<TextId, AbortOnDropHandle<()>>,
    /// Locks that let each namespace parse only one text at a time, so that the parser is free for other namespaces.
    turns: BTreeMap<String, Arc<tokio::sync::Mutex<()>>>,
    /// When parser results last caused a round.
    taken: Option<Instant>,
    patience: Duration,
    /// The initial retry pauses of each text.
    pauses: Doubling,
}

/// The known facts about code.
struct KnownFacts {
    /// Facts, by the key of the code.
    facts: Mutex<BTreeMap<String, Fact>>,
    /// Whether facts were added since they were last read.
    news: AtomicBool,
    /// Notified when facts are added.
    changed: Arc<Notify>,
}

/// The result of trying to parse code.
enum Fact {
    /// The parser could not be reached, or exceeded its deadline. The code is tried again.
    Unknown,
    /// The parser exceeded its deadline [`MAX_LATE`] times. The code is tried again.
    Late(CodeFacts),
    /// The parser's answer.
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
    /// Creates the state without any facts. `changed` is notified whenever facts are added.
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

    /// Adds what is known about the plugins' code to `inputs`. Waits a short time for code that was not parsed
    /// before.
    pub(super) async fn inspect(&mut self, inputs: &mut Inputs) {
        let patience = std::mem::replace(&mut self.patience, PATIENCE);
        let scripts = inputs.plugins.iter().filter(|plugin| plugin.wrapper.is_none());
        let code = scripts.filter_map(|plugin| Some((plugin, plugin_code(inputs, plugin)?)));
        let wanted: BTreeMap<TextId, FoundCode<'_>> = code
            .map(|(plugin, code)| {
                let key = code_key(&sha256_hex(code.text.as_bytes()), &code.file_name);
                ((plugin.key.namespace.clone(), key), code)
            })
            .collect();
        // Answers that come later wake the planning loop.
        let _ = timeout(patience, join_all(self.begin(&wanted))).await;
        (inputs.facts, inputs.parsing) = self.known.of(wanted.keys().map(|(_, key)| key));
    }

    /// Whether to run a round now because facts were added since the last one. After it returns true, the next such
    /// round is due after [`TOGETHER`].
    pub(super) fn take_news(&mut self, now: Instant) -> bool {
        let takes = self.next_news(now).is_some_and(|wait| wait.is_zero());
        if takes {
            self.taken = Some(now);
        }
        takes
    }

    /// Returns how long until [`Self::take_news`] returns true; `None` if no facts were added.
    pub(super) fn next_news(&self, now: Instant) -> Option<Duration> {
        let since = self.taken.map_or(TOGETHER, |taken| now.saturating_duration_since(taken));
        self.has_news().then(|| TOGETHER.saturating_sub(since))
    }

    fn has_news(&self) -> bool {
        self.known.news.load(Ordering::Acquire)
    }

    /// Stops parsing until the next plan is made.
    pub(super) fn rest(&mut self) {
        self.under_way.clear();
        self.patience = FIRST_PATIENCE;
    }

    /// Starts to parse the `wanted` code that is not known, and stops parsing everything else. Returns a receiver for
    /// each text whose parsing was started. The receiver completes once the text has been tried.
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

/// One text that is being parsed.
struct CodeText<I> {
    key: String,
    text: String,
    file_name: String,
    turn: Arc<tokio::sync::Mutex<()>>,
    inspect: Arc<I>,
    known: Arc<KnownFacts>,
}

impl<I: Inspect> CodeText<I> {
    /// Tries until the parser answers. Only exceeded deadlines count against the code; failures to reach the parser do
    /// not, however often they happen.
    async fn parse(self, mut pauses: Doubling, tried: oneshot::Sender<()>) {
        let (mut tried, mut late) = (Some(tried), 0);
        loop {
            let found = {
                let _turn = self.turn.lock().await;
                if self.known.is_answered(&self.key) {
                    // The same text in another namespace was parsed in the meantime.
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

    /// Records that code was tried. Only the first try counts as a change.
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

    /// Returns the facts that are known for these keys, and the keys of code that was not tried yet. Marks all facts as
    /// read.
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

/// If more than `most` facts are known, forgets those that are not `wanted`.
fn bound<F>(known: &mut BTreeMap<String, F>, wanted: &BTreeSet<&String>, most: usize) {
    if known.len() > most {
        known.retain(|key, _| wanted.contains(key));
    }
}

#[cfg(test)]
mod tests;
