//! The MCP endpoints: one path for all upstreams, and one path for each upstream. They serve requests of both protocol
//! eras.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use hyper::service::Service;
use tokio_util::sync::CancellationToken;

use super::authenticate::{ask_for_scopes, authenticate, proved_token};
use super::exchange::PRIMED_AFTER;
use super::forward_token::{FORWARD_PATH, SentRequest, is_forwarded};
use super::forwarded::{Forwarded, NOT_FORWARDED};
use super::listener_context::{ListenerContext, PathEndpoint, ServedListener};
use super::post::post;
use super::replicas::Replicas;
use super::requester::Requester;
use super::response::{empty, method_not_allowed, refuse};
use super::ticks::Ticks;
use super::{access, legacy, protected_resource, session_stream};
use crate::domain::boxed::boxed;
use crate::domain::identity::Identity;
use crate::domain::instance::INSTANCE_HEADER;
use crate::domain::limits::Tracker;
use crate::domain::quoted::Quoted;
use crate::engine::access::addresses::Addresses;
use crate::engine::{Engine, Snapshot};
use crate::transport::mcp_headers::{mean_modern_era, merge_versions};
use crate::transport::peer_address;

/// The message of a listener that the plan does not have.
const NO_LISTENER: &str = "the plan in force has no such listener";

/// Serves MCP over Streamable HTTP: all upstreams at the listener's path (default `/mcp`), and each upstream at
/// `/{upstream}/mcp` beside it. It is no router, because paths are matched for each request: a new plan can change them.
#[derive(Clone)]
pub struct McpService(Arc<ListenerContext>);

impl McpService {
    /// Serves a listener that has just begun. Cancelling `shutdown` closes the streams that clients hold open.
    pub fn new(engine: Arc<Engine>, listener: ServedListener, shutdown: CancellationToken) -> Self {
        Self::of(new_gate(engine, listener, shutdown))
    }

    /// Serves a listener with this state.
    pub(super) fn of(gate: Arc<ListenerContext>) -> Self {
        Self(gate)
    }
}

impl<B> Service<hyper::Request<B>> for McpService
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: hyper::Request<B>) -> Self::Future {
        let (gate, request) = (Arc::clone(&self.0), request.map(Body::new));
        boxed(|| async move { Ok(handle(&gate, request).await) })
    }
}

/// Returns the state of a listener that has just begun.
pub(super) fn new_gate(
    engine: Arc<Engine>,
    listener: ServedListener,
    shutdown: CancellationToken,
) -> Arc<ListenerContext> {
    let replicas = Replicas::new(&engine);
    Arc::new(ListenerContext {
        engine,
        listener,
        shutdown,
        streams: Tracker::default(),
        streams_by_address: Addresses::default(),
        replicas,
        ticks: Ticks::new(PRIMED_AFTER),
    })
}

/// Answers a request. While the gateway drains, the response tells a client to use a new connection for its next request.
async fn handle(gate: &Arc<ListenerContext>, request: Request) -> Response {
    if request.uri().path() == FORWARD_PATH {
        return answer_replica(gate, request).await;
    }
    let mut response = answer_client(gate, request).await;
    if gate.engine.gate.is_draining() {
        close_after(&mut response);
    }
    response
}

/// Tells the other end to use a new connection for its next request.
fn close_after(response: &mut Response) {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
}

/// Answers a request that another replica forwards, which has checked `Host` and `Origin`. Over a connection that closes
/// soon, a request could be lost on its way: its sender could not tell that from one that was taken.
async fn answer_replica(gate: &Arc<ListenerContext>, request: Request) -> Response {
    let Some(forwarded) = Forwarded::read(gate, &request) else { return refuse(StatusCode::FORBIDDEN, NOT_FORWARDED) };
    let mut answer = match forwarded.restored(request) {
        Some(request) => serve(gate, request).await,
        None if forwarded.is_challenge() => empty(StatusCode::NO_CONTENT),
        None => refuse(StatusCode::BAD_REQUEST, "the forwarded request has no method or path"),
    };
    // A request follows the challenge at once. It is taken as long as connections are.
    let closes = if forwarded.is_challenge() { gate.shutdown.is_cancelled() } else { gate.engine.gate.is_draining() };
    if closes {
        close_after(&mut answer);
    }
    forwarded.sealed(gate, answer)
}

/// Answers a request of a client, if its `Host` and `Origin` are served.
async fn answer_client(gate: &Arc<ListenerContext>, request: Request) -> Response {
    if is_forwarded(request.headers()) {
        return refuse(StatusCode::FORBIDDEN, NOT_FORWARDED);
    }
    if let Some(health) = health(gate, &request) {
        return health;
    }
    let origin = match check_sender(gate, request.uri(), request.headers()) {
        Ok(origin) => origin,
        Err((status, why)) => return refuse(status, why),
    };
    let mut response = serve(gate, request).await;
    if let Some(origin) = origin {
        access::allow_page(&mut response, origin);
    }
    response
}

