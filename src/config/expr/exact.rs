//! What the engine does otherwise than CEL defines it, done as CEL defines it ("Equality", "Ordering" and "Field
//! Selection" in the language definition).
//!
//! To the engine, numbers of different types are never equal, and a member of what is no map is false. Then a call could
//! make a condition false, and so pass by a Guard, by the spelling of a number (`1.0` for `1`) or by a value of another
//! type. The engine evaluates operators itself, and no function can replace them. So an expression is rewritten: it calls
//! functions instead, whose names no text can spell. What its parser has lost already is refused before (`lexer`, `check_after`).

use std::borrow::Cow;
use std::cmp::Ordering;

use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};
use kube_cel::cel::common::traits::Container;
use kube_cel::cel::common::types::{CelDouble, CelInt, CelList, CelMap, CelMapKey, CelOptional, CelUInt};
use kube_cel::cel::common::value::Val;
use kube_cel::cel::extractors::This;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Value};

use super::stack::with_stack;
use super::{checked, re2};

/// The operators that functions replace.
const REPLACED: [&str; 7] =
    [op::EQUALS, op::NOT_EQUALS, op::IN, op::LESS, op::LESS_EQUALS, op::GREATER, op::GREATER_EQUALS];
/// The name of the function that replaces the macro `has`.
const HAS: &str = "@exact has";

type Tested = Result<bool, ExecutionError>;

/// Adds the functions that rewritten expressions call, a `contains` that is one of texts alone, and a `size` that counts the
/// characters of a text.
pub(super) fn add_functions(context: &mut Context<'_>) {
    context.add_function(&replaced(op::EQUALS), |given: &FunctionContext<'_, '_>| equals(given));
    context
        .add_function(&replaced(op::NOT_EQUALS), |given: &FunctionContext<'_, '_>| equals(given).map(|equal| !equal));
    context.add_function(&replaced(op::IN), is_in);
    context.add_function(&replaced(op::LESS), |given: &FunctionContext<'_, '_>| order(given).map(Ordering::is_lt));
    context
        .add_function(&replaced(op::LESS_EQUALS), |given: &FunctionContext<'_, '_>| order(given).map(Ordering::is_le));
    context.add_function(&replaced(op::GREATER), |given: &FunctionContext<'_, '_>| order(given).map(Ordering::is_gt));
    context.add_function(&replaced(op::GREATER_EQUALS), |given: &FunctionContext<'_, '_>| {
        order(given).map(Ordering::is_ge)
    });
    context.add_function(HAS, has);
    context.add_function("contains", contains);
    context.add_function("size", size);
}

/// Rewrites an expression. The recursion is limited by `check_bounds`.
pub(super) fn rewrite(expr: &mut IdedExpr) {
    parts(&mut expr.expr).into_iter().for_each(rewrite);
    match &mut expr.expr {
        Expr::Call(call) if REPLACED.contains(&call.func_name.as_str()) => call.func_name = replaced(&call.func_name),
        Expr::Call(call) if ["matches", "find", "findAll"].contains(&call.func_name.as_str()) => {
            translate(call);
            checked::rewrite(call);
        }
        Expr::Call(call) => checked::rewrite(call),
        Expr::Select(select) => expr.expr = member(std::mem::take(select), expr.id),
        _ => {}
    }
}

/// Replaces the pattern of a call, which has been read before.
fn translate(call: &mut CallExpr) {
    let place = usize::from(call.target.is_none());
    let Some(Expr::Literal(LiteralValue::String(pattern))) =
        call.args.get_mut(place).map(|argument| &mut argument.expr)
    else {
        return;
    };
    if let Ok(translated) = re2::translate(pattern.inner()) {
        *pattern = translated.as_str().into();
    }
}

fn replaced(operator: &str) -> String {
    format!("@exact {operator}")
}

/// Returns what replaces `a.b` and `has(a.b)`. An index fails on what is no map, where a selection is false. Of an optional it
/// would be an optional without a value instead: the check of types refuses members of what can be one.
fn member(select: SelectExpr, id: u64) -> Expr {
    let field = Expr::Literal(LiteralValue::String(select.field.as_str().into()));
    let func_name = if select.test { HAS } else { op::INDEX }.to_owned();
    Expr::Call(CallExpr { func_name, target: None, args: vec![*select.operand, IdedExpr { id, expr: field }] })
}

