//! A client for black-box tests: it answers the lines of a script, one line of JSON each, as the clients of the other SDKs
//! do (`tests/fixtures/README.md` tells the lines).

// The older era has methods that are on their way out of the protocol.
#![allow(deprecated)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::*;
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, PeerRequestOptions, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientCacheConfig, ErrorData};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::catalogue::typed;
use crate::hearing::{Answering, Heard};

/// How long something that has to come may take.
const SOON: Duration = Duration::from_secs(5);
/// How long it is waited for what must not come.
const SILENCE: Duration = Duration::from_millis(200);

type Said = Result<Value, ServiceError>;

struct Script {
    client: RunningService<RoleClient, Answering>,
    heard: Arc<Mutex<Heard>>,
    modern: bool,
}

/// Connects as `mode` says, answers what servers ask with `answers`, and answers each line of standard input.
pub async fn run(url: &str, mode: &str, answers: &str) {
    let modern = mode == "modern";
    let heard = Arc::new(Mutex::new(Heard::default()));
    let answers = serde_json::from_str(answers).expect("the answers are JSON");
    let lifecycle = if modern {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
    } else {
        ClientLifecycleMode::Initialize
    };
    let handler = Answering { answers, heard: Arc::clone(&heard) };
    let transport = StreamableHttpClientTransport::from_uri(url.to_owned());
    let client = handler.serve_with_lifecycle(transport, lifecycle).await.expect("the server is there");
    client.set_response_cache_config(ClientCacheConfig::disabled()).await;
    let version = client.peer_info().map(|info| json!(info.protocol_version));
    println!("{}", json!({"connected": true, "protocolVersion": version}));
    let script = Script { client, heard, modern };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        println!("{}", script.answer(&serde_json::from_str(&line).expect("a line is JSON")).await);
    }
    let _ = script.client.cancel().await;
}

impl Script {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `done`, or for so long.
    async fn until(&self, patience: Duration, done: impl Fn(&Heard) -> bool) {
        let deadline = Instant::now() + patience;
        while !done(&self.heard()) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The answer to a line.
    async fn answer(&self, row: &Value) -> Value {
        let began = Instant::now();
        *self.heard() = Heard::default();
        let patience = row["patience"].as_f64().map_or(SOON, Duration::from_secs_f64);
        let mut line = match self.ask(row, patience).await {
            Ok(result) => json!({ "result": result }),
            Err(ServiceError::McpError(error)) => json!({ "error": error }),
            Err(error) => json!({"error": {"code": 0, "message": error.to_string()}}),
        };
        let least = |name: &str| usize::try_from(row[name].as_u64().unwrap_or_default()).unwrap_or_default();
        self.until(patience, |heard| heard.logs.len() >= least("logs") && heard.progress.len() >= least("steps")).await;
        let heard = self.heard();
        line["progress"] = json!(heard.progress);
        line["logs"] = json!(heard.logs);
        line["ms"] = json!(began.elapsed().as_millis());
        line
    }

    /// What the SDK makes of a line.
    async fn ask(&self, row: &Value, patience: Duration) -> Said {
        let text = |name: &str| row[name].as_str();
        if row["watch"].is_object() {
            return self.watch(row, patience).await;
        }
        if row["cancel"] == true {
            return self.cancel(row).await;
        }
        if row["tool"].is_string() {
            return self.call(row).await;
        }
        if let Some(list) = text("list") {
            return self.every(list).await;
        }
        if let Some(name) = text("prompt") {
            let params = parsed(json!({"name": name, "arguments": row["arguments"]}))?;
            return self.client.get_prompt(params).await.map(|result| json!(result));
        }
        if let Some(uri) = text("read") {
            return self.client.read_resource(parsed(json!({ "uri": uri }))?).await.map(|result| json!(result));
        }
        if row["complete"].is_object() {
            let context = row["context"].as_object().map(|known| json!({ "arguments": known }));
            let params = json!({"ref": row["complete"], "argument": row["argument"], "context": context});
            return self.client.complete(parsed(params)?).await.map(|result| json!(result));
        }
        if text("level").is_some() {
            return self.client.set_level(parsed(json!({"level": row["level"]}))?).await.map(|()| json!({}));
        }
        let ping = ClientRequest::PingRequest(PingRequest::default());
        self.client.send_request(ping).await.map(|result| json!(result))
    }

    /// Calls a tool, with the level of log messages that the line wants, said as the era says it.
    async fn call(&self, row: &Value) -> Said {
        if row["level"].is_string() && !self.modern {
            self.client.set_level(parsed(json!({"level": row["level"]}))?).await?;
        }
        self.client.call_tool(tool(row)?).await.map(|result| json!(result))
    }

    /// Calls a tool, and takes the call back when its first progress arrives.
    async fn cancel(&self, row: &Value) -> Said {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(tool(row)?));
        let call = self.client.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        self.until(SOON, |heard| !heard.progress.is_empty()).await;
        call.cancel(Some("not wanted any more".into())).await?;
        Ok(json!({ "cancelled": true }))
    }

