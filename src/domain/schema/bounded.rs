//! Compiles the schemas that can be checked within bounds.

use std::fmt;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ErrorIterator, Validator};
use serde_json::Value;

use super::counted::Counted;
use super::counter::{COUNTER, counter};
use super::expansion::{Expansion, MAX_EXPANSION};
use super::patterns::{self, MAX_COMPILED};
use super::said::shortened;
use super::steps::{Ended, spend, within};
use super::unique::{UNIQUE, unique_items};

/// The largest schema, in bytes.
pub const MAX_SCHEMA: usize = 256 * 1024;
/// The steps that compiling one schema may take: some 100 of them take a microsecond.
pub const MAX_COMPILING: u64 = 25_000_000;

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
    /// To compile it takes more than this many steps.
    TooLong(u64),
    /// To compile it takes more stack than it may.
    TooDeep,
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
            Self::TooLong(most) => write!(
                f,
                "it takes more than {most} steps to compile: it has too many schemas, too many levels of \"not\", or too \
                 long names on the way to its schemas"
            ),
            Self::TooDeep => f.write_str("it nests too deep to be compiled, with its references followed"),
        }
    }
}

/// A schema whose size is known, before it is compiled.
pub struct PreparedSchema {
    counted: Counted,
    size: u64,
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
        let counted = Counted::of(&value, expansion.references()).map_err(Unusable::Unfollowed)?;
        Ok(Self { counted, size })
    }

    /// The number of values that the schema has with its references followed.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The number of patterns. One of more than 100 bytes counts again for each 100.
    pub fn patterns(&self) -> usize {
        self.counted.patterns
    }

    /// Compiles the schema. The steps that this takes are taken from `steps`, of which it takes [`MAX_COMPILING`] at most.
    ///
    /// # Errors
    /// If it is not a JSON Schema, has a pattern that is too large, or takes too many steps.
    pub fn compile(&self, steps: &mut u64) -> Result<BoundedSchema, Unusable> {
        let most = MAX_COMPILING.min(*steps);
        let mut left = most;
        let compiled = within(&mut left, || {
            spend(self.counted.reading);
            self.compile_counted()
        });
        *steps -= most - left;
        compiled.unwrap_or_else(|ended| {
            Err(match ended {
                Ended::TooLong => Unusable::TooLong(most),
                Ended::TooDeep => Unusable::TooDeep,
            })
        })
    }

    fn compile_counted(&self) -> Result<BoundedSchema, Unusable> {
        // References to other documents are not fetched: the library is built without network support.
        let options = jsonschema::options()
            .with_keyword(COUNTER, counter)
            .with_keyword(UNIQUE, unique_items)
            .with_pattern_options(patterns::options());
        let validator = options.build(&self.counted.schema).map_err(|error| match error.kind() {
            ValidationErrorKind::Format { format } if format == "regex" => Unusable::Pattern,
            // The library's words can repeat the schema, which has counters here.
            _ if error.to_string().contains(COUNTER) => Unusable::Invalid(error.masked().to_string()),
            _ => Unusable::Invalid(shortened(&error)),
        })?;
        Ok(BoundedSchema(validator))
    }
}

/// A compiled schema. What its checks may cost is given to each of them, in steps, as for compiling it.
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
