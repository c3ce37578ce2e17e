//! Why a call has no answer: what operators are told of it, and what clients are.

use std::time::Duration;

use super::plugin::{Failure, cut};
use super::reason::Reason;
use super::rpc::{METHOD_NOT_FOUND, RETRY_AFTER_MS};
use super::secret::Mask;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// The server could not be reached. Nothing was executed.
    #[error("cannot be reached: {0}")]
    Connect(String),
    /// The plugin that makes its tools cannot run, or has failed.
    #[error("its plugin {0}")]
    Plugin(Failure),
    /// There was no connection in time. Nothing was executed.
    #[error("cannot be reached: {waited}{}", also(seen))]
    Late {
        /// How long was waited, and the setting that says so, without text of the server.
        waited: String,
        /// What is known of the cause. Empty if nothing is.
        seen: String,
    },
    /// The server's program could not be started. The message contains no text of the server.
    #[error("cannot be started: {0}")]
    Start(String),
    /// The connection ended before the answer.
    #[error("connection lost: {0}")]
    Lost(String),
    /// The server's process ended by itself.
    #[error("its process ended ({how}){}", tail("it wrote last", wrote))]
    Exited {
        /// The exit status or the signal.
        how: String,
        /// The last lines that it wrote, those of its stderr and of its stdout that are no messages, masked. Empty if
        /// there are none.
        wrote: String,
    },
    /// The server answered a request of the gateway's own with an error, or with something else that is not taken.
    #[error("protocol error: {what}{}", tail("it says", said))]
    Refused {
        /// The code of the error; `None` if the error cannot be read.
        code: Option<i64>,
        /// What is wrong with the answer, without text of the server.
        what: String,
        /// What the server says in it. Empty if it says nothing.
        said: String,
    },
    /// The server refused a request over Streamable HTTP as servers of HTTP+SSE (2024-11-05) do, and is none of those either.
    #[error("no MCP server over Streamable HTTP: {post}; nor over HTTP+SSE (2024-11-05): {get}")]
    NeitherTransport {
        /// Why it cannot be used over Streamable HTTP.
        post: Box<UpstreamError>,
        /// Why it cannot be used over HTTP+SSE.
        get: Box<UpstreamError>,
    },
    /// There was no answer within this time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The server requires credentials that were missing or rejected (HTTP 401 or 403).
    #[error("unauthorized: HTTP {status}{}", tail("it says", said))]
    Unauthorized {
        /// The status.
        status: u16,
        /// What the server says in the body. Empty if it says nothing.
        said: String,
    },
    /// The server takes no more requests at the moment (HTTP 429). Nothing was executed.
    #[error("it takes no more requests at the moment (HTTP 429){}", tail("it says", said))]
    RateLimited {
        /// What the server says in the body. Empty if it says nothing.
        said: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// The gateway has no access token for the server (`external.oauth`), so that nothing was sent.
    #[error("no access token: {why}")]
    NoToken {
        /// Whether the token endpoint refused one; otherwise it gave no answer that can be used.
        is_refused: bool,
        /// Why there is none, without secrets.
        why: String,
    },
    /// The server gets tokens of users, and the client has sent no token that can be exchanged for one. Nothing was sent.
    #[error(
        "its calls need a token of a user (external.oauth.tokenExchange), and the gateway has checked none with this one: send \
         `Authorization: Bearer TOKEN` with a token of an issuer; an API key cannot be exchanged"
    )]
    NoUserToken,
    /// The server sent something that the protocol does not allow.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// The result of a plugin in the place of a server is not valid, for this reason.
    #[error("{1}")]
    OfPlugin(Reason, String),
    /// The body of a response has this content coding, which the server chose.
    #[error("protocol error: its response is encoded ({0}), which it was not asked for")]
    Encoded(String),
    /// All connections that clients can have of their own are taken, and no other may stand in. The text says which limit
    /// is reached and what to do; it has nothing of a server.
    #[error("{0}")]
    OwnProcesses(String),
    /// The client answers what it was asked by a result, and the server speaks the legacy era, which never asks that way.
    /// Nothing was sent.
    #[error("it speaks a version of MCP without `requestState` and `inputResponses`")]
    NeverAsked,
    /// The answer is larger than the size limit, given here in bytes.
    #[error("its answer is larger than {0} bytes")]
    TooLarge(u64),
    /// The gateway had no room for the answer.
    #[error("this gateway holds as many bytes as it may, so that the answer was dropped; what was asked may be done")]
    NoRoom,
    /// The caller cancelled the call.
    #[error("cancelled")]
    Cancelled,
}

impl UpstreamError {
    /// Whether the server says that it does not know the method.
    pub fn is_unknown_method(&self) -> bool {
        matches!(self, Self::Refused { code: Some(METHOD_NOT_FOUND), .. })
    }

