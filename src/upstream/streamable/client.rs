//! The HTTP client of one upstream, with its endpoint, its headers and its pool of connections.

use std::error::Error;
use std::future::ready;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, LOCATION, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::ext::on_informational;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Notify;
use tower::{ServiceExt, service_fn};
use tower_http::decompression::Decompression;

use super::media::encoding;
use super::paced_body::{PacedBody, ServerBody};
use crate::domain::boxed::boxed;
use crate::domain::causes::causes;
use crate::domain::instance::{INSTANCE_HEADER, Instance};
use crate::domain::plan::{OAuthPlan, TlsPlan, TransportPlan};
use crate::domain::quoted::Quoted;
use crate::domain::secret::SecretText;
use crate::domain::upstream::{Target, UpstreamError, UpstreamTarget};
use crate::transport::outbound::{
    AddressGuard, Connector, OutboundSettings, TlsNames, TlsSettings, authorization, connector, tls_advice,
};
use crate::upstream::oauth::{TokenEndpoint, Tokens};

/// The maximum number of idle connections that are kept to one upstream.
const IDLE: usize = 256;
/// How long an idle connection is kept. Node.js and uvicorn close idle connections after five seconds, so a shorter
/// time keeps calls from using a connection that the server is just closing.
const IDLE_TIME: Duration = Duration::from_secs(4);

/// The maximum number of interim responses to one request.
const MAX_INTERIM: u32 = 64;

/// The data that all requests to one upstream share.
#[derive(Clone, Debug)]
pub(super) struct ServerClient {
    pool: Pool<Connector, Full<Bytes>>,
    uri: Uri,
    headers: HeaderMap,
    /// The access token that requests carry; `None` if they carry none.
    tokens: Option<Arc<Tokens>>,
    /// The setting of how long a connection may take, for messages.
    connect_time: String,
}

impl ServerClient {
    /// Creates a client for the endpoint `url`, with the headers that the target configures. The client does not
    /// connect yet.
    pub(super) fn new(target: &Target, url: &str, instance: &Instance) -> Result<Self, UpstreamError> {
        let uri = endpoint(url)?;
        let connect_ms = target.plan.connect_timeout_ms;
        let settings = OutboundSettings {
            tls: (uri.scheme_str() == Some("https")).then(|| tls(target)),
            connect_timeout: Some(Duration::from_millis(u64::from(connect_ms))),
            guard: Some(guard(target)),
            ..OutboundSettings::default()
        };
        let connector = connector(settings).map_err(|why| UpstreamError::Connect(format!("external.tls: {why}")))?;
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE)
            .pool_idle_timeout(IDLE_TIME)
            .build(connector);
        let connect_time = format!("spec.timeouts.connectMs is {connect_ms}");
        let tokens = token_endpoint(target)?.map(|endpoint| Arc::new(Tokens::new(Arc::new(endpoint))));
        Ok(Self { pool, headers: headers(target, &uri, instance)?, uri, tokens, connect_time })
    }

    /// Returns the same with the tokens of a user.
    pub(super) fn for_user(&self, tokens: Arc<Tokens>) -> Self {
        Self { tokens: Some(tokens), ..self.clone() }
    }

    /// Returns the access tokens that requests carry; `None` if they carry none.
    pub(super) fn tokens(&self) -> Option<&Arc<Tokens>> {
        self.tokens.as_ref()
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Gets the access token that requests need, if they need one.
    pub(super) async fn prepare(&self) -> Result<(), UpstreamError> {
        match &self.tokens {
            Some(tokens) => tokens.token().await.map(drop),
            None => Ok(()),
        }
    }

    /// Sends one request and waits for the head of its response. If the server refuses the access token of the request, it
    /// is sent once more with a new one: nothing was executed.
    pub(super) async fn send(
        &self,
        method: Method,
        uri: &Uri,
        mut headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<Response<PacedBody>, UpstreamError> {
        let Some(tokens) = &self.tokens else { return self.send_once(method, uri, headers, body.into()).await };
        let body = body.into();
        let token = tokens.token().await?;
        headers.insert(AUTHORIZATION, token.header.clone());
        let response = self.send_once(method.clone(), uri, headers.clone(), body.clone()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            token.note_accepted();
            return Ok(response);
        }
        if !tokens.renounce(&token) {
            return Ok(response);
        }
        let token = tokens.token().await?;
        headers.insert(AUTHORIZATION, token.header.clone());
        let response = self.send_once(method, uri, headers, body).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            token.note_accepted();
        }
        Ok(response)
    }

    async fn send_once(
        &self,
        method: Method,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<PacedBody>, UpstreamError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        let interim = InterimResponses::of(&mut request);
        let response = tokio::select! {
            biased;
            response = self.pool.request(request) => response,
            () = interim.too_many.notified() => {
                return Err(UpstreamError::Lost(format!("it sent more than {MAX_INTERIM} interim responses (1xx)")));
            }
        };
        let response = response.map_err(|error| {
            let words = chain(&error) + &tls_advice(&error, TlsNames::UPSTREAM);
            let words = if is_late(&error) { format!("{words} ({})", self.connect_time) } else { words };
            if error.is_connect() { UpstreamError::Connect(words) } else { UpstreamError::Lost(words) }
        })?;
        Ok(decoded(response).await?.map(PacedBody::new))
    }
}

