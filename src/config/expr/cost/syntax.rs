//! The parts of an expression, as the engine's parser returns them.

use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

/// Returns the parts of an expression that are expressions.
pub(super) fn parts(expr: &IdedExpr) -> Vec<&IdedExpr> {
    match &expr.expr {
        Expr::Call(call) => arguments(call),
        Expr::Comprehension(all) => {
            vec![&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => Some([&entry.key, &entry.value]),
                EntryExpr::StructField(_) => None,
            });
            entries.flatten().collect()
        }
        Expr::Select(select) => vec![&select.operand],
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => vec![],
    }
}

/// Returns all that a function is given: `a.f(b)` is `f(a, b)`.
pub(super) fn arguments(call: &CallExpr) -> Vec<&IdedExpr> {
    call.target.iter().map(|target| &**target).chain(&call.args).collect()
}

/// Whether a call is that of an operator.
pub(super) fn is_operator(name: &str) -> bool {
    let sums = [op::ADD, op::SUBSTRACT, op::MULTIPLY, op::DIVIDE, op::MODULO, op::NEGATE];
    let others = [op::CONDITIONAL, op::INDEX, op::OPT_INDEX, op::OPT_SELECT];
    is_test(name) || sums.contains(&name) || others.contains(&name)
}

/// Whether an operator yields a boolean, and keeps nothing of what it is given.
pub(super) fn is_test(name: &str) -> bool {
    let all = [op::LOGICAL_AND, op::LOGICAL_OR, op::LOGICAL_NOT, op::NOT_STRICTLY_FALSE, op::EQUALS, op::NOT_EQUALS];
    all.contains(&name) || [op::LESS, op::LESS_EQUALS, op::GREATER, op::GREATER_EQUALS, op::IN].contains(&name)
}

/// The bytes of a value that is written out, beside its weight as a value.
pub(super) fn length(literal: &LiteralValue) -> u64 {
    match literal {
        LiteralValue::String(text) => text.inner().len() as u64,
        LiteralValue::Bytes(bytes) => bytes.inner().len() as u64,
        _ => 0,
    }
}

/// Returns a text that is written out.
pub(super) fn text(expr: &IdedExpr) -> Option<&str> {
    match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Returns the list that a step of `map` or `filter` adds.
pub(super) fn added(step: &IdedExpr) -> Option<&IdedExpr> {
    let Expr::Call(call) = &step.expr else { return None };
    match (call.func_name.as_str(), &call.args[..]) {
        (op::ADD, [_, added]) => Some(added),
        (op::CONDITIONAL, [_, step, _]) => added(step),
        _ => None,
    }
}
