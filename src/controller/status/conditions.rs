//! Builds the conditions of an object. The first problem determines `Ready`.

use crate::api::status::{Condition, ConditionStatus};
use crate::controller::condition_type::ConditionType;
use crate::controller::lowered::LoweredObject;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Maximum number of characters in a message.
const MAX_MESSAGE: usize = 4096;

/// The conditions of one object.
pub(in crate::controller) struct Conditions {
    generation: i64,
    before: Vec<Condition>,
    now: String,
    conditions: Vec<Condition>,
    own: Vec<Problem>,
    /// Warnings that the message of `Accepted` lists while that condition is true.
    warnings: Vec<Problem>,
    /// The first problem: status, reason and message of `Ready`.
    first: Option<(ConditionStatus, String, String)>,
}

/// Whether a problem with this reason lies in the object itself, so that the object is not accepted. An error with any reason
/// that no other condition shows does: no object with an error is `Ready`.
pub(in crate::controller) fn is_of_itself(reason: Reason) -> bool {
    use Reason::*;
    matches!(
        reason,
        InvalidObject
            | InvalidExpression
            | InvalidPattern
            | InvalidConfig
            | InvalidSchema
            | MissingSources
            | InvalidDescriptor
            | WrapperNotAllowed
            | SyntaxError
            | DigestMismatch
            | UnsupportedExports
            | StandaloneOnly
            | NotImplemented
            | TooLarge
            | NotLoaded
            | Conflicted
            | NothingEnabled
            | NameConflict
    ) || !is_of_references(reason) && !has_own_condition(reason)
}

/// Whether an error with this reason is shown by `Programmed` or `Refusing`.
fn has_own_condition(reason: Reason) -> bool {
    use Reason::*;
    matches!(reason, Pending | NotTaken | NoGateway | NameTaken | RequiredChainMissing | AuditUnavailable)
}

/// Whether a problem with this reason lies in another object that the object refers to, or in the reference to it.
fn is_of_references(reason: Reason) -> bool {
    use Reason::*;
    matches!(
        reason,
        PluginNotFound
            | PluginNotAccepted
            | RefNotPermitted
            | WrongPhase
            | WrongType
            | ModelRoleNotFound
            | SecretNotFound
            | SecretNotGranted
            | InvalidSecret
            | ConfigMapNotFound
            | KeyNotFound
            | ChainNotFound
            | FileNotFound
            | ServerNotFound
            | UpstreamNotFound
            | KindNotSupported
            | GatewayAPINotInstalled
            | Unreadable
            | IssuerUnavailable
            | StoreUnavailable
            | AddressUnavailable
    )
}

/// Returns a problem as it is shown in a message.
fn told(problem: &Problem) -> String {
    let field = if problem.field.is_empty() { String::new() } else { format!("{}: ", problem.field) };
    format!("{field}{}", problem.message)
}

/// Returns a warning as it is shown in a message.
pub(in crate::controller) fn warning(problem: &Problem) -> String {
    format!("{} ({})", told(problem), problem.reason)
}

impl Conditions {
    /// Creates an empty set of conditions for `object`.
    pub(in crate::controller) fn new(object: &LoweredObject, now: &str) -> Self {
        Self {
            generation: object.generation(),
            before: object.conditions(),
            now: now.to_owned(),
            conditions: Vec::new(),
            own: object.problems.to_vec(),
            warnings: Vec::new(),
            first: None,
        }
    }

    /// Returns this set with the warnings that the message of `Accepted` lists while that condition is true. They are
    /// about parts of the object that have less effect than they seem to have.
    pub(super) fn warned(mut self, warnings: Vec<Problem>) -> Self {
        self.warnings = warnings;
        self
    }

    /// Adds `Accepted`, which is true if the object is valid on its own, and unknown while its code is being parsed.
    /// Returns whether the condition is true.
    pub(super) fn accepted(&mut self, more: &[Problem]) -> bool {
        let is_wrong = |problem: &Problem| problem.is_error() && is_of_itself(problem.reason);
        let pending = more.iter().find(|problem| problem.reason == Reason::Pending);
        if let Some(pending) = pending.filter(|_| !self.own.iter().chain(more).any(is_wrong)) {
            self.unknown(ConditionType::Accepted, pending.reason.as_str(), &told(pending));
            return false;
        }
        let told: Vec<_> = self.warnings.iter().map(warning).collect();
        self.of_problems(ConditionType::Accepted, more, is_of_itself, &told.join("; "))
    }

