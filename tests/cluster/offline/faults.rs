//! What is said of an object, in words that both sides share.

use std::collections::BTreeSet;

/// The kinds of fault that a schema finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A field that the schema does not have.
    Unknown,
    /// A field that has to be there.
    Required,
    /// Something of another type.
    Type,
    /// No word of an enum.
    Word,
    /// Too long a text, too many items or members.
    TooMany,
    /// Out of range, too short, or not of the pattern.
    Value,
    /// Items of a list that have the same key.
    Duplicate,
}

/// How many kinds there are.
pub const KINDS: usize = 7;

/// A verdict: nothing in it is acceptance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The fields that a schema refuses.
    pub faults: BTreeSet<(String, Kind)>,
    /// The messages of rules that are broken.
    pub broken: BTreeSet<String>,
    /// The server stopped at fields that the schema does not have, and looked no further.
    pub stopped: bool,
    /// What was said and is not understood here.
    pub other: Vec<String>,
}

impl Verdict {
    pub fn is_accepted(&self) -> bool {
        self.faults.is_empty() && self.broken.is_empty() && self.other.is_empty()
    }

    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.broken.iter().map(String::as_str)
    }

    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.faults.iter().map(|(_, kind)| *kind)
    }

    /// Whether `offline` says the same as this, the server's. What the server says twice counts once.
    pub fn agrees(&self, offline: &Self) -> bool {
        let same_else = self.broken == offline.broken && self.other.is_empty() && offline.other.is_empty();
        if self.stopped {
            // It looked no further than at names. In a mapping where a text should be it finds such ones too.
            let known = |field: &str| offline.faults.iter().any(|(other, kind)| is_told(other, *kind, field));
            let unknown = offline.faults.iter().filter(|(_, kind)| *kind == Kind::Unknown);
            return self.faults.iter().all(|(field, _)| known(field))
                && unknown.clone().all(|f| self.faults.contains(f));
        }
        same_else && self.plain() == offline.plain()
    }

    /// Without what follows from another fault: what has the wrong type has the wrong value too. Labels are told of
    /// all together by the server, one by one by us.
    fn plain(&self) -> BTreeSet<(&str, Kind)> {
        let wrong = |field: &str| self.faults.contains(&(field.to_owned(), Kind::Type));
        let told = self.faults.iter().filter(|(field, kind)| *kind == Kind::Type || !wrong(field));
        let labels = |field: &str| field.starts_with("metadata.labels");
        told.map(|(field, kind)| (if labels(field) { "metadata.labels" } else { field.as_str() }, *kind)).collect()
    }
}

/// Whether a fault of ours says what the server says of an unknown `field`.
fn is_told(other: &str, kind: Kind, field: &str) -> bool {
    match kind {
        Kind::Unknown => other == field,
        Kind::Type => field.strip_prefix(other).is_some_and(|rest| rest.starts_with(['.', '['])),
        _ => false,
    }
}
