//! Everything that MCP has, through the merged endpoint of one gateway: clients of three SDKs and both eras, on servers of
//! three libraries and both eras. Each feature is tried by each client on each server, or a row says why not.

mod cells;
mod checks;
pub(super) mod clients;
mod everything;
mod fast;
mod own;
mod report;
mod rmcp;
mod servers;

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, HEAVY};
use super::parts::tools_of;
use cells::{Cell, Row};
use clients::{CLIENTS, Client, Era};
use report::Report;
use servers::Servers;

/// What is tried on each server.
pub const FEATURES: [&str; 28] = [
    "tools/list",
    "tools/call: text",
    "tools/call: image",
    "tools/call: structured content",
    "tools/call: the tool's error",
    "tools/call: unknown tool",
    "tools/call: invalid arguments",
    "progress",
    "log messages from a level on",
    "no log message below the level",
    "cancellation",
    "sampling",
    "elicitation",
    "roots",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read: text",
    "resources/read: blob",
    "resources/read: by a template",
    "resources/read: unknown",
    "completion of a prompt",
    "completion of a template",
    "changes of a resource",
    "changes of the tools",
    "changes of the prompts",
    "changes of the resources",
];
/// What clients ask of the gateway itself.
const OWN: [&str; 2] = ["ping", "logging/setLevel"];
/// The servers, by their names at the gateway.
const UPSTREAMS: [&str; 4] = ["everything", "fast", "rmcp-legacy", "rmcp-modern"];
/// The name of the gateway itself in the table.
const GATEWAY: &str = "gateway";

fn rows() -> Vec<Row> {
    let rmcp = [rmcp::rows(Era::Legacy), rmcp::rows(Era::Modern)].concat();
    let rows = [everything::rows(), fast::rows(), rmcp, own::rows()].concat();
    let wanted = UPSTREAMS.iter().flat_map(|upstream| FEATURES.iter().map(move |feature| (*upstream, *feature)));
    let mut wanted: Vec<_> = wanted.chain(OWN.iter().map(|feature| (GATEWAY, *feature))).collect();
    let mut found: Vec<_> = rows.iter().map(|row| (row.upstream, row.feature)).collect();
    wanted.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, wanted, "each feature has one row of each upstream");
    rows
}

/// The answers that each client gives servers.
fn answers() -> Value {
    json!({
        "sampling": {"role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "m"},
        "elicitation": {
            "action": "accept",
            "content": {"name": "Ada", "username": "ada", "email": "ada@example.com"}
        },
        "roots": {"roots": [{"uri": "file:///work", "name": "work"}]}
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_feature_of_a_server_reaches_each_client() {
    try_rows(|client, upstream| upstream == GATEWAY || upstream == UPSTREAMS[client % UPSTREAMS.len()]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make test-long"]
async fn every_feature_of_every_server_reaches_every_client() {
    try_rows(|_, _| true).await;
}

/// Tries the rows of the servers that are chosen for a client, which is given by its place in `CLIENTS`.
async fn try_rows(is_chosen: fn(usize, &str) -> bool) {
    let _alone = HEAVY.lock().await;
    let folder = Folder::new();
    let servers = Servers::start(&folder).await;
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &UPSTREAMS).await;
    let (last, rows): (Vec<_>, Vec<_>) = rows().into_iter().partition(|row| row.feature == "cancellation");
    // A client that ends right after it cancelled may never send that.
    let last = last.into_iter().map(|row| row.then(json!({"list": "tools"}))).collect();
    let mut report = Report::default();
    for rows in [rows, last] {
        // One client after the other: some servers have one switch for all.
        for (place, client) in CLIENTS.into_iter().enumerate() {
            let chosen: Vec<_> = rows.iter().filter(|row| is_chosen(place, row.upstream)).cloned().collect();
            for cell in cells_of(client, &chosen, &gateway, &servers).await {
                report.add(cell);
            }
        }
    }
    report.assert();
}

/// What a client gets of each row.
async fn cells_of(client: Client, rows: &[Row], gateway: &Gateway, servers: &Servers) -> Vec<Cell> {
    let script = cells::Script::of(client, rows);
    let lines = client.run(&gateway.url(), &answers(), &script.text()).await;
    assert_eq!(lines.len(), script.lines.len(), "{client}: a line of the script has no answer: {lines:?}");
    let mut cells = Vec::new();
    for (row, place) in rows.iter().zip(&script.places) {
        let answer = place.map(|place| &lines[place]);
        cells.push(row.cell(client, answer, servers).await);
    }
    cells
}
