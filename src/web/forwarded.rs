//! Takes what another replica forwards, and seals the answer.

use axum::extract::Request;
use axum::response::Response;

use super::forward_token::{ANSWERED, AnswerScope, FORWARDED, SentRequest, Token, TokenScope};
use super::listener_context::ListenerContext;
use crate::transport::{Channel, Peer};

/// The message to a server that sends a request of no replica of this gateway.
pub(super) const NOT_FORWARDED: &str = "this request was not forwarded by a replica of this gateway";

/// A request that another replica sent.
pub(super) struct Forwarded {
    /// The token, as it was sent.
    token: String,
    /// `None` if the sender only wants to know whether a replica answers.
    request: Option<SentRequest>,
    /// The TLS connection on which it came.
    channel: Option<Channel>,
}

impl Forwarded {
    /// Reads the token of a request. `None` unless a replica of this gateway has sent this very request to this replica in
    /// the last minute.
    pub(super) fn read(gate: &ListenerContext, request: &Request) -> Option<Self> {
        let (headers, extensions, snapshot) =
            (request.headers(), request.extensions(), gate.engine.in_force.snapshot());
        let token = headers.get(FORWARDED)?.to_str().ok()?;
        let scope = TokenScope { gateway: &snapshot.plan().gateway.key, to: gate.listener.advertised?, headers };
        let Token { request, .. } = Token::open(gate.engine.gate.sessions().seals(), scope, token, gate.engine.now())?;
        let channel = extensions.get().copied();
        Some(Self { token: token.to_owned(), request, channel })
    }

    /// Whether the sender only wants to know whether a replica answers.
    pub(super) fn is_challenge(&self) -> bool {
        self.request.is_none()
    }

    /// Makes of the request, which came with this token, the one that is forwarded, and returns it. `None` if there is none, or
    /// if it cannot be made. That the body is the forwarded one is still to be checked: what was sent is among the extensions.
    pub(super) fn restored(&self, mut request: Request) -> Option<Request> {
        let sent = self.request.clone()?;
        *request.method_mut() = sent.method()?;
        *request.uri_mut() = sent.path.parse().ok()?;
        if let Some(peer) = request.extensions_mut().get_mut::<Peer>() {
            peer.remote.set_ip(sent.client);
        }
        request.extensions_mut().insert(sent);
        Some(request)
    }

    /// Returns the answer with the seal that proves to the sender that this replica got its request.
    pub(super) fn sealed(self, gate: &ListenerContext, mut answer: Response) -> Response {
        let (snapshot, status) = (gate.engine.in_force.snapshot(), answer.status());
        let channel = self.channel.filter(|_| self.is_challenge());
        let scope = AnswerScope { gateway: &snapshot.plan().gateway.key, token: &self.token, status, channel };
        if let Some(seal) = scope.seal(gate.engine.gate.sessions().seals()) {
            answer.headers_mut().insert(ANSWERED, seal);
        }
        answer
    }
}
