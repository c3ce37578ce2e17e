//! What the API server answers if something is wrong in the cluster.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Method, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use crate::api::upstream::managed::UPSTREAM_LABEL;
use crate::controller::operator::tests::{Answer, answer};

/// What is wrong in the cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Somebody else has the name among the objects of this plural.
    Taken(&'static str),
    /// Somebody takes the owner from the upstream's Service later.
    Disowned,
    /// Somebody else has the Service's name, which cannot be read later.
    TakenThenUnread,
    /// There is a Deployment of the upstream, and it cannot be deleted.
    Kept,
    /// The pods of servers cannot be listed.
    NoPods,
    /// A Service of the upstream is seen only once a test says so.
    Late,
    /// Somebody else has the Service's name, and accounts may not be written.
    TakenAndForbidden,
    /// Deployments cannot be written now.
    Unwritten,
    /// Deployments cannot be written now, and accounts may not be written later.
    UnwrittenThenForbidden,
    /// Nothing is answered in the namespace `slow`.
    Hangs,
    /// These objects of the upstream exist.
    Existing(&'static [&'static str]),
}

/// Returns an object that belongs to the upstream.
fn ours(version: &str, kind: &str) -> Value {
    let owner = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "MCPUpstream", "name": "up", "uid": "u"});
    let metadata = json!({"name": "up-mcp", "namespace": "ns", "uid": "x", "resourceVersion": "2",
        "ownerReferences": [owner], "labels": {UPSTREAM_LABEL: "up"}});
    json!({"apiVersion": version, "kind": kind, "metadata": metadata})
}

/// Returns an object of this resource that belongs to the upstream.
fn existing(plural: &str) -> Value {
    let (version, kind) = match plural {
        "serviceaccounts" => ("v1", "ServiceAccount"),
        "networkpolicies" => ("networking.k8s.io/v1", "NetworkPolicy"),
        "services" => ("v1", "Service"),
        "deployments" => ("apps/v1", "Deployment"),
        _ => ("v1", "Pod"),
    };
    ours(version, kind)
}

fn failure(status: StatusCode, reason: &str) -> Answer {
    answer(status, json!({"kind": "Status", "code": status.as_u16(), "reason": reason}).to_string())
}

/// Returns a watch that shows this object once `seen` is cancelled.
fn late(object: &Value, seen: &CancellationToken) -> Answer {
    let (event, seen) = (format!("{{\"type\": \"MODIFIED\", \"object\": {object}}}\n"), seen.clone());
    let comes = async move {
        seen.cancelled().await;
        Ok::<_, BoxError>(Frame::data(Bytes::from(event)))
    };
    Response::new(StreamBody::new(stream::once(comes).chain(stream::pending())).boxed_unsync())
}

impl Fault {
    /// Returns what the API server answers because of it. What is late is seen once `seen` is cancelled, and what is to
    /// happen later has happened then.
    pub(super) fn answer(
        self,
        method: &Method,
        (path, query): (&str, &str),
        seen: &CancellationToken,
    ) -> Option<Answer> {
        let denied = || failure(StatusCode::FORBIDDEN, "Forbidden");
        let busy = || failure(StatusCode::SERVICE_UNAVAILABLE, "");
        match (self, method) {
            (_, &Method::GET) if path.ends_with("-mcp") => Some(self.named(path, seen.is_cancelled())),
            (_, &Method::GET) if query.contains("watch=true") => self.watched(path, seen),
            (Self::NoPods, &Method::GET) if path.ends_with("/pods") && query.contains("upstream") => Some(denied()),
            (_, &Method::GET) => self.listed(path, query),
            (Self::TakenAndForbidden, _) if path.contains("/serviceaccounts/") => Some(denied()),
            (Self::UnwrittenThenForbidden, _) if path.contains("/serviceaccounts/") && seen.is_cancelled() => {
                Some(denied())
            }
            (Self::Unwritten | Self::UnwrittenThenForbidden, &Method::PATCH) if path.contains("/deployments/") => {
                Some(busy())
            }
            (Self::Kept, &Method::DELETE) => Some(denied()),
            _ => None,
        }
    }

    /// The answer to a read of one object.
    fn named(self, path: &str, is_later: bool) -> Answer {
        let taken = match self {
            Self::Taken(plural) => plural,
            Self::TakenThenUnread if is_later && path.contains("/services/") => {
                return failure(StatusCode::SERVICE_UNAVAILABLE, "");
            }
            Self::TakenAndForbidden | Self::TakenThenUnread => "services",
            _ => return failure(StatusCode::NOT_FOUND, "NotFound"),
        };
        if !path.contains(&format!("/{taken}/")) {
            return failure(StatusCode::NOT_FOUND, "NotFound");
        }
        let theirs = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"name": "up-mcp", "uid": "theirs"}});
        answer(StatusCode::OK, theirs.to_string())
    }

    fn watched(self, path: &str, seen: &CancellationToken) -> Option<Answer> {
        let mut service = ours("v1", "Service");
        match self {
            Self::Late => {}
            Self::Disowned => service["metadata"]["ownerReferences"] = json!([]),
            _ => return None,
        }
        path.ends_with("/services").then(|| late(&service, seen))
    }

    fn listed(self, path: &str, query: &str) -> Option<Answer> {
        let there = match self {
            Self::Existing(there) => there,
            Self::Kept => &["deployments"],
            Self::Disowned => &["services"],
            _ => return None,
        };
        let plural = path.rsplit('/').next().filter(|plural| there.contains(plural))?;
        let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"},
            "items": [existing(plural)]});
        (plural != "pods" || query.contains("upstream")).then(|| answer(StatusCode::OK, list.to_string()))
    }
}
