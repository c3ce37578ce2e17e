//! What lowering finds: fields without effect, fields that need a cluster, and guards that are not built.

use super::place::Place;
use crate::domain::ids::ObjectId;
use crate::domain::plan::Refusal;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// An object of a kind that the API has and this version does not serve.
pub fn not_served(object: &ObjectId) -> Problem {
    let message = "this version accepts the object and does nothing with it";
    Problem::warning(Reason::NotImplemented, object.clone(), "kind", message)
}

/// The findings of one object.
pub(super) struct Findings {
    object: ObjectId,
    problems: Vec<Problem>,
    in_cluster: bool,
    cluster_only: Vec<&'static str>,
}

impl Findings {
    pub(super) fn new(object: ObjectId) -> Self {
        Self { object, problems: Vec::new(), in_cluster: false, cluster_only: Vec::new() }
    }

    /// No findings yet, for an object at this place.
    pub(super) fn at(object: ObjectId, place: Place<'_>) -> Self {
        Self { in_cluster: matches!(place, Place::Cluster), ..Self::new(object) }
    }

    /// A field that is set and has no effect yet.
    pub(super) fn later(&mut self, set: bool, field: impl Into<String>) {
        if set {
            let message = "this version accepts the field and does nothing with it; take it out, or keep it for later";
            self.problems.push(Problem::warning(Reason::NotImplemented, self.object.clone(), field, message));
        }
    }

    /// A field that only a cluster can serve, and that is not built there either.
    pub(super) fn cluster(&mut self, set: bool, field: &'static str) {
        if self.in_cluster {
            self.later(set, field);
        } else if set {
            self.cluster_only.push(field);
        }
    }

    /// A field that cannot be served where the object stands.
    pub(super) fn wrong(&mut self, reason: Reason, field: &str, message: &str) {
        self.problems.push(Problem::error(reason, self.object.clone(), field, message));
    }

    /// A field that is set, guards something, and is not built. `effect` says what is refused while it is there.
    pub(super) fn refuse(&mut self, set: bool, field: impl Into<String>, effect: &str) -> Option<Refusal> {
        if !set {
            return None;
        }
        let field = field.into();
        let message = format!("this version cannot do what the field asks for, so {effect} until it is taken out");
        let reason = Reason::NotImplemented;
        let refusal = Refusal { reason, message: format!("{field}: {message}") };
        self.problems.push(Problem::error(reason, self.object.clone(), field, message));
        Some(refusal)
    }

    /// All of them, one warning for everything that needs a cluster.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        if let Some(first) = self.cluster_only.first() {
            let message = format!("only a cluster can serve this: {}", self.cluster_only.join(", "));
            self.problems.push(Problem::warning(Reason::ClusterOnly, self.object, *first, message));
        }
        self.problems
    }
}
