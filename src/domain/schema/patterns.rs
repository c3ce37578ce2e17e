//! What it costs to try patterns.
//!
//! Most patterns are matched without going back (`linear.rs`). One that looks around or refers back is tried by backtracking:
//! it may try a number of ways, and can read all of the text on each.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};

use super::linear::Linear;
pub(super) use super::linear::{MAX_COMPILED, OF_BYTE};
use super::steps::spend;

/// How often a pattern that needs backtracking may try another way.
const MAX_WAYS: usize = 5_000;
/// The same where it is found out whether it needs so many.
const FEW_WAYS: usize = 20;

/// The steps of trying a pattern on a text, beside those of its bytes.
const AT_ONCE: u64 = 32;
/// The steps of one way, and those of each byte of the text that is read on it.
const OF_WAY: u64 = 10;
const OF_BYTE_OF_WAY: u64 = 2;

/// Returns the options of patterns that may try this many ways.
fn bounds(ways: usize) -> PatternOptions<jsonschema::FancyRegex> {
    let bounds = PatternOptions::fancy_regex().size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED);
    bounds.backtrack_limit(ways)
}

/// Returns the bounds of patterns.
pub(super) fn options() -> PatternOptions<jsonschema::FancyRegex> {
    bounds(MAX_WAYS)
}

/// Returns the steps of trying so many ways on a text of so many bytes.
fn of_ways(ways: usize, bytes: u64) -> u64 {
    (ways as u64).saturating_mul(OF_WAY.saturating_add(bytes.saturating_mul(OF_BYTE_OF_WAY)))
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
            true => (of_ways(MAX_WAYS, 0), MAX_WAYS as u64 * OF_BYTE_OF_WAY),
            false => (AT_ONCE, Linear::of(pattern).most_of_byte()),
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
    /// The pattern, which may try few ways. `None` if it cannot be compiled.
    quick: Option<Validator>,
}

impl Backtracking {
    fn of(pattern: &str) -> Self {
        let options = jsonschema::options().with_pattern_options(bounds(FEW_WAYS));
        Self { quick: options.build(&json!({"pattern": pattern})).ok() }
    }

    /// Counts what it costs to try the pattern on a text.
    fn count(&self, text: &Value, bytes: u64) {
        spend(of_ways(2 * FEW_WAYS, bytes));
        let is_unfinished = |error: jsonschema::ValidationError<'_>| {
            matches!(error.kind(), ValidationErrorKind::BacktrackLimitExceeded { .. })
        };
        let is_quick = self.quick.as_ref().is_some_and(|quick| !quick.validate(text).is_err_and(is_unfinished));
        if !is_quick {
            spend(of_ways(MAX_WAYS, bytes));
        }
    }
}
