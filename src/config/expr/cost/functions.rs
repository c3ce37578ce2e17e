//! What the functions cost that an expression can call. Others are not known, and refused.
//!
//! The factors were measured with texts and lists that are as bad as can be, and rounded up.

use super::amount::OF_PART;

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

/// Functions that read what they are given, and return a number or a boolean.
#[rustfmt::skip]
const READERS: [&str; 35] = [
    "contains", "startsWith", "endsWith", "size", "hasValue", "isSorted", "getFullYear", "getMonth", "getDayOfYear",
    "getDayOfMonth", "getDate", "getDayOfWeek", "getHours", "getMinutes", "getSeconds", "getMilliseconds",
    "isGreaterThan", "isLessThan", "compareTo", "isInteger", "asInteger", "asApproximateFloat", "sign", "major",
    "minor", "patch", "family", "isLoopback", "isUnspecified", "isLinkLocalMulticast", "isLinkLocalUnicast",
    "isGlobalUnicast", "containsIP", "containsCIDR", "prefixLength",
];

/// Returns what a function costs, or `None` if it is not known.
///
/// `bytes` is not, since what is looked for in bytes is tried at each of them; nor is any that belongs to a library
/// (`lists.range` makes a list of any length).
pub(super) fn function(name: &str) -> Option<Function> {
    let of = |time, result, beside, extra| Function { time, result, beside, extra };
    Some(match name {
        _ if READERS.contains(&name) => of(4, 0, 0, Extra::None),
        "lowerAscii" | "upperAscii" | "trim" | "min" | "max" | "slice" | "first" | "last" | "value" | "or"
        | "orValue" | "add" | "sub" | "sum" | "masked" | "getScheme" | "getHost" | "getHostname" | "getPort"
        | "getEscapedPath" => of(8, 1, 1, Extra::None),
        // These make a list of the characters first.
        "charAt" | "substring" | "reverse" => of(16, 1, 6, Extra::None),
        "indexOf" | "lastIndexOf" => of(16, 0, 6, Extra::Searched),
        "sort" => of(32, 1, 1, Extra::None),
        // Each level of nested lists is copied.
        "flatten" => of(64, 1, 1, Extra::None),
        "distinct" => of(8, 1, 1, Extra::Product),
        "string" | "int" | "uint" | "double" | "duration" | "timestamp" | "quantity" | "isQuantity" | "semver"
        | "isSemver" | "ip" | "isIP" | "isIPv4" | "isIPv6" | "cidr" | "isCIDR" | "isCIDRv4" | "isCIDRv6" => {
            of(64, 1, 16, Extra::None)
        }
        "url" | "isURL" => of(64, 4, 48, Extra::None),
        "format" => of(128, 8, 8, Extra::Format),
        "join" => of(64, 8, 16, Extra::Joined),
        "replace" => of(16, 1, 1, Extra::Replaced),
        // Each byte can become a value.
        "split" | "getQuery" => of(1024, OF_PART, 0, Extra::None),
        "matches" => of(4, 0, 0, Extra::Pattern),
        "find" => of(4, 1, 1, Extra::Pattern),
        "findAll" => of(1024, OF_PART, 0, Extra::Patterns),
        _ => return None,
    })
}
