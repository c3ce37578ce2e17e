//! What tests ask of etcd itself, over its JSON API.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use super::control_plane::{ControlPlane, ETCD_SOCKET};

impl ControlPlane {
    /// Has etcd forget every state but the present one.
    ///
    /// # Panics
    /// If it does not.
    pub async fn compact(&self) {
        let found = self.ask_etcd("/v3/kv/range", &json!({"key": BASE64_STANDARD.encode("/"), "limit": 1})).await;
        let revision = found["header"]["revision"].as_str().unwrap_or_else(|| panic!("no revision in {found}"));
        let answer = self.ask_etcd("/v3/kv/compaction", &json!({"revision": revision, "physical": true})).await;
        assert!(answer["header"].is_object(), "it was not compacted: {answer}");
    }

    async fn ask_etcd(&self, path: &str, body: &Value) -> Value {
        let stream = UnixStream::connect(self.folder().join(ETCD_SOCKET)).await.unwrap();
        let (mut requests, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post(path).header("host", "etcd").body(Full::new(Bytes::from(body.to_string())));
        let answer = requests.send_request(request.unwrap()).await.unwrap();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&bytes)))
    }
}
