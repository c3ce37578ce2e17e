//! Caches the facts that parsing found in plugin code, so that each text is parsed once.

use std::collections::BTreeMap;

use super::code::wanted_code;
use crate::config::compile::FoundCode;
use crate::config::input::Inputs;
use crate::domain::ports::{CodeFacts, Inspect};

/// The maximum number of code texts whose facts are kept.
const MAX_FACTS: usize = 10_000;
/// The maximum number of texts that are parsed at the same time, each in its own child process.
const AT_ONCE: usize = 4;

/// Caches facts by the key of the code (see `code_key`).
pub(super) struct FactsCache<I> {
    inspect: I,
    known: BTreeMap<String, CodeFacts>,
}

impl<I: Inspect> FactsCache<I> {
    pub(super) fn new(inspect: I) -> Self {
        Self { inspect, known: BTreeMap::new() }
    }

    /// Returns the facts of all code in `wanted`. Code that is not in the cache is inspected. If the inspector is
    /// unavailable, the result leaves that code out, and the next call inspects it again.
    pub(super) async fn of(&mut self, wanted: &BTreeMap<String, FoundCode<'_>>) -> BTreeMap<String, CodeFacts> {
        let new: Vec<_> = wanted.iter().filter(|(key, _)| !self.known.contains_key(*key)).collect();
        for few in new.chunks(AT_ONCE) {
            let inspections = few.iter().map(|(key, code)| async {
                let found = self.inspect.inspect(code.text, &code.file_name).await;
                let found = found.inspect_err(|error| tracing::warn!(file = code.file_name, "{error}"));
                Some(((*key).clone(), found.ok()?))
            });
            self.known.extend(futures_util::future::join_all(inspections).await.into_iter().flatten());
        }
        let facts: BTreeMap<_, _> =
            wanted.keys().filter_map(|key| Some((key.clone(), self.known.get(key)?.clone()))).collect();
        if self.known.len() > MAX_FACTS {
            self.known.clone_from(&facts);
        }
        facts
    }
}

/// Returns the facts of the code of all plugins whose code is available.
pub async fn inspected(inspect: impl Inspect, inputs: &Inputs) -> BTreeMap<String, CodeFacts> {
    FactsCache::new(inspect).of(&wanted_code(inputs)).await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::config::compile::file_code;
    use crate::config::input::{FileCode, Files};
    use crate::domain::ports::Unavailable;

    /// A parser that is available only while the flag is set.
    struct Parser(AtomicBool);

    impl Inspect for &Parser {
        async fn inspect(&self, _: &str, _: &str) -> Result<CodeFacts, Unavailable> {
            if self.0.load(Ordering::Relaxed) {
                Ok(CodeFacts::default())
            } else {
                Err(Unavailable::Unasked("no process".into()))
            }
        }
    }

    #[tokio::test]
    async fn only_facts_are_kept() {
        let file = FileCode { text: "1".into(), folder: "/".into(), descriptor: None, siblings: String::new() };
        let files: Files = [("a.js".to_owned(), Ok(file))].into();
        let wanted: BTreeMap<_, _> = [("key".to_owned(), file_code(&files, "a.js").unwrap())].into();
        let parser = Parser(AtomicBool::new(false));
        let mut facts = FactsCache::new(&parser);
        assert!(facts.of(&wanted).await.is_empty());
        parser.0.store(true, Ordering::Relaxed);
        assert_eq!(facts.of(&wanted).await.len(), 1);
        parser.0.store(false, Ordering::Relaxed);
        assert_eq!(facts.of(&wanted).await.len(), 1);
    }
}
