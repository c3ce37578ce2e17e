//! Estimates what the parts of an expression cost, from the inside out.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr};

use super::amount::{Amount, Estimate, OF_PART, OF_VALUE};
use super::functions::{Extra, Function, function};
use super::pattern::Pattern;
use super::syntax::{added, arguments, is_operator, is_test, length, parts, text};

/// Maximum number of elements of any list or map in the call's arguments, for expressions with a macro that iterates.
pub(in crate::config::expr) const MAX_ELEMENTS: usize = 1000;
/// The nanoseconds of a step of the evaluation, beside what the step does with values.
const OF_STEP: u64 = 256;
/// The nanoseconds of calling a function.
const OF_CALL: u64 = 1024;
/// The most bytes that the text and the numbers of a format make.
const OF_FORMAT: u64 = 256 << 10;

/// The element that a macro has reached.
#[derive(Clone, Copy)]
struct Element<'a> {
    all: &'a ComprehensionExpr,
    /// The number of elements, and the weight of the list.
    number: u64,
    weight: u64,
    /// The weight of the result of the macro.
    result: u64,
}

/// Estimates parts of an expression.
#[derive(Clone, Copy)]
pub(super) struct Estimator<'a> {
    /// The patterns in the expression, by their text.
    patterns: &'a BTreeMap<String, Pattern>,
    /// The weight of all that the expression reads.
    weight: u64,
    element: Option<Element<'a>>,
}

impl<'a> Estimator<'a> {
    /// Estimates an expression that tries these patterns, and reads what has this weight.
    pub(super) fn of(patterns: &'a BTreeMap<String, Pattern>, weight: u64, expr: &'a IdedExpr) -> Estimate {
        Self { patterns, weight, element: None }.estimate(expr)
    }

