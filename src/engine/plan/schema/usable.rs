//! Compiles the schemas that can be enforced within bounds.

use std::fmt;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use serde_json::value::RawValue;

use super::counted::Counted;
use super::expansion::{Expansion, MAX_EXPANSION};
use super::report::shortened;
use super::steps::{COUNTER, counter};

/// The largest schema that is enforced, in bytes.
const MAX_SCHEMA: usize = 256 * 1024;
/// The maximum number of patterns of the schemas of one upstream that are enforced.
pub(crate) const MAX_PATTERNS: usize = 500;
/// The maximum size of a compiled pattern, in bytes, and of what matching it keeps.
const MAX_COMPILED: usize = 64 << 10;
/// How often a pattern that needs backtracking may try another way.
const MAX_BACKTRACKS: usize = 5_000;

/// Why a schema is not enforced.
pub(super) enum Unusable {
    /// The upstream has as many patterns as it may.
    LacksRoom,
    /// Any other reason.
    Other(String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LacksRoom => write!(f, "the schemas of its server have more than {MAX_PATTERNS} patterns"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

/// Compiles a schema, and returns how many patterns it has. It may have `room` of them.
pub(super) fn compiled(schema: &RawValue, room: usize) -> Result<(Validator, usize), Unusable> {
    let unusable = |why: &dyn fmt::Display| Unusable::Other(shortened(why));
    if schema.get().len() > MAX_SCHEMA {
        return Err(unusable(&format_args!("it has more than {MAX_SCHEMA} bytes")));
    }
    let value: Value = serde_json::from_str(schema.get()).map_err(|error| unusable(&error))?;
    if Expansion::of(&value).size(&value, 0) > MAX_EXPANSION {
        let why = format_args!("its references unfold to more than {MAX_EXPANSION} places, or cannot be followed");
        return Err(unusable(&why));
    }
    let (counted, patterns) = Counted::of(&value).map_err(|why| unusable(&why))?;
    if patterns > room {
        return Err(Unusable::LacksRoom);
    }
    let bounds = PatternOptions::fancy_regex().size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED);
    // References to other documents are not fetched: the library is built without network support.
    let options = jsonschema::options()
        .with_keyword(COUNTER, counter)
        .with_pattern_options(bounds.backtrack_limit(MAX_BACKTRACKS));
    let validator = options.build(&counted).map_err(|error| match error.kind() {
        ValidationErrorKind::Format { format } if format == "regex" => {
            unusable(&format_args!("a pattern is not valid, or has more than {MAX_COMPILED} bytes when it is compiled"))
        }
        _ => unusable(&error),
    })?;
    Ok((validator, patterns))
}
