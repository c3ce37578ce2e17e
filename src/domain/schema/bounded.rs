//! Compiles the schemas that can be checked within bounds.

use std::fmt;
use std::panic::resume_unwind;
use std::thread;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ErrorIterator, Validator};
use serde_json::Value;

use super::counted::Counted;
use super::counter::{COUNTER, counter};
use super::expansion::{Expansion, MAX_EXPANSION};
use super::patterns::{self, MAX_COMPILED};
use super::said::shortened;
use super::steps::{Ended, within};
use super::unique::{UNIQUE, unique_items};

/// The largest schema, in bytes.
pub const MAX_SCHEMA: usize = 256 * 1024;
/// The stack for compiling, in bytes of address space. The library compiles eight references within one another on it, each
/// of whose targets may nest [`MAX_DEPTH`](super::MAX_DEPTH) levels, and counters double these.
const STACK: usize = 64 << 20;

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is no JSON Schema. The text says where and why.
    Invalid(String),
    /// It has more than [`MAX_SCHEMA`] bytes.
    TooLarge,
    /// It has a reference or a keyword that is not followed. The text names it.
    Unfollowed(String),
    /// With its references followed it has more than 100,000 values, or nests deeper than 128 levels.
    Unfolds,
    /// A pattern is not valid, or too large when it is compiled.
    Pattern,
    /// There is no thread to compile it on. The text says why.
    NoThread(String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => write!(f, "it is not a JSON Schema: {why}"),
            Self::TooLarge => write!(f, "it has more than {MAX_SCHEMA} bytes"),
            Self::Unfollowed(what) => write!(f, "it has {what}, which is not followed here"),
            Self::Unfolds => {
                write!(f, "its references unfold to more than {MAX_EXPANSION} places, or nest too deep")
            }
            Self::Pattern => {
                write!(f, "a pattern is not valid, or has more than {MAX_COMPILED} bytes when it is compiled")
            }
            Self::NoThread(why) => write!(f, "no thread could be started to compile it: {why}"),
        }
    }
}

/// A schema whose size is known, before it is compiled.
pub struct PreparedSchema {
    counted: Value,
    size: u64,
    patterns: usize,
}

impl PreparedSchema {
    /// Reads a schema.
    ///
    /// # Errors
    /// If it is not JSON, is too large or has references that are not followed.
    pub fn parse(schema: &str) -> Result<Self, Unusable> {
        if schema.len() > MAX_SCHEMA {
            return Err(Unusable::TooLarge);
        }
        let value: Value = serde_json::from_str(schema).map_err(|error| Unusable::Invalid(error.to_string()))?;
        let mut expansion = Expansion::of(&value);
        let size = expansion.size();
        if let Some(reference) = expansion.unfollowed {
            return Err(Unusable::Unfollowed(shortened(&format_args!("a reference to {reference:?}"))));
        }
        if size > MAX_EXPANSION {
            return Err(Unusable::Unfolds);
        }
        let (counted, patterns) = Counted::of(&value).map_err(Unusable::Unfollowed)?;
        Ok(Self { counted, size, patterns })
    }

    /// The number of values that the schema has with its references followed.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The number of patterns. One of more than 100 bytes counts again for each 100.
    pub fn patterns(&self) -> usize {
        self.patterns
    }

    /// Compiles the schema, on a thread of its own: the library takes stack for each level of it.
    ///
    /// # Errors
    /// If it is not a JSON Schema, or has a pattern that is too large.
    pub fn compile(&self) -> Result<BoundedSchema, Unusable> {
        thread::scope(|scope| {
            let compiling = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || self.compile_here());
            let compiling = compiling.map_err(|error| Unusable::NoThread(error.to_string()))?;
            compiling.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    fn compile_here(&self) -> Result<BoundedSchema, Unusable> {
        // References to other documents are not fetched: the library is built without network support.
        let options = jsonschema::options()
            .with_keyword(COUNTER, counter)
            .with_keyword(UNIQUE, unique_items)
            .with_pattern_options(patterns::options());
        let validator = options.build(&self.counted).map_err(|error| match error.kind() {
            ValidationErrorKind::Format { format } if format == "regex" => Unusable::Pattern,
            // The library's words can repeat the schema, which has counters here.
            _ if error.to_string().contains(COUNTER) => Unusable::Invalid(error.masked().to_string()),
            _ => Unusable::Invalid(shortened(&error)),
        })?;
        Ok(BoundedSchema(validator))
    }
}

/// A compiled schema. What its checks may cost is given to each of them, in steps: some 100 of them take a microsecond.
pub struct BoundedSchema(Validator);

impl BoundedSchema {
    /// Whether the value fits. The steps that this takes are taken from `steps`.
    ///
    /// # Errors
    /// If the check was ended because the steps or the stack did not suffice.
    pub fn is_valid(&self, value: &Value, steps: &mut u64) -> Result<bool, Ended> {
        within(steps, || self.0.is_valid(value))
    }

    /// Has `look` take mismatches of the value. The steps that this takes are taken from `steps`. Each may take the memory
    /// that describes a mismatch.
    ///
    /// # Errors
    /// As of [`Self::is_valid`].
    pub fn mismatches<'v, T>(
        &'v self,
        value: &'v Value,
        steps: &mut u64,
        look: impl FnOnce(ErrorIterator<'v>) -> T,
    ) -> Result<T, Ended> {
        within(steps, || look(self.0.iter_errors(value)))
    }
}
