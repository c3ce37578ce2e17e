//! `hawsepipe audit`: verifies and prints the audit trail of a store.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::formats::ListFormat;
use super::output::print_line;
use super::store_arg::StoreArg;
use super::unfinished::unfinished;
use crate::domain::identity::IdentityMethod;
use crate::domain::quoted::Quoted;
use crate::store::{AuditReader, StoreTarget, StoredAuditRow};
use crate::transport::issuer::{exchange, place};

/// `hawsepipe audit`.
#[derive(Args, Debug)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Subcommand, Debug)]
enum AuditCommand {
    /// Check that no row was changed, added or removed
    ///
    /// A gateway process writes one chain of rows, each with the hash of the row before it. Gateways log the head of their
    /// chain (number and hash) once a minute and at their end. Give one with --head to check that the end of its chain was
    /// not removed.
    #[command(after_help = "Examples:\n  hawsepipe audit verify --store history.db\n  hawsepipe audit verify --store \
                            postgres://reader:PASSWORD@db/history --head gateway-7c9d:1042:5f0c...")]
    Verify {
        #[command(flatten)]
        store: AuditStore,
        /// A head from the log of a gateway, as CHAIN:NUMBER:HASH
        #[arg(long, value_name = "HEAD")]
        head: Vec<String>,
    },
    /// Print all rows as JSON lines, or send them to a collector
    #[command(
        after_help = "Examples:\n  hawsepipe audit export --store history.db > audit.jsonl\n  hawsepipe audit export --store history.db \
                            --kind admin\n  hawsepipe audit export \
                            --store history.db --otlp http://collector:4318/v1/logs"
    )]
    Export {
        #[command(flatten)]
        store: AuditStore,
        #[command(flatten)]
        rows: RowArgs,
        /// Send the rows to this URL as OTLP logs (JSON over HTTP) instead of printing them
        #[arg(long, value_name = "URL")]
        otlp: Option<String>,
    },
    /// List the calls that began and have no end
    ///
    /// Such a call was possibly carried out, and nothing is known of its answer: its gateway was killed, or could not store the
    /// row of the end. Calls that are in flight are listed too.
    #[command(
        after_help = "Examples:\n  hawsepipe audit unfinished --store history.db\n  hawsepipe audit unfinished --store \
                            history.db -o json | jq -r '.items[].requestId'"
    )]
    Unfinished {
        #[command(flatten)]
        store: AuditStore,
        /// Output format
        #[arg(short, long, value_enum, default_value_t = ListFormat::Table)]
        output: ListFormat,
    },
}

/// The rows that are exported.
#[derive(Args, Debug)]
struct RowArgs {
    /// Only rows of this kind
    #[arg(long, value_name = "KIND", value_parser = ["begin", "end", "admin"])]
    kind: Option<String>,
    /// Only rows about this principal
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only rows about callers with a token of this issuer
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// Only rows about callers whose identity this method has proved
    #[arg(long, value_name = "METHOD", value_parser = PossibleValuesParser::new(IdentityMethod::ALL.map(IdentityMethod::as_str)))]
    identity: Option<String>,
}

impl RowArgs {
    /// Whether a row is exported.
    fn admit(&self, document: &str) -> bool {
        if [&self.kind, &self.principal, &self.issuer, &self.identity].iter().all(|wanted| wanted.is_none()) {
            return true;
        }
        let row: Value = serde_json::from_str(document).unwrap_or_default();
        let is_admin = row["kind"] == "admin";
        let principal = if is_admin { &row["by"] } else { &row["principal"] };
        let user = if is_admin { &row } else { &row["user"] };
        [
            (&self.kind, &row["kind"]),
            (&self.principal, principal),
            (&self.issuer, &user["issuer"]),
            (&self.identity, &user["method"]),
        ]
        .iter()
        .all(|(wanted, found)| wanted.as_deref().is_none_or(|wanted| **found == wanted))
    }
}

#[derive(Args, Debug)]
struct AuditStore {
    /// The store: PATH, sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(long, value_name = "STORE", env = "HAWSEPIPE_STORE", hide_env_values = true)]
    store: StoreArg,
}

pub async fn audit(args: AuditArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        AuditCommand::Verify { store, head } => verify(store.store.existing()?, &head).await,
        AuditCommand::Unfinished { store, output } => unfinished(store.store.existing()?, output).await,
        AuditCommand::Export { store, rows, otlp: None } => export(store.store.existing()?, &rows).await,
        AuditCommand::Export { store, rows, otlp: Some(url) } => send(store.store.existing()?, &rows, &url).await,
    }
}

