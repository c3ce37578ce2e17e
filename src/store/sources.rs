//! The sources of runs of pipelines, as rows of a table. They are kept as long as calls.

use serde_json::Value;

use super::insert::{Cell, Insert, Table};
use super::statements::{number, storable};
use crate::domain::history::HistoryRecord;
use crate::domain::record::{CallRecord, Payload, RunSources};

static TABLE: Table = Table {
    name: "sources",
    columns: &[
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
    ],
    // A run whose answer was read before has its rows already.
    is_keyed: true,
};

/// Returns the sources of records as rows.
pub(super) fn insert<'a>(records: impl Iterator<Item = &'a CallRecord>) -> Insert {
    Insert { table: &TABLE, rows: records.flat_map(rows).collect() }
}

fn rows(record: &CallRecord) -> Vec<Vec<Cell>> {
    let Some(RunSources { run, sources }) = &record.sources else { return Vec::new() };
    let sources = sources.iter().filter_map(|source| match source {
        Payload::Content(source) => serde_json::from_str::<Value>(source.get()).ok(),
        Payload::Omitted(_) => None,
    });
    sources.map(|source| row(record, run, &source)).collect()
}

fn row(record: &CallRecord, run: &str, source: &Value) -> Vec<Cell> {
    let text = |name: &str| source[name].as_str().map(|text| text.chars().map(storable).collect::<String>());
    let id = text("id").unwrap_or_default();
    let metadata = &source["sourceMetadata"];
    // JSONB cannot have the character 0.
    let json = metadata.is_object().then(|| metadata.to_string()).filter(|json| !json.contains("\\u0000"));
    vec![
        format!("{run}/{id}").into(),
        run.to_owned().into(),
        record.request_id.clone().into(),
        Cell::Number(id.parse().ok()),
        number(record.position().ended_at).into(),
        Cell::Real(metadata["relevanceScore"].as_f64()),
        Cell::Text(text("url")),
        Cell::Text(text("title")),
        Cell::Text(text("domain")),
        text("sourceType").unwrap_or_else(|| "web".to_owned()).into(),
        Cell::Json(json),
    ]
}
