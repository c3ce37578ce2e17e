//! Publishes Kubernetes Events when conditions become bad, when there are new warnings, and when `Ready` becomes true. The
//! log has the same.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use serde_json::Value;

use super::condition_type::ConditionType;
use super::lowered::LoweredObject;
use super::rights::RequestError;
use super::status::warning;
use super::writer::Writer;
use crate::api::status::{Condition, ConditionStatus};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Maximum number of characters in the note of an Event (Kubernetes, events.k8s.io).
const MAX_NOTE: usize = 1000;

/// Maximum number of warnings that are published as Events for one status.
const MAX_WARNINGS: usize = 8;

/// Publishes Events. Equal Events within a few minutes are counted instead of repeated.
pub(super) struct Events {
    recorder: Recorder,
    writer: Writer,
}

impl Events {
    pub(super) fn new(writer: Writer) -> Self {
        let reporter = Reporter { controller: "hawsepipe".into(), instance: None };
        Self { recorder: Recorder::new(writer.client.clone(), reporter), writer }
    }

    /// Publishes Events for the differences between the conditions that `object` had and those in `status`. `warnings`
    /// are the Problems that the message of `Accepted` lists while that condition is true.
    pub(super) async fn tell(&self, object: &LoweredObject, status: &Value, warnings: &[Problem]) {
        let before = object.conditions();
        let now: Vec<Condition> =
            serde_json::from_value(status.get("conditions").cloned().unwrap_or_default()).unwrap_or_default();
        let new = new_warnings(&before, &now, warnings);
        for event in changes(&before, &now).into_iter().chain(new) {
            tracing::info!(object = %object.id, reason = event.reason, "{}", event.note.as_deref().unwrap_or_default());
            self.publish(object, &event).await;
        }
        for over in over(&before, &now) {
            tracing::info!(object = %object.id, "{over} is over");
        }
    }

    /// Publishes a warning that no condition can express.
    pub(super) async fn warn(&self, object: &LoweredObject, reason: Reason, note: &str) {
        self.publish(object, &bad(reason.as_str(), note)).await;
    }

    async fn publish(&self, object: &LoweredObject, event: &Event) {
        let reference = ObjectReference {
            api_version: Some("hawsepipe.dev/v1alpha1".into()),
            kind: Some(object.id.kind.as_str().into()),
            namespace: Some(object.id.key.namespace.clone()),
            name: Some(object.id.key.name.clone()),
            uid: Some(object.uid().to_owned()),
            ..ObjectReference::default()
        };
        let publish = self.recorder.publish(event, &reference);
        match self.writer.attempt(&format!("create events in {}", object.id.key.namespace), "", publish).await {
            // `Rights` has already logged a 403.
            Ok(()) | Err(RequestError::NotLeading | RequestError::Forbidden(..)) => {}
            Err(error) => tracing::warn!(object = %object.id, "an Event cannot be published: {error}"),
        }
    }
}