fn parts(expr: &mut Expr) -> Vec<&mut IdedExpr> {
    match expr {
        Expr::Call(call) => call.target.iter_mut().map(|target| &mut **target).chain(&mut call.args).collect(),
        Expr::Comprehension(all) => {
            let all = &mut **all;
            vec![&mut all.iter_range, &mut all.accu_init, &mut all.loop_cond, &mut all.loop_step, &mut all.result]
        }
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter_mut().filter_map(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => Some([&mut entry.key, &mut entry.value]),
                EntryExpr::StructField(_) => None,
            });
            entries.flatten().collect()
        }
        Expr::Select(select) => vec![&mut *select.operand],
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => vec![],
    }
}

/// Evaluates a rewritten expression.
pub(super) fn evaluate(expr: &IdedExpr, context: &Context<'_>) -> Result<Value, ExecutionError> {
    with_stack(|| Value::resolve(expr, context))
}

/// Evaluates the two arguments of a function. A variable, and a part of it, is not copied.
fn both<'a>(given: &'a FunctionContext<'_, '_>) -> Result<[Cow<'a, dyn Val>; 2], ExecutionError> {
    let [one, other] = given.args else { return Err(ExecutionError::invalid_argument_count(2, given.args.len())) };
    Ok([evaluated(one, given)?, evaluated(other, given)?])
}

/// Evaluates an argument. The engine's evaluator is inlined wherever it is named, and its frames are large: only here.
#[inline(never)]
fn evaluated<'a>(
    argument: &'a IdedExpr,
    given: &'a FunctionContext<'_, '_>,
) -> Result<Cow<'a, dyn Val>, ExecutionError> {
    with_stack(|| Value::resolve_val(argument, given.ptx))
}

fn equals(given: &FunctionContext<'_, '_>) -> Tested {
    let [one, other] = both(given)?;
    equal(&*one, &*other)
}

fn order(given: &FunctionContext<'_, '_>) -> Result<Ordering, ExecutionError> {
    let [one, other] = both(given)?;
    if let (Some(one), Some(other)) = (Number::of(&*one), Number::of(&*other)) {
        return one.order(other)?.ok_or(ExecutionError::NoSuchOverload);
    }
    one.as_comparer().ok_or(ExecutionError::NoSuchOverload)?.compare(&*other)
}

fn is_in(given: &FunctionContext<'_, '_>) -> Tested {
    let [value, container] = both(given)?;
    if let Some(list) = container.downcast_ref::<CelList>() {
        let mut found = Ok(false);
        // The keys of an element are looked up in the value: those of the value would be hashed anew for each element.
        for element in list.inner() {
            match equal(&**element, &*value) {
                Ok(false) => {}
                Ok(true) => return Ok(true),
                failed => found = failed,
            }
        }
        return found;
    }
    if let (Some(number), Some(map)) = (Number::of(&*value), container.downcast_ref::<CelMap>()) {
        return Ok(number.keys()?.any(|key| map.inner().contains_key(&key)));
    }
    container.as_container().ok_or(ExecutionError::NoSuchOverload)?.contains(&*value)
}

fn has(given: &FunctionContext<'_, '_>) -> Tested {
    let [map, field] = both(given)?;
    map.downcast_ref::<CelMap>().ok_or(ExecutionError::NoSuchOverload)?.contains(&*field)
}