/// Returns a response without its content coding, if that is a common one. Servers use one although they are not asked to.
async fn decoded(response: Response<Incoming>) -> Result<Response<ServerBody>, UpstreamError> {
    if encoding(response.headers()).is_none() {
        return Ok(response.map(Either::Left));
    }
    let mut once = Some(response);
    let served = service_fn(move |_: Request<()>| ready(once.take().ok_or(io::ErrorKind::Other)));
    let decoding = boxed(|| Decompression::new(served).oneshot(Request::new(())));
    let decoded = decoding.await.map_err(|error| UpstreamError::Lost(error.to_string()))?;
    Ok(decoded.map(Either::Right))
}

/// Counts the interim responses to a request (RFC 9110, 15.2). hyper skips them, however many there are.
#[derive(Default)]
struct InterimResponses {
    count: AtomicU32,
    too_many: Notify,
}

impl InterimResponses {
    fn of<B>(request: &mut Request<B>) -> Arc<Self> {
        let counted = Arc::new(Self::default());
        let counter = Arc::clone(&counted);
        on_informational(request, move |_| {
            if counter.count.fetch_add(1, Ordering::Relaxed) == MAX_INTERIM {
                counter.too_many.notify_one();
            }
        });
        counted
    }
}

/// Returns the message of an error and of its causes. hyper's messages contain no URLs and no headers.
pub(super) fn chain(error: &dyn Error) -> String {
    causes(error).chars().take(300).collect()
}

/// Whether a connection was not made in time.
fn is_late(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Parses a URL and removes user, password and fragment: credentials belong in headers, and error messages contain the
/// endpoint.
fn endpoint(url: &str) -> Result<Uri, UpstreamError> {
    let fault = || UpstreamError::Connect("its URL is not one of http or https".into());
    let mut parts = url.parse::<Uri>().map_err(|_| fault())?.into_parts();
    let authority = parts.authority.take().ok_or_else(fault)?;
    let bare = authority.as_str().rsplit_once('@').map_or(authority.as_str(), |(_, host)| host);
    parts.authority = Some(bare.parse().map_err(|_| fault())?);
    let uri = Uri::from_parts(parts).map_err(|_| fault())?;
    if matches!(uri.scheme_str(), Some("http" | "https")) { Ok(uri) } else { Err(fault()) }
}

fn headers(target: &Target, uri: &Uri, instance: &Instance) -> Result<HeaderMap, UpstreamError> {
    let mut headers = HeaderMap::with_capacity(8 + target.values.len());
    for (name, value) in &target.values {
        let fault = |what: &str| UpstreamError::Connect(format!("external.headers: {} {what}", Quoted(name, 60)));
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| fault("is no name of a header"))?;
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| fault("has a value with a line break or another control character, perhaps at its end"))?;
        value.set_sensitive(true);
        headers.append(header, value);
    }
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Without this header, a server can choose any encoding (RFC 9110, section 12.5.3).
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Ok(instance) = HeaderValue::from_str(instance.as_str()) {
        headers.insert(HeaderName::from_static(INSTANCE_HEADER), instance);
    }
    headers.extend(authorization(uri).map(|value| (PROXY_AUTHORIZATION, value)));
    Ok(headers)
}

/// Returns the check of the addresses that are dialled.
fn guard(target: &UpstreamTarget) -> AddressGuard {
    AddressGuard { allowed: target.allowed_addresses.clone() }
}

