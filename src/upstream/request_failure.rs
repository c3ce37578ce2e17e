//! The reasons why a request to a server gets no answer, and which of them allow sending it again.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::method::Method;
use crate::domain::rpc::{CAPABILITY_REQUIRED, HEADER_MISMATCH, RESERVED, UNSUPPORTED_VERSION, code_of};
use crate::domain::upstream::UpstreamError;
use crate::domain::version::Era;

#[derive(Debug)]
pub(super) enum RequestFailure {
    /// The request was not executed, and may succeed over another connection.
    Stale(UpstreamError),
    /// The server rejected the protocol version, the headers or the capabilities of the gateway.
    Refused(HopRefusal),
    /// Any other reason.
    Final(UpstreamError),
}

impl From<UpstreamError> for RequestFailure {
    fn from(error: UpstreamError) -> Self {
        Self::Final(error)
    }
}

impl From<RequestFailure> for UpstreamError {
    fn from(failure: RequestFailure) -> Self {
        match failure {
            RequestFailure::Stale(error) | RequestFailure::Final(error) => error,
            RequestFailure::Refused(refusal) => refusal.into(),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct ErrorFields {
    pub(super) code: i64,
    pub(super) data: Option<serde_json::Value>,
}

/// Returns the error for a request of the gateway's own that the server answered with `error`.
pub(super) fn refused(method: Method, error: &RawValue) -> UpstreamError {
    #[derive(Deserialize)]
    struct ErrorMessage {
        message: String,
    }
    let code = code_of(error);
    let mut said = serde_json::from_str::<ErrorMessage>(error.get()).map(|error| error.message).unwrap_or_default();
    let told = match code {
        None => "an unreadable error".to_owned(),
        Some(code) if RESERVED.contains(&code) => format!("error {code}"),
        // A number that the server chose, which nothing has checked.
        Some(code) => {
            said = format!("error {code}: {said}");
            "an error of its own".to_owned()
        }
    };
    UpstreamError::Refused { code, what: format!("it answered {method} with {told}"), said }
}

/// The server rejected the headers or the protocol version of the gateway itself (MCP 2026-07-28). The error
/// concerns only the gateway and the server, so it is not passed on to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HopRefusal {
    code: i64,
    /// True if it is certain that the request was not executed.
    untouched: bool,
}

impl HopRefusal {
    /// Returns the refusal if an error that a server returned over HTTP is one, or `None` if the error is an answer for
    /// the client. `refused` tells whether the HTTP status was a client error too; otherwise a tool may have run.
    /// Legacy versions do not define the error codes of refusals, so a legacy server that returns one of them returns
    /// the error of a tool. The exception is an unsupported version with a client error status: it shows that the
    /// server is no longer legacy. A capability that lacks is the client's, because requests carry the client's own.
    pub(super) fn over_http(era: Era, error: &RawValue, refused: bool) -> Option<Self> {
        let code = code_of(error).filter(|code| match era {
            Era::Modern => matches!(*code, HEADER_MISMATCH | UNSUPPORTED_VERSION),
            Era::Legacy => refused && *code == UNSUPPORTED_VERSION,
        })?;
        Some(Self { code, untouched: refused })
    }

    /// Whether the same request can be sent again after a new handshake.
    pub(super) fn may_be_sent_again(self) -> bool {
        self.untouched
    }
}

impl From<HopRefusal> for UpstreamError {
    fn from(HopRefusal { code, .. }: HopRefusal) -> Self {
        Self::Protocol(format!("it refuses the version or the headers that it is sent ({code})"))
    }
}

/// Whether a legacy server may have answered `server/discover` with this failure: with a status, as one that looks at the request
/// before it looks at the credentials, or with what cannot be read.
pub(super) fn may_be_legacy(failure: &UpstreamError) -> bool {
    matches!(
        failure,
        UpstreamError::Timeout(_)
            | UpstreamError::Protocol(_)
            | UpstreamError::Refused { .. }
            | UpstreamError::Unauthorized { .. }
            | UpstreamError::Encoded(_)
            | UpstreamError::TooLarge(_)
    )
}

pub(super) fn is_of_hop(code: i64) -> bool {
    matches!(code, HEADER_MISMATCH | CAPABILITY_REQUIRED | UNSUPPORTED_VERSION)
}

/// Whether the error says that the server does not support the version of the protocol that the request uses.
pub(super) fn is_of_version(error: &RawValue) -> bool {
    code_of(error) == Some(UNSUPPORTED_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rpc::INVALID_PARAMS;

    #[test]
    fn clients_get_no_text_and_no_number_that_a_server_chose() {
        for (code, told) in [(-32601, "error -32601"), (4_111_111_111_111_111_i64, "an error of its own")] {
            let error = RawValue::from_string(format!(r#"{{"code":{code},"message":"hunter22"}}"#)).unwrap();
            let error = refused(Method::Initialize, &error);
            let to_client = format!("protocol error: it answered initialize with {told}; the gateway's log says why");
            assert_eq!(error.to_client(), to_client);
            assert!(error.to_string().contains(&code.to_string()) && error.to_string().contains("hunter22"));
        }
    }

    #[test]
    fn a_code_of_the_hop_is_a_refusal_where_the_server_knows_it_and_sent_again_where_nothing_ran() {
        let of = |era, code: i64, refused| {
            let error = RawValue::from_string(format!(r#"{{"code":{code},"message":"x"}}"#)).unwrap();
            HopRefusal::over_http(era, &error, refused).map(HopRefusal::may_be_sent_again)
        };
        for code in [HEADER_MISMATCH, UNSUPPORTED_VERSION] {
            assert_eq!(of(Era::Modern, code, true), Some(true));
            assert_eq!(of(Era::Modern, code, false), Some(false));
            assert_eq!(of(Era::Legacy, code, false), None);
        }
        assert_eq!(of(Era::Modern, CAPABILITY_REQUIRED, true), None);
        assert_eq!(of(Era::Legacy, CAPABILITY_REQUIRED, true), None);
        assert_eq!(of(Era::Legacy, HEADER_MISMATCH, true), None);
        assert_eq!(of(Era::Legacy, UNSUPPORTED_VERSION, true), Some(true));
        assert_eq!(of(Era::Modern, INVALID_PARAMS, true), None);
    }
}
