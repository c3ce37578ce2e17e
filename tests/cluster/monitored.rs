//! A real Prometheus beside a real operator and its gateway: the dashboard of the control plane shows what they do.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::harness::until;
use crate::operator::harness::{Operated, gateway, object};
use crate::prometheus::{Panel, Prometheus, SECONDS, panels_of, query_of, recorded_to};

const DASHBOARD: &str = "control-plane";
/// Panels with a query that finds nothing, and why.
const EMPTY: [(&str, &str); 1] = [("Errors", "everything could be read and written")];

/// A plugin with this code.
fn plugin(name: &str, code: &str) -> Value {
    object("Plugin", name, &json!({"source": {"inline": code}}))
}

/// A plugin that is edited: its code says `word`.
fn edited(word: &str) -> Value {
    plugin("edited", &format!("export default () => ({{ text: '{word}', continue: true }});"))
}

/// A chain of the plugin `name`.
fn chain(name: &str) -> Value {
    object("PluginChain", name, &json!({"phase": "Response", "entries": [{"name": name}]}))
}

/// Edits a plugin each second, with pauses, and records what panels show meanwhile.
async fn record(folder: &Path, operated: &Operated<'_>, prometheus: &Prometheus) {
    let start = SystemTime::now();
    let mut each_second = tokio::time::interval(Duration::from_secs(1));
    for second in 0..=SECONDS {
        each_second.tick().await;
        if second % 20 >= 8 {
            operated.apply(&[edited(&second.to_string())]).await;
        }
    }
    prometheus.record(folder, DASHBOARD, start, &EMPTY).await;
}

/// The queries of a panel that find something.
fn filled(panel: Panel) -> Vec<(String, String)> {
    let queries = panel.queries.into_iter().filter(|_| EMPTY.iter().all(|(of, _)| *of != panel.title));
    queries.map(|query| (panel.title.clone(), query)).collect()
}

#[tokio::test]
async fn the_dashboard_of_the_control_plane_shows_what_an_operator_and_its_gateway_do() {
    let operated = Operated::start().await;
    operated.apply(&[gateway("main"), edited("first"), chain("edited")]).await;
    let served = operated.serve("main", &[]).await;
    let targets = [operated.operator.address().await, served.gateway.admin.to_string()];
    let prometheus = Prometheus::start(&targets).await;
    until("both are scraped", async || (prometheus.value("sum(up)").await == Some(2.0)).then_some(())).await;
    // A rate needs a series from before what it counts.
    let broken = plugin("broken", "export default () => ({}); throw new Error('broken');");
    operated.apply(&[edited("second"), broken, chain("broken")]).await;
    for (title, value) in [("Leaders", 1.0), ("Operators", 1.0), ("Problems", 1.0), ("Revisions that run", 1.0)] {
        let expression = query_of(DASHBOARD, title);
        until(title, async || (prometheus.value(&expression).await == Some(value)).then_some(())).await;
    }
    for (title, query) in panels_of(DASHBOARD, "1m").into_iter().flat_map(filled) {
        let shows = async || (!prometheus.query(&query).await.is_empty()).then_some(());
        until(&format!("{title} shows something for {query}"), shows).await;
    }
    if let Some(folder) = recorded_to() {
        record(&folder, &operated, &prometheus).await;
    }
}
