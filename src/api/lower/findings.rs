//! Problems that lowering finds: fields without effect, fields that need a cluster, and protective settings that are
//! not implemented.

use super::place::ManifestSource;
use crate::api::unimplemented::is_listed;
use crate::domain::ids::ObjectId;
use crate::domain::plan::Refusal;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Returns the warning that this version ignores the object because of its kind.
pub fn not_served(object: &ObjectId) -> Problem {
    let message = "this version accepts the object and does nothing with it";
    Problem::warning(Reason::NotImplemented, object.clone(), "kind", message)
}

/// The findings for one object.
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

    /// Makes an empty collection for an object that comes from `place`.
    pub(super) fn at(object: ObjectId, place: ManifestSource<'_>) -> Self {
        Self { in_cluster: matches!(place, ManifestSource::Cluster { .. }), ..Self::new(object) }
    }

    /// If `set`, warns that `field` has no effect in this version.
    pub(super) fn later(&mut self, set: bool, field: impl Into<String>) {
        if set {
            let message = "this version accepts the field and does nothing with it; take it out, or keep it for later";
            self.problems.push(Problem::warning(Reason::NotImplemented, self.object.clone(), field, message));
        }
    }

    /// If `set`, warns that `field` has no effect, unless the object is in a cluster.
    pub(super) fn served_in_cluster(&mut self, set: bool, field: &'static str) {
        if set && !self.in_cluster {
            self.cluster_only.push(field);
        }
    }

    /// If `set`, warns that `field` has no effect: outside a cluster it has no meaning, and in a cluster it is not
    /// implemented.
    pub(super) fn cluster(&mut self, set: bool, field: &'static str) {
        if self.in_cluster {
            self.later(set, field);
        } else if set {
            self.cluster_only.push(field);
        }
    }

    /// Warns that `field` has less effect than it seems to have.
    pub(super) fn ineffective(&mut self, field: &str, message: String) {
        self.problems.push(Problem::warning(Reason::InvalidConfig, self.object.clone(), field, message));
    }

    /// Reports, as an error, a setting that cannot be served in the place that the object comes from (a file or a
    /// cluster).
    pub(super) fn wrong(&mut self, reason: Reason, field: &str, message: &str) {
        self.problems.push(Problem::error(reason, self.object.clone(), field, message));
    }

    /// If `set`, reports a protective setting that this version does not implement, and returns the refusal that must
    /// apply instead. `effect` is the part of the message that says what is refused, such as `the plugin cannot run`.
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

    /// Returns all Problems, with a single warning for all fields that need a cluster.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        let mut unimplemented = self.problems.iter().filter(|problem| problem.reason == Reason::NotImplemented);
        let unlisted = unimplemented.find(|problem| !is_listed(self.object.kind, &problem.field));
        debug_assert!(unlisted.is_none(), "the reference does not say that it is not implemented: {unlisted:?}");
        if let Some(first) = self.cluster_only.first() {
            let message = format!("only a cluster can serve this: {}", self.cluster_only.join(", "));
            self.problems.push(Problem::warning(Reason::ClusterOnly, self.object, *first, message));
        }
        self.problems
    }
}
