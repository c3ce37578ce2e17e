//! The errors that can occur while a gateway's objects are brought up to date.

use std::time::{Duration, Instant};

use crate::controller::build::BuildError;
use crate::controller::rights::RequestError;
use crate::domain::reason::Reason;

#[derive(Debug, thiserror::Error)]
pub(in crate::controller) enum ApplyError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("{what}: {error}")]
    Request {
        /// Resource and namespace of the request.
        what: String,
        error: RequestError,
    },
    /// An object of this name exists and belongs to someone else.
    #[error(
        "there is a {0} that this operator did not make: give the MCPGateway or MCPUpstream another name, or delete that object"
    )]
    Taken(String),
    /// Another client keeps changing or deleting an object that the operator manages. The objects are looked at again
    /// without a retry: a retry reads the stored snapshots, which have nothing to do with it.
    #[error("{0}")]
    Contested(String),
    /// The resource was never listed by its watch, so its objects are unknown; the text says why.
    #[error("what is there is not seen: {0}")]
    Unseen(String),
    /// The operator does not know its own service account. It creates no pods then, because pods must know to whom they
    /// can show their reports.
    #[error("its pods are not created: the operator does not know its own service account: {0}")]
    NoAccount(String),
}

impl ApplyError {
    /// Returns the reason to show in conditions.
    pub(in crate::controller) fn reason(&self) -> Reason {
        match self {
            Self::Taken(_) => Reason::NameTaken,
            Self::Contested(_) => Reason::Contested,
            Self::Build(BuildError::NotKept(_)) => Reason::RevisionNotFound,
            Self::Request { error: RequestError::Forbidden(..), .. } => Reason::Forbidden,
            Self::Request { error, .. } if error.is_wrong() && !error.is_not_found() => Reason::InvalidConfig,
            _ => Reason::Pending,
        }
    }

    /// Returns when to retry after a failure at `now`, or `None` if a retry cannot help. `wait` is the pause after a
    /// transient failure.
    pub(in crate::controller) fn again(&self, now: Instant, wait: Duration) -> Option<Instant> {
        match self {
            Self::Request { error: RequestError::Forbidden(_, again), .. } => Some(*again),
            Self::Request { error: RequestError::Conflict | RequestError::Api(_), .. } => Some(now + wait),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_the_api_server_refuses_as_wrong_is_not_waited_for() {
        let object = "failed to create typed patch object (mcp/main-gateway; apps/v1, Kind=Deployment):";
        let unknown = format!("{object} .spec.template.spec.affinity.x: field not declared in schema");
        let twice = format!("{object} .spec.template.spec.imagePullSecrets: duplicate entries for key [name=\"a\"]");
        for (code, message, reason) in [
            (422, "Deployment.apps is invalid", Reason::InvalidConfig),
            (400, "bad request", Reason::InvalidConfig),
            (500, &unknown, Reason::InvalidConfig),
            (500, &twice, Reason::InvalidConfig),
            (
                500,
                "failed to convert new object (mcp/x; apps/v1, Kind=Deployment) to proper version",
                Reason::InvalidConfig,
            ),
            (500, "etcdserver: request timed out", Reason::Pending),
            (401, "Unauthorized", Reason::Pending),
            (404, "namespaces \"mcp\" not found", Reason::Pending),
            (429, "try again later", Reason::Pending),
        ] {
            let status = Status { code, message: message.to_owned(), ..Status::default() };
            let error = RequestError::from(kube::Error::Api(status.boxed()));
            let failed = ApplyError::Request { what: "deployments in mcp".to_owned(), error };
            assert_eq!(failed.reason(), reason, "{code} {message}");
        }
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_is_forbidden_when_the_right_is_asked_for_again() {
        let request = |error| ApplyError::Request { what: String::new(), error };
        let (now, wait) = (Instant::now(), Duration::from_secs(5));
        let allowed = now + Duration::from_secs(60);
        assert_eq!(request(RequestError::Forbidden("no".into(), allowed)).again(now, wait), Some(allowed));
        assert_eq!(request(RequestError::Conflict).again(now, wait), Some(now + wait));
        for lasts in [
            request(RequestError::NotLeading),
            ApplyError::Taken("Role".into()),
            ApplyError::Contested("another client".into()),
            BuildError::NotKept("0123456789ab".into()).into(),
        ] {
            assert_eq!(lasts.again(now, wait), None, "{lasts}");
        }
    }
}
