//! What the schemas of one upstream may have together, so that no server holds up the lists of others.

use std::fmt;

use serde_json::value::RawValue;

use crate::domain::schema::{BoundedSchema, PreparedSchema, Unusable};

/// The maximum number of patterns of the schemas of one upstream that are enforced.
pub(super) const MAX_PATTERNS: usize = 500;
/// The maximum number of places of these schemas, which take a fifth of a second to compile.
const MAX_PLACES: usize = 200_000;

/// What the schemas of an upstream may still have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(super) patterns: usize,
    pub(super) places: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { patterns: MAX_PATTERNS, places: MAX_PLACES }
    }
}

impl Room {
    pub(super) const NONE: Self = Self { patterns: 0, places: 0 };

    /// Takes out what a schema takes.
    pub(super) fn take(&mut self, taken: &Self) {
        self.patterns = self.patterns.saturating_sub(taken.patterns);
        self.places = self.places.saturating_sub(taken.places);
    }

    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.patterns <= other.patterns && self.places <= other.places
    }
}

/// Why a schema is not enforced.
pub(super) enum NotEnforced {
    /// The schemas of the upstream have as much as they may.
    LacksRoom,
    Unusable(Unusable),
}

impl fmt::Display for NotEnforced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LacksRoom => write!(
                f,
                "the schemas of its server have more than {MAX_PATTERNS} patterns or {MAX_PLACES} places, with those before it \
                 in the list"
            ),
            Self::Unusable(why) => why.fmt(f),
        }
    }
}

/// Compiles a schema for which there is this room. Sets `taken` to what it takes.
///
/// # Errors
/// If the room does not suffice, or the schema cannot be used.
pub(super) fn compiled(schema: &RawValue, room: &Room, taken: &mut Room) -> Result<BoundedSchema, NotEnforced> {
    let schema = PreparedSchema::parse(schema.get()).map_err(NotEnforced::Unusable)?;
    let needed = Room { patterns: schema.patterns(), places: schema.places() };
    if !needed.is_within(room) {
        return Err(NotEnforced::LacksRoom);
    }
    *taken = needed;
    schema.compile_older().map_err(NotEnforced::Unusable)
}
