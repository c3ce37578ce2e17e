//! Measures edits of a plugin under load: the time from applying an edit to the first call whose answer shows it.

use std::time::{Duration, Instant};

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::gateway::client::{Call, Caller, Load};
use crate::gateway::upstream;
use crate::operator::harness::{Operated, api, gateway, object};

/// The time between two calls, of which there are 50 a second.
const PERIOD: Duration = Duration::from_millis(20);
/// The time between two edits.
const BETWEEN: Duration = Duration::from_millis(500);

/// Measures and prints a table.
pub async fn measure(edits: usize) {
    let operated = Operated::start().await;
    let up = json!({"external": {"url": upstream::start().await}, "protocol": {"era": "Legacy"}});
    let chain = json!({"phase": "Response", "entries": [{"name": "say"}]});
    let objects =
        [gateway("main"), object("MCPUpstream", "up", &up), plugin("start"), object("PluginChain", "answers", &chain)];
    operated.apply(&objects).await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "start nobody").await;
    let load = Load::start(Caller::new(&served.gateway, "up__whoami").await, PERIOD);
    let made = edit(&operated, edits).await;
    report(&made, load.stop().await);
}

/// Makes a plugin whose answers begin with this word.
fn plugin(word: &str) -> Value {
    let code = format!("export default ({{ rawContent }}) => ({{ text: `{word} ${{rawContent}}`, continue: true }});");
    object("Plugin", "say", &json!({"source": {"inline": code}, "role": "Guard"}))
}

/// Makes all edits. Returns the word of each, and when it was sent.
async fn edit(operated: &Operated<'_>, edits: usize) -> Vec<(String, Instant)> {
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