/// The engine's own one takes any two values, and looks for an element of a list or a key of a map.
fn contains(This(text): This<Value>, part: Value) -> Tested {
    match (text, part) {
        (Value::String(text), Value::String(part)) => Ok(text.contains(part.as_str())),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// The engine's own one counts the bytes of a text, CEL its characters.
fn size(This(value): This<Value>) -> Result<i64, ExecutionError> {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.map.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    i64::try_from(size).map_err(|_| ExecutionError::NoSuchOverload)
}

/// Whether two values are equal. Values of different types are not, but for numbers.
///
/// # Errors
/// One of them is optional and the other is not, which CEL refuses when it checks types: `x.first() == "a"`.
fn equal(one: &dyn Val, other: &dyn Val) -> Tested {
    if let (Some(one), Some(other)) = (Number::of(one), Number::of(other)) {
        return Ok(one.order(other)? == Some(Ordering::Equal));
    }
    if let (Some(one), Some(other)) = (one.downcast_ref::<CelList>(), other.downcast_ref::<CelList>()) {
        return equal_lists(one.inner(), other.inner());
    }
    if let (Some(one), Some(other)) = (one.downcast_ref::<CelMap>(), other.downcast_ref::<CelMap>()) {
        return equal_maps(one, other);
    }
    match (one.downcast_ref::<CelOptional>(), other.downcast_ref::<CelOptional>()) {
        (None, None) => Ok(one.equals(other)),
        (Some(one), Some(other)) => match (one.inner(), other.inner()) {
            (Some(one), Some(other)) => equal(one, other),
            (one, other) => Ok(one.is_none() && other.is_none()),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn equal_lists(one: &[Box<dyn Val>], other: &[Box<dyn Val>]) -> Tested {
    if one.len() != other.len() {
        return Ok(false);
    }
    for (one, other) in one.iter().zip(other) {
        if !equal(&**one, &**other)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_maps(one: &CelMap, other: &CelMap) -> Tested {
    if one.inner().len() != other.inner().len() {
        return Ok(false);
    }
    for (key, value) in one.inner() {
        let same = match Number::of(key.inner()) {
            Some(number) => number.keys()?.find_map(|key| other.inner().get(&key)),
            None => other.inner().get(key),
        };
        if !same.map_or(Ok(false), |same| equal(&**value, &**same))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A number of any of CEL's types.
#[derive(Clone, Copy)]
enum Number {
    Integer(i128),
    Double(f64),
}

impl Number {
    fn of(value: &dyn Val) -> Option<Self> {
        let int = || value.downcast_ref::<CelInt>().map(|int| Self::Integer((*int.inner()).into()));
        let uint = || value.downcast_ref::<CelUInt>().map(|uint| Self::Integer((*uint.inner()).into()));
        let double = || value.downcast_ref::<CelDouble>().map(|double| Self::Double(*double.inner()));
        int().or_else(uint).or_else(double)
    }

    /// Compares numbers by value, and rounds none. What is not a number has no order.
    ///
    /// # Errors
    /// One is a double from which the other, an integer, cannot be told: `9007199254740993.0` was rounded when it was read.
    fn order(self, other: Self) -> Result<Option<Ordering>, ExecutionError> {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => Ok(Some(one.cmp(&other))),
            (Self::Double(one), Self::Double(other)) => Ok(one.partial_cmp(&other)),
            (Self::Integer(one), Self::Double(other)) => order_mixed(one, other),
            (Self::Double(one), Self::Integer(other)) => Ok(order_mixed(other, one)?.map(Ordering::reverse)),
        }
    }

    /// Returns the keys of maps that are equal to the number.
    ///
    /// # Errors
    /// It is a double that stands for several integers.
    fn keys(self) -> Result<impl Iterator<Item = CelMapKey>, ExecutionError> {
        let integer = match self {
            Self::Integer(integer) => Some(integer),
            Self::Double(double) if (FIRST_ROUNDED..=LAST_ROUNDED).contains(&double.abs()) => {
                return Err(ExecutionError::NoSuchOverload);
            }
            Self::Double(double) => (double.fract() == 0.0).then(|| whole(double)),
        };
        let int = integer.and_then(|integer| i64::try_from(integer).ok()).map(CelMapKey::from);
        let uint = integer.and_then(|integer| u64::try_from(integer).ok()).map(CelMapKey::from);
        Ok(int.into_iter().chain(uint))
    }
}

/// The first double for which several integers can be meant: 2^53, to which 2^53 + 1 is rounded.
const FIRST_ROUNDED: f64 = 9_007_199_254_740_992.0;
/// The last one, 2^64, to which the largest integer of CEL is rounded.
const LAST_ROUNDED: f64 = 18_446_744_073_709_551_616.0;

#[allow(clippy::cast_precision_loss, clippy::float_cmp)]
fn order_mixed(integer: i128, double: f64) -> Result<Option<Ordering>, ExecutionError> {
    if double.is_nan() {
        return Ok(None);
    }
    if double.abs() >= FIRST_ROUNDED && integer as f64 == double {
        return Err(ExecutionError::NoSuchOverload);
    }
    Ok(match integer.cmp(&whole(double)) {
        Ordering::Equal => 0.0.partial_cmp(&double.fract()),
        different => Some(different),
    })
}

/// Returns the number without its fraction, or the nearest integer of 128 bits, which no integer of CEL reaches.
#[allow(clippy::cast_possible_truncation)]
fn whole(double: f64) -> i128 {
    double as i128
}
