//! The keyword that counts what a check costs.

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

use super::patterns::{MostSteps, OF_BYTE, Pattern};
use super::steps::spend;

/// The keyword of the counters. Its value is what a schema costs, as [`Counter`] reads it.
pub(super) const COUNTER: &str = "hawsepipe.dev/counter";

/// The number of bytes of a string that are one step.
const BYTES: u64 = 32;

/// Counts what it costs to try one schema on one value.
struct Counter {
    values: u64,
    /// The steps of each byte of a string.
    of_byte: u64,
    /// The pattern that a string is tried on.
    pattern: Option<Pattern>,
    /// The steps of each name of a member that patterns are tried on.
    of_names: MostSteps,
}

impl Counter {
    fn new(cost: &Value) -> Self {
        let own = cost["pattern"].as_str();
        let of_format = if cost["format"] == true { OF_BYTE } else { 0 };
        let of_content = cost["content"].as_u64().unwrap_or(0);
        let mut of_names = MostSteps::default();
        cost["names"].as_array().iter().flat_map(|it| *it).filter_map(Value::as_str).for_each(|it| of_names.add(it));
        Self {
            values: cost["values"].as_u64().unwrap_or(1),
            of_byte: own.map_or(0, |_| OF_BYTE) + of_format + of_content,
            pattern: own.map(Pattern::of),
            of_names,
        }
    }

    fn count(&self, value: &Value) {
        let size = match value {
            Value::String(text) => {
                let bytes = text.len() as u64;
                bytes.saturating_mul(self.of_byte).saturating_add(bytes / BYTES)
            }
            Value::Array(list) => list.len() as u64,
            Value::Object(members) => {
                let MostSteps { at_once, of_byte } = self.of_names;
                let bytes = if of_byte > 0 { members.keys().map(String::len).sum::<usize>() as u64 } else { 0 };
                let names = (members.len() as u64).saturating_mul(at_once.saturating_add(1));
                names.saturating_add(bytes.saturating_mul(of_byte))
            }
            _ => 0,
        };
        spend(size.saturating_add(self.values).saturating_add(1));
        if let Some(pattern) = &self.pattern {
            pattern.count(value);
        }
    }
}

impl<'i> Keyword<'i> for Counter {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        self.count(value);
        Ok(())
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        self.count(value);
        true
    }
}

/// Makes a counter of the value of [`COUNTER`]. The library does so for each schema that it compiles, as often as it compiles
/// it: so this counts what compiling costs. The library writes the place of a schema down for each of its keywords.
pub(super) fn counter<'a>(
    _: &'a Map<String, Value>,
    cost: &'a Value,
    place: Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    spend((place.as_str().len() as u64).saturating_add(cost["compiling"].as_u64().unwrap_or(0)));
    Ok(Box::new(Counter::new(cost)))
}