    /// The milliseconds after which a call may be sent again; `None` if that is no remedy.
    pub fn retry_after_ms(&self) -> Option<u64> {
        let wait = match self {
            Self::RateLimited { retry_after, .. } => *retry_after,
            Self::OwnProcesses(_) => None,
            _ => return None,
        };
        Some(wait.map_or(RETRY_AFTER_MS, |wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Whether the gateway has refused the call, and the server has no part in it.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::OwnProcesses(_) | Self::NoUserToken)
    }

    /// Returns the reason in the `Connected` condition, in metric labels and in `data.reason`.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Connect(_)
            | Self::Late { .. }
            | Self::Start(_)
            | Self::Lost(_)
            | Self::Exited { .. }
            | Self::NoToken { is_refused: false, .. } => Reason::ConnectFailed,
            Self::Plugin(failure) => failure.reason,
            Self::Timeout(_) => Reason::Timeout,
            Self::Unauthorized { .. } | Self::NoToken { is_refused: true, .. } | Self::NoUserToken => {
                Reason::Unauthorized
            }
            Self::RateLimited { .. } => Reason::RateLimited,
            Self::Protocol(_) | Self::Refused { .. } | Self::Encoded(_) => Reason::ProtocolError,
            Self::OfPlugin(reason, _) => *reason,
            Self::NeitherTransport { post, .. } => post.reason(),
            Self::OwnProcesses(_) => Reason::OwnProcesses,
            Self::NeverAsked => Reason::UnknownRequestState,
            Self::TooLarge(_) => Reason::TooLarge,
            Self::NoRoom => Reason::NoRoom,
            Self::Cancelled => Reason::Cancelled,
        }
    }

    /// Returns the message that clients can see. A server's own text goes only into the log, because no Guard has
    /// checked it.
    pub fn to_client(&self) -> String {
        match self {
            Self::Connect(_) => "it cannot be reached; the gateway's log says why".to_owned(),
            Self::Plugin(failure) => {
                format!("its plugin cannot be used ({}); the gateway's log says why", failure.reason)
            }
            Self::Late { waited, .. } => format!("it cannot be reached: {waited}; the gateway's log says more"),
            Self::Encoded(_) => {
                "protocol error: its response is encoded, which it was not asked for; the gateway's log says how"
                    .to_owned()
            }
            Self::Unauthorized { status, .. } => format!("unauthorized: HTTP {status}"),
            Self::RateLimited { .. } => {
                "it takes no more requests at the moment (HTTP 429): send the call again after `retryAfterMs`"
                    .to_owned()
            }
            Self::NoToken { .. } => "the gateway got no access token for it; the gateway's log says why".to_owned(),
            Self::Lost(_) => "connection lost; the gateway's log says why".to_owned(),
            Self::Exited { how, .. } => format!("its process ended ({how}); the gateway's log says why"),
            Self::Refused { what, said, .. } if !said.is_empty() => {
                format!("protocol error: {what}; the gateway's log says why")
            }
            Self::NeitherTransport { post, get } => format!(
                "no MCP server over Streamable HTTP: {}; nor over HTTP+SSE (2024-11-05): {}",
                post.to_client(),
                get.to_client()
            ),
            other => other.to_string(),
        }
    }

    /// Returns the error for the log of a call: what the server said in its answer is content, so its length stands for it.
    #[must_use]
    pub fn without_content(&self) -> Self {
        let length =
            |said: &str| if said.is_empty() { String::new() } else { format!("a text of {} bytes", said.len()) };
        match self {
            Self::Refused { code, what, said } => Self::Refused { code: *code, what: what.clone(), said: length(said) },
            Self::Unauthorized { status, said } => Self::Unauthorized { status: *status, said: length(said) },
            Self::NeitherTransport { post, get } => {
                Self::NeitherTransport { post: Box::new(post.without_content()), get: Box::new(get.without_content()) }
            }
            other => other.clone(),
        }
    }

    /// Returns the error with secret values hidden in what the server said, and that cut after [`MAX_MESSAGE`] bytes.
    #[must_use]
    pub fn masked(self, mask: &Mask) -> Self {
        match self {
            Self::Refused { code, what, said } => {
                Self::Refused { code, what, said: cut(mask.printable(said.as_bytes())) }
            }
            Self::Unauthorized { status, said } => {
                Self::Unauthorized { status, said: cut(mask.printable(said.as_bytes())) }
            }
            Self::RateLimited { said, retry_after } => {
                Self::RateLimited { said: cut(mask.printable(said.as_bytes())), retry_after }
            }
            Self::NeitherTransport { post, get } => {
                Self::NeitherTransport { post: Box::new(post.masked(mask)), get: Box::new(get.masked(mask)) }
            }
            other => other,
        }
    }
}

/// Returns what else is known as the end of a message. Empty if nothing is.
fn also(seen: &str) -> String {
    if seen.is_empty() { String::new() } else { format!("; {seen}") }
}

/// Returns what a server said as the end of a message. Empty if it said nothing.
fn tail(intro: &str, said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("; {intro}: {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_call_has_nothing_of_what_the_server_answered() {
        let said = || "c4nary".to_owned();
        let refused = || UpstreamError::Refused { code: Some(-1), what: "HTTP 500".into(), said: said() };
        let unauthorized = || UpstreamError::Unauthorized { status: 403, said: said() };
        let neither = UpstreamError::NeitherTransport { post: Box::new(refused()), get: Box::new(unauthorized()) };
        for error in [refused(), unauthorized(), neither] {
            let shown = error.without_content().to_string();
            assert!(shown.contains("it says: a text of 6 bytes") && !shown.contains("c4nary"), "{shown}");
        }
    }

    #[test]
    fn a_client_is_told_how_long_was_waited_and_nothing_of_the_server() {
        let late = UpstreamError::Late { waited: "no handshake within 1s".into(), seen: "it wrote last: x".into() };
        assert_eq!(late.to_string(), "cannot be reached: no handshake within 1s; it wrote last: x");
        assert!(late.to_client().contains("no handshake within 1s") && !late.to_client().contains('x'));
    }
}
