//! What the schemas of one upstream may have together, so that no server holds up the lists of others.

use std::fmt;

use serde_json::value::RawValue;

use crate::domain::schema::{BoundedSchema, PreparedSchema, Unusable};

/// The maximum number of patterns of the schemas of one upstream that are enforced.
pub(super) const MAX_PATTERNS: usize = 500;
/// The steps that compiling the schemas of one upstream may take: some 100 of them take a microsecond.
const MAX_COMPILING: u64 = 200_000_000;

/// What the schemas of an upstream may still have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// The patterns, as [`PreparedSchema::patterns`] counts them.
    pub(super) patterns: usize,
    /// The steps of compiling.
    pub(super) steps: u64,
}

impl Default for Room {
    fn default() -> Self {
        Self { patterns: MAX_PATTERNS, steps: MAX_COMPILING }
    }
}

impl Room {
    pub(super) const NONE: Self = Self { patterns: 0, steps: 0 };

    /// Takes out what a schema takes.
    pub(super) fn take(&mut self, taken: &Self) {
        self.patterns = self.patterns.saturating_sub(taken.patterns);
        self.steps = self.steps.saturating_sub(taken.steps);
    }

    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.patterns <= other.patterns && self.steps <= other.steps
    }
}

/// Why a schema is not enforced.
pub(super) enum NotEnforced {
    /// The upstream has as many patterns as it may.
    LacksPatterns,
    /// The schemas of the upstream take as many steps to compile as they may.
    LacksSteps,
    Unusable(Unusable),
}

impl NotEnforced {
    /// Whether the schema could be enforced if its upstream had more room.
    pub(super) fn lacks_room(&self) -> bool {
        !matches!(self, Self::Unusable(_))
    }
}

impl fmt::Display for NotEnforced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LacksPatterns => write!(
                f,
                "the schemas of its server have more than {MAX_PATTERNS} patterns, of which a long one counts as several"
            ),
            Self::LacksSteps => write!(
                f,
                "the schemas of its server take more than {MAX_COMPILING} steps to compile, with those before it in the list"
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
    if room.steps == 0 {
        return Err(NotEnforced::LacksSteps);
    }
    let schema = PreparedSchema::parse(schema.get()).map_err(NotEnforced::Unusable)?;
    if schema.patterns() > room.patterns {
        return Err(NotEnforced::LacksPatterns);
    }
    let mut left = room.steps;
    let compiled = schema.compile(&mut left);
    taken.steps = room.steps - left;
    let compiled = compiled.map_err(|why| match why {
        Unusable::TooLong(_) if left == 0 => NotEnforced::LacksSteps,
        why => NotEnforced::Unusable(why),
    })?;
    taken.patterns = schema.patterns();
    Ok(compiled)
}
