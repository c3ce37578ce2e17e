//! Edits of a plugin under load: from the request that applies one to the first call whose answer shows it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::gateway::upstream;
use crate::operator::harness::{Operated, api, gateway, object};

/// 50 calls a second.
const PERIOD: Duration = Duration::from_millis(20);
/// Between two edits.
const BETWEEN: Duration = Duration::from_millis(500);

type Http = Client<HttpConnector, Full<Bytes>>;

/// A call: when it ended, and with what.
struct Call {
    ended: Instant,
    text: Result<String, String>,
}

/// Measures, and prints a table.
pub async fn measure(edits: usize) {
    let operated = Operated::start().await;
    let up = json!({"external": {"url": upstream::start().await}, "protocol": {"era": "Legacy"}});
    let chain = json!({"phase": "Response", "entries": [{"name": "say"}]});
    let objects =
        [gateway("main"), object("MCPUpstream", "up", &up), plugin("start"), object("PluginChain", "answers", &chain)];
    operated.apply(&objects).await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "start nobody").await;
    let url = format!("http://{}/mcp", served.gateway.endpoint().await);
    let http: Http = Client::builder(TokioExecutor::new()).build_http();
    let mut calls = JoinSet::new();
    let load = async {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            ticks.tick().await;
            calls.spawn(call(http.clone(), url.clone()));
        }
    };
    let made = tokio::select! {
        made = edit(&operated, edits) => made,
        () = load => unreachable!(),
    };
    report(&made, calls.join_all().await);
}

/// A plugin whose answers begin with this word.
fn plugin(word: &str) -> Value {
    let code = format!("export default ({{ rawContent }}) => ({{ text: `{word} ${{rawContent}}`, continue: true }});");
    object("Plugin", "say", &json!({"source": {"inline": code}, "role": "Guard"}))
}

/// When each edit was sent.
async fn edit(operated: &Operated, edits: usize) -> Vec<(String, Instant)> {
    let api = api(&operated.client, &operated.namespace, "plugins");
    let params = PatchParams::apply("bench").force();
    let mut made = Vec::new();
    for n in 0..edits {
        tokio::time::sleep(BETWEEN).await;
        let word = format!("word{n}");
        made.push((word.clone(), Instant::now()));
        api.patch("say", &params, &Patch::Apply(plugin(&word))).await.unwrap();
    }
    tokio::time::sleep(BETWEEN * 4).await;
    made
}

async fn call(http: Http, url: String) -> Call {
    let answer = exchange(&http, &url).await;
    Call { ended: Instant::now(), text: answer }
}

async fn exchange(http: &Http, url: &str) -> Result<String, String> {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "up__whoami", "arguments": {}, "_meta": meta}});
    let request = Request::post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "up__whoami")
        .body(Full::from(body.to_string()))
        .map_err(|error| error.to_string())?;
    let answer = http.request(request).await.map_err(|error| error.to_string())?;
    let bytes = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    let answer: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let text = answer["result"]["content"][0]["text"].as_str().filter(|_| answer["result"]["isError"] != true);
    text.map(str::to_owned).ok_or_else(|| answer.to_string())
}

fn report(made: &[(String, Instant)], mut calls: Vec<Call>) {
    calls.sort_by_key(|call| call.ended);
    let failed: Vec<_> = calls.iter().filter_map(|call| call.text.as_ref().err()).collect();
    let shows = |call: &&Call, word: &str| call.text.as_ref().is_ok_and(|text| text.split(' ').next() == Some(word));
    let mut took: Vec<_> = made
        .iter()
        .map(|(word, when)| calls.iter().find(|call| shows(call, word)).map(|call| call.ended - *when))
        .collect();
    let unseen = took.iter().filter(|took| took.is_none()).count();
    took.sort();
    let took: Vec<_> = took.into_iter().flatten().collect();
    let at = |share: usize| took.get((took.len() * share / 100).min(took.len().saturating_sub(1)));
    let ms = |share: usize| at(share).map_or_else(|| "-".to_owned(), |took| format!("{} ms", took.as_millis()));
    println!("| {} edits under 50 calls a second | |\n|---|---|", made.len());
    println!("| from the apply request to the first answer that shows it: p50 | {} |", ms(50));
    println!("| p90 | {} |", ms(90));
    println!("| p99 | {} |", ms(99));
    println!("| most | {} |", ms(100));
    println!("| edits that were never seen | {unseen} |");
    println!("| calls, of which failed | {}, {} |", calls.len(), failed.len());
    for failure in failed.iter().take(3) {
        println!("\nfailed: {failure}");
    }
}
