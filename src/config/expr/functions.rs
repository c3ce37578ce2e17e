//! The functions that expressions can call, and how they are evaluated.
//!
//! `check` has each of them called by a name that no text can spell, with the value that a method is called on as the first
//! argument. They take the types of their overloads in `cel-go`, and fail on others.

use std::sync::{Arc, LazyLock};

use cel::common::functions::Function as Evaluate;
use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelString, CelUInt, DYN_TYPE};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{Context, Env, ExecutionError, FunctionContext};
use regex::Regex;

use super::kind::Kind;
use crate::config::nearest::nearest;

/// Maximum size in bytes of the JSON and the texts that an evaluation reads, and of a text that a function takes.
pub(super) const MAX_READ: usize = 1 << 20;
/// Maximum number of the elements that a macro goes through, if they are few enough for what it reads.
pub(super) const MAX_ELEMENTS: usize = 1000;

/// The name of the function that replaces `+`.
pub(super) const ADD: &str = "@add";
/// The name of the function that returns the list or map of a macro, if its number of elements is within the limit.
pub(super) const RANGE: &str = "@range";
/// The name of the variable with the number of elements that a macro goes through at most.
pub(super) const ELEMENTS: &str = "@elements";
/// The name of the function that returns an element of a list or map that is written out.
pub(super) const ELEMENT: &str = "@element";

/// A function that expressions can call.
pub(super) struct Function {
    pub(super) name: &'static str,
    /// How it is called, for messages.
    pub(super) written: &'static str,
    pub(super) is_method: bool,
    pub(super) is_global: bool,
    /// The number of arguments, with the value that a method is called on.
    pub(super) arguments: usize,
    pub(super) kind: Kind,
}

const fn method(name: &'static str, written: &'static str, arguments: usize, kind: Kind) -> Function {
    Function { name, written, is_method: true, is_global: false, arguments, kind }
}

const fn conversion(name: &'static str, written: &'static str, kind: Kind) -> Function {
    Function { name, written, is_method: false, is_global: true, arguments: 1, kind }
}

const FUNCTIONS: &[Function] = &[
    Function { is_global: true, ..method("size", "size(x) or x.size()", 1, Kind::Number) },
    method("contains", "x.contains(text)", 2, Kind::Boolean),
    method("startsWith", "x.startsWith(text)", 2, Kind::Boolean),
    method("endsWith", "x.endsWith(text)", 2, Kind::Boolean),
    method("matches", "x.matches(pattern)", 2, Kind::Boolean),
    method("lowerAscii", "x.lowerAscii()", 1, Kind::Text),
    method("upperAscii", "x.upperAscii()", 1, Kind::Text),
    method("trim", "x.trim()", 1, Kind::Text),
    conversion("int", "int(x)", Kind::Number),
    conversion("uint", "uint(x)", Kind::Number),
    conversion("double", "double(x)", Kind::Number),
    conversion("string", "string(x)", Kind::Text),
    conversion("bool", "bool(x)", Kind::Boolean),
];

/// Functions and macros of CEL and its libraries that are not allowed, with what does a part of the same.
const INSTEAD: &[(&[&str], &str)] = &[
    (&["all"], "x.all(e, e > 0)"),
    (&["exists", "exists_one", "existsOne", "filter", "map", "first", "last"], "x.exists(e, e > 0)"),
    (&["has"], "has(x.y)"),
    (&["find", "findAll", "replace", "split", "join", "format"], "x.matches(pattern)"),
    (&["indexOf", "lastIndexOf"], "x.contains(text)"),
    (&["substring", "charAt", "reverse"], "x.startsWith(text) or x.endsWith(text)"),
    (&["max", "min", "greatest", "least", "sum", "isSorted", "sort"], "a comparison such as x > y"),
    (&["bytes", "dyn", "type"], "string(x), or a comparison"),
    (&["optional", "of", "orValue", "value"], "has(x.y) ? x.y : z"),
];

/// Returns the function with this name.
pub(super) fn find(name: &str) -> Result<&'static Function, String> {
    FUNCTIONS.iter().find(|function| function.name == name).ok_or_else(|| {
        let known = INSTEAD.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| *instead);
        let similar = || nearest(name, FUNCTIONS.iter().map(|function| function.name));
        let written = |name| FUNCTIONS.iter().find(|function| function.name == name).map(|function| function.written);
        match known.or_else(|| similar().and_then(written)) {
            Some(instead) => format!("the function `{name}` is not allowed here: write {instead}"),
            None => {
                let names: Vec<_> = FUNCTIONS.iter().map(|function| function.name).collect();
                format!("the function `{name}` is not allowed: allowed are has, all, exists, {}", names.join(", "))
            }
        }
    })
}

