//! How large a schema is with its references followed.

use std::collections::HashMap;

use serde_json::Value;

/// The maximum size of a schema with its references expanded, in JSON values. A check may visit each of them.
pub(super) const MAX_EXPANSION: u64 = 100_000;
/// The maximum number of nesting levels and followed references, counted together, on the way to any value of a schema.
pub const MAX_DEPTH: usize = 128;

/// Measures how large a schema is when its references are followed. A schema of a few lines can expand exponentially,
/// if each definition refers to the next one twice, and would take too long to check.
pub(super) struct Expansion<'a> {
    root: &'a Value,
    /// The size of each reference; `None` while its target is being measured. A recursive reference counts as 1,
    /// because a check follows it only as deep as the arguments are.
    known: HashMap<&'a str, Option<u64>>,
    /// A reference that is not followed.
    pub(super) unfollowed: Option<&'a str>,
}

impl<'a> Expansion<'a> {
    /// Measures in the document `root`.
    pub(super) fn of(root: &'a Value) -> Self {
        Self { root, known: HashMap::new(), unfollowed: None }
    }

    /// The size of a part of the document, this many levels deep; `u64::MAX` if it cannot be told.
    pub(super) fn size(&mut self, value: &'a Value, depth: usize) -> u64 {
        if depth > MAX_DEPTH {
            return u64::MAX;
        }
        match value {
            Value::Array(items) => self.sum(items.iter(), depth),
            Value::Object(members) => {
                let target = members.get("$ref").and_then(Value::as_str);
                let followed = target.map_or(0, |reference| self.follow(reference, depth));
                followed.saturating_add(self.sum(members.values(), depth))
            }
            _ => 1,
        }
    }

    fn sum(&mut self, values: impl Iterator<Item = &'a Value>, depth: usize) -> u64 {
        values.fold(1, |sum: u64, value| sum.saturating_add(self.size(value, depth + 1)))
    }

    fn follow(&mut self, reference: &'a str, depth: usize) -> u64 {
        if let Some(known) = self.known.get(reference) {
            return known.unwrap_or(1);
        }
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        // Only JSON Pointers into the same document are followed. The size behind any other reference is unknown.
        let Some(target) = target else {
            self.unfollowed = Some(reference);
            return u64::MAX;
        };
        self.known.insert(reference, None);
        let size = self.size(target, depth + 1);
        self.known.insert(reference, Some(size));
        size
    }
}