/// Answers a load balancer that checks the port of the Service. `Host` is not checked, because load balancers send an address
/// there, and the answer has no details, because anybody can ask.
fn health(gate: &ListenerContext, request: &Request) -> Option<Response> {
    let (status, text) = match request.uri().path() {
        "/healthz" => (StatusCode::OK, "ok\n"),
        "/readyz" if gate.engine.views.readiness().is_ok() => (StatusCode::OK, "ready\n"),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        _ => return None,
    };
    matches!(*request.method(), Method::GET | Method::HEAD).then(|| (status, text).into_response())
}

/// Returns the origin of the web page that may read the answer, `None` if the request does not come from a page.
fn check_sender(
    gate: &ListenerContext,
    target: &Uri,
    headers: &HeaderMap,
) -> Result<Option<HeaderValue>, (StatusCode, &'static str)> {
    let snapshot = gate.engine.in_force.snapshot();
    let Some(listener) = gate.listener.current(&snapshot.plan().gateway) else {
        return Err((StatusCode::SERVICE_UNAVAILABLE, NO_LISTENER));
    };
    let forbidden = |why| (StatusCode::FORBIDDEN, why);
    let (hosts, default_hosts) = (&listener.hosts, &listener.default_hosts);
    access::check_host(target, headers, hosts, default_hosts, gate.listener.bound).map_err(forbidden)?;
    access::check_origin(headers, listener).map(|origin| origin.cloned()).map_err(forbidden)
}

async fn serve(gate: &Arc<ListenerContext>, mut request: Request) -> Response {
    merge_versions(request.headers_mut());
    let snapshot = gate.engine.in_force.snapshot();
    let plan = snapshot.plan();
    let Some(listener) = gate.listener.current(&plan.gateway) else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, NO_LISTENER);
    };
    if request.headers().get(INSTANCE_HEADER).is_some_and(|sender| sender == gate.listener.instance.as_str()) {
        let why = "this gateway sent the request itself: the URL of one of its upstreams leads back to it";
        return refuse(StatusCode::LOOP_DETECTED, why);
    }
    if access::is_preflight(request.method(), request.headers()) {
        return access::preflight(request.headers());
    }
    if let Some(metadata) = protected_resource::answer(&plan.gateway, request.method(), request.uri().path()) {
        return metadata;
    }
    let endpoint = match (&listener.refusing, PathEndpoint::of(request.uri().path(), &listener.path)) {
        (Some(refusal), _) => return refuse(StatusCode::SERVICE_UNAVAILABLE, refusal.message.clone()),
        (None, None) => return refuse(StatusCode::NOT_FOUND, format!("MCP is spoken at {}", listener.path)),
        (None, Some(endpoint)) => endpoint,
    };
    let (sent, address) = ((request.headers(), request.uri().query()), peer_address(request.extensions()));
    let identity = match request.extensions().get().map(SentRequest::identity) {
        // The replica that forwards the request has checked who sent it.
        Some(identity) => Arc::new(identity),
        None => match identify(gate, &snapshot, &listener.name, sent, address).await {
            Ok(identity) => identity,
            Err(refusal) => return refusal,
        },
    };
    // Only clients that are known learn which upstreams there are.
    if let Some(name) = endpoint.upstream().filter(|name| plan.upstream(name).is_none()) {
        return refuse(StatusCode::NOT_FOUND, format!("there is no upstream {} here", Quoted(name, 253)));
    }
    let token = proved_token(request.headers(), &identity);
    let limit = plan.gateway.limits.max_request_size;
    drop(snapshot);
    let mut response = dispatch(gate, endpoint, request, limit, Requester { address, identity, token }).await;
    ask_for_scopes(&gate.engine.in_force.snapshot().plan().gateway, &mut response);
    response
}

/// Returns the identity of the client at an address that sent a request with these headers and this query to the listener.
async fn identify(
    gate: &ListenerContext,
    snapshot: &Snapshot,
    listener: &str,
    sent: (&HeaderMap, Option<&str>),
    address: IpAddr,
) -> Result<Arc<Identity>, Response> {
    let (gateway, methods) = (&snapshot.plan().gateway, &snapshot.linked.methods);
    let identity = authenticate(gate.engine.credentials(), gateway, methods, sent, address).await;
    let identity = identity.map_err(|unknown| unknown.noted(&gate.engine, listener, address))?;
    if gateway.authenticates() {
        gate.engine.metrics().access.accepted(listener, identity.method.as_str());
    }
    Ok(identity)
}

/// Answers a request to an endpoint. `limit` is the maximum size of its body.
async fn dispatch(
    gate: &Arc<ListenerContext>,
    endpoint: PathEndpoint,
    request: Request,
    limit: u64,
    requester: Requester,
) -> Response {
    let is_modern = mean_modern_era(request.headers());
    match *request.method() {
        Method::POST => post(gate, endpoint, request, limit, requester).await,
        _ if is_modern => method_not_allowed("POST"),
        Method::GET => session_stream::open_stream(gate, &endpoint, request.headers(), &requester).await,
        Method::DELETE => legacy::end_session(gate, &endpoint, request.headers(), &requester).await,
        _ => method_not_allowed("GET, POST, DELETE"),
    }
}
