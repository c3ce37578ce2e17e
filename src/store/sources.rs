//! The sources of runs of pipelines, as rows of a table. They are kept as long as calls.

use serde_json::Value;
use sqlx::AssertSqlSafe;

use super::statements::{Statement, number, places, storable};
use super::target::Dialect;
use crate::domain::history::HistoryRecord;
use crate::domain::record::{CallRecord, Payload, RunSources};

/// The maximum number of rows in one statement.
const ROWS: usize = 50;
const COLUMNS: [&str; 11] = [
    "id",
    "run_id",
    "request_id",
    "number",
    "fetched_at",
    "relevance_score",
    "url",
    "title",
    "domain",
    "source_type",
    "source_metadata",
];

/// Returns the statements that insert the sources of a record. A run whose answer was read before has its rows already.
pub(super) fn inserts(record: &CallRecord, dialect: Dialect) -> Vec<Statement> {
    let Some(RunSources { run, sources }) = &record.sources else { return Vec::new() };
    let sources = sources.iter().filter_map(|source| match source {
        Payload::Content(source) => serde_json::from_str::<Value>(source.get()).ok(),
        Payload::Omitted(_) => None,
    });
    let sources: Vec<_> = sources.collect();
    sources.chunks(ROWS).map(|sources| insert(record, run, sources, dialect)).collect()
}

fn insert(record: &CallRecord, run: &str, sources: &[Value], dialect: Dialect) -> Statement {
    let mut values = places(sources.len(), COLUMNS.len());
    if dialect == Dialect::Postgres {
        // The driver has no parameters of type JSONB.
        for row in 1..=sources.len() {
            let last = format!("${})", row * COLUMNS.len());
            values = values.replace(&last, &last.replace(')', "::jsonb)"));
        }
    }
    let columns = COLUMNS.join(", ");
    let sql = format!("INSERT INTO sources ({columns}) VALUES {values} ON CONFLICT (id) DO NOTHING");
    let statement = sqlx::query(AssertSqlSafe(sql)).persistent(false);
    sources.iter().fold(statement, |statement, source| {
        let text = |name: &str| source[name].as_str().map(|text| text.chars().map(storable).collect::<String>());
        let id = text("id").unwrap_or_default();
        let metadata = &source["sourceMetadata"];
        // JSONB cannot have the character 0.
        let json = metadata.is_object().then(|| metadata.to_string()).filter(|json| !json.contains("\\u0000"));
        statement
            .bind(format!("{run}/{id}"))
            .bind(run.to_owned())
            .bind(record.request_id.clone())
            .bind(id.parse::<i64>().ok())
            .bind(number(record.position().ended_at))
            .bind(metadata["relevanceScore"].as_f64())
            .bind(text("url"))
            .bind(text("title"))
            .bind(text("domain"))
            .bind(text("sourceType").unwrap_or_else(|| "web".to_owned()))
            .bind(json)
    })
}
