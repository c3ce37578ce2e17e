//! What it costs to try patterns.
//!
//! Most patterns are matched without going back (`linear.rs`). One that looks around or refers back is tried by backtracking:
//! it may try a number of ways, and can read all of the text on each.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};

use super::linear::{Linear, most_of_byte};
pub(super) use super::linear::{MAX_COMPILED, OF_BYTE};
use super::steps::spend;

/// How often a pattern that needs backtracking may try another way.
const MAX_WAYS: usize = 5_000;
/// The same where it is found out whether it needs so many.
const FEW_WAYS: [usize; 2] = [4, 64];

/// The steps of trying a pattern on a text, beside those of its bytes.
const AT_ONCE: u64 = 32;
/// The smallest size that is told of a compiled pattern, in bytes.
const SMALLEST: usize = 256;
/// The steps of one way, beside those of the bytes that are read on it.
const OF_WAY: u64 = 10;

/// Returns the options of patterns that may try this many ways, and of which no part is larger when it is compiled.
fn bounds(ways: usize, size: usize) -> PatternOptions<jsonschema::FancyRegex> {
    PatternOptions::fancy_regex().size_limit(size).dfa_size_limit(MAX_COMPILED).backtrack_limit(ways)
}

/// Returns the bounds of patterns.
pub(super) fn options() -> PatternOptions<jsonschema::FancyRegex> {
    bounds(MAX_WAYS, MAX_COMPILED)
}

fn compiled(pattern: &str, ways: usize, size: usize) -> Option<Validator> {
    jsonschema::options().with_pattern_options(bounds(ways, size)).build(&json!({"pattern": pattern})).ok()
}

/// Whether a pattern may be tried by backtracking.
fn backtracks(pattern: &str) -> bool {
    let looks_around = ["(?=", "(?!", "(?<=", "(?<!", "\\k<"].iter().any(|it| pattern.contains(it));
    // These do not go back into what a repetition has matched.
    let is_possessive = ["*+", "++", "?+", "}+"].iter().any(|it| pattern.contains(it));
    looks_around || is_possessive || (0..10).any(|n| pattern.contains(&format!("\\{n}")))
}

/// The most steps that patterns can take on a text.
#[derive(Default)]
pub(super) struct MostSteps {
    /// Whatever the text.
    pub(super) at_once: u64,
    pub(super) of_byte: u64,
}

impl MostSteps {
    /// Adds those of a pattern.
    pub(super) fn add(&mut self, pattern: &str) {
        let (at_once, of_byte) = match backtracks(pattern) {
            true => (MAX_WAYS as u64 * OF_WAY, MAX_WAYS as u64 * most_of_byte(size_of_parts(pattern))),
            false => (AT_ONCE, Linear::of(pattern).most_of_byte().max(OF_BYTE)),
        };
        self.at_once = self.at_once.saturating_add(at_once);
        self.of_byte = self.of_byte.saturating_add(of_byte);
    }
}

/// A pattern that strings are tried on.
pub(super) enum Pattern {
    Linear(Box<Linear>),
    Backtracking(Backtracking),
}

impl Pattern {
    pub(super) fn of(pattern: &str) -> Self {
        match backtracks(pattern) {
            true => Self::Backtracking(Backtracking::of(pattern)),
            false => Self::Linear(Box::new(Linear::of(pattern))),
        }
    }

    /// Counts what it costs to try the pattern on a string, beside [`OF_BYTE`].
    pub(super) fn count(&self, value: &Value) {
        match (self, value) {
            (Self::Linear(pattern), Value::String(text)) => pattern.count(text),
            (Self::Backtracking(pattern), Value::String(text)) => pattern.count(value, text.len() as u64),
            _ => {}
        }
    }
}

/// A pattern that is tried by backtracking. Few texts have it try many ways, so it is found out by trying few.
pub(super) struct Backtracking {
    /// The pattern, and how many ways it may try.
    tries: Vec<(usize, Validator)>,
    /// The steps of each byte that is read on a way.
    of_byte: u64,
}

impl Backtracking {
    fn of(pattern: &str) -> Self {
        let tried = |ways| compiled(pattern, ways, MAX_COMPILED).map(|pattern| (ways, pattern));
        Self { tries: FEW_WAYS.into_iter().filter_map(tried).collect(), of_byte: most_of_byte(size_of_parts(pattern)) }
    }

    /// Counts what it costs to try the pattern on a text.
    fn count(&self, text: &Value, bytes: u64) {
        let of_way = OF_WAY.saturating_add(bytes.saturating_mul(self.of_byte));
        let is_unfinished = |error: jsonschema::ValidationError<'_>| {
            matches!(error.kind(), ValidationErrorKind::BacktrackLimitExceeded { .. })
        };
        for (ways, pattern) in &self.tries {
            // Here, and where the library tries it.
            spend(of_way.saturating_mul(2 * *ways as u64));
            if !pattern.validate(text).is_err_and(is_unfinished) {
                return;
            }
        }
        spend(of_way.saturating_mul(MAX_WAYS as u64));
    }
}

/// Returns a size, in bytes, that no part of a pattern exceeds when it is compiled: a power of two.
fn size_of_parts(pattern: &str) -> usize {
    let mut sizes =
        std::iter::successors(Some(SMALLEST), |size| Some(size * 2)).take_while(|size| *size < MAX_COMPILED);
    sizes.find(|size| compiled(pattern, MAX_WAYS, *size).is_some()).unwrap_or(MAX_COMPILED)
}
