//! Counts the steps of a check, and ends a check that takes too many.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

/// The keyword of the counters. Its value is what a schema costs, as [`Counter`] reads it.
pub(super) const COUNTER: &str = "hawsepipe.dev/counter";

/// The number of bytes of a string that are one step.
const BYTES: u64 = 32;
/// The number of steps of one byte that a pattern is tried on, in the worst case.
const OF_PATTERN: u64 = 16;
/// The number of steps of a pattern that has to be tried by backtracking.
const OF_BACKTRACKING: u64 = 100_000;
/// The number of bytes of stack that a check may take. A thread of the runtime has 2 MiB.
const STACK: usize = 768 << 10;

thread_local! {
    /// The steps that the check which runs on this thread may still take.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// Where the stack of this thread was when the check began; 0 while none runs.
    static BOTTOM: Cell<usize> = const { Cell::new(0) };
}

/// Why a check was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It took more steps than it may.
    TooLong,
    /// It took more stack than it may.
    TooDeep,
}

/// Runs a check that may take this many steps. Those that it takes are taken from `steps`.
pub(super) fn within<T>(steps: &mut u64, check: impl FnOnce() -> T) -> Result<T, Ended> {
    LEFT.set(*steps);
    BOTTOM.set(place());
    // Unwinding ends a check at once, wherever it is. The value is no panic: no hook is called.
    let done = catch_unwind(AssertUnwindSafe(check));
    BOTTOM.set(0);
    *steps = LEFT.get();
    done.map_err(|why| match why.downcast::<Ended>() {
        Ok(ended) => *ended,
        Err(panic) => resume_unwind(panic),
    })
}

/// Returns where the stack of this thread is.
#[inline(never)]
fn place() -> usize {
    let here = 0u8;
    std::ptr::from_ref(std::hint::black_box(&here)).addr()
}

/// Counts what it costs to try one schema on one value.
struct Counter {
    values: u64,
    /// The steps of each byte of a string.
    of_byte: u64,
    of_string: u64,
    of_member: u64,
    of_element: u64,
}

impl Counter {
    fn new(cost: &Value) -> Self {
        let patterns = |of: &Value| match of {
            Value::String(one) => vec![one.clone()],
            Value::Array(all) => all.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect(),
            _ => Vec::new(),
        };
        let (own, names) = (patterns(&cost["pattern"]), patterns(&cost["names"]));
        let tried = |patterns: &[String]| patterns.iter().map(|pattern| of_pattern(pattern)).sum::<u64>();
        Self {
            values: cost["values"].as_u64().unwrap_or(1),
            of_byte: (own.len() as u64 + u64::from(cost["format"] == true)) * OF_PATTERN,
            of_string: tried(&own),
            of_member: 1 + tried(&names) + names.len() as u64 * OF_PATTERN * BYTES,
            of_element: if cost["unique"] == true { 64 } else { 1 },
        }
    }

    fn count(&self, value: &Value) {
        let bottom = BOTTOM.get();
        if bottom == 0 {
            return;
        }
        let size = match value {
            Value::String(text) => {
                self.of_string + (text.len() as u64 * self.of_byte).saturating_add(text.len() as u64 / BYTES)
            }
            Value::Array(list) => list.len() as u64 * self.of_element,
            Value::Object(members) => {
                let names = if self.of_member > 1 { members.keys().map(String::len).sum::<usize>() as u64 } else { 0 };
                (members.len() as u64 + names / BYTES).saturating_mul(self.of_member)
            }
            _ => 0,
        };
        let rest = LEFT.get().checked_sub(1 + self.values + size);
        LEFT.set(rest.unwrap_or_default());
        if rest.is_none() {
            end(Ended::TooLong)
        }
        if bottom.abs_diff(place()) > STACK {
            end(Ended::TooDeep)
        }
    }
}

/// The steps of a pattern, whatever it is tried on: many for one that the linear engine does not have.
fn of_pattern(pattern: &str) -> u64 {
    let looks_around = ["(?=", "(?!", "(?<=", "(?<!", "\\k<"].iter().any(|it| pattern.contains(it));
    let refers_back = (1..10).any(|n| pattern.contains(&format!("\\{n}")));
    if looks_around || refers_back { OF_BACKTRACKING } else { BYTES }
}

fn end(why: Ended) -> ! {
    resume_unwind(Box::new(why) as Box<dyn Any + Send>)
}

impl<'i> Keyword<'i> for Counter {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        self.count(value);
        Ok(())
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        self.count(value);
        true
    }
}

/// Makes a counter of the value of [`COUNTER`].
pub(super) fn counter<'a>(
    _: &'a Map<String, Value>,
    cost: &'a Value,
    _: jsonschema::paths::Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    Ok(Box::new(Counter::new(cost)))
}
