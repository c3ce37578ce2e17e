//! Lists of recorded calls and executions, once or as they grow.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

use super::admin::list_noted;
use super::args::RecordArgs;
use super::formats::{ListFormat, RecordFormat};
use super::output::{Column, is_read, print_list, rows, say, text};

/// With `--follow`: the pause between two polls.
const EVERY: Duration = Duration::from_millis(300);
/// The number of records that every gateway keeps, at least. If more records are made between two polls, some are not
/// printed.
const KEPT: usize = 1000;
/// How many records a poll requests first. If all these records are new, the poll then requests [`KEPT`] records.
const FEW: usize = 20;

/// A list of records in the admin API.
pub struct RecordList<'a> {
    pub args: &'a RecordArgs,
    /// The path of the list.
    pub path: &'static str,
    /// The member that identifies a record.
    pub id: &'static str,
    /// The filters that `args` does not have.
    pub filters: Vec<(&'static str, Option<&'a str>)>,
    pub columns: Vec<Column>,
}

impl RecordList<'_> {
    /// Returns the newest records, as many as the arguments limit them to, or more to follow. Warns if older records can
    /// be missing.
    ///
    /// # Errors
    /// If the gateway does not answer in time or returns an error.
    pub async fn read(&self) -> anyhow::Result<Vec<Value>> {
        let limit = self.args.limit as usize;
        let (items, note) = self.newest(if self.args.follow { limit.max(KEPT) } else { limit }).await?;
        note.iter().for_each(|note| say(&format!("warning: {note}")));
        Ok(items)
    }

    /// Prints the records, and with `--follow` also new ones.
    ///
    /// # Errors
    /// If the gateway cannot be read any longer, or standard output cannot be written.
    pub async fn print(&self, mut items: Vec<Value>) -> anyhow::Result<()> {
        if !self.args.follow {
            return self.print_once(&items);
        }
        let mut seen = PrintedRecords::default();
        items.retain(|record| seen.is_new(self.id_of(record)));
        items.truncate(self.args.limit as usize);
        let mut heading = true;
        loop {
            // The oldest record is printed first, so that newer ones follow below.
            items.reverse();
            if !self.print_more(&items, heading)? {
                return Ok(());
            }
            heading = false;
            tokio::time::sleep(EVERY).await;
            items = self.unseen(&mut seen).await?;
        }
    }

    fn id_of(&self, record: &Value) -> String {
        text(&record[self.id])
    }

    async fn newest(&self, limit: usize) -> anyhow::Result<(Vec<Value>, Option<String>)> {
        let args = self.args;
        let [since, until] = [args.since, args.until].map(|time| time.map(|time| time.to_string()));
        let mut query = vec![
            ("plugin", args.plugin.as_deref()),
            ("chain", args.chain.as_deref()),
            ("upstream", args.upstream.as_deref()),
            ("tool", args.tool.as_deref()),
            ("request", args.request.as_deref()),
            ("session", args.session.as_deref()),
            ("principal", args.principal.as_deref()),
            ("since", since.as_deref()),
            ("until", until.as_deref()),
        ];
        query.extend(&self.filters);
        list_noted(&args.admin, self.path, &query, limit).await
    }

    /// Returns the records that were made since the last poll, newest first.
    async fn unseen(&self, seen: &mut PrintedRecords) -> anyhow::Result<Vec<Value>> {
        let (mut records, _) = self.newest(FEW).await?;
        if records.len() == FEW && records.iter().all(|record| !seen.ids.contains(&self.id_of(record))) {
            records = self.newest(KEPT).await?.0;
        }
        records.retain(|record| seen.is_new(self.id_of(record)));
        Ok(records)
    }

    fn print_once(&self, items: &[Value]) -> anyhow::Result<()> {
        match self.args.output.of_list() {
            Some(format) => print_list(format, &json!({"items": items}), items, &self.columns),
            None => lines(items).map(drop),
        }
    }

    /// Prints new records, and returns whether standard output is still open.
    fn print_more(&self, items: &[Value], heading: bool) -> anyhow::Result<bool> {
        if items.is_empty() && !heading {
            return Ok(true);
        }
        match self.args.output.of_list() {
            // One document for each record, so that programs can read the output as a stream.
            None | Some(ListFormat::Json) => lines(items),
            Some(ListFormat::Yaml) => items.iter().try_fold(true, |read, item| {
                Ok(is_read(&format!("---\n{}\n", serde_saphyr::to_string(item)?.trim_end()))? && read)
            }),
            Some(format) => is_read(&rows(format, items, &self.columns, heading)),
        }
    }
}

/// Prints each record as JSON on a line of its own, and returns whether standard output is still open.
fn lines(items: &[Value]) -> anyhow::Result<bool> {
    items.iter().try_fold(true, |read, item| Ok(is_read(&format!("{item}\n"))? && read))
}

impl RecordFormat {
    /// Returns the format of a list; `None` for JSON lines.
    fn of_list(self) -> Option<ListFormat> {
        match self {
            Self::Table => Some(ListFormat::Table),
            Self::Wide => Some(ListFormat::Wide),
            Self::Json => Some(ListFormat::Json),
            Self::Yaml => Some(ListFormat::Yaml),
            Self::Jsonl => None,
        }
    }
}

/// The ids of the records that were listed most recently, at most four times [`KEPT`].
#[derive(Default)]
struct PrintedRecords {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl PrintedRecords {
    /// Remembers a record, and returns whether it is new.
    fn is_new(&mut self, id: String) -> bool {
        if !self.ids.insert(id.clone()) {
            return false;
        }
        self.order.push_back(id);
        while self.order.len() > 4 * KEPT {
            self.order.pop_front().map(|oldest| self.ids.remove(&oldest));
        }
        true
    }
}
