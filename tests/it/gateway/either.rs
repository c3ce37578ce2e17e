//! A client of either era that shows what comes back as JSON.

use hyper::Method;
use serde_json::{Value, json};

use super::http::{Http, JSON, Session};

/// A client, with what it declares that it can do.
pub enum Client {
    Modern(Http, String, Value),
    Legacy(Session),
}

/// The parameters that `Mcp-Name` repeats (MCP 2026-07-28, Streamable HTTP; SEP-2663).
const NAMING: [&str; 3] = ["name", "uri", "taskId"];

impl Client {
    /// Sends a request. Returns its response as JSON.
    pub async fn ask(&self, method: &str, mut params: Value) -> Value {
        match self {
            Self::Legacy(session) => {
                session.send(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()).await
            }
            Self::Modern(http, url, capabilities) => {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": capabilities,
                });
                let name = NAMING.iter().find_map(|key| params[key].as_str()).unwrap_or_default().to_owned();
                let mut headers = JSON.to_vec();
                headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)]);
                headers.extend((!name.is_empty()).then_some(("mcp-name", &*name)));
                let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
                http.send(Method::POST, url, &headers, body).await
            }
        }
        .json()
    }

    /// The values of one member of each item of a list.
    pub async fn names(&self, method: &str, list: &str, name: &str) -> Vec<String> {
        let answer = self.ask(method, json!({})).await;
        let items = answer["result"][list].as_array().unwrap_or_else(|| panic!("{answer}"));
        items.iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
    }
}

/// A client of each era that can do nothing.
pub async fn clients(url: &str) -> [Client; 2] {
    clients_with(url, &json!({})).await
}

/// A client of each era with these capabilities.
pub async fn clients_with(url: &str, capabilities: &Value) -> [Client; 2] {
    clients_of(Http::new(), url, capabilities).await
}

/// The same with this client of HTTP.
pub async fn clients_of(http: Http, url: &str, capabilities: &Value) -> [Client; 2] {
    let legacy = http.initialize_with(url, capabilities).await;
    [Client::Legacy(legacy), Client::Modern(http, url.to_owned(), capabilities.clone())]
}
