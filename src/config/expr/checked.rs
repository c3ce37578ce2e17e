//! Arguments, and values of methods, with which the engine does otherwise than CEL: as if an argument were left out that has
//! another type, or with a result that CEL does not have. So a value from the call such as `1.0` would change what a condition
//! says. Here that fails.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Value};

use super::stack::with_stack;

/// What checks a value: a function that no text can spell, and what it takes.
type Check = (&'static str, fn(&Value) -> bool);

const INT: Check = ("@exact int", |value| matches!(value, Value::Int(_)));
const COUNT: Check = ("@exact count", |value| matches!(value, Value::Int(0..)));
const BOOLEAN: Check = ("@exact boolean", |value| matches!(value, Value::Bool(_)));
const TEXT: Check = ("@exact text", |value| matches!(value, Value::String(_)));
const SEPARATOR: Check = ("@exact separator", |value| matches!(value, Value::String(text) if !text.is_empty()));
const LIST: Check = ("@exact list", |value| matches!(value, Value::List(_)));
const TEXTS: Check = ("@exact texts", |value| match value {
    Value::List(list) => list.iter().all(|one| matches!(one, Value::String(_))),
    _ => false,
});
/// A value of a library, such as an IP address.
const OPAQUE: Check = ("@exact opaque", |value| matches!(value, Value::Opaque(_)));
/// A value that the engine writes as CEL does, which has an exponent where a number is very large or small.
const WRITTEN: Check = ("@exact written", |value| match value {
    Value::Float(number) => *number == 0.0 || (1e-4..1e21).contains(&number.abs()),
    Value::String(_) | Value::Int(_) | Value::UInt(_) | Value::Opaque(_) => true,
    _ => false,
});
const CHECKS: [Check; 9] = [INT, COUNT, BOOLEAN, TEXT, SEPARATOR, LIST, TEXTS, OPAQUE, WRITTEN];

/// The functions, the place of the argument, and what checks it.
const ARGUMENTS: [(&str, usize, Check); 11] = [
    ("indexOf", 1, COUNT),
    ("lastIndexOf", 1, COUNT),
    ("replace", 2, COUNT),
    ("split", 0, SEPARATOR),
    ("split", 1, INT),
    ("substring", 1, INT),
    ("findAll", 1, INT),
    ("join", 0, TEXT),
    ("semver", 1, BOOLEAN),
    ("isSemver", 1, BOOLEAN),
    ("string", 0, WRITTEN),
];

/// The methods, and what checks their value.
const TARGETS: [(&str, Check); 5] = [("join", TEXTS), ("min", LIST), ("max", LIST), ("string", OPAQUE), ("ip", OPAQUE)];

/// Adds the functions that check a value and return it.
pub(super) fn add_functions(context: &mut Context<'_>) {
    for (name, is_right) in CHECKS {
        context.add_function(name, move |given: &FunctionContext<'_, '_>| checked(given, is_right));
    }
}

/// Has the arguments of a call checked, and its value.
pub(super) fn rewrite(call: &mut CallExpr) {
    for (_, place, check) in ARGUMENTS.iter().filter(|(name, ..)| *name == call.func_name) {
        if let Some(argument) = call.args.get_mut(*place) {
            check_by(*check, argument);
        }
    }
    let Some(target) = &mut call.target else { return };
    for (_, check) in TARGETS.iter().filter(|(name, _)| *name == call.func_name) {
        check_by(*check, target);
    }
    // Only a text is searched from a place on; a list would be searched as a whole.
    if call.func_name.ends_with("ndexOf") && call.args.len() > 1 {
        check_by(TEXT, target);
    }
}

fn check_by((name, _): Check, argument: &mut IdedExpr) {
    let id = argument.id;
    let args = vec![IdedExpr { id, expr: std::mem::take(&mut argument.expr) }];
    argument.expr = Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args });
}

/// Evaluates an argument. The evaluator is inlined wherever it is named, and its frames are large: only here.
#[inline(never)]
fn checked(given: &FunctionContext<'_, '_>, is_right: fn(&Value) -> bool) -> Result<Value, ExecutionError> {
    let [one] = given.args else { return Err(ExecutionError::invalid_argument_count(1, given.args.len())) };
    let value = with_stack(|| Value::resolve(one, given.ptx))?;
    if is_right(&value) { Ok(value) } else { Err(ExecutionError::NoSuchOverload) }
}