    fn estimate(&self, expr: &'a IdedExpr) -> Estimate {
        match &expr.expr {
            Expr::Ident(name) => Estimate { size: self.variable(name), ..Estimate::default() },
            Expr::Literal(literal) => self.made(Estimate::default(), Amount::fixed(OF_VALUE + length(literal))),
            Expr::Comprehension(all) => self.comprehension(all),
            Expr::Call(call) if is_operator(&call.func_name) => {
                let all = self.all(&self.each(&arguments(call)), false);
                self.made(all, if is_test(&call.func_name) { Amount::fixed(OF_VALUE) } else { all.size })
            }
            Expr::Call(call) => self.call(call),
            Expr::Select(select) => {
                let operand = self.estimate(&select.operand);
                self.made(operand, if select.test { Amount::fixed(OF_VALUE) } else { operand.size })
            }
            Expr::List(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => {
                let all = self.all(&self.each(&parts(expr)), false);
                self.made(all, all.size.and(Amount::fixed(OF_VALUE)))
            }
        }
    }

    /// Estimates what makes a result of this weight from `all`.
    fn made(&self, all: Estimate, size: Amount) -> Estimate {
        let kept = self.most(size);
        let time = all.time.and(all.size).and(Amount::fixed(OF_STEP));
        Estimate { size, time, peak: all.peak.max(all.kept.saturating_add(kept)), kept }
    }

    /// Estimates parts that are evaluated one after another, and kept together. Variables are copied if `copies`.
    fn all(&self, parts: &[Estimate], copies: bool) -> Estimate {
        let mut all = Estimate::default();
        for part in parts {
            all.size = all.size.and(part.size);
            all.time = all.time.and(part.time);
            all.peak = all.peak.max(all.kept.saturating_add(part.peak));
            all.kept = all.kept.saturating_add(if copies { self.most(part.size) } else { part.kept });
        }
        all
    }

    fn each(&self, parts: &[&'a IdedExpr]) -> Vec<Estimate> {
        parts.iter().map(|part| self.estimate(part)).collect()
    }

    fn variable(&self, name: &str) -> Amount {
        match self.element {
            Some(Element { all, result, .. }) if name == all.accu_var => Amount::fixed(result),
            Some(Element { all, .. }) if name == all.iter_var || all.iter_var2.as_deref() == Some(name) => {
                Amount::ELEMENT
            }
            _ => Amount::fixed(self.weight),
        }
    }

    fn most(&self, amount: Amount) -> u64 {
        amount.most(self.element.map_or(0, |element| element.weight))
    }

    fn call(&self, call: &'a CallExpr) -> Estimate {
        let arguments = arguments(call);
        let each = self.each(&arguments);
        let mut all = self.all(&each, true);
        let first = each.first().copied().unwrap_or_default();
        let mut given = self.most(all.size);
        if call.target.is_none() {
            // The engine can evaluate it on its own, and again with the others.
            all.time = all.time.and(first.time);
            given = given.saturating_add(self.most(first.size));
        }
        // Others are refused when the expression is compiled.
        let Some((_, function)) = function(&call.func_name) else { return all };
        let (size, time, memory) = self.extra(function, &arguments, &each);
        let size = size.and(all.size.times(function.result)).and(Amount::fixed(OF_VALUE));
        // The arguments are copied to and from the types that functions have, and so is the result.
        let time = time.and(all.time).and(all.size.times(3 + function.time)).and(size.times(2));
        let kept = self.most(size);
        let beside = self.most(all.size.times(function.beside)).saturating_add(memory);
        let working = self.most(all.size).max(beside.saturating_add(kept.saturating_mul(2)));
        let peak = all.peak.max(given.saturating_add(working));
        Estimate { size, time: time.and(Amount::fixed(OF_CALL)), peak, kept }
    }

    /// What a function adds to the weight of its result, to its time, and to its memory.
    fn extra(&self, function: Function, all: &[&'a IdedExpr], each: &[Estimate]) -> (Amount, Amount, u64) {
        let none = Amount::default();
        let first = each.first().copied().unwrap_or_default().size;
        let text_at = |place: usize| all.get(place).and_then(|argument| text(argument));
        // The most bytes of an argument, which can be written out.
        let length = |place: usize| match text_at(place) {
            Some(text) => text.len() as u64,
            None => each.get(place).map_or(0, |argument| self.most(argument.size)),
        };
        match function.extra {
            Extra::None => (none, none, 0),
            Extra::Pattern | Extra::Patterns => {
                let Some(pattern) = text_at(1).and_then(|text| self.patterns.get(text)) else {
                    return (none, Amount::fixed(u64::MAX), 0);
                };
                let times = if function.extra == Extra::Pattern { 1 } else { self.most(first) / 2 };
                let (number, weight) = self.element.map_or((1, 0), |element| (element.number, element.weight));
                (none, pattern.time(first.times(times), number, weight), pattern.memory())
            }
            Extra::Product => (none, first.times(self.most(first) / OF_PART), 0),
            Extra::Searched => (none, first.times(length(1)), 0),
            Extra::Joined => {
                let added = first.times(length(1) / OF_PART + 1).and(Amount::fixed(length(1)));
                (added, added, 0)
            }
            Extra::Replaced => {
                let old = text_at(1).map_or(1, |old| old.len().max(1) as u64);
                let added = first.times(length(2).div_ceil(old)).and(Amount::fixed(length(2)));
                (added, added.times(16), 0)
            }
            Extra::Format => (Amount::fixed(OF_FORMAT), Amount::fixed(OF_FORMAT), 0),
        }
    }

    /// Estimates a macro. One inside another is refused before, so this has no element yet.
    fn comprehension(&self, all: &'a ComprehensionExpr) -> Estimate {
        let range = self.estimate(&all.iter_range);
        let weight = self.most(range.size);
        let number = elements(&all.iter_range, weight);
        let each = |result| Self { element: Some(Element { all, number, weight, result }), ..*self };
        // `map` and `filter` begin with an empty list, and make another with one element more at each step.
        let result = match (&all.accu_init.expr, added(&all.loop_step)) {
            (Expr::List(_), Some(added)) => each(0).estimate(added).size.sum(number, weight).saturating_add(OF_VALUE),
            (Expr::List(_), None) => u64::MAX,
            _ => OF_VALUE,
        };
        let inner = each(result);
        let body = inner.all(&inner.each(&[&all.loop_cond, &all.loop_step, &all.result]), true);
        let copied = Amount::ELEMENT.and(Amount::fixed(result)).and(Amount::fixed(OF_CALL));
        let time = body.time.and(copied).sum(number.saturating_add(1), weight);
        let inside = [weight, result, body.peak, result].into_iter().fold(range.kept, u64::saturating_add);
        Estimate {
            size: Amount::fixed(result),
            time: range.time.and(Amount::fixed(time)),
            peak: range.peak.max(inside),
            kept: result,
        }
    }
}

/// The most elements that a list or map of this weight can have.
fn elements(expr: &IdedExpr, weight: u64) -> u64 {
    let most = weight / OF_PART + 1;
    match &expr.expr {
        Expr::List(list) => list.elements.len() as u64,
        _ if is_of_call(expr) => most.min(MAX_ELEMENTS as u64),
        _ => most,
    }
}

/// Whether an expression names the variable `call` or a part of it. A macro cannot have given this name to an element, since
/// none is inside another.
fn is_of_call(expr: &IdedExpr) -> bool {
    match &expr.expr {
        Expr::Ident(name) => name == "call",
        Expr::Select(select) => is_of_call(&select.operand),
        Expr::Call(call) if call.func_name == op::INDEX => call.args.first().is_some_and(is_of_call),
        _ => false,
    }
}
