//! Bounds what one evaluation of an expression can cost, from its text and from the size of what it reads.
//!
//! The CEL engine counts nothing while it evaluates. It copies what an expression names, and keeps all that it makes: a
//! macro over a thousand elements can copy all arguments a thousand times, `map` copies its list at each element, and
//! `replace` can multiply two texts. So time and memory are estimated before, and never too low by more than a small factor.

mod amount;
mod estimate;
mod form;
mod functions;
mod pattern;
mod syntax;

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};

use self::amount::OF_VALUE;
use self::estimate::Estimator;
pub(super) use self::estimate::MAX_ELEMENTS;
use self::functions::{Extra, function};
use self::pattern::Pattern;
use self::syntax::{arguments, is_operator, parts, text};

/// The most nanoseconds that one evaluation may take.
const MAX_TIME: u64 = 1_000_000_000;
/// The most memory that one evaluation may take, in bytes.
const MAX_MEMORY: u64 = 96 << 20;
/// The maximum number of values that an expression may read from JSON.
const MAX_VALUES: u64 = 100_000;
/// How often what is read is copied while it is parsed and made into variables.
const COPIES: u64 = 3;
/// The number of parts of variables that are always there: names, hints.
const OF_VARIABLES: u64 = 16;
/// The maximum number of digits of a precision in a format.
const MAX_DIGITS: usize = 2;
/// Libraries of functions: `lists.range(n)` makes a list of any length. They are no variables, so that expressions
/// cannot use them, unless a macro gives one of these names to its elements.
const LIBRARIES: [&str; 9] = ["base64", "format", "ip", "jsonpatch", "lists", "math", "optional", "sets", "strings"];

/// The size of what an expression reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reads {
    bytes: u64,
    values: u64,
}

impl Reads {
    /// Adds a text.
    pub fn add_text(&mut self, text: &str) {
        self.bytes += text.len() as u64;
    }

    /// Adds a JSON text, which is not parsed: the number of its values is estimated, and never too low.
    pub fn add_json(&mut self, text: &str) {
        self.add_text(text);
        let begins = |byte: &&u8| matches!(byte, b',' | b'[' | b'{');
        self.add_values(1 + text.as_bytes().iter().filter(begins).count());
    }

    /// Adds values.
    pub fn add_values(&mut self, number: usize) {
        self.values += number as u64;
    }

    fn weight(self) -> u64 {
        self.bytes + (OF_VARIABLES + self.values) * OF_VALUE
    }
}

/// What is known of the cost of an expression before it is evaluated.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// The patterns that it tries, by their text.
    patterns: BTreeMap<String, Pattern>,
}

impl Cost {
    /// Reads the patterns of an expression, and checks its functions. The recursion is limited by `check_bounds`.
    ///
    /// # Errors
    /// If it calls a function whose cost nothing bounds, or costs too much whatever it reads.
    pub(super) fn of(expr: &IdedExpr) -> Result<Self, String> {
        let mut cost = Self::default();
        cost.read(expr)?;
        cost.check(expr, Reads::default()).map_err(|_| "it costs too much, whatever it reads".to_owned())?;
        Ok(cost)
    }

    /// Checks that an evaluation of the expression on what is read does not cost too much.
    ///
    /// # Errors
    /// What is too much.
    pub(super) fn check(&self, expr: &IdedExpr, reads: Reads) -> Result<(), String> {
        if reads.values > MAX_VALUES {
            return Err(format!("what it reads has more than {MAX_VALUES} values"));
        }
        let weight = reads.weight();
        let estimate = Estimator::of(&self.patterns, weight, expr);
        if estimate.time.fixed.saturating_add(weight.saturating_mul(COPIES)) > MAX_TIME {
            return Err("it would take too long, since what it reads is too large for it".to_owned());
        }
        // What the variables are made of is gone when the evaluation begins.
        let memory = estimate.peak.saturating_add(weight).max(weight.saturating_mul(COPIES));
        if memory > MAX_MEMORY {
            return Err("it would take too much memory, since what it reads is too large for it".to_owned());
        }
        Ok(())
    }

    fn read(&mut self, expr: &IdedExpr) -> Result<(), String> {
        match &expr.expr {
            // The engine has none, and panics.
            Expr::Struct(_) => return Err("it makes an object of a type, and there are no types".to_owned()),
            Expr::Comprehension(all) => {
                let mut names = [Some(&all.iter_var), all.iter_var2.as_ref()].into_iter().flatten();
                if let Some(name) = names.find(|name| LIBRARIES.contains(&name.as_str())) {
                    return Err(format!("a macro cannot call its elements {name:?}, which is a library of functions"));
                }
            }
            Expr::Call(call) => self.read_call(call)?,
            _ => {}
        }
        parts(expr).into_iter().try_for_each(|part| self.read(part))
    }

    fn read_call(&mut self, call: &CallExpr) -> Result<(), String> {
        let name = call.func_name.as_str();
        if is_operator(name) {
            return Ok(());
        }
        let Some((form, function)) = function(name) else {
            return Err(format!("there is no function {name:?}, or none whose cost has a bound"));
        };
        form.check(call)?;
        let all = arguments(call);
        let text_at = |place: usize| all.get(place).and_then(|argument| text(argument));
        match function.extra {
            Extra::Pattern | Extra::Patterns => {
                let pattern = text_at(1).ok_or_else(|| format!("{name} takes a pattern that is written out"))?;
                self.patterns.insert(pattern.to_owned(), Pattern::read(pattern)?);
            }
            Extra::Format if !text_at(0).is_some_and(has_short_precisions) => {
                return Err("format takes a text that is written out, with precisions of at most two digits".into());
            }
            _ => {}
        }
        Ok(())
    }
}

fn has_short_precisions(format: &str) -> bool {
    let digits = |rest: &str| rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    format.match_indices('.').all(|(at, point)| digits(&format[at + point.len()..]) <= MAX_DIGITS)
}

#[cfg(test)]
mod tests;