    /// Adds `ResolvedRefs`, which is true if everything that the object refers to can be used. Returns whether the
    /// condition is true.
    pub(super) fn resolved(&mut self, more: &[Problem]) -> bool {
        self.of_problems(ConditionType::ResolvedRefs, more, is_of_references, "")
    }

    /// Whether `Accepted` is still unknown.
    pub(super) fn is_pending(&self) -> bool {
        self.conditions
            .iter()
            .any(|c| c.r#type == ConditionType::Accepted.as_str() && c.status == ConditionStatus::Unknown)
    }

    fn of_problems(
        &mut self,
        r#type: ConditionType,
        more: &[Problem],
        counts: fn(Reason) -> bool,
        otherwise: &str,
    ) -> bool {
        let wrong: Vec<_> =
            self.own.iter().chain(more).filter(|problem| problem.is_error() && counts(problem.reason)).collect();
        let Some(first) = wrong.first() else {
            self.yes(r#type, r#type.as_str(), otherwise);
            return true;
        };
        let mut told: Vec<String> = Vec::new();
        for problem in &wrong {
            let text = self::told(problem);
            if !told.contains(&text) {
                told.push(text);
            }
        }
        let reason = first.reason;
        self.no(r#type, reason.as_str(), &told.join("; "));
        false
    }

    /// Adds a condition that is true.
    pub(super) fn yes(&mut self, r#type: ConditionType, reason: &str, message: &str) {
        self.add(r#type, ConditionStatus::True, reason, message);
    }

    /// Adds a condition that is false, so that the object is not `Ready`.
    pub(super) fn no(&mut self, r#type: ConditionType, reason: &str, message: &str) {
        self.wrong(ConditionStatus::False, reason, message);
        self.add(r#type, ConditionStatus::False, reason, message);
    }

    /// If a condition of this type is true, replaces it by a false one.
    pub(super) fn replace(&mut self, r#type: ConditionType, reason: &str, message: &str) {
        let was_true = |c: &Condition| c.r#type == r#type.as_str() && c.status == ConditionStatus::True;
        if let Some(place) = self.conditions.iter().position(was_true) {
            self.conditions.remove(place);
            self.no(r#type, reason, message);
        }
    }

    /// Adds a condition that is unknown, so that the object is not `Ready`.
    pub(super) fn unknown(&mut self, r#type: ConditionType, reason: &str, message: &str) {
        self.wrong(ConditionStatus::Unknown, reason, message);
        self.add(r#type, ConditionStatus::Unknown, reason, message);
    }

    /// Adds a condition that exists only while it is true. It is bad, but leaves the object `Ready`.
    pub(super) fn bad_while_true(&mut self, r#type: ConditionType, reason: &str, message: &str) {
        self.add(r#type, ConditionStatus::True, reason, message);
    }

    /// Adds a condition that exists only while it is true, and keeps the object from being `Ready`.
    pub(super) fn stops(&mut self, r#type: ConditionType, reason: &str, message: &str) {
        self.wrong(ConditionStatus::False, reason, message);
        self.add(r#type, ConditionStatus::True, reason, message);
    }

    fn wrong(&mut self, status: ConditionStatus, reason: &str, message: &str) {
        self.first.get_or_insert_with(|| (status, reason.to_owned(), message.to_owned()));
    }

    fn add(&mut self, r#type: ConditionType, status: ConditionStatus, reason: &str, message: &str) {
        let before = self.before.iter().find(|before| before.r#type == r#type.as_str() && before.status == status);
        let since = before.map_or(&self.now, |before| &before.last_transition_time).clone();
        self.conditions.push(Condition {
            r#type: r#type.as_str().to_owned(),
            status,
            reason: reason.to_owned(),
            message: message.chars().take(MAX_MESSAGE).collect(),
            last_transition_time: since,
            observed_generation: Some(self.generation),
        });
    }

    /// Adds `Ready`, with the first problem if there is one, and returns all conditions.
    pub(in crate::controller) fn finish(mut self) -> Vec<Condition> {
        match self.first.take() {
            Some((status, reason, message)) => self.add(ConditionType::Ready, status, &reason, &message),
            None => self.add(ConditionType::Ready, ConditionStatus::True, "Ready", ""),
        }
        self.conditions
    }
}
