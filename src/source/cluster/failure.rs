//! Explains failures of the watch.

use kube::runtime::watcher::Error;

use crate::domain::causes::causes;

/// Describes the failure, and what the user must do about it, if anything.
pub(super) fn why(error: &Error) -> String {
    match error {
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchError(status) => match status.code {
            404 => {
                "the cluster does not know GatewaySnapshots: run `hawsepipe crds | kubectl apply --server-side -f -`"
                    .to_owned()
            }
            403 => format!("{}: run it under the service account NAME-gateway of its MCPGateway", status.message),
            _ => status.message.clone(),
        },
        other => causes(other),
    }
}

/// Whether the API server could not be reached, as opposed to answering with an error.
pub(super) fn is_unreachable(error: &Error) -> bool {
    let (Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error)) = error else {
        return false;
    };
    matches!(error, kube::Error::HyperError(_) | kube::Error::Service(_))
}
