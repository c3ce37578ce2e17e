//! A Problem of manifests as commands print it.

use super::output::{Colour, harmless, paint};
use crate::domain::problem::Level;
use crate::domain::reason::Reason;
use crate::source::Located;

/// Formats a Problem as a line: place, level, object, field, and what to do.
pub fn line(located: &Located) -> String {
    let (word, colour) = match located.problem.level {
        _ if is_consequence(located) => ("so", Colour::Yellow),
        Level::Error => ("error", Colour::Red),
        Level::Warning => ("warning", Colour::Yellow),
    };
    let place = match (&located.file, located.place) {
        (Some(file), Some(place)) => format!("{}:{}:{}: ", file.display(), place.line, place.column),
        (Some(file), None) => format!("{}: ", file.display()),
        (None, _) => String::new(),
    };
    format!("{}{}: {}", harmless(&place), paint(colour, word), harmless(&located.problem.to_string()))
}

/// Whether a Problem is only the consequence of another object's Problem: a chain names a Plugin that is not accepted.
/// Such a Problem does not count as another error.
pub(super) fn is_consequence(located: &Located) -> bool {
    located.problem.reason == Reason::PluginNotAccepted
}
