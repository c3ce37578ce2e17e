//! A minimal MCP client for 2026-07-28, which has no sessions: it sends one request and reads one answer.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use http_body_util::Full;
use hyper::{HeaderMap, Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::admin::send;
use crate::domain::header_text::encode;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::version::MODERN_VERSION;

/// The default path of an endpoint.
pub const MCP_PATH: &str = "/mcp";

pub struct McpClient {
    pub url: String,
    /// How long the server can send nothing before a request fails.
    pub silence: Duration,
    /// The headers that show who the user is.
    pub headers: HeaderMap,
}

pub enum McpAnswer {
    /// A result, as unparsed JSON.
    Result(Box<RawValue>),
    Error {
        code: i64,
        message: String,
        /// The whole error, as unparsed JSON.
        raw: Box<RawValue>,
    },
}

/// A JSON-RPC request.
#[derive(Serialize)]
struct Sent<'a> {
    jsonrpc: &'static str,
    id: u32,
    method: &'a str,
    params: RawObject,
}

/// A JSON-RPC response, whose result stays unparsed.
#[derive(Deserialize)]
struct Response {
    result: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct AnsweredError {
    code: i64,
    #[serde(default)]
    message: Option<Box<RawValue>>,
}

impl McpClient {
    /// Sends a request. `name` is the name of the tool if `method` is `tools/call`. `meta` becomes the request's
    /// `_meta`, with the members added that every request needs.
    ///
    /// # Errors
    /// If no answer arrives in time, or the answer is not JSON-RPC.
    pub async fn request(
        &self,
        method: &str,
        name: Option<&str>,
        mut params: RawObject,
        mut meta: Value,
    ) -> anyhow::Result<McpAnswer> {
        meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN_VERSION);
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "hawsepipe", "version": env!("CARGO_PKG_VERSION")});
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        params.set("_meta", to_raw(&meta));
        let body = serde_json::to_string(&Sent { jsonrpc: "2.0", id: 1, method, params })?;
        let mut request = Request::post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", MODERN_VERSION)
            .header("mcp-method", method);
        if let Some(name) = name {
            request = request.header("mcp-name", &*encode(name));
        }
        let request = request.body(Full::from(body));
        let mut request = request.with_context(|| format!("{} is not a URL", self.url))?;
        request.headers_mut().extend(self.headers.clone());
        let (status, body) = send(&self.url, request, self.silence, "--url URL").await?;
        // Why it is not JSON-RPC says nothing to those who gave the URL of something else.
        read(&body).map_err(|_| anyhow!(not_mcp(&self.url, status, &body)))
    }
}

/// Parses the JSON-RPC answer in a JSON body, or in the last event of an event stream.
fn read(body: &str) -> anyhow::Result<McpAnswer> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data:")).next_back();
    match serde_json::from_str(data.unwrap_or(body))? {
        Response { error: Some(raw), .. } => {
            let AnsweredError { code, message } = serde_json::from_str(raw.get())?;
            // A text that is not valid, such as half of a surrogate pair, is shown as JSON.
            let message =
                message.map(|text| serde_json::from_str(text.get()).unwrap_or_else(|_| text.get().to_owned()));
            Ok(McpAnswer::Error { code, message: message.unwrap_or_default(), raw })
        }
        Response { result: Some(result), .. } => Ok(McpAnswer::Result(result)),
        Response { .. } => bail!("neither a result nor an error is in it"),
    }
}

/// Describes an answer that is not MCP.
fn not_mcp(url: &str, status: StatusCode, body: &str) -> String {
    let error = serde_json::from_str::<Value>(body).unwrap_or_default()["error"].take();
    let said = error["message"].as_str().map(|said| format!(" ({said})")).unwrap_or_default();
    let is_admin = if error["reason"].is_string() { ", as the admin API of a gateway does" } else { "" };
    format!(
        "{url} is not an MCP endpoint: it answered with HTTP {}{said}{is_admin}. A gateway logs where its endpoints are; name one with \
         --url URL",
        status.as_u16()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_of_a_body_and_of_a_stream() {
        let stream =
            "event: message\ndata: {\"method\":\"notifications/progress\"}\n\ndata: {\"result\":{\"b\":1,\"a\":2}}\n\n";
        for body in ["{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"b\":1,\"a\":2}}", stream] {
            let McpAnswer::Result(result) = read(body).unwrap() else { panic!("{body}") };
            assert_eq!(result.get(), "{\"b\":1,\"a\":2}");
        }
        assert!(matches!(
            read("{\"error\":{\"code\":-32602,\"message\":\"no\"}}"),
            Ok(McpAnswer::Error { code: -32602, .. })
        ));
        for body in ["", "<html>", "{}", "{\"error\":{\"reason\":\"MethodNotAllowed\",\"message\":\"it only reads\"}}"]
        {
            assert!(read(body).is_err(), "{body}");
        }
        let admin = not_mcp("http://a", StatusCode::METHOD_NOT_ALLOWED, "{\"error\":{\"message\":\"it only reads\"}}");
        assert!(admin.contains("not an MCP endpoint") && admin.contains("405 (it only reads)"), "{admin}");
        let admin = not_mcp("http://a", StatusCode::NOT_FOUND, "{\"error\":{\"reason\":\"NotFound\"}}");
        assert!(admin.contains("as the admin API of a gateway does"), "{admin}");
    }
}