async fn verify(store: StoreTarget, heads: &[String]) -> anyhow::Result<ExitCode> {
    let heads = heads.iter().map(|head| parse_head(head)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut missing: Vec<_> = heads.clone();
    let mut reader = AuditReader::new(store.clone())?;
    let mut out = std::io::stdout().lock();
    let (mut is_whole, mut rows) = (true, 0);
    let chains = reader.verify().await?;
    for chain in &chains {
        let (first, last) = (chain.first, chain.head.sequence);
        rows += (last + 1).saturating_sub(first);
        match &chain.broken {
            None => writeln!(out, "{}: rows {first} to {last}, head {}", chain.head.chain, chain.head.hash)?,
            Some(why) => {
                is_whole = false;
                writeln!(out, "{}: BROKEN: {why}", chain.head.chain)?;
            }
        }
    }
    if !missing.is_empty() {
        let mut reader = AuditReader::new(store)?;
        loop {
            let found = reader.next().await?;
            if found.is_empty() {
                break;
            }
            missing.retain(|(chain, sequence, hash)| {
                !found.iter().any(|row| row.chain == *chain && row.sequence == *sequence && row.hash == *hash)
            });
        }
    }
    for (chain, sequence, _) in &missing {
        is_whole = false;
        writeln!(out, "{chain}: BROKEN: row {sequence} with the hash of --head is not in the store")?;
    }
    let word = if is_whole { "verified" } else { "not verified" };
    writeln!(out, "{word}: {} chains, {rows} rows", chains.len())?;
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse_head(head: &str) -> anyhow::Result<(String, u64, String)> {
    let parsed = head.rsplit_once(':').and_then(|(rest, hash)| Some((rest.rsplit_once(':')?, hash)));
    let form = || format!("--head {head}: expected CHAIN:NUMBER:HASH");
    let ((chain, sequence), hash) = parsed.with_context(form)?;
    Ok((chain.to_owned(), sequence.parse().with_context(form)?, hash.to_owned()))
}

async fn export(store: StoreTarget, wanted: &RowArgs) -> anyhow::Result<ExitCode> {
    let mut reader = AuditReader::new(store)?;
    let mut out = std::io::stdout().lock();
    loop {
        let rows = reader.next().await?;
        if rows.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        for row in rows.iter().filter(|row| wanted.admit(&row.document)) {
            let (chain, hash) = (serde_json::to_string(&row.chain)?, serde_json::to_string(&row.hash)?);
            // The row is printed as it was hashed.
            writeln!(
                out,
                "{{\"chain\":{chain},\"sequence\":{},\"hash\":{hash},\"row\":{}}}",
                row.sequence, row.document
            )?;
        }
    }
}

/// Sends all rows as OTLP logs, a page of the store at a time. A collector that fails ends it; the rows before that are sent.
async fn send(store: StoreTarget, wanted: &RowArgs, url: &str) -> anyhow::Result<ExitCode> {
    let mut reader = AuditReader::new(store)?;
    let mut sent = 0;
    loop {
        let mut rows = reader.next().await?;
        if rows.is_empty() {
            print_line(&format!("sent {sent} rows to {}", place(url)))?;
            return Ok(ExitCode::SUCCESS);
        }
        rows.retain(|row| wanted.admit(&row.document));
        if rows.is_empty() {
            continue;
        }
        let mut request = Request::new(Full::from(logs(&rows).to_string()));
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (status, body) =
            exchange(url, request, None).await.map_err(|why| anyhow::anyhow!("{why}; sent {sent} rows"))?;
        let partial: Value = serde_json::from_slice(&body).unwrap_or_default();
        let partial = &partial["partialSuccess"];
        let rejected = partial["rejectedLogRecords"].as_str().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        if status != StatusCode::OK || rejected > 0 {
            let said = partial["errorMessage"].as_str().map(|said| format!(" and says {}", Quoted(said, 200)));
            let said = said.unwrap_or_default();
            bail!(
                "{}: the answer is {status}, rejects {rejected} rows{said}; {sent} rows were sent before. Give the URL of \
                 OTLP logs over HTTP, which ends with /v1/logs by default",
                place(url)
            );
        }
        sent += rows.len();
    }
}

/// Returns rows as a request of OTLP (OpenTelemetry protocol, "OTLP/HTTP", JSON encoding). The body of a record is the row as it
/// was hashed.
fn logs(rows: &[StoredAuditRow]) -> Value {
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let record = |row: &StoredAuditRow| {
        json!({
            "timeUnixNano": format!("{}000000", row.stored_at),
            "severityNumber": 9,
            "eventName": "hawsepipe.audit",
            "body": {"stringValue": row.document},
            "attributes": [
                text("hawsepipe.audit.chain", &row.chain),
                {"key": "hawsepipe.audit.sequence", "value": {"intValue": row.sequence.to_string()}},
                text("hawsepipe.audit.hash", &row.hash),
                text("hawsepipe.audit.previous", &row.previous),
            ],
        })
    };
    let records: Vec<_> = rows.iter().map(record).collect();
    json!({"resourceLogs": [{
        "resource": {"attributes": [text("service.name", "hawsepipe")]},
        "scopeLogs": [{"scope": {"name": "hawsepipe.audit", "version": env!("CARGO_PKG_VERSION")}, "logRecords": records}],
    }]})
}
