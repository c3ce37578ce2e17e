//! What is known of code from parsing it, kept between two readings.

use std::collections::BTreeMap;

use crate::config::compile::Code;
use crate::domain::ports::{CodeFacts, Inspect};

/// The most code texts whose facts are kept.
const MAX_FACTS: usize = 10_000;
/// Texts that are parsed at once, each in a child of its own.
const AT_ONCE: usize = 4;

/// Facts by the key of their code.
pub(super) struct Facts<I> {
    inspect: I,
    known: BTreeMap<String, CodeFacts>,
}

impl<I: Inspect> Facts<I> {
    /// Nothing is known yet.
    pub(super) fn new(inspect: I) -> Self {
        Self { inspect, known: BTreeMap::new() }
    }

    /// The facts of all this code. What was not seen before is inspected.
    pub(super) async fn of(&mut self, wanted: &BTreeMap<String, Code<'_>>) -> BTreeMap<String, CodeFacts> {
        let new: Vec<_> = wanted.iter().filter(|(key, _)| !self.known.contains_key(*key)).collect();
        for few in new.chunks(AT_ONCE) {
            let inspections = few
                .iter()
                .map(|(key, code)| async { ((*key).clone(), self.inspect.inspect(code.text, &code.file_name).await) });
            self.known.extend(futures_util::future::join_all(inspections).await);
        }
        let facts: BTreeMap<_, _> =
            wanted.keys().filter_map(|key| Some((key.clone(), self.known.get(key)?.clone()))).collect();
        if self.known.len() > MAX_FACTS {
            self.known.clone_from(&facts);
        }
        facts
    }
}
