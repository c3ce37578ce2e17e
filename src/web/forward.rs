//! Forwards a request to the replica that has what the request is about. The replica's address comes from an id that a
//! replica sealed, or from another replica, never from a client. That a replica is still at the address is not checked. The request carries a sealed token, for this one request, by which the replica
//! knows that one of its own sent it. What was forwarded is not forwarded again.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use super::forward_token::{Token, TokenScope};
use super::gate::{Gate, PathEndpoint};
use super::replicas::UnderWay;
use crate::domain::causes::causes;
use crate::transport::mcp_headers::{LAST_EVENT_ID, SESSION_HEADER, VERSION_HEADER};

/// The header with the token of a forwarded request.
const FORWARDED: HeaderName = HeaderName::from_static("hawsepipe-forwarded");

/// The headers of a client's request that are forwarded, besides those of MCP.
const PASSED: [HeaderName; 6] = [
    header::ACCEPT,
    header::CONTENT_TYPE,
    HeaderName::from_static(LAST_EVENT_ID),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
];
/// The headers of a replica's response that are returned.
const RETURNED: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CACHE_CONTROL, header::ALLOW, HeaderName::from_static("x-accel-buffering")];

/// A request that another replica is to answer.
pub(super) struct Forwarding<'a> {
    method: Method,
    endpoint: &'a PathEndpoint,
    headers: HeaderMap,
    body: Bytes,
    /// The address of the client.
    client: IpAddr,
}

impl<'a> Forwarding<'a> {
    /// A client's request as it came, with these headers.
    pub(super) fn request(
        method: Method,
        endpoint: &'a PathEndpoint,
        headers: &HeaderMap,
        body: Bytes,
        client: IpAddr,
    ) -> Self {
        let is_passed = |name: &HeaderName| PASSED.contains(name) || name.as_str().starts_with("mcp-");
        let passed = headers.iter().filter(|(name, _)| is_passed(name));
        let headers = passed.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { method, endpoint, headers, body, client }
    }

    /// A message in the session of a client's request, which has these headers.
    pub(super) fn message(endpoint: &'a PathEndpoint, headers: &HeaderMap, body: Bytes, client: IpAddr) -> Self {
        let of_session = [SESSION_HEADER, VERSION_HEADER].map(HeaderName::from_static).into_iter();
        let of_session = of_session.filter_map(|name| headers.get(&name).map(|value| (name.clone(), value.clone())));
        let media = HeaderValue::from_static("application/json");
        let of_message = [header::ACCEPT, header::CONTENT_TYPE].map(|name| (name, media.clone()));
        Self { method: Method::POST, endpoint, headers: of_session.chain(of_message).collect(), body, client }
    }
}

/// Why a request was not forwarded.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotForwarded {
    #[error("too many requests are being forwarded to other replicas: try again")]
    TooMany,
    #[error("it is at another replica of this gateway, which cannot be reached: the replica has probably ended")]
    Unreachable,
    #[error("it is at another replica of this gateway, which did not answer within {0:?}")]
    Late(Duration),
    #[error(
        "it is at another replica of this gateway, which does not take this replica's requests: do they have one key?"
    )]
    Refused,
}

/// Whether a request was forwarded by another replica. [`authenticate`] has refused those that were not and say so.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(FORWARDED)
}

/// Checks the token of a request that says it was forwarded. `None` if it does not say so.
///
/// # Errors
/// If no replica of this gateway has sent this very request to this replica in the last minute.
pub(super) fn authenticate(gate: &Gate, request: &Request) -> Option<Result<Token, &'static str>> {
    let token = request.headers().get(FORWARDED)?;
    let opened = || {
        let (to, text, snapshot) = (gate.listener.advertised?, token.to_str().ok()?, gate.engine.snapshot());
        let (gateway, path) = (&snapshot.plan().gateway.key, request.uri().path());
        let scope = TokenScope { gateway, to, method: request.method(), path, headers: request.headers() };
        Token::open(gate.engine.sessions().seals(), scope, text, gate.engine.now())
    };
    Some(opened().ok_or("this request was not forwarded by a replica of this gateway"))
}

impl Gate {
    /// Forwards a request to the replica `to` and returns its response, whose body is passed on as it arrives. The head of
    /// the response must arrive within `limit`.
    pub(super) async fn forward(
        &self,
        to: SocketAddr,
        request: Forwarding<'_>,
        limit: Duration,
    ) -> Result<Response, NotForwarded> {
        let under_way = self.replicas.enter(request.client).ok_or(NotForwarded::TooMany)?;
        let request = self.to_send(to, request).ok_or(NotForwarded::Unreachable)?;
        let answered = tokio::time::timeout(limit, self.replicas.client.request(request)).await;
        let response = answered.map_err(|_| NotForwarded::Late(limit))?.map_err(|error| {
            tracing::debug!(replica = %to, "a request could not be forwarded: {}", causes(&error));
            NotForwarded::Unreachable
        })?;
        if response.status() == StatusCode::FORBIDDEN {
            tracing::warn!(replica = %to, "a replica refuses forwarded requests: do all have the same key and time?");
            return Err(NotForwarded::Refused);
        }
        Ok(returned(response, under_way))
    }

    fn to_send(&self, to: SocketAddr, forwarding: Forwarding<'_>) -> Option<hyper::Request<Full<Bytes>>> {
        let Forwarding { method, endpoint, mut headers, body, client } = forwarding;
        let snapshot = self.engine.snapshot();
        let path = endpoint.path(&self.listener.current(&snapshot.plan().gateway)?.path);
        let gateway = &snapshot.plan().gateway.key;
        let scope = TokenScope { gateway, to, method: &method, path: &path, headers: &headers };
        let token = Token::new(client, &body, self.engine.now()).seal(self.engine.sessions().seals(), scope)?;
        headers.insert(FORWARDED, HeaderValue::try_from(token).ok()?);
        let mut request = hyper::Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() =
            Uri::builder().scheme("http").authority(to.to_string()).path_and_query(path).build().ok()?;
        *request.headers_mut() = headers;
        Some(request)
    }

    /// Sends a message of a client to the replica `to`, which has what the message is about. The client is not told if that
    /// fails: it cannot do anything about it, and there are clients that end their session when an answer of theirs is
    /// refused.
    pub(super) async fn pass_on(&self, to: SocketAddr, forwarding: Forwarding<'_>) {
        /// How long a replica has to take a message.
        const SMALL: Duration = Duration::from_secs(5);
        match self.forward(to, forwarding, SMALL).await {
            Ok(response) if response.status().is_success() => {}
            Ok(response) => {
                tracing::debug!(replica = %to, status = response.status().as_u16(), "a message of a client was not taken");
            }
            Err(why) => tracing::warn!(replica = %to, "a message of a client is lost: {why}"),
        }
    }
}

/// Returns the response of a replica as that of this one. The request counts until the body has ended.
fn returned(response: hyper::Response<Incoming>, under_way: UnderWay) -> Response {
    let (head, body) = response.into_parts();
    let counted = body.map_frame(move |frame| {
        let _counts_until_dropped = &under_way;
        frame
    });
    let mut returned = Response::new(Body::new(counted));
    *returned.status_mut() = head.status;
    let headers =
        RETURNED.into_iter().filter_map(|name| head.headers.get(&name).map(|value| (name.clone(), value.clone())));
    returned.headers_mut().extend(headers);
    returned
}