/// Returns the token endpoint that the target configures.
fn token_endpoint(target: &UpstreamTarget) -> Result<Option<TokenEndpoint>, UpstreamError> {
    let TransportPlan::External { oauth: Some(plan), .. } = &target.plan.transport else { return Ok(None) };
    let secret = target.tls.iter().find(|(name, _)| name == OAuthPlan::SECRET).map(|(_, value)| value);
    let secret = secret.ok_or_else(|| UpstreamError::Connect("external.oauth: its client secret is missing".into()))?;
    // Secrets that were written with an editor end with a line break.
    let secret = SecretText::new(secret.expose().trim_end_matches(['\r', '\n']));
    Ok(Some(TokenEndpoint::new(OAuthPlan::clone(plan), secret, guard(target))))
}

/// Returns the certificates that the target configures.
fn tls(target: &UpstreamTarget) -> TlsSettings<'_> {
    let value = |wanted: &str| target.tls.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.expose());
    let server_name = match &target.plan.transport {
        TransportPlan::External { tls, .. } => tls.server_name.as_deref(),
        TransportPlan::Process { .. } | TransportPlan::Pipeline(_) | TransportPlan::Plugin(_) | TransportPlan::None => {
            None
        }
    };
    TlsSettings {
        authorities: value(TlsPlan::CA),
        client: value(TlsPlan::CLIENT_CERTIFICATE).zip(value(TlsPlan::CLIENT_KEY)),
        server_name,
    }
}

/// Returns the URI that a redirect leads to, if that URI has the same origin and the redirect keeps method and body
/// (307 or 308).
pub(super) fn same_origin_redirect(from: &Uri, status: StatusCode, headers: &HeaderMap) -> Option<Uri> {
    if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return None;
    }
    let location = headers.get(LOCATION)?.to_str().ok()?;
    let mut parts = from.clone().into_parts();
    if location.starts_with('/') && !location.starts_with("//") {
        parts.path_and_query = Some(location.parse().ok()?);
        return Uri::from_parts(parts).ok();
    }
    let to: Uri = location.parse().ok()?;
    (to.scheme() == from.scheme() && to.authority() == from.authority()).then_some(to)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::compile::tests::upstream;

    #[test]
    fn endpoints_lose_their_credentials() {
        assert_eq!(endpoint("http://user:pw@h:8/mcp?a=1").unwrap().to_string(), "http://h:8/mcp?a=1");
        assert_eq!(endpoint("https://h").unwrap().to_string(), "https://h/");
        for bad in ["ftp://h/", "/mcp", "h:8", "http://", ""] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_server_that_answers_with_interim_responses_without_end_is_let_go() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_u8().await.unwrap();
            while stream.write_all(&b"HTTP/1.1 103 x\r\na: b\r\n\r\n".repeat(100)).await.is_ok() {}
        });
        let plan = upstream("up").plan;
        let target = Arc::new(UpstreamTarget {
            plan,
            values: Vec::new(),
            tls: Vec::new(),
            allowed_addresses: Vec::new(),
            max_response_size: 0,
        });
        let client = ServerClient::new(&target, &url, &Instance::new("of the test")).unwrap();
        let error = client.send(Method::GET, &client.uri, HeaderMap::new(), Vec::new()).await.map(drop).unwrap_err();
        assert_eq!(error, UpstreamError::Lost("it sent more than 64 interim responses (1xx)".into()));
        // The connection ends.
        server.await.unwrap();
    }

    #[test]
    fn redirects_stay_on_their_origin() {
        let from: Uri = "http://h:8/mcp".parse().unwrap();
        let to = |status: u16, location: &str| {
            let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(location).unwrap())]);
            let status = StatusCode::from_u16(status).unwrap();
            same_origin_redirect(&from, status, &headers).map(|u| u.to_string())
        };
        assert_eq!(to(307, "/mcp/").as_deref(), Some("http://h:8/mcp/"));
        assert_eq!(to(308, "http://h:8/x").as_deref(), Some("http://h:8/x"));
        assert_eq!(to(307, "//evil/mcp"), None);
        assert_eq!(to(307, "http://h:9/mcp"), None);
        assert_eq!(to(307, "https://h:8/mcp"), None);
        assert_eq!(to(302, "/mcp/"), None);
    }
}