static ENV: LazyLock<Result<Arc<Env>, String>> = LazyLock::new(|| {
    let evaluated: [(&str, usize, Evaluate); 15] = [
        (ADD, 2, add),
        (RANGE, 2, range),
        (ELEMENT, 1, element),
        ("@size", 1, size),
        ("@contains", 2, |given| test(&given, |text, part| text.contains(part))),
        ("@startsWith", 2, |given| test(&given, |text, part| text.starts_with(part))),
        ("@endsWith", 2, |given| test(&given, |text, part| text.ends_with(part))),
        ("@lowerAscii", 1, |given| changed(&given, str::to_ascii_lowercase)),
        ("@upperAscii", 1, |given| changed(&given, str::to_ascii_uppercase)),
        ("@trim", 1, |given| changed(&given, |text| text.trim().to_owned())),
        ("@int", 1, |given| int(&given)),
        ("@uint", 1, |given| uint(&given)),
        ("@double", 1, |given| double(&given)),
        ("@string", 1, |given| string(&given)),
        ("@bool", 1, |given| boolean(&given)),
    ];
    let mut env = Env::default();
    for (name, arguments, evaluate) in evaluated {
        let types = (0..arguments).map(|_| DYN_TYPE).collect();
        env.add_overload(name, name, types, evaluate).map_err(|error| error.to_string())?;
    }
    Ok(Arc::new(env))
});

/// Returns a context with all functions, and one for each pattern.
pub(super) fn context(patterns: Vec<Regex>) -> Result<Context<'static, 'static>, String> {
    let mut context = Context::with_env(Arc::clone(ENV.as_ref().map_err(String::clone)?));
    for (place, pattern) in patterns.into_iter().enumerate() {
        let is_match =
            move |given: &FunctionContext<'_, '_>| Ok::<_, ExecutionError>(pattern.is_match(bounded(&given.args, 0)?));
        context.add_function(&matches(place), is_match).map_err(|error| error.to_string())?;
    }
    Ok(context)
}

/// The name of the function that matches a text with the pattern at this place.
pub(super) fn matches(place: usize) -> String {
    format!("@matches{place}")
}

type Given<'g, 'b, 'v> = &'g [CowVal<'b, 'v>];
type Evaluated<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// The message of a failure contains no data of the call.
fn failure() -> ExecutionError {
    ExecutionError::function_error("call", "no overload for these values")
}

fn at<'g, 'b, 'v>(given: Given<'g, 'b, 'v>, place: usize) -> Result<&'g (dyn Val + 'v), ExecutionError> {
    given.get(place).map(|value| value.as_ref()).ok_or_else(failure)
}

fn text<'g>(given: Given<'g, '_, '_>, place: usize) -> Result<&'g str, ExecutionError> {
    at(given, place)?.downcast_ref::<CelString<'_>>().map(|text| text.inner()).ok_or_else(failure)
}

fn bounded<'g>(given: Given<'g, '_, '_>, place: usize) -> Result<&'g str, ExecutionError> {
    text(given, place).and_then(|text| if text.len() > MAX_READ { Err(failure()) } else { Ok(text) })
}

/// Fails on lists, which could multiply what a call has, and on a list and a map, of which the engine makes a list.
fn add<'b, 'v>(given: Vec<CowVal<'b, 'v>>) -> Evaluated<'b, 'v> {
    let (one, other) = (at(&given, 0)?, at(&given, 1)?);
    if one.downcast_ref::<CelList<'_>>().is_some() {
        return Err(failure());
    }
    if let (Ok(one), Ok(other)) = (text(&given, 0), text(&given, 1))
        && one.len() + other.len() > MAX_READ
    {
        return Err(failure());
    }
    Ok(CowVal::Owned(one.as_adder().ok_or_else(failure)?.add(other)?.into_owned()))
}

fn range<'b, 'v>(mut given: Vec<CowVal<'b, 'v>>) -> Evaluated<'b, 'v> {
    let most = given.split_off(1);
    let most = number::<CelInt>(&most).ok_or_else(failure)?.into_inner();
    let elements = at(&given, 0)?;
    let is_iterable = elements.as_iterable().is_some();
    match elements.as_sizer().map(|sizer| sizer.size().into_inner()) {
        Some(size) if is_iterable && size <= most => given.pop().ok_or_else(failure),
        _ => Err(failure()),
    }
}

