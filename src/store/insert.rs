//! Rows that are added to a table, in SQLite and in PostgreSQL.

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use sqlx::any::AnyArguments;
use sqlx::query::Query;
use sqlx::{Any, AssertSqlSafe};

/// The maximum number of rows in one statement of PostgreSQL.
const ROWS: usize = 50;

pub(super) type Statement = Query<'static, Any, AnyArguments>;

/// A value of a row; `None` is `NULL`.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Number(Option<i64>),
    Real(Option<f64>),
    Text(Option<String>),
    /// JSON as text, which PostgreSQL stores as `JSONB`.
    Json(Option<String>),
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Number(number) => number.map(ValueRef::Integer),
            Self::Real(number) => number.map(ValueRef::Real),
            Self::Text(text) | Self::Json(text) => text.as_ref().map(|text| ValueRef::Text(text.as_bytes())),
        };
        Ok(ToSqlOutput::Borrowed(value.unwrap_or(ValueRef::Null)))
    }
}

/// A table, and the columns of it that are written.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [&'static str],
    /// Whether rows whose `id` the table has already are left out: it is not known of a failed statement whether it was executed.
    pub(super) is_keyed: bool,
}

/// Rows for a table. Each has a value for each column.
pub(super) struct Insert {
    pub(super) table: &'static Table,
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Insert {
    /// Returns the statement that adds one row to a SQLite table.
    pub(super) fn sql(&self) -> String {
        let places: Vec<_> = (1..=self.table.columns.len()).map(|place| format!("${place}")).collect();
        self.sql_of(&format!("({})", places.join(", ")))
    }

    /// Returns the statements that add the rows to a PostgreSQL table.
    pub(super) fn statements(self) -> Vec<Statement> {
        self.rows.chunks(ROWS).map(|rows| self.statement(rows)).collect()
    }

    fn statement(&self, rows: &[Vec<Cell>]) -> Statement {
        let mut place = 0;
        let places = rows.iter().map(|row| {
            let places = row.iter().map(|cell| {
                place += 1;
                // The driver has no parameters of type JSONB.
                format!("${place}{}", if matches!(cell, Cell::Json(_)) { "::jsonb" } else { "" })
            });
            format!("({})", places.collect::<Vec<_>>().join(", "))
        });
        let sql = self.sql_of(&places.collect::<Vec<_>>().join(", "));
        let statement = sqlx::query(AssertSqlSafe(sql)).persistent(rows.len() == 1);
        rows.iter().flatten().cloned().fold(statement, |statement, cell| match cell {
            Cell::Number(number) => statement.bind(number),
            Cell::Real(number) => statement.bind(number),
            Cell::Text(text) | Cell::Json(text) => statement.bind(text),
        })
    }

    fn sql_of(&self, values: &str) -> String {
        let Table { name, columns, is_keyed } = self.table;
        let conflict = if *is_keyed { " ON CONFLICT (id) DO NOTHING" } else { "" };
        format!("INSERT INTO {name} ({}) VALUES {values}{conflict}", columns.join(", "))
    }
}
