//! Problems with their place in a file.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::yaml::Position;
use crate::domain::problem::{Level, Problem};

/// A Problem and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Located {
    /// The Problem.
    #[serde(flatten)]
    pub problem: Problem,
    /// The file. `None` if the Problem is about something outside files, such as a gateway that no manifest declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Line and column. `None` if the Problem is about the whole file.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub place: Option<Position>,
}

impl Located {
    /// Returns the Problem with its place, for a reader who does not have the files at hand.
    pub fn to_problem(&self) -> Problem {
        let place = self.file.as_ref().map(|file| match self.place {
            Some(place) => format!("{}:{}:{}", file.display(), place.line, place.column),
            None => file.display().to_string(),
        });
        Problem { place, ..self.problem.clone() }
    }
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.to_problem().place {
            write!(f, "{place}: ")?;
        }
        let level = match self.problem.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        write!(f, "{level}: {}", self.problem)
    }
}
