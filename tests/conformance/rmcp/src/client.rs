//! The client that the suite runs: a gateway in front of the suite's server, and the SDK's client in front of the
//! gateway, so that what the suite's server sees is what the gateway makes of a well-behaved client.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rmcp::model::*;
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RequestContext, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ErrorData};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::catalogue::typed;

/// The name that the suite's server has at the gateway.
const UPSTREAM: &str = "suite";
/// How long the gateway may take until it has listed the server's tools.
const LISTED: Duration = Duration::from_secs(5);

struct Answers;

#[allow(deprecated)] // The suite's servers ask for what is on its way out too.
impl ClientHandler for Answers {
    fn get_info(&self) -> ClientConfig {
        let capabilities = json!({"sampling": {}, "elicitation": {"form": {"applyDefaults": true}}, "roots": {}});
        let capabilities = typed(capabilities).expect("the capabilities are some");
        ClientConfig::new(capabilities, Implementation::new("conformance", "1.0.0"))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        typed(json!({"role": "assistant", "model": "none", "content": {"type": "text", "text": "Paris"}}))
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let asked = json!(asked);
        typed(json!({"action": "accept", "content": filled(&asked["requestedSchema"])}))
    }
}

/// An object of a schema: the defaults, and for what is required without one, a value of its type.
fn filled(schema: &Value) -> Value {
    let required = |name: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|n| n == name));
    let value = |property: &Value| match property["type"].as_str() {
        Some("boolean") => json!(true),
        Some("number" | "integer") => json!(5),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("text"),
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    let filled = properties.filter_map(|(name, property)| match &property["default"] {
        Value::Null if required(name) => Some((name.clone(), value(property))),
        Value::Null => None,
        default => Some((name.clone(), default.clone())),
    });
    Value::Object(filled.collect::<Map<_, _>>())
}

/// Connects through a gateway, and calls what the suite wants called.
pub async fn run(url: &str) {
    let (_gateway, address) = gateway(url).await;
    let transport = StreamableHttpClientTransport::from_uri(format!("http://{address}/{UPSTREAM}/mcp"));
    let modern = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").is_ok_and(|version| version == "2026-07-28");
    let lifecycle = if modern {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
    } else {
        ClientLifecycleMode::Initialize
    };
    let client = Answers.serve_with_lifecycle(transport, lifecycle).await.expect("the gateway is there");
    for (name, arguments) in calls(&client).await {
        let Value::Object(arguments) = arguments else { continue };
        // What a call comes to is the suite's affair.
        let answered = client.call_tool(CallToolRequestParams::new(name.clone()).with_arguments(arguments)).await;
        eprintln!("{name}: {answered:?}");
    }
    use_other_items(&client).await;
    let _ = client.cancel().await;
}

/// Fetches each prompt and reads each resource.
async fn use_other_items(client: &RunningService<RoleClient, Answers>) {
    for prompt in client.list_all_prompts().await.unwrap_or_default() {
        eprintln!("{}: {:?}", prompt.name, client.get_prompt(GetPromptRequestParams::new(prompt.name.clone())).await);
    }
    for resource in client.list_all_resources().await.unwrap_or_default() {
        let Ok(params) = typed(json!({"uri": resource.uri})) else { continue };
        eprintln!("{}: {:?}", resource.uri, client.read_resource(params).await);
    }
}

/// The calls that the suite names, or else one of each tool.
async fn calls(client: &RunningService<RoleClient, Answers>) -> Vec<(String, Value)> {
    let deadline = Instant::now() + LISTED;
    let mut tools = Vec::new();
    while tools.is_empty() && Instant::now() < deadline {
        tools = client.list_all_tools().await.unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let named = context["toolCalls"].as_array().into_iter().flatten();
    let named: Vec<_> =
        named.map(|call| (call["name"].as_str().unwrap_or_default().to_owned(), call["arguments"].clone())).collect();
    if !named.is_empty() {
        return named;
    }
    tools.iter().map(|tool| (tool.name.to_string(), filled(&json!(tool.input_schema)))).collect()
}

/// Starts a gateway with this server as its upstream, and says where it listens.
async fn gateway(url: &str) -> (Child, String) {
    let program = std::env::var_os("HAWSEPIPE_TEST_PROGRAM").expect("HAWSEPIPE_TEST_PROGRAM names the gateway");
    let folder = std::env::temp_dir().join(format!("hawsepipe-conformance-client-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("plugins")).expect("a folder for manifests");
    let upstream = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "MCPUpstream", "metadata": {"name": UPSTREAM},
        // The suite passes `null` for a boolean, which does not fit the schema of its tool.
        "spec": {"external": {"url": url}, "argumentValidation": "Off"}});
    std::fs::write(folder.join("manifests.yaml"), upstream.to_string()).expect("the manifest is written");
    let mut child = Command::new(program)
        .args(["run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-f"])
        .arg(&folder)
        .arg("--state-dir")
        .arg(folder.join("state"))
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the gateway starts");
    let mut lines = BufReader::new(child.stderr.take().expect("its log")).lines();
    let mut address = String::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let line: Value = serde_json::from_str(&line).unwrap_or_default();
        if line["message"] == "MCP endpoint" {
            address = line["address"].as_str().unwrap_or_default().to_owned();
        }
        if line["message"] == "plan in force" {
            break;
        }
    }
    // Its log is read on, or it would wait for a reader.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (child, address)
}
