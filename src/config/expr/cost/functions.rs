//! What the functions cost that an expression can call. Others are not known, and refused.
//!
//! The factors were measured with texts and lists that are as bad as can be, and rounded up.

use super::amount::OF_PART;
use super::form::Form;

/// What a function costs for each unit of the weight of all that it is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    /// The nanoseconds it takes.
    pub(super) time: u64,
    /// The weight of its result.
    pub(super) result: u64,
    /// The memory that it takes for a while beside its result: also for an error, into which some write the value.
    pub(super) beside: u64,
    /// What else it costs.
    pub(super) extra: Extra,
}

/// What a function costs beside what grows with the weight of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    None,
    /// The first argument is tried with the pattern in the second.
    Pattern,
    /// As `Pattern`, and again after each match.
    Patterns,
    /// The first argument is read for each part of itself, or of another argument.
    Product,
    /// As `Product` for the second argument, which can be a short text that is written out.
    Searched,
    /// The elements of the first argument are put together, with the second between them.
    Joined,
    /// Parts of the first argument are replaced by the third.
    Replaced,
    /// A text is made as the first argument says.
    Format,
}

const fn of(time: u64, result: u64, beside: u64, extra: Extra) -> Function {
    Function { time, result, beside, extra }
}

/// Functions that read what they are given, and return a number or a boolean.
const READER: Function = of(4, 0, 0, Extra::None);
/// Functions that make something of the size of what they are given.
const MAKER: Function = of(8, 1, 1, Extra::None);
/// Functions that make a list of the characters first.
const OF_CHARACTERS: Function = of(16, 1, 6, Extra::None);
/// Functions that make a value of another type.
const CONVERTER: Function = of(64, 1, 16, Extra::None);

/// The functions, how they are called, and what they cost.
///
/// `bytes` is missing, since what is looked for in bytes is tried at each of them; so is any that belongs to a library
/// (`lists.range` makes a list of any length). CEL's `getHours` and the like take a time zone, which the engine ignores.
#[rustfmt::skip]
const FUNCTIONS: &[(&[&str], Form, Function)] = &[
    (&["contains", "startsWith", "endsWith"], Form::method(1, 1), READER),
    (&["isGreaterThan", "isLessThan", "compareTo", "containsIP", "containsCIDR"], Form::method(1, 1), READER),
    (&["size"], Form::both(0), READER),
    (&["hasValue", "isSorted", "isInteger", "asInteger", "asApproximateFloat", "sign"], Form::method(0, 0), READER),
    (&["getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek", "getHours", "getMinutes",
        "getSeconds", "getMilliseconds", "major", "minor", "patch"], Form::method(0, 0), READER),
    (&["family", "isLoopback", "isUnspecified", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast",
        "prefixLength"], Form::method(0, 0), READER),
    (&["lowerAscii", "upperAscii", "trim", "first", "last", "value", "sum", "masked"], Form::method(0, 0), MAKER),
    (&["getScheme", "getHost", "getHostname", "getPort", "getEscapedPath"], Form::method(0, 0), MAKER),
    (&["min", "max"], Form::method(0, 0).or_function(2, usize::MAX), MAKER),
    (&["slice"], Form::method(2, 2), MAKER),
    (&["or", "orValue", "add", "sub"], Form::method(1, 1), MAKER),
    (&["charAt"], Form::method(1, 1), OF_CHARACTERS),
    (&["substring"], Form::method(1, 2), OF_CHARACTERS),
    (&["reverse"], Form::method(0, 0), OF_CHARACTERS),
    (&["indexOf", "lastIndexOf"], Form::method(1, 2), of(16, 0, 6, Extra::Searched)),
    (&["sort"], Form::method(0, 0), of(32, 1, 1, Extra::None)),
    // Each level of nested lists is copied.
    (&["flatten"], Form::method(0, 1), of(64, 1, 1, Extra::None)),
    (&["distinct"], Form::method(0, 0), of(8, 1, 1, Extra::Product)),
    (&["string", "ip"], Form::both(0), CONVERTER),
    (&["int", "uint", "double", "duration", "timestamp", "quantity", "isQuantity"], Form::function(1, 1), CONVERTER),
    (&["isIP", "isIPv4", "isIPv6", "cidr", "isCIDR", "isCIDRv4", "isCIDRv6"], Form::function(1, 1), CONVERTER),
    (&["semver", "isSemver"], Form::function(1, 2), CONVERTER),
    (&["url", "isURL"], Form::function(1, 1), of(64, 4, 48, Extra::None)),
    (&["format"], Form::method(1, 1), of(128, 8, 8, Extra::Format)),
    (&["join"], Form::method(0, 1), of(64, 8, 16, Extra::Joined)),
    (&["replace"], Form::method(2, 3), of(16, 1, 1, Extra::Replaced)),
    // Each byte can become a value.
    (&["split"], Form::method(1, 2), of(1024, OF_PART, 0, Extra::None)),
    (&["getQuery"], Form::method(0, 0), of(1024, OF_PART, 0, Extra::None)),
    (&["matches"], Form::both(1), of(4, 0, 0, Extra::Pattern)),
    (&["find"], Form::method(1, 1), of(4, 1, 1, Extra::Pattern)),
    (&["findAll"], Form::method(1, 2), of(1024, OF_PART, 0, Extra::Patterns)),
];

/// Returns how a function is called and what it costs, or `None` if it is not known.
pub(super) fn function(name: &str) -> Option<(Form, Function)> {
    FUNCTIONS.iter().find(|(names, ..)| names.contains(&name)).map(|(_, form, cost)| (*form, *cost))
}
