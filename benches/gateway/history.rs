//! Pages of a history of 1,000,000 calls in a SQLite file: what the admin API takes to answer each.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use http::Uri;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client as HttpClient, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde_json::Value;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection};

use crate::aims::Aim;
use crate::cells::median;
use crate::child::Scratch;
use crate::client::{self, Client, Era};
use crate::{gateway, upstream};

pub const ROWS: u64 = 1_000_000;
const PAGE: usize = 100;
/// Pages of each kind that are read.
const PAGES: u64 = 200;
/// The most milliseconds that a page may take.
const AIM: f64 = 20.0;
/// How long the history may take until it shows the call that is multiplied.
const RECORDED: Duration = Duration::from_secs(10);

/// The results of the measurement.
#[derive(Serialize)]
pub struct Outcome {
    pub rows: Vec<Row>,
    pub aims: Vec<Aim>,
}

/// The times of one kind of pages, in milliseconds.
#[derive(Serialize)]
pub struct Row {
    pub pages: &'static str,
    pub p50_ms: f64,
    pub longest_ms: f64,
}

/// The admin API of a gateway.
struct Admin {
    client: HttpClient<HttpConnector, Full<Bytes>>,
    port: u16,
}

impl Admin {
    async fn page(&self, query: &str) -> Result<(Duration, Value)> {
        let uri: Uri = format!("http://127.0.0.1:{}/api/v1/calls?limit={PAGE}{query}", self.port).parse()?;
        let began = Instant::now();
        let answer = self.client.get(uri).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        let took = began.elapsed();
        ensure!(status.is_success(), "{status} {}", client::excerpt(&body));
        Ok((took, serde_json::from_slice(&body)?))
    }

    /// Reads the pages of these queries, each of which must be full.
    async fn read(&self, pages: &'static str, queries: impl Iterator<Item = String>) -> Result<Row> {
        let mut times = Vec::new();
        for query in queries {
            let (took, page) = self.page(&query).await?;
            let items = page["items"].as_array().map_or(0, Vec::len);
            ensure!(items == PAGE, "a page with{query} has {items} calls");
            times.push(took.as_secs_f64() * 1e3);
        }
        let longest_ms = times.iter().copied().fold(0.0, f64::max);
        Ok(Row { pages, p50_ms: median(times).context("no page was read")?, longest_ms })
    }
}

/// Records one call, multiplies its row, and reads pages from the newest to the oldest call.
pub async fn run() -> Result<Outcome> {
    let (scratch, era) = (Scratch::new("history")?, Era::Legacy);
    let (_upstream, at) = upstream::start(era)?;
    let history = "spec:\n  history: {store: {embedded: {maxSize: 8Gi}}}";
    let manifests = gateway::GATEWAY.replace("spec:", history) + &gateway::upstream_manifest(&at, era);
    let (process, endpoint, port) =
        gateway::start_with_admin(Path::new(gateway::BINARY), &scratch.write("history.yaml", &manifests)?)?;
    let admin = Admin { client: HttpClient::builder(TokioExecutor::new()).build_http(), port };
    let tool = client::wait_for_tool(&endpoint, era, "echo", Some(&process)).await?;
    let mut caller = Client::open(&endpoint, era).await?;
    let body = caller.call_body(1, &tool, r#"{"text":"a","nonce":"1"}"#);
    caller.call(&tool, body).await?;
    let newest = multiply(&admin, &scratch.path().join("history.state/history.db")).await?;
    eprintln!("{ROWS} calls in the history");
    let at = |page: u64| newest - page * (ROWS / PAGES);
    let rows = vec![
        admin.read("the newest", (0..PAGES).map(|_| String::new())).await?,
        admin.read("anywhere", (1..PAGES).map(|page| format!("&until={}", at(page)))).await?,
        admin
            .read("anywhere, of one outcome", (1..PAGES).map(|page| format!("&outcome=ok&until={}", at(page))))
            .await?,
    ];
    let found = rows.iter().map(|row| row.p50_ms).fold(0.0, f64::max);
    let what = format!("p50 of a page of {PAGE} of {ROWS} calls, in ms");
    Ok(Outcome { rows, aims: vec![Aim { what, found, aim: AIM, at_least: false }] })
}

/// Fills the table with copies of the one call in it, each a millisecond older than the one before. Returns when the
/// newest ended, in Unix milliseconds.
async fn multiply(admin: &Admin, database: &Path) -> Result<u64> {
    let mut connection = SqliteConnection::connect(&format!("sqlite:{}", database.display())).await?;
    let until = Instant::now() + RECORDED;
    let newest: i64 = loop {
        if let Some(time) = sqlx::query_scalar("SELECT max(ended_at) FROM calls").fetch_one(&mut connection).await? {
            break time;
        }
        ensure!(Instant::now() < until, "the call is not in {}", database.display());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let sql = format!(
        "WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < {ROWS}) \
         INSERT INTO calls SELECT id || '-' || n, ended_at - n, request_id || '-' || n, plugin, chain, upstream, tool, method, \
         session, principal, outcome, json_set(document, '$.requestId', request_id || '-' || n, \
         '$.startedAt', ended_at - n, '$.durationMs', 0.5) FROM (SELECT * FROM calls LIMIT 1), copies"
    );
    sqlx::query(AssertSqlSafe(sql)).execute(&mut connection).await?;
    connection.close().await?;
    admin.page("").await?;
    Ok(newest.unsigned_abs())
}