/// Fails on lists and maps, which could multiply what a call has.
fn element<'b, 'v>(mut given: Vec<CowVal<'b, 'v>>) -> Evaluated<'b, 'v> {
    let value = at(&given, 0)?;
    let is_large = value.downcast_ref::<CelList<'_>>().is_some() || value.downcast_ref::<CelMap<'_>>().is_some();
    if is_large { Err(failure()) } else { given.pop().ok_or_else(failure) }
}

fn size<'b, 'v>(given: Vec<CowVal<'b, 'v>>) -> Evaluated<'b, 'v> {
    Ok(CowVal::owned(at(&given, 0)?.as_sizer().ok_or_else(failure)?.size()))
}

fn test<'b, 'v>(given: Given<'_, '_, '_>, test: fn(&str, &str) -> bool) -> Evaluated<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(test(bounded(given, 0)?, text(given, 1)?))))
}

fn changed<'b, 'v>(given: Given<'_, '_, '_>, change: fn(&str) -> String) -> Evaluated<'b, 'v> {
    Ok(CowVal::owned(CelString::from(change(text(given, 0)?))))
}

fn number<T: StaticVal + Copy>(given: Given<'_, '_, '_>) -> Option<T> {
    at(given, 0).ok()?.downcast_ref::<T>().copied()
}

fn int<'b, 'v>(given: Given<'_, '_, '_>) -> Evaluated<'b, 'v> {
    let value = if let Some(value) = number::<CelInt>(given) {
        Some(value.into_inner())
    } else if let Some(value) = number::<CelUInt>(given) {
        i64::try_from(value.into_inner()).ok()
    } else if let Some(value) = number::<CelDouble>(given).map(CelDouble::into_inner) {
        // Both bounds are excluded, as in `cel-go`; the upper one is 2^63, which is no `int`.
        (value > i64::MIN as f64 && value < i64::MAX as f64).then_some(value as i64)
    } else {
        text(given, 0)?.parse().ok()
    };
    value.map(|value| CowVal::owned(CelInt::from(value))).ok_or_else(failure)
}

fn uint<'b, 'v>(given: Given<'_, '_, '_>) -> Evaluated<'b, 'v> {
    let value = if let Some(value) = number::<CelUInt>(given) {
        Some(value.into_inner())
    } else if let Some(value) = number::<CelInt>(given) {
        u64::try_from(value.into_inner()).ok()
    } else if let Some(value) = number::<CelDouble>(given).map(CelDouble::into_inner) {
        (value >= 0.0 && value < u64::MAX as f64).then_some(value as u64)
    } else {
        // Rust reads a sign, Go does not.
        text(given, 0)?.parse().ok().filter(|_| !text(given, 0).is_ok_and(|text| text.starts_with('+')))
    };
    value.map(|value| CowVal::owned(CelUInt::from(value))).ok_or_else(failure)
}

fn double<'b, 'v>(given: Given<'_, '_, '_>) -> Evaluated<'b, 'v> {
    let value = if let Some(value) = number::<CelDouble>(given) {
        value.into_inner()
    } else if let Some(value) = number::<CelInt>(given) {
        value.into_inner() as f64
    } else if let Some(value) = number::<CelUInt>(given) {
        value.into_inner() as f64
    } else {
        // Go fails on a number that is too large, and knows other names of what is no number.
        text(given, 0)?.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(failure)?
    };
    Ok(CowVal::owned(CelDouble::from(value)))
}

fn string<'b, 'v>(given: Given<'_, '_, '_>) -> Evaluated<'b, 'v> {
    let value = if let Some(value) = number::<CelInt>(given) {
        value.into_inner().to_string()
    } else if let Some(value) = number::<CelUInt>(given) {
        value.into_inner().to_string()
    } else if let Some(value) = number::<CelBool>(given) {
        value.into_inner().to_string()
    } else if let Some(value) = number::<CelDouble>(given).map(CelDouble::into_inner) {
        // Go writes other numbers with an exponent.
        let is_plain = value == 0.0 || (1e-4..1e6).contains(&value.abs());
        if is_plain { value.to_string() } else { return Err(failure()) }
    } else {
        text(given, 0)?.to_owned()
    };
    Ok(CowVal::owned(CelString::from(value)))
}

fn boolean<'b, 'v>(given: Given<'_, '_, '_>) -> Evaluated<'b, 'v> {
    let value = match number::<CelBool>(given) {
        Some(value) => value.into_inner(),
        None => match text(given, 0)? {
            "1" | "t" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "false" | "FALSE" | "False" => false,
            _ => return Err(failure()),
        },
    };
    Ok(CowVal::owned(CelBool::from(value)))
}
