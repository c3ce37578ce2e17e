//! One pod of a gateway: whether it belongs to the gateway, the address of its admin port, and its report.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use k8s_openapi::api::core::v1::Pod;

use super::gateway_tokens::Shown;
use super::owner::workload;
use super::pods::Reported;
use crate::domain::causes::causes;
use crate::domain::ids::ObjectKey;

/// How long to wait for a pod's answer.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The largest report that is accepted, in bytes. Tools make up at most half of it (`MAX_TOOL_BYTES`).
const MAX_REPORT: usize = 16 << 20;
/// Path of the report on the admin port.
pub(super) const REPORT: &str = "/api/v1/report";
/// The admin port of a pod that has no port with the name [`ADMIN`].
const ADMIN_PORT: i32 = 9090;
/// The name of the admin port in a pod's spec.
const ADMIN: &str = "admin";

/// Checks that a pod with a gateway's label runs as the gateway's service account. Returns why the pod is not polled if
/// it does not, otherwise `None`. Without this check, the report of any pod that carries the label would be trusted.
pub(super) fn stranger(pod: &Pod, gateway: &ObjectKey) -> Option<String> {
    let wanted = workload(&gateway.name);
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    let account = account.filter(|name| !name.is_empty()).unwrap_or("default");
    (account != wanted).then(|| {
        format!(
            "it is not asked, since it runs as ServiceAccount {account}: set its spec.serviceAccountName to {wanted}, or \
             take the gateway's label from it"
        )
    })
}

/// Returns the address of a pod's admin port; `None` if the pod is not ready, or is being deleted.
pub(super) fn ready_address(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let is_ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    if !is_ready || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let ports = pod.spec.iter().flat_map(|spec| &spec.containers).flat_map(|c| c.ports.iter().flatten());
    let mut named = ports.filter(|port| port.name.as_deref() == Some(ADMIN));
    let port = named.next().map_or(ADMIN_PORT, |port| port.container_port);
    let ip = status.pod_ip.as_deref().filter(|ip| !ip.is_empty())?;
    Some(if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") })
}

/// An ETag, and the report that was sent with it.
pub(super) type TaggedReport = (String, Arc<Reported>);

/// A request for a report.
pub(super) struct ReportRequest {
    pub(super) address: String,
    /// The token to present, or why there is none. If `None`, the request is sent without a token.
    pub(super) token: Option<Shown>,
    /// The service account of the token, once it is known.
    pub(super) account: Option<String>,
}

impl ReportRequest {
    /// Fetches the report. Returns `known` if the pod answers that the report has not changed.
    pub(super) async fn send(
        &self,
        http: &Client<HttpConnector, Empty<Bytes>>,
        known: Option<TaggedReport>,
    ) -> Result<TaggedReport, String> {
        let exchange = async {
            let request = self.with_headers(known.as_ref()).map_err(|error| error.to_string())?;
            let response = http.request(request).await.map_err(|error| causes(&error))?;
            let (head, body) = response.into_parts();
            match (head.status, known) {
                (StatusCode::NOT_MODIFIED, Some(known)) => Ok(known),
                (StatusCode::OK, _) => {
                    let body = Limited::new(body, MAX_REPORT).collect().await.map_err(|error| unread(&*error))?;
                    let report = serde_json::from_slice(&body.to_bytes()).map_err(|error| error.to_string())?;
                    let report = Reported::new(report);
                    let tag =
                        head.headers.get(http::header::ETAG).and_then(|tag| tag.to_str().ok()).unwrap_or_default();
                    Ok((tag.to_owned(), Arc::new(report)))
                }
                (status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), _) => Err(self.refused(status)),
                (status, _) => Err(format!("it answers {status}")),
            }
        };
        tokio::time::timeout(TIMEOUT, exchange).await.map_err(|_| "it does not answer".to_owned())?
    }

    fn with_headers(&self, known: Option<&TaggedReport>) -> http::Result<http::Request<Empty<Bytes>>> {
        let mut request = http::Request::get(format!("http://{}{REPORT}", self.address));
        if let Some(Ok(token)) = &self.token {
            request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some((tag, _)) = known {
            request = request.header(http::header::IF_NONE_MATCH, tag);
        }
        request.body(Empty::new())
    }

    fn refused(&self, status: StatusCode) -> String {
        match (&self.token, &self.account) {
            (Some(Err(why)), _) => format!("it answers {status}, and there is no token to show it: {why}"),
            (_, Some(account)) => {
                format!(
                    "it answers {status}: start the gateway with --operator={account}, the operator's service account"
                )
            }
            _ => format!("it answers {status}"),
        }
    }
}

/// Explains why a report cannot be read.
fn unread(error: &(dyn Error + Send + Sync + 'static)) -> String {
    match error.is::<LengthLimitError>() {
        true => format!("its report has more than {} MiB, which is the most that is read", MAX_REPORT >> 20),
        false => causes(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_report_that_is_too_large_is_told_of() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", MAX_REPORT + 1);
            stream.write_all(head.as_bytes()).await.unwrap();
            // The client does not read the whole response.
            while stream.write_all(&[b' '; 1 << 16]).await.is_ok() {}
        });
        let http = Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
        let answer = ReportRequest { address, token: None, account: None }.send(&http, None).await;
        assert_eq!(answer.map(|_| ()).unwrap_err(), "its report has more than 16 MiB, which is the most that is read");
    }

    #[test]
    fn only_pods_that_run_as_the_gateways_service_account_are_asked() {
        let gateway = ObjectKey::new("mcp", "main");
        let why = |spec: serde_json::Value| {
            stranger(&serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap(), &gateway)
        };
        assert_eq!(why(json!({"containers": [], "serviceAccountName": "main-gateway"})), None);
        let other = why(json!({"containers": [], "serviceAccountName": "other-gateway"})).unwrap();
        assert!(other.contains("ServiceAccount other-gateway") && other.contains("to main-gateway"), "{other}");
        assert!(why(json!({"containers": []})).unwrap().contains("ServiceAccount default"));
    }
}