    /// The items of every page.
    async fn every(&self, list: &str) -> Said {
        let items = match list {
            "tools" => json!(self.client.list_all_tools().await?),
            "prompts" => json!(self.client.list_all_prompts().await?),
            "resources" => json!(self.client.list_all_resources().await?),
            _ => json!(self.client.list_all_resource_templates().await?),
        };
        Ok(json!({ "items": items }))
    }

    /// Listens, calls a tool that changes something, and listens no more. What is subscribed to is changed once more.
    async fn watch(&self, row: &Value, patience: Duration) -> Said {
        let wanted = &row["watch"];
        self.heard().want(wanted);
        let uris: Vec<_> = wanted["resourceSubscriptions"].as_array().into_iter().flatten().collect();
        let listening = if self.modern {
            let mut events = self.client.listen(parsed(wanted.clone())?).await?;
            let heard = Arc::clone(&self.heard);
            Some(tokio::spawn(async move {
                while let Ok(Some(event)) = events.next().await {
                    heard.lock().unwrap_or_else(PoisonError::into_inner).change(&json!(event));
                }
            }))
        } else {
            for uri in &uris {
                self.client.subscribe(parsed(json!({ "uri": uri }))?).await?;
            }
            None
        };
        self.call(row).await?;
        self.until(patience, |heard| !heard.changes.is_empty()).await;
        let heard = std::mem::take(&mut self.heard().changes);
        match listening {
            // Its subscription ends as it is dropped.
            Some(listening) => listening.abort(),
            None => {
                for uri in &uris {
                    self.client.unsubscribe(parsed(json!({ "uri": uri }))?).await?;
                }
            }
        }
        if uris.is_empty() {
            return Ok(json!({ "heard": heard }));
        }
        // What is said only when it changes twice, as by a switch, is said too.
        self.call(row).await?;
        self.heard().changes.clear();
        self.call(row).await?;
        tokio::time::sleep(SILENCE).await;
        Ok(json!({"heard": heard, "after": self.heard().changes}))
    }
}

/// The parameters of a call.
fn tool(row: &Value) -> Result<CallToolRequestParams, ServiceError> {
    let arguments = if row["arguments"].is_null() { json!({}) } else { row["arguments"].clone() };
    let mut meta = if row["meta"].is_null() { json!({}) } else { row["meta"].clone() };
    if row["level"].is_string() {
        meta["io.modelcontextprotocol/logLevel"] = row["level"].clone();
    }
    parsed(json!({"name": row["tool"], "arguments": arguments, "_meta": meta}))
}

/// A value of the SDK's types from its JSON, without the members that are null.
fn parsed<T: DeserializeOwned>(mut value: Value) -> Result<T, ServiceError> {
    if let Some(members) = value.as_object_mut() {
        *members = std::mem::take(members).into_iter().filter(|(_, member)| !member.is_null()).collect::<Map<_, _>>();
    }
    typed(value).map_err(|error: ErrorData| ServiceError::McpError(error))
}
