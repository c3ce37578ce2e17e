//! Lists of recorded calls and executions, once or as they grow.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

use super::admin::list_noted;
use super::args::{AdminArgs, RecordArgs};
use super::formats::{ListFormat, RecordFormat};
use super::gateway_pods::Sources;
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
    /// If no gateway answers in time, or one returns an error.
    pub async fn read(&self, sources: &mut Sources) -> anyhow::Result<Vec<Value>> {
        let limit = self.args.limit as usize;
        let wanted = if self.args.follow { limit.max(KEPT) } else { limit };
        let mut lists = sources.read(async |admin| self.newest(admin, wanted).await).await?;
        // A pod whose database is down has its own records only.
        if lists.iter().any(|(_, note)| note.is_some()) && sources.open_others().await? {
            lists = sources.read(async |admin| self.newest(admin, wanted).await).await?;
        }
        let mut notes: Vec<_> = lists.iter().filter_map(|(_, note)| note.as_deref()).collect();
        notes.dedup();
        notes.iter().for_each(|note| say(&format!("warning: {note}")));
        let mut items = self.merged(lists.into_iter().map(|(items, _)| items).collect());
        if !self.args.follow {
            items.truncate(limit);
        }
        Ok(items)
    }

    /// Prints the records, and with `--follow` also new ones.
    ///
    /// # Errors
    /// If no gateway can be read any longer, or standard output cannot be written.
    pub async fn print(&self, mut items: Vec<Value>, sources: &mut Sources) -> anyhow::Result<()> {
        if !self.args.follow {
            return self.print_once(&items);
        }
        let mut seen = PrintedRecords::default();
        seen.make_room(sources.count());
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
            sources.refresh().await?;
            seen.make_room(sources.count());
            let lists = sources.read(async |admin| self.unseen(admin, &seen).await).await?;
            items = self.merged(lists);
            items.retain(|record| seen.is_new(self.id_of(record)));
        }
    }

    fn id_of(&self, record: &Value) -> String {
        text(&record[self.id])
    }

    /// Merges lists of several gateways by the time at which the records ended, newest first. Gateways with one database
    /// list the same records.
    fn merged(&self, mut lists: Vec<Vec<Value>>) -> Vec<Value> {
        if lists.len() == 1 {
            return lists.remove(0);
        }
        let ended =
            |record: &Value| ["startedAt", "durationMs"].iter().filter_map(|it| record[*it].as_f64()).sum::<f64>();
        let mut ids = HashSet::new();
        let mut merged: Vec<_> = lists.into_iter().flatten().filter(|record| ids.insert(self.id_of(record))).collect();
        merged.sort_by(|a, b| ended(b).total_cmp(&ended(a)));
        merged
    }

    async fn newest(&self, admin: &AdminArgs, limit: usize) -> anyhow::Result<(Vec<Value>, Option<String>)> {
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
            ("issuer", args.issuer.as_deref()),
            ("identity", args.identity.as_deref()),
            ("since", since.as_deref()),
            ("until", until.as_deref()),
        ];
        query.extend(&self.filters);
        list_noted(admin, self.path, &query, limit).await
    }

    /// Returns the newest records, with all that were made since the last poll.
    async fn unseen(&self, admin: &AdminArgs, seen: &PrintedRecords) -> anyhow::Result<Vec<Value>> {
        let (records, _) = self.newest(admin, FEW).await?;
        if records.len() == FEW && records.iter().all(|record| !seen.ids.contains(&self.id_of(record))) {
            return Ok(self.newest(admin, KEPT).await?.0);
        }
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

/// The ids of the records that were listed most recently, at most four times [`KEPT`] for each gateway.
#[derive(Default)]
struct PrintedRecords {
    most: usize,
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl PrintedRecords {
    /// Makes room for the records of this many gateways.
    fn make_room(&mut self, gateways: usize) {
        self.most = self.most.max(4 * KEPT * gateways);
    }

    /// Remembers a record, and returns whether it is new.
    fn is_new(&mut self, id: String) -> bool {
        if !self.ids.insert(id.clone()) {
            return false;
        }
        self.order.push_back(id);
        while self.order.len() > self.most {
            self.order.pop_front().map(|oldest| self.ids.remove(&oldest));
        }
        true
    }
}
