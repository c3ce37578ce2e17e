//! Finds the binding that counts for a place in a document.

use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};

use super::nearest::has_wildcard;
use crate::domain::plan::SectionPlan;
use crate::domain::section::{Place, Specificity};

/// The bindings of a plan, with their globs compiled.
#[derive(Default)]
pub struct Sections(Vec<LinkedSection>);

struct LinkedSection {
    /// `None` if the glob does not compile: the binding then covers its part of every document.
    documents: Option<GlobMatcher>,
    plan: Arc<SectionPlan>,
}

impl Sections {
    /// Compiles the globs of the bindings of a plan.
    pub fn new(plans: &[SectionPlan]) -> Self {
        let link = |plan: &SectionPlan| LinkedSection {
            documents: document_glob(&plan.glob).ok(),
            plan: Arc::new(plan.clone()),
        };
        Self(plans.iter().map(link).collect())
    }

    /// Returns the bindings that cover a place. The most specific one, which counts, is the first; of equally specific
    /// ones, the one that comes first in the plan.
    pub fn covering(&self, place: &Place) -> Vec<&Arc<SectionPlan>> {
        let mut covering: Vec<_> =
            self.0.iter().filter_map(|section| Some((section.covers(place)?, &section.plan))).collect();
        // The sort is stable.
        covering.sort_by(|(a, _), (b, _)| b.cmp(a));
        covering.into_iter().map(|(_, plan)| plan).collect()
    }
}

impl LinkedSection {
    /// Returns how specifically the binding covers a place: its part counts first, then whether it names the document
    /// without wildcards.
    fn covers(&self, place: &Place) -> Option<(Specificity, bool)> {
        let is_covered = self.documents.as_ref().is_none_or(|glob| glob.is_match(&place.document));
        let specificity = self.plan.part.covers(place, self.plan.inherits).filter(|_| is_covered)?;
        Some((specificity, !has_wildcard(&self.plan.glob)))
    }
}

/// Compiles a glob over documents: `*` does not match a slash, `**` does.
///
/// # Errors
/// If it is no glob.
pub fn document_glob(glob: &str) -> Result<GlobMatcher, String> {
    let compiled = GlobBuilder::new(glob).literal_separator(true).build();
    compiled.map(|glob| glob.compile_matcher()).map_err(|error| format!("{glob:?} is not a glob: {}", error.kind()))
}

#[cfg(test)]
mod tests;
