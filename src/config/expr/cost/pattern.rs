//! What it costs to try a regular expression.
//!
//! The library makes the states of an automaton as a text needs them, and then reads a byte in some nanoseconds. Where a text
//! needs too many states, it tries all places of the pattern at each byte instead, and can take ten thousand times as long. So
//! all states are made here once: where they are few, no text needs too many.

use std::collections::BTreeSet;

use regex_automata::Anchored;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson::{self, NFA};
use regex_automata::util::start;

use super::super::re2::translate;
use super::amount::Amount;

/// Maximum size of a pattern that is compiled, in bytes.
const MAX_SIZE: usize = 1 << 20;
/// Maximum size of all states, in bytes, in each direction: far less than the library may keep (2 MiB).
const MAX_STATES: usize = 128 << 10;
/// Maximum size of a compiled pattern whose states are made, in bytes. Those of a larger one are hardly ever few.
const MAX_TRIED: u64 = 64 << 10;
/// The nanoseconds of a byte, where the states are few.
const OF_BYTE: u64 = 32;
/// The bytes of a compiled pattern that can take one nanosecond, at a byte of a text or at a new state.
const PLACES: u64 = 2;
/// The nanoseconds of compiling any pattern, and of a byte of what is compiled.
const OF_COMPILING: u64 = 200_000;
const OF_COMPILED: u64 = 32;
/// The memory of what the library keeps for states, beside that for a pattern, in bytes.
const KEPT: u64 = 4 << 20;

/// A pattern that is written out in an expression.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    /// Its size when it is compiled, in bytes.
    size: u64,
    /// The number of transitions between all states, if these are few.
    transitions: Option<u64>,
}

impl Pattern {
    /// Reads a pattern, as it is tried.
    ///
    /// # Errors
    /// If it is not a regular expression, or the engine would read it otherwise than CEL, or it is too large.
    pub(super) fn read(pattern: &str) -> Result<Self, String> {
        let translated = &translate(pattern)?;
        let limits = thompson::Config::new().nfa_size_limit(Some(MAX_SIZE));
        let built = NFA::compiler().configure(limits.clone()).build(translated);
        let refused = |e: thompson::BuildError| match e.size_limit() {
            Some(limit) => format!("the pattern {pattern:?} has more than {limit} bytes when it is compiled"),
            None => format!("{pattern:?} is not a regular expression"),
        };
        let size = built.map_err(refused)?.memory_usage() as u64;
        let of = |is_reverse| transitions(translated, limits.clone().reverse(is_reverse));
        let transitions = || of(false).zip(of(true)).map(|(forward, reverse)| forward + reverse);
        Ok(Self { size, transitions: if size > MAX_TRIED { None } else { transitions() } })
    }

    /// The nanoseconds of compiling it and of trying it on a text, or on each of `number` elements that weigh `weight` together.
    /// The states are made anew each time: at most one for each byte, until there are all.
    pub(super) fn time(&self, text: Amount, number: u64, weight: u64) -> Amount {
        let read = text.times(OF_BYTE).and(Amount::fixed(OF_COMPILING + self.size * OF_COMPILED));
        let place = self.size / PLACES;
        match self.transitions {
            Some(all) if all.saturating_mul(number) < text.sum(number, weight) => {
                read.and(Amount::fixed(all.saturating_mul(place)))
            }
            _ => read.and(text.times(place)),
        }
    }

    /// The memory that it takes, in bytes.
    pub(super) fn memory(&self) -> u64 {
        KEPT + self.size * 8
    }
}

/// Makes all states of a pattern, and returns the number of transitions between them: `None` if they are not few.
fn transitions(pattern: &str, limits: thompson::Config) -> Option<u64> {
    // The states are those that the library makes, but for word boundaries of Unicode, with which it gives up at other texts
    // than ASCII.
    let config =
        DFA::config().starts_for_each_pattern(true).cache_capacity(MAX_STATES).minimum_cache_clear_count(Some(0));
    let automaton = DFA::builder().configure(config).thompson(limits).build(pattern).ok()?;
    let mut cache = automaton.create_cache();
    let mut next = Vec::new();
    for anchored in [Anchored::No, Anchored::Yes] {
        for before in (0..=u8::MAX).map(Some).chain([None]) {
            let start = start::Config::new().look_behind(before).anchored(anchored);
            next.push(automaton.start_state(&mut cache, &start).ok()?);
        }
    }
    let bytes: Vec<u8> =
        automaton.byte_classes().representatives(0..=u8::MAX).filter_map(|unit| unit.as_u8()).collect();
    let (mut seen, mut number) = (BTreeSet::new(), 0);
    while let Some(state) = next.pop() {
        if !seen.insert(state) || state.is_dead() || state.is_quit() {
            continue;
        }
        for byte in &bytes {
            next.push(automaton.next_state(&mut cache, state, *byte).ok()?);
        }
        next.push(automaton.next_eoi_state(&mut cache, state).ok()?);
        number += bytes.len() as u64 + 1;
    }
    Some(number)
}
