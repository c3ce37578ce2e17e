//! How large a schema is with its references followed.

use std::collections::HashMap;

use serde_json::Value;

use super::counted::{Holds, holds, values};

/// The maximum size of a schema with its references expanded, in JSON values. A check may visit each of them.
pub(super) const MAX_EXPANSION: u64 = 100_000;
/// The maximum number of nesting levels and followed references, counted together, on the way to any schema in a schema.
pub const MAX_DEPTH: usize = 128;

/// How far a part of a schema extends with its references followed.
#[derive(Clone, Copy)]
struct Extent {
    /// The number of JSON values.
    size: u64,
    /// The number of levels and references below it.
    height: usize,
}

impl Extent {
    /// Of what cannot be followed, or not as deep.
    const UNKNOWN: Self = Self { size: u64::MAX, height: 0 };

    /// Takes in a part that is this many levels below.
    fn add(&mut self, levels: usize, part: Self) {
        self.size = self.size.saturating_add(part.size);
        self.height = self.height.max(levels + part.height);
    }
}

/// Measures how large a schema is when its references are followed. A schema of a few lines can expand exponentially,
/// if each definition refers to the next one twice, and would take too long to check.
pub(super) struct Expansion<'a> {
    root: &'a Value,
    /// The extent of each reference; `None` while its target is being measured. A recursive reference counts as one value,
    /// because a check follows it only as deep as the arguments are.
    known: HashMap<&'a str, Option<Extent>>,
    /// A reference that is not followed.
    pub(super) unfollowed: Option<&'a str>,
}

impl<'a> Expansion<'a> {
    /// Measures the document `root`.
    pub(super) fn of(root: &'a Value) -> Self {
        Self { root, known: HashMap::new(), unfollowed: None }
    }

    /// The size of the document; `u64::MAX` if it cannot be told, or the document nests deeper than [`MAX_DEPTH`].
    pub(super) fn size(&mut self) -> u64 {
        self.schema(self.root, 0).size
    }

    /// The number of distinct references that were followed.
    pub(super) fn references(&self) -> usize {
        self.known.len()
    }

    /// The extent of a schema that is this many levels deep.
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Extent {
        if depth > MAX_DEPTH {
            return Extent::UNKNOWN;
        }
        let mut extent = Extent { size: 1, height: 0 };
        let Value::Object(members) = schema else { return extent };
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            extent.add(1, self.follow(reference, depth));
        }
        for (keyword, value) in members {
            self.keyword(keyword, value, depth, &mut extent);
        }
        extent
    }

    /// Adds what one keyword of a schema holds.
    fn keyword(&mut self, keyword: &str, value: &'a Value, depth: usize, extent: &mut Extent) {
        let mut each = |schemas: &mut dyn Iterator<Item = &'a Value>| {
            extent.size = extent.size.saturating_add(1);
            schemas.for_each(|schema| extent.add(2, self.schema(schema, depth + 2)));
        };
        match (holds(keyword), value) {
            // Definitions are reached by references only.
            (Holds::Map, _) if matches!(keyword, "$defs" | "definitions") => {
                extent.size = extent.size.saturating_add(values(value));
            }
            (Holds::Schema | Holds::Either, Value::Object(_) | Value::Bool(_)) => {
                extent.add(1, self.schema(value, depth + 1));
            }
            (Holds::List | Holds::Either, Value::Array(list)) => each(&mut list.iter()),
            (Holds::Map, Value::Object(map)) => each(&mut map.values()),
            _ => extent.size = extent.size.saturating_add(values(value)),
        }
    }

    /// The extent of what a reference leads to, from this many levels deep.
    fn follow(&mut self, reference: &'a str, depth: usize) -> Extent {
        match self.known.get(reference) {
            Some(Some(known)) if depth + 1 + known.height > MAX_DEPTH => return Extent::UNKNOWN,
            Some(Some(known)) => return *known,
            Some(None) => return Extent { size: 1, height: 0 },
            None => {}
        }
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        // Only JSON Pointers into the same document are followed. The size behind any other reference is unknown.
        let Some(target) = target else {
            self.unfollowed = Some(reference);
            return Extent::UNKNOWN;
        };
        self.known.insert(reference, None);
        let extent = self.schema(target, depth + 1);
        self.known.insert(reference, Some(extent));
        extent
    }
}
