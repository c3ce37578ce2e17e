//! Raw requests, where a test needs to see the bytes.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{HeaderMap, Method, Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};

/// An answer as it came.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    /// Its message; of an event stream, that of its last event.
    fn message(&self) -> &str {
        self.body.lines().filter_map(|line| line.strip_prefix("data:")).next_back().unwrap_or(&self.body)
    }

    /// Its body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(self.message()).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// The bytes of its `result`.
    pub fn result(&self) -> String {
        #[derive(serde::Deserialize)]
        struct Parts<'a> {
            #[serde(borrow)]
            result: &'a serde_json::value::RawValue,
        }
        let parts: Parts<'_> = serde_json::from_str(self.message()).unwrap_or_else(|e| panic!("{e}: {}", self.body));
        parts.result.get().to_owned()
    }
}

/// What a client of either era sends with each message.
pub const JSON: [(&str, &str); 2] =
    [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];

/// The headers of a stateless `tools/call`.
pub fn call_headers(tool: &str) -> [(&str, &str); 5] {
    [JSON[0], JSON[1], ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)]
}

/// Its body; `meta` goes into its `_meta`.
pub fn call_body(tool: &str, arguments: &str, meta: &Value) -> String {
    let mut all = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (key, value) in meta.as_object().unwrap() {
        all[key] = value.clone();
    }
    let name = json!(tool);
    format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":{name},"arguments":{arguments},"_meta":{all}}}}}"#
    )
}

/// A session of the legacy era.
#[derive(Clone)]
pub struct Session {
    pub http: Http,
    pub url: String,
    pub id: String,
}

impl Session {
    /// The headers of its requests.
    pub fn headers(&self) -> [(&str, &str); 4] {
        [JSON[0], JSON[1], ("mcp-protocol-version", "2025-11-25"), ("mcp-session-id", &self.id)]
    }

    /// Sends a message.
    pub async fn send(&self, message: impl Into<Bytes>) -> Answer {
        self.http.send(Method::POST, &self.url, &self.headers(), message).await
    }

    /// A `tools/call` under `id`, its arguments as raw JSON text.
    pub async fn call_raw(&self, id: u64, tool: &str, arguments: &str) -> Answer {
        let name = json!(tool);
        let params = format!(r#"{{"name":{name},"arguments":{arguments}}}"#);
        self.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)).await
    }
}

/// A client that keeps its connections.
#[derive(Clone)]
pub struct Http(Client<HttpsConnector<HttpConnector>, Full<Bytes>>, Option<String>);

impl Http {
    pub fn new() -> Self {
        Self::connecting(HttpConnector::new(), RootCertStore::empty())
    }

    /// A client that trusts the authorities of this PEM file.
    pub fn trusting(authorities: &std::path::Path) -> Self {
        let mut roots = RootCertStore::empty();
        let found = CertificateDer::pem_file_iter(authorities).unwrap();
        found.for_each(|authority| roots.add(authority.unwrap()).unwrap());
        Self::connecting(HttpConnector::new(), roots)
    }

    fn connecting(mut connector: HttpConnector, roots: RootCertStore) -> Self {
        connector.enforce_http(false);
        let config = ClientConfig::builder_with_provider(default_provider().into());
        let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let https = HttpsConnectorBuilder::new().with_tls_config(config.with_no_client_auth()).https_or_http();
        Self(Client::builder(TokioExecutor::new()).build(https.enable_http1().wrap_connector(connector)), None)
    }

    /// A client that sends this token with each request.
    pub fn bearing(token: &str) -> Self {
        Self(Self::new().0, Some(format!("Bearer {token}")))
    }

    fn request(&self, method: Method, url: &str, headers: &[(&str, &str)], body: Bytes) -> Request<Full<Bytes>> {
        let own = self.1.as_deref().map(|bearer| ("authorization", bearer));
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers.iter().copied().chain(own) {
            request = request.header(name, value);
        }
        request.body(Full::new(body)).unwrap()
    }

    /// A client at this address of this machine.
    pub fn at(address: std::net::IpAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_local_address(Some(address));
        Self::connecting(connector, RootCertStore::empty())
    }

    /// Sends a request.
    pub async fn send(&self, method: Method, url: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        self.try_send(method, url, headers, body).await.unwrap()
    }

    /// The same where the connection may be refused or closed.
    pub async fn try_send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, hyper_util::client::legacy::Error> {
        let response = self.0.request(self.request(method, url, headers, body.into())).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Ok(Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        })
    }

    /// A GET.
    pub async fn get(&self, url: &str) -> Answer {
        self.send(Method::GET, url, &[], Bytes::new()).await
    }

    /// Sends a request and leaves its answer's body unread; dropping that closes the stream.
    pub async fn open(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        self.0.request(self.request(method, url, headers, body.into())).await.unwrap()
    }

    /// Begins a session of the legacy era.
    pub async fn initialize(&self, url: &str) -> Session {
        self.initialize_with(url, &json!({})).await
    }

    /// The same by a client with these capabilities.
    pub async fn initialize_with(&self, url: &str, capabilities: &Value) -> Session {
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}}});
        let answer = self.send(Method::POST, url, &JSON, body.to_string()).await;
        assert_eq!(answer.json()["result"]["protocolVersion"], "2025-11-25", "{}", answer.body);
        let id = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let session = Session { http: self.clone(), url: url.to_owned(), id };
        let ready = session.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        assert_eq!(ready.status, 202, "{}", ready.body);
        session
    }

    /// A stateless `tools/call`, its arguments as raw JSON text.
    pub async fn call_raw(&self, url: &str, tool: &str, arguments: &str, meta: &Value) -> Answer {
        let body = call_body(tool, arguments, meta);
        self.send(Method::POST, url, &call_headers(tool), body).await
    }

    /// A stateless `tools/call`; what came back as JSON.
    pub async fn call(&self, url: &str, tool: &str, arguments: &Value, meta: &Value) -> Value {
        self.call_raw(url, tool, &arguments.to_string(), meta).await.json()
    }
}
