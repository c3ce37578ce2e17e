//! The history in a database: SQLite, and PostgreSQL where a test runs on both.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::parts::{chain, object, plugin, raw_stdio, tools_of, until};
use crate::fixtures::{fixture, python};

pub(super) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(super) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A PostgreSQL server. It ends with its value.
pub(super) struct Postgres {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    pub(super) url: String,
}

impl Postgres {
    pub(super) fn start() -> Self {
        let mut command = Command::new(python());
        command.arg(fixture("postgres.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next().expect("PostgreSQL starts").unwrap();
        Self { stdin: child.stdin.take(), child, lines, url }
    }

    /// Stops or starts the server, or runs a statement.
    pub(super) fn does(&mut self, what: &str) -> String {
        writeln!(self.stdin.as_mut().unwrap(), "{what}").unwrap();
        self.lines.next().unwrap().unwrap()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Runs statements on a SQLite file, and returns the rows of the last one.
pub(super) fn sqlite(file: &str, statements: &[&str]) -> String {
    let script = "import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as database:
    for statement in sys.argv[2:]:
        rows = database.execute(statement).fetchall()
print(','.join('|'.join(map(str, row)) for row in rows))";
    let output = Command::new(python()).args(["-c", script, file]).args(statements).output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    out(&output).trim().to_owned()
}

/// A server, a Guard that denies what has a word in it, and a plugin that answers.
pub(super) fn guarded(folder: &Folder) -> String {
    let guard = "export default ({ rawContent }) => rawContent.includes('swordfish')
      ? { text: 'no', continue: false, error: 'denied' } : { text: rawContent, continue: true };";
    let says = "export default () => ({ text: 'hello', continue: true });";
    raw_stdio("raw", &folder.path().join("log"))
        + &plugin("guard", guard, "role: Guard")
        + &plugin("says", says, "")
        + &chain("asks", "Request", &["raw"], &["guard"])
        + &chain("answers", "Response", &["raw"], &["says"])
}

/// The records that a command lists.
pub(super) fn list(gateway: &Gateway, arguments: &[&str]) -> Vec<Value> {
    let output = run(&[arguments, &["--admin", &gateway.admin(), "-o", "jsonl"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", err(&output));
    out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(super) async fn metric(gateway: &Gateway, series: &str) -> f64 {
    let metrics = Http::new().get(&format!("http://{}/metrics", gateway.admin())).await.body;
    let value = metrics.lines().find_map(|line| line.strip_prefix(series)).map(|value| value.trim().parse().unwrap());
    value.unwrap_or_default()
}

/// Makes four calls: one in a session, one without, one that the Guard denies, and one of a tool that there is not. Returns
/// the id of the session, a time after the first call, and the id of the third.
async fn four_calls(gateway: &Gateway) -> [String; 3] {
    tools_of(gateway, &["raw"]).await;
    let http = Http::new();
    let session = http.initialize(&gateway.url()).await;
    session.call_raw(1, "raw__args", "{}").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let between = jiff::Timestamp::now().to_string();
    tokio::time::sleep(Duration::from_millis(20)).await;
    for arguments in [json!({}), json!({"a": "swordfish"})] {
        http.call(&gateway.url(), "raw__args", &arguments, &json!({})).await;
    }
    http.call(&gateway.url(), "raw__missing", &json!({}), &json!({})).await;
    until("four calls are recorded", async || list(gateway, &["calls"]).len() == 4).await;
    let denied = list(gateway, &["calls", "--outcome", "denied"])[0]["requestId"].as_str().unwrap().to_owned();
    [session.id[..8].to_owned(), between, denied]
}

/// Filters, each with the number of calls and executions of [`four_calls`] that it selects.
fn filters([session, between, denied]: &[String; 3]) -> [(Vec<&str>, [usize; 2]); 15] {
    [
        (vec![], [4, 5]),
        (vec!["--plugin", "says"], [2, 2]),
        (vec!["--plugin", "default/guard"], [3, 3]),
        (vec!["--chain", "asks"], [3, 3]),
        (vec!["--chain", "default/answers"], [2, 2]),
        (vec!["--upstream", "raw"], [3, 5]),
        (vec!["--tool", "args"], [3, 5]),
        (vec!["--request", denied], [1, 1]),
        (vec!["--session", session], [1, 2]),
        (vec!["--principal", "anonymous"], [4, 5]),
        (vec!["--since", "1h"], [4, 5]),
        (vec!["--until", "1h"], [0, 0]),
        (vec!["--limit", "2"], [2, 2]),
        (vec!["--until", between], [1, 2]),
        (vec!["--since", between], [3, 3]),
    ]
}

/// What each of the filters lists.
fn lists(gateway: &Gateway, made: &[String; 3]) -> Vec<Vec<Value>> {
    let mut found = Vec::new();
    for (arguments, expected) in filters(made) {
        for (command, expected) in ["calls", "executions"].into_iter().zip(expected) {
            let records = list(gateway, &[&[command], &*arguments].concat());
            assert_eq!(records.len(), expected, "{command} {arguments:?}: {records:?}");
            found.push(records);
        }
    }
    found.push(list(gateway, &["calls", "--outcome", "denied"]));
    found.push(list(gateway, &["executions", "--status", "Denied"]));
    assert!(found.iter().rev().take(2).all(|records| records.len() == 1), "{found:?}");
    found
}

/// Runs a gateway with a store, makes calls, restarts it, and compares lists before with lists after the restart: those
/// before have records in memory, those after have none there.
async fn outlasts(store: Option<&str>) {
    let folder = Folder::new();
    folder.write("manifests.yaml", &guarded(&folder));
    let arguments: Vec<_> = store.into_iter().flat_map(|store| ["--store", store]).collect();
    let gateway = Gateway::start_with(&folder, &arguments);
    let made = four_calls(&gateway).await;
    let before = lists(&gateway, &made);
    assert!(gateway.end().1);
    let again = Gateway::start_with(&folder, &arguments);
    if store.is_none() {
        assert!(list(&again, &["calls"]).is_empty() && list(&again, &["executions"]).is_empty());
        return;
    }
    tools_of(&again, &["raw"]).await;
    assert_eq!(lists(&again, &made), before);
    pages(&again, &before[0]).await;
}

/// Reads the list in pages of one record.
async fn pages(gateway: &Gateway, whole: &[Value]) {
    let (mut cursor, mut found) = (String::new(), Vec::new());
    loop {
        let page = Http::new().get(&format!("http://{}/api/v1/calls?limit=1{cursor}", gateway.admin())).await.json();
        found.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found, whole);
    let wrong = Http::new().get(&format!("http://{}/api/v1/calls?cursor=x", gateway.admin())).await;
    assert!(wrong.status == 400 && wrong.body.contains("InvalidCursor"), "{}", wrong.body);
}

#[tokio::test]
async fn the_history_outlasts_a_restart_with_a_store_only_and_filters_are_the_same_everywhere() {
    let folder = Folder::new();
    outlasts(folder.path().join("history.db").to_str()).await;
    outlasts(Some(&Postgres::start().url)).await;
    outlasts(None).await;
}

#[tokio::test]
async fn executions_are_followed() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &guarded(&folder));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["raw"]).await;
    let mut following = super::harness::hawsepipe();
    let arguments = ["executions", "--follow", "--plugin", "guard", "-o", "jsonl", "--admin", &gateway.admin()];
    let mut following = following.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    for word in ["Success", "Denied"] {
        let arguments = json!({"a": if word == "Denied" { "swordfish" } else { "" }});
        Http::new().call(&gateway.url(), "raw__args", &arguments, &json!({})).await;
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!((&line["status"], &line["plugin"]), (&json!(word), &json!("default/guard")), "{line}");
    }
    following.kill().unwrap();
    following.wait().unwrap();
}

#[tokio::test]
async fn calls_continue_while_the_database_is_down_and_their_records_are_written_later() {
    let mut postgres = Postgres::start();
    let folder = Folder::new();
    let store = "history: {store: {postgres: {urlSecretRef: {name: db, key: url}}}}";
    let gateway = format!("authentication: {{anonymous: {{}}}}, {store}");
    folder.write("manifests.yaml", &(guarded(&folder) + &object("MCPGateway", "main", &gateway)));
    let secrets = Folder::new();
    std::fs::create_dir(secrets.path().join("db")).unwrap();
    secrets.write("db/url", &format!("{}\n", postgres.url));
    let arguments = ["--secrets-dir", secrets.path().to_str().unwrap()];
    let gateway = Gateway::start_with(&folder, &arguments);
    tools_of(&gateway, &["raw"]).await;
    let call = async || Http::new().call(&gateway.url(), "raw__args", &json!({}), &json!({})).await;
    call().await;
    until("the first call is written", async || metric(&gateway, "hawsepipe_history_queue_length ").await == 0.0).await;
    postgres.does("stop");
    let answer = call().await;
    assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    gateway
        .logged(|line| line["message"].as_str().unwrap().starts_with("the history is not written: the store postgres"));
    assert!(metric(&gateway, "hawsepipe_history_queue_length ").await > 0.0);
    let listed = run(&["calls", "--admin", &gateway.admin(), "-o", "jsonl"]);
    assert_eq!(out(&listed).lines().count(), 2, "{}", out(&listed));
    assert!(err(&listed).contains("The list has only what is in memory"), "{}", err(&listed));
    postgres.does("start");
    until("the rest is written", async || metric(&gateway, "hawsepipe_history_queue_length ").await == 0.0).await;
    assert_eq!(metric(&gateway, "hawsepipe_history_dropped_total{store=\"database\"}").await, 0.0);
    assert!(!gateway.log().concat().contains("swordfish"), "{}", gateway.log().join("\n"));
    assert!(gateway.end().1);
    assert_eq!(list(&Gateway::start_with(&folder, &arguments), &["calls"]).len(), 2);
}

#[test]
fn a_store_that_cannot_be_used_ends_the_start_and_is_named_without_its_password() {
    let folder = Folder::with(&object("MCPGateway", "main", "authentication: {anonymous: {}}"));
    let missing = folder.path().join("missing/history.db");
    for (store, words) in [
        ("postgres://me:swordfish@127.0.0.1:1/h", "--store: the store postgres://127.0.0.1:1/h: "),
        (missing.to_str().unwrap(), "No such file or directory"),
        ("mysql://me:swordfish@h/h", "a store is PATH, sqlite:PATH or postgres://"),
    ] {
        let path = folder.path().to_str().unwrap();
        let state = folder.state();
        let state = state.to_str().unwrap();
        let output =
            run(&["run", "-f", path, "--state-dir", state, "--admin", ":0", "--listen", ":0", "--store", store]);
        assert!(!output.status.success() && err(&output).contains(words), "{store}: {}", err(&output));
        assert!(!words.starts_with("--store") || !err(&output).contains("swordfish"), "{}", err(&output));
    }
}

#[tokio::test]
async fn migrations_down_and_up_keep_rows() {
    let mut postgres = Postgres::start();
    let folder = Folder::new();
    let file = folder.path().join("history.db");
    let file = file.to_str().unwrap();
    for store in [file.to_owned(), postgres.url.clone()] {
        let mut sql = |statement: &str| match store == file {
            true => sqlite(file, &[statement]),
            false => postgres.does(statement),
        };
        let migrate = |arguments: &[&str]| {
            let output = run(&[&["store", "migrate", "--store", &store], arguments].concat());
            assert!(output.status.success(), "{}", err(&output));
            out(&output)
        };
        let up = "up 001_calls\nup 002_executions\nup 003_sources\nup 004_plugin_store\nup 005_audit\nup 006_registry\n\
             up 007_sources_fetched_at\n";
        assert_eq!(migrate(&[]), format!("{up}up 010_source_type_field\nup 011_user\nup 012_plugin_partitions\n"));
        sql(
            "INSERT INTO sources (id, url, source_type, source_metadata) VALUES ('1', 'https://a', 'custom', '{\"a\": 1}')",
        );
        sql(
            "INSERT INTO plugin_store (plugin, tenant, key, value, version, size, updated_at) VALUES ('p','t','k','v',1,1,1)",
        );
        assert_eq!(migrate(&["--to", "9"]), "down 012_plugin_partitions\ndown 011_user\ndown 010_source_type_field\n");
        sql("INSERT INTO sources (id, url) VALUES ('2', 'https://b')");
        // The gateway of an earlier version works with the tables of a later one, as this one with those of version 9.
        assert_eq!(migrate(&[]), "up 010_source_type_field\nup 011_user\nup 012_plugin_partitions\n");
        assert_eq!(migrate(&[]), "nothing to do\n");
        assert_eq!(sql("SELECT id, url, source_type FROM sources ORDER BY id"), "1|https://a|web,2|https://b|web");
        assert_eq!(sql("SELECT value FROM plugin_store"), "v");
    }
}

#[tokio::test]
async fn a_gateway_writes_and_reads_tables_that_have_a_later_version() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &guarded(&folder));
    let file = folder.path().join("history.db");
    let file = file.to_str().unwrap();
    assert!(run(&["store", "migrate", "--store", file]).status.success());
    let later = "INSERT INTO hawsepipe_migrations (version, name) VALUES (99, '099_later')";
    sqlite(file, &["ALTER TABLE calls ADD COLUMN later TEXT NOT NULL DEFAULT 'x'", later]);
    let gateway = Gateway::start_with(&folder, &["--store", file]);
    tools_of(&gateway, &["raw"]).await;
    Http::new().call(&gateway.url(), "raw__args", &json!({}), &json!({})).await;
    assert!(gateway.end().1);
    assert_eq!(sqlite(file, &["SELECT tool, later FROM calls"]), "args|x");
    assert_eq!(list(&Gateway::start_with(&folder, &["--store", file]), &["calls"]).len(), 1);
}

/// A folder whose gateway has an embedded store, and the file of the store.
struct Embedded {
    folder: Folder,
    file: String,
}

impl Embedded {
    fn new() -> Self {
        let folder = Folder::new();
        let file = folder.state().join("history.db").to_str().unwrap().to_owned();
        Self { folder, file }
    }

    fn set(&self, history: &str) {
        let gateway = format!("authentication: {{anonymous: {{}}}}, history: {history}");
        self.folder.write("manifests.yaml", &(guarded(&self.folder) + &object("MCPGateway", "main", &gateway)));
    }

    fn count(&self) -> usize {
        sqlite(&self.file, &["SELECT count(*) FROM calls"]).parse().unwrap()
    }

    /// Starts a gateway, and waits until one call is in the file.
    async fn with_a_call(&self) -> Gateway {
        let gateway = Gateway::start(&self.folder);
        tools_of(&gateway, &["raw"]).await;
        Http::new().call(&gateway.url(), "raw__args", &json!({}), &json!({})).await;
        until("the queue is empty", async || metric(&gateway, "hawsepipe_history_queue_length ").await == 0.0).await;
        gateway
    }

    /// Adds a copy of each row with another id and an earlier end.
    fn copy(&self, id: &str, ended_at: &str) {
        let columns = "request_id, plugin, chain, upstream, tool, method, session, principal, outcome, document";
        let copy = format!("INSERT INTO calls (id, ended_at, {columns}) SELECT {id}, {ended_at}, {columns} FROM calls");
        sqlite(&self.file, &[&copy]);
    }
}

#[tokio::test]
async fn an_embedded_store_keeps_rows_for_the_days_of_retention() {
    let embedded = Embedded::new();
    embedded.set("{retentionDays: 10, store: {embedded: {}}}");
    let gateway = embedded.with_a_call().await;
    embedded.copy("'two-days-old'", "ended_at - 2 * 86400000");
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(embedded.count(), 2, "ten days are kept");
    embedded.set("{retentionDays: 1, store: {embedded: {}}}");
    until("one day is kept", async || embedded.count() == 1).await;
    assert!(gateway.end().1);
}

#[tokio::test]
async fn an_embedded_store_removes_its_oldest_rows_before_it_is_full() {
    let embedded = Embedded::new();
    embedded.set("{store: {embedded: {}}}");
    assert!(embedded.with_a_call().await.end().1);
    for round in 0..12 {
        embedded.copy(&format!("id || '-{round}'"), "ended_at - 1000");
    }
    assert_eq!(embedded.count(), 4096);
    embedded.set("{store: {embedded: {maxSize: 1Mi}}}");
    let gateway = embedded.with_a_call().await;
    let used = "SELECT (page_count - freelist_count) * page_size < 1024 * 1024 FROM pragma_page_count, \
                pragma_freelist_count, pragma_page_size";
    until("it fits", async || sqlite(&embedded.file, &[used]) == "1").await;
    let newest = "SELECT count(*) FROM calls WHERE id NOT LIKE '%-%-%-%-%-%'";
    assert_eq!(sqlite(&embedded.file, &[newest]), "2", "the newest are kept");
    assert!(embedded.count() > 100);
    assert!(gateway.end().1);
}
