//! Arguments that can be left out. The engine does as if they were where they have another type than CEL gives them, so that a
//! number from the call such as `1.0` would change what a condition says. Here that fails, as in CEL.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Value};

use super::stack::with_stack;

const INT: &str = "@exact int";
const TEXT: &str = "@exact text";
const BOOLEAN: &str = "@exact boolean";

/// The functions, the place of the argument, and what checks it.
const OPTIONAL: [(&str, usize, &str); 9] = [
    ("indexOf", 1, INT),
    ("lastIndexOf", 1, INT),
    ("replace", 2, INT),
    ("split", 1, INT),
    ("substring", 1, INT),
    ("findAll", 1, INT),
    ("join", 0, TEXT),
    ("semver", 1, BOOLEAN),
    ("isSemver", 1, BOOLEAN),
];

/// Adds the functions that check a value and return it.
pub(super) fn add_functions(context: &mut Context<'_>) {
    context.add_function(INT, |given: &FunctionContext<'_, '_>| checked(given, |value| matches!(value, Value::Int(_))));
    context.add_function(TEXT, |given: &FunctionContext<'_, '_>| {
        checked(given, |value| matches!(value, Value::String(_)))
    });
    context.add_function(BOOLEAN, |given: &FunctionContext<'_, '_>| {
        checked(given, |value| matches!(value, Value::Bool(_)))
    });
}

/// Has the arguments of a call checked that can be left out.
pub(super) fn rewrite(call: &mut CallExpr) {
    let found = OPTIONAL.iter().find(|(name, place, _)| *name == call.func_name && call.args.len() > *place);
    let Some((name, place, check)) = found else { return };
    check_by(check, &mut call.args[*place]);
    // Only a text is searched from a place on; a list would be searched as a whole.
    if let (true, Some(target)) = (name.ends_with("ndexOf"), &mut call.target) {
        check_by(TEXT, target);
    }
}

fn check_by(check: &str, argument: &mut IdedExpr) {
    if matches!((check, &argument.expr), (INT, Expr::Literal(LiteralValue::Int(_)))) {
        return;
    }
    let id = argument.id;
    let args = vec![IdedExpr { id, expr: std::mem::take(&mut argument.expr) }];
    argument.expr = Expr::Call(CallExpr { func_name: check.to_owned(), target: None, args });
}

/// Evaluates an argument. The evaluator is inlined wherever it is named, and its frames are large: only here.
#[inline(never)]
fn checked(given: &FunctionContext<'_, '_>, is_right: fn(&Value) -> bool) -> Result<Value, ExecutionError> {
    let [one] = given.args else { return Err(ExecutionError::invalid_argument_count(1, given.args.len())) };
    let value = with_stack(|| Value::resolve(one, given.ptx))?;
    if is_right(&value) { Ok(value) } else { Err(ExecutionError::NoSuchOverload) }
}
