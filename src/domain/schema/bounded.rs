//! Compiles the schemas that can be checked within bounds.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, ErrorIterator, ValidationOptions, Validator};
use jsonschema_regex::is_valid_ecma_regex;
use serde_json::Value;

use super::patterns::{self, MAX_LENGTH, is_linear};
use super::places::Places;
use super::said::shortened;
use super::unique::{UNIQUE, unique_items};
use super::unusable::{MAX_SCHEMA, Unusable};

/// The number of bytes of a text that count as one value.
const BYTES: usize = 32;

/// A schema whose size is known, before it is compiled.
pub struct PreparedSchema {
    schema: Value,
    places: usize,
    patterns: Vec<String>,
    reads_strings: bool,
}

impl PreparedSchema {
    /// Reads a schema.
    ///
    /// # Errors
    /// If it is not JSON, is too large, is recursive, or has references or keywords that are not followed.
    pub fn parse(schema: &str) -> Result<Self, Unusable> {
        if schema.len() > MAX_SCHEMA {
            return Err(Unusable::TooLarge);
        }
        let mut schema: Value = serde_json::from_str(schema).map_err(|error| Unusable::Invalid(error.to_string()))?;
        let Places { count, patterns, reads_strings, .. } = Places::of(&schema)?;
        let patterns = patterns.into_iter().map(str::to_owned).collect();
        if let Value::Object(root) = &mut schema {
            // The library repeats them at each place. All references begin with `#`.
            root.retain(|name, _| !["$id", "id"].contains(&&**name));
        }
        Ok(Self { schema, places: count, patterns, reads_strings })
    }

    /// The number of places: JSON values, with references followed, of which deep ones and patterns count more.
    pub fn places(&self) -> usize {
        self.places
    }

    /// The number of patterns. One of more than 100 bytes counts again for each 100.
    pub fn patterns(&self) -> usize {
        self.patterns.iter().map(|pattern| 1 + pattern.len() / 100).sum()
    }

    /// Compiles the schema.
    ///
    /// # Errors
    /// If it is not a JSON Schema, or has a pattern that is not matched in linear time.
    pub fn compile(&self) -> Result<BoundedSchema, Unusable> {
        self.compile_as(None)
    }

    /// Like [`Self::compile`], but a schema that names no draft may be one of draft-07 (see [`super::in_2020_12`]).
    ///
    /// # Errors
    /// Like [`Self::compile`].
    pub fn compile_older(&self) -> Result<BoundedSchema, Unusable> {
        let invalid = |why: &Unusable| matches!(why, Unusable::Invalid(_)) && self.schema.get("$schema").is_none();
        self.compile().or_else(|why| if invalid(&why) { self.compile_as(Some(Draft::Draft7)) } else { Err(why) })
    }

    fn compile_as(&self, draft: Option<Draft>) -> Result<BoundedSchema, Unusable> {
        if let Some(pattern) = self.patterns.iter().find(|pattern| !is_linear(pattern)) {
            return Err(Unusable::Pattern(shortened(&format_args!("{pattern:?}"))));
        }
        // References to other documents are not fetched: the library is built without network support.
        let options =
            jsonschema::options().with_keyword(UNIQUE, unique_items).with_pattern_options(patterns::options());
        // The library takes quadratic time to read a pattern with many groups.
        let options = options.with_format("regex", |text: &str| text.len() <= MAX_LENGTH && is_valid_ecma_regex(text));
        let options = draft.into_iter().fold(options, ValidationOptions::with_draft);
        let validator = options.build(&self.schema).map_err(|error| match error.kind() {
            ValidationErrorKind::Format { format } if format == "regex" => {
                Unusable::Pattern(shortened(error.instance()))
            }
            _ => Unusable::Invalid(shortened(&error)),
        })?;
        Ok(BoundedSchema { validator, places: self.places, reads_strings: self.reads_strings })
    }
}

/// A compiled schema.
pub struct BoundedSchema {
    validator: Validator,
    places: usize,
    reads_strings: bool,
}

impl BoundedSchema {
    /// What a check of a JSON text costs at most: the places of the schema times the values of the text, where 32 bytes count as
    /// one, too. A hundred of them take a microsecond at most.
    pub fn cost(&self, text: &str) -> u64 {
        let values = text.bytes().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
        self.places as u64 * (1 + values + text.len() / BYTES) as u64
    }

    /// Whether a keyword depends on more of a string than that it is one.
    pub fn reads_strings(&self) -> bool {
        self.reads_strings
    }

    /// Whether the value fits.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// Returns the mismatches of the value. Each takes some hundred bytes, and there can be as many as a check costs.
    pub fn mismatches<'v>(&'v self, value: &'v Value) -> ErrorIterator<'v> {
        self.validator.iter_errors(value)
    }
}
