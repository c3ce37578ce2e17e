//! What a gateway depends on and cannot use now: the keys of issuers, its store, and its audit trail.

use super::Views;
use crate::domain::audit::AuditMode;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::ports::FailedIssuer;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::engine::plan::snapshot::Snapshot;

/// What clients meet while the audit trail cannot be written.
const ALL_REFUSED: &str = "audit.mode is Required, and every call is refused until the row of its beginning is stored";

/// Returns the problems with what the gateway depends on.
pub(super) fn dependency_problems(views: &Views, snapshot: &Snapshot) -> Vec<Problem> {
    let gateway = &snapshot.plan().gateway;
    let object = ObjectId::new(Kind::MCPGateway, gateway.key.clone());
    let issuers = views.credentials.failed_issuers(&snapshot.linked.methods).into_iter();
    let mut problems: Vec<_> = issuers.map(|failed| issuer(&failed, &object)).collect();
    problems.extend(failed_reviews(views, snapshot));
    let is_required = gateway.audit == AuditMode::Required;
    let is_open = views.audit.port.as_ref().is_some_and(|audit| audit.is_open());
    if is_required && !is_open {
        let why = format!("{ALL_REFUSED}: the gateway has no store. Set spec.history.store, or start it with --store");
        problems.push(Problem::error(Reason::AuditUnavailable, object.clone(), "spec.audit.mode", why));
    }
    let failed = views.audit.port.as_ref().filter(|_| gateway.audit != AuditMode::Off).and_then(|it| it.failure());
    match failed {
        Some(why) if is_required => {
            let why = format!("{ALL_REFUSED}: {why}");
            problems.push(Problem::error(Reason::AuditUnavailable, object.clone(), "spec.audit.mode", why));
        }
        Some(why) => {
            let why = format!("rows of the audit trail are lost: {why}");
            problems.push(Problem::warning(Reason::StoreUnavailable, object.clone(), "spec.audit.mode", why));
        }
        None => {}
    }
    problems.extend(views.records.failure().map(|why| {
        let why = format!("the history is not written: {why}");
        Problem::error(Reason::StoreUnavailable, object, "spec.history.store", why)
    }));
    problems
}

/// Returns a problem for each field that has tokens reviewed, if the API server does not do that.
fn failed_reviews(views: &Views, snapshot: &Snapshot) -> Vec<Problem> {
    let Some(why) = views.credentials.failed_reviews() else { return Vec::new() };
    let fields = [
        (&snapshot.linked.methods, "spec.authentication.tokenReview"),
        (&snapshot.linked.admin_methods, "spec.admin.authentication.tokenReview"),
    ];
    let problem = |(_, field): (_, &'static str)| {
        let object = ObjectId::new(Kind::MCPGateway, snapshot.plan().gateway.key.clone());
        let message = format!("tokens of service accounts are refused: {why}");
        Problem::error(Reason::IssuerUnavailable, object, field, message)
    };
    fields.into_iter().filter(|(methods, _)| methods.plan.token_review.is_some()).map(problem).collect()
}

/// Reads the keys of issuers that were not read yet, and asks the API server whether it reviews tokens.
pub async fn read_issuers(views: &Views) {
    let snapshot = views.in_force.snapshot();
    views.credentials.read_issuers(&snapshot.linked.methods).await;
    views.credentials.read_issuers(&snapshot.linked.admin_methods).await;
}

/// Says that the keys of an issuer cannot be read.
fn issuer(failed: &FailedIssuer, object: &ObjectId) -> Problem {
    let FailedIssuer { place, issuer, why, has_keys } = failed;
    let field = format!("spec.authentication.jwt[{place}].issuer");
    match has_keys {
        true => {
            let why =
                format!("the keys of {issuer} cannot be read again, and those that were read count for an hour: {why}");
            Problem::warning(Reason::IssuerUnavailable, object.clone(), field, why)
        }
        false => {
            let why = format!("the keys of {issuer} cannot be read, so its tokens are refused: {why}");
            Problem::error(Reason::IssuerUnavailable, object.clone(), field, why)
        }
    }
}
