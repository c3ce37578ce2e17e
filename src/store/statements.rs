//! The statements over tables of records. They are the same in SQLite and in PostgreSQL.

use sqlx::AssertSqlSafe;

use super::insert::{Cell, Statement, Table};
use crate::domain::history::{Columns, HistoryQuery, HistoryRecord, Position, RecordKind};

/// Maximum length of a value that filters compare, in characters.
const MAX_VALUE: usize = 512;
const COLUMNS: &[&str] = &[
    "id",
    "ended_at",
    "request_id",
    "plugin",
    "chain",
    "upstream",
    "tool",
    "method",
    "session",
    "principal",
    "issuer",
    "identity",
    "outcome",
    "document",
];
static CALLS: Table = Table { name: "calls", columns: COLUMNS, is_keyed: true };
static EXECUTIONS: Table = Table { name: "executions", columns: COLUMNS, is_keyed: true };

/// Makes the row of a record. Returns `None` if the record cannot be written as JSON.
pub(super) fn row<R: HistoryRecord>(record: &R) -> Option<Vec<Cell>> {
    let Position { ended_at, id } = record.position();
    let Columns { request, plugins, chains, upstream, tool, method, session, principal, issuer, identity, outcome } =
        record.columns();
    let texts = [
        value(request),
        names(R::KIND, &plugins),
        names(R::KIND, &chains),
        value(upstream),
        value(tool),
        value(method),
        value(session),
        value(principal),
        value(issuer),
        value(identity),
        value(outcome),
        serde_json::to_string(record).ok()?,
    ];
    Some([id.into(), number(ended_at).into()].into_iter().chain(texts.map(Cell::from)).collect())
}

/// Returns a text as columns contain it.
fn value(text: &str) -> String {
    text.chars().take(MAX_VALUE).map(storable).collect()
}

/// PostgreSQL has no character 0.
pub(super) fn storable(c: char) -> char {
    if c == '\0' { char::REPLACEMENT_CHARACTER } else { c }
}

/// Returns names of objects as columns contain them. A call can have several; a space is before and after each of them.
fn names(kind: RecordKind, names: &[&str]) -> String {
    match kind {
        RecordKind::Executions => names.concat(),
        RecordKind::Calls => format!(" {} ", names.join(" ")),
    }
}

pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the table of a kind of records.
pub(super) fn table(kind: RecordKind) -> &'static Table {
    match kind {
        RecordKind::Calls => &CALLS,
        RecordKind::Executions => &EXECUTIONS,
    }
}

/// The conditions of a statement, and the values in them.
#[derive(Default)]
struct Conditions {
    sql: String,
    values: Vec<Bound>,
}

enum Bound {
    Text(String),
    Number(i64),
}

impl Conditions {
    /// Adds a condition. Each `?` in it stands for the next value.
    fn add(&mut self, condition: &str, values: impl IntoIterator<Item = Bound>) {
        self.sql.push_str(if self.sql.is_empty() { " WHERE " } else { " AND " });
        let mut parts = condition.split('?');
        self.sql.push_str(parts.next().unwrap_or_default());
        for (part, value) in parts.zip(values) {
            self.values.push(value);
            self.sql.push_str(&format!("${}{part}", self.values.len()));
        }
    }

    fn equal(&mut self, column: &str, wanted: Option<&String>) {
        if let Some(wanted) = wanted {
            self.add(&format!("{column} = ?"), [Bound::Text(value(wanted))]);
        }
    }

    /// Selects an object by its full name, or by its name in any namespace.
    fn named(&mut self, kind: RecordKind, column: &str, wanted: Option<&String>) {
        let Some(wanted) = wanted else { return };
        let name: String =
            wanted.chars().flat_map(|c| ['!', c].into_iter().skip(usize::from(!"!%_".contains(c)))).collect();
        let (column_is, patterns) = match kind {
            RecordKind::Executions if wanted.contains('/') => return self.equal(column, Some(wanted)),
            RecordKind::Executions => ("= ?", [wanted.clone(), format!("%/{name}")]),
            RecordKind::Calls => ("LIKE ? ESCAPE '!'", [format!("% {name} %"), format!("%/{name} %")]),
        };
        self.add(&format!("({column} {column_is} OR {column} LIKE ? ESCAPE '!')"), patterns.map(Bound::Text));
    }
}

/// Returns the statement that reads a page: for each record the time of its end, the id, and the record itself.
pub(super) fn select(kind: RecordKind, query: &HistoryQuery) -> Statement {
    let mut conditions = Conditions::default();
    let filter = &query.filter;
    if let Some(Position { ended_at, id }) = &query.after {
        conditions.add("(ended_at, id) < (?, ?)", [Bound::Number(number(*ended_at)), Bound::Text(value(id))]);
    }
    for (condition, time) in [("ended_at >= ?", filter.since), ("ended_at < ?", filter.until)] {
        time.into_iter().for_each(|time| conditions.add(condition, [Bound::Number(number(time))]));
    }
    conditions.named(kind, "plugin", filter.plugin.as_ref());
    conditions.named(kind, "chain", filter.chain.as_ref());
    if !filter.tool.is_empty() {
        let places = vec!["?"; filter.tool.len()].join(", ");
        conditions.add(&format!("tool IN ({places})"), filter.tool.iter().map(|tool| Bound::Text(value(tool))));
    }
    // The id of a call is that of its record, which has an index.
    let request = if kind == RecordKind::Calls { "id" } else { "request_id" };
    for (column, wanted) in [
        ("upstream", &filter.upstream),
        ("method", &filter.method),
        (request, &filter.request),
        ("session", &filter.session),
        ("principal", &filter.principal),
        ("issuer", &filter.issuer),
        ("identity", &filter.identity),
        ("outcome", &filter.outcome),
    ] {
        conditions.equal(column, wanted.as_ref());
    }
    let Conditions { sql, values } = conditions;
    let limit = values.len() + 1;
    let table = table(kind).name;
    let sql = format!("SELECT ended_at, id, document FROM {table}{sql} ORDER BY ended_at DESC, id DESC LIMIT ${limit}");
    let statement = values.into_iter().fold(sqlx::query(AssertSqlSafe(sql)), |statement, value| match value {
        Bound::Text(text) => statement.bind(text),
        Bound::Number(number) => statement.bind(number),
    });
    // One more row shows whether there is another page.
    statement.bind(number(query.limit as u64 + 1))
}