/// Returns the Events for a change of conditions.
fn changes(before: &[Condition], now: &[Condition]) -> Vec<Event> {
    let same = |condition: &Condition| {
        before
            .iter()
            .any(|b| b.r#type == condition.r#type && b.reason == condition.reason && b.status == condition.status)
    };
    let changed = now.iter().filter(|condition| !same(condition));
    changed.filter_map(|condition| event(condition, now)).collect()
}

/// Returns the conditions that were present while they were bad, and are not any more.
fn over<'a>(before: &'a [Condition], now: &[Condition]) -> Vec<&'a str> {
    let gone = before.iter().filter(|b| is_bad(&b.r#type) && now.iter().all(|c| c.r#type != b.r#type));
    gone.map(|condition| condition.r#type.as_str()).collect()
}

/// Whether a condition of this type is bad, and present only while it is true.
fn is_bad(word: &str) -> bool {
    ConditionType::parse(word).is_some_and(ConditionType::is_bad_while_true)
}

/// Returns the Events for warnings that are new in the message of `Accepted`.
fn new_warnings(before: &[Condition], now: &[Condition], warnings: &[Problem]) -> Vec<Event> {
    let accepted = |conditions: &[Condition]| -> String {
        let found = conditions
            .iter()
            .find(|c| c.r#type == ConditionType::Accepted.as_str() && c.status == ConditionStatus::True);
        found.map(|condition| condition.message.clone()).unwrap_or_default()
    };
    let (before, now) = (accepted(before), accepted(now));
    let new = warnings.iter().filter(|problem| {
        let text = warning(problem);
        now.contains(&text) && !before.contains(&text)
    });
    new.take(MAX_WARNINGS).map(|problem| bad(problem.reason.as_str(), &warning(problem))).collect()
}

/// Returns the Event for a condition that is new: a Warning if the condition is bad, except for `Ready`, and a Normal
/// Event if `Ready` is true. A condition with the reason `Pending` causes no Event. `now` are all conditions.
fn event(condition: &Condition, now: &[Condition]) -> Option<Event> {
    let known = ConditionType::parse(&condition.r#type)?;
    let is_ready = known == ConditionType::Ready;
    let good = (condition.status == ConditionStatus::True) != known.is_bad_while_true();
    if condition.reason == Reason::Pending.as_str() || (good != is_ready) {
        return None;
    }
    let message = if condition.message.is_empty() { remark(now) } else { condition.message.clone() };
    let type_ = if good { EventType::Normal } else { EventType::Warning };
    Some(Event { type_, ..bad(&condition.reason, &format!("{}: {message}", condition.r#type)) })
}

/// Returns what is to say of an object that is ready: an object that is not used was tried by no pod, and one that is in
/// effect may be so only in part.
fn remark(now: &[Condition]) -> String {
    let find = |wanted: ConditionType| {
        let is = |c: &&Condition| c.r#type == wanted.as_str() && c.status == ConditionStatus::True;
        now.iter().find(is)
    };
    if find(ConditionType::Programmed).is_some_and(|programmed| programmed.reason == Reason::NotUsed.as_str()) {
        return "no chain that a gateway takes names it, so that no pod has loaded it or looked for what it names"
            .into();
    }
    let mut parts: Vec<_> = now.iter().map(|c| c.r#type.as_str()).filter(|word| is_bad(word)).collect();
    parts.extend(find(ConditionType::Accepted).filter(|accepted| !accepted.message.is_empty()).map(|_| "Accepted"));
    match parts.is_empty() {
        true => "everything it needs is there".to_owned(),
        false => format!("it is in effect, except for what the conditions {} say", parts.join(", ")),
    }
}

/// Returns an Event of type Warning.
fn bad(reason: &str, note: &str) -> Event {
    Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some(note.chars().take(MAX_NOTE).collect()),
        action: "Reconcile".into(),
        secondary: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{Kind, ObjectId, ObjectKey};

    fn condition(name: &str, status: ConditionStatus, reason: &str) -> Condition {
        Condition {
            r#type: name.to_owned(),
            status,
            reason: reason.to_owned(),
            message: String::new(),
            last_transition_time: String::new(),
            observed_generation: None,
        }
    }

    #[test]
    fn a_warning_is_told_once() {
        let id = ObjectId::new(Kind::MCPUpstream, ObjectKey::new("ns", "up"));
        let found = [Problem::warning(Reason::NotImplemented, id, "spec.x", "it has no effect")];
        let mut accepted = condition("Accepted", ConditionStatus::True, "Accepted");
        let before = [accepted.clone()];
        accepted.message = warning(&found[0]);
        let now = [accepted];
        let told = |before: &[Condition], now: &[Condition]| -> Vec<String> {
            new_warnings(before, now, &found).into_iter().map(|event| event.reason).collect()
        };
        assert_eq!(told(&before, &now), ["NotImplemented"]);
        assert!(told(&now, &now).is_empty() && told(&now, &before).is_empty());
    }

    #[test]
    fn only_what_pods_tried_is_said_to_have_everything_that_it_needs() {
        use ConditionStatus::True;
        let note = |others: Vec<Condition>| {
            let now = [others, vec![condition("Ready", True, "Ready")]].concat();
            let told = changes(&[], &now).into_iter().find(|event| event.reason == "Ready").unwrap();
            told.note.unwrap()
        };
        let accepted =
            |message: &str| Condition { message: message.to_owned(), ..condition("Accepted", True, "Accepted") };
        let programmed = condition("Programmed", True, "Programmed");
        assert_eq!(note(vec![accepted(""), programmed.clone()]), "Ready: everything it needs is there");
        let unused = Condition { message: "no chain".into(), ..condition("Programmed", True, "NotUsed") };
        for message in ["", "spec.x: it has no effect (NotImplemented)"] {
            let told = note(vec![accepted(message), unused.clone()]);
            assert!(told.contains("no pod has loaded it") && !told.contains("everything"), "{told}");
        }
        let invalid = condition("PartiallyInvalid", True, "WorkloadNotReady");
        assert_eq!(
            note(vec![accepted("spec.x: it has no effect (NotImplemented)"), programmed, invalid]),
            "Ready: it is in effect, except for what the conditions PartiallyInvalid, Accepted say"
        );
    }

    #[test]
    fn what_became_bad_is_told_once_and_what_became_ready() {
        use ConditionStatus::{False, True};
        let bad = [
            condition("Accepted", False, "SyntaxError"),
            condition("Programmed", False, "Pending"),
            condition("Refusing", True, "GuardUnavailable"),
            condition("Ready", False, "SyntaxError"),
        ];
        let told = |before: &[Condition], now: &[Condition]| -> Vec<String> {
            changes(before, now).into_iter().map(|event| event.reason).collect()
        };
        assert_eq!(told(&[], &bad), ["SyntaxError", "GuardUnavailable"]);
        assert!(told(&bad, &bad).is_empty());
        let good = [condition("Accepted", True, "Accepted"), condition("Ready", True, "Ready")];
        assert_eq!(told(&bad, &good), ["Ready"]);
        assert_eq!(over(&bad, &good), ["Refusing"]);
        assert!(over(&bad, &bad).is_empty() && over(&good, &bad).is_empty());
    }
}
