//! Queries over the records of calls and executions.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::value::RawValue;

use super::record::{CallRecord, EntryOutcome, Payload, PluginExecution};

/// A kind of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Records of calls.
    Calls,
    /// Records of plugin executions.
    Executions,
}

/// The place of a record in its list. Records are listed by the time at which they ended, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// When the call or the execution ended, in Unix milliseconds.
    pub ended_at: u64,
    /// The id of the record.
    pub id: String,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.ended_at, self.id)
    }
}

impl FromStr for Position {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (ended_at, id) = text.split_once('.').ok_or(())?;
        Ok(Self { ended_at: ended_at.parse().map_err(drop)?, id: id.to_owned() })
    }
}

/// The records that a query selects. A filter that is `None` selects all.
#[derive(Clone, Debug, Default)]
pub struct HistoryFilter {
    /// A plugin that ran, as `namespace/name` or by name alone.
    pub plugin: Option<String>,
    /// A chain of such a plugin, as `namespace/name` or by name alone.
    pub chain: Option<String>,
    /// The name of the upstream.
    pub upstream: Option<String>,
    /// The spellings of the tool, prompt or resource. Empty selects all.
    pub tool: Vec<String>,
    /// The method.
    pub method: Option<String>,
    /// The id of the call.
    pub request: Option<String>,
    /// The first characters of the session's id, as lists of sessions show them.
    pub session: Option<String>,
    /// The principal of the caller.
    pub principal: Option<String>,
    /// The issuer of the caller's token.
    pub issuer: Option<String>,
    /// The method that has proved the caller's identity.
    pub identity: Option<String>,
    /// The outcome of the call, or the status of the execution.
    pub outcome: Option<String>,
    /// The earliest end, in Unix milliseconds.
    pub since: Option<u64>,
    /// The end before which records are selected, in Unix milliseconds.
    pub until: Option<u64>,
}

/// A request for one page of records.
#[derive(Clone, Debug)]
pub struct HistoryQuery {
    /// The records to select.
    pub filter: HistoryFilter,
    /// The last position of the previous page; `None` for the first page.
    pub after: Option<Position>,
    /// The maximum number of records.
    pub limit: usize,
}

/// One page of records, the newest first.
#[derive(Debug, Default)]
pub struct HistoryPage {
    /// The records as JSON objects.
    pub items: Vec<Box<RawValue>>,
    /// The position to continue after; `None` on the last page.
    pub next: Option<Position>,
    /// Why older records can be missing; `None` if none is.
    pub incomplete: Option<String>,
}

/// What filters compare.
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    /// The id of the call.
    pub request: &'a str,
    /// The plugins that ran.
    pub plugins: Vec<&'a str>,
    /// The chains of these plugins.
    pub chains: Vec<&'a str>,
    /// The name of the upstream.
    pub upstream: &'a str,
    /// The name of the tool or the prompt, or the URI of the resource.
    pub tool: &'a str,
    /// The method.
    pub method: &'static str,
    /// The first characters of the session's id; empty without a session.
    pub session: &'a str,
    /// The principal of the caller.
    pub principal: &'a str,
    /// The issuer of the caller's token; empty without one.
    pub issuer: &'a str,
    /// The method that has proved the caller's identity.
    pub identity: &'static str,
    /// The outcome or the status.
    pub outcome: &'static str,
}

/// Returns the first 8 characters of a session's id: enough to identify the session, too few to use it.
pub fn session_name(id: &str) -> String {
    id.chars().take(8).collect()
}

/// A record that lists show.
pub trait HistoryRecord: Serialize {
    /// The kind of the record.
    const KIND: RecordKind;

    /// Returns the record's place in its list.
    fn position(&self) -> Position;

    /// Returns the values that filters compare.
    fn columns(&self) -> Columns<'_>;

    /// Returns about how many bytes the record has.
    fn size(&self) -> usize;
}

/// About how many bytes a record has besides its longest texts.
const BASE_SIZE: usize = 1024;

impl HistoryRecord for CallRecord {
    const KIND: RecordKind = RecordKind::Calls;

    fn position(&self) -> Position {
        Position { ended_at: end(self.started_at, self.duration_ms), id: self.request_id.clone() }
    }

    fn columns(&self) -> Columns<'_> {
        let ran = || self.entries.iter().filter(|entry| !matches!(entry.outcome, EntryOutcome::Skipped(_)));
        Columns {
            request: &self.request_id,
            plugins: ran().map(|entry| &*entry.plugin).collect(),
            chains: ran().map(|entry| &*entry.chain).collect(),
            upstream: &self.upstream,
            tool: &self.tool,
            method: self.method.as_str(),
            session: &self.session,
            principal: &self.principal,
            issuer: &self.user.issuer,
            identity: self.user.method.as_str(),
            outcome: self.outcome.as_label(),
        }
    }

    fn size(&self) -> usize {
        let entries = self.entries.iter().map(|entry| {
            BASE_SIZE / 4 + length(entry.error.as_ref()) + entry.metadata.as_ref().map_or(0, |raw| raw.get().len())
        });
        let sources = self.sources.iter().flat_map(|run| &run.sources);
        let payloads = self.arguments.iter().chain(&self.answer).chain(sources).map(Payload::size);
        BASE_SIZE + self.tool.len() + length(self.reason.as_ref()) + entries.chain(payloads).sum::<usize>()
    }
}

impl HistoryRecord for PluginExecution {
    const KIND: RecordKind = RecordKind::Executions;

    fn position(&self) -> Position {
        Position { ended_at: end(self.started_at, self.duration_ms), id: self.id.clone() }
    }

    fn columns(&self) -> Columns<'_> {
        Columns {
            request: &self.request_id,
            plugins: vec![&self.plugin],
            chains: vec![&self.chain_id],
            upstream: &self.upstream,
            tool: &self.tool,
            method: self.method.as_str(),
            session: &self.session,
            principal: &self.principal,
            issuer: &self.user.issuer,
            identity: self.user.method.as_str(),
            outcome: self.status.as_str(),
        }
    }

    fn size(&self) -> usize {
        BASE_SIZE + self.tool.len() + length(self.error_message.as_ref()) + length(self.when.as_ref())
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "durations are not negative")]
fn end(started_at: u64, duration_ms: f64) -> u64 {
    started_at.saturating_add(duration_ms as u64)
}

fn length(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

impl HistoryQuery {
    /// Whether the page can have this record.
    pub fn admits(&self, position: &Position, columns: &Columns<'_>) -> bool {
        let filter = &self.filter;
        let fits = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let has = |wanted: &Option<String>, names: &[&str]| {
            wanted.as_deref().is_none_or(|wanted| names.iter().any(|name| is_named(name, wanted)))
        };
        self.after.as_ref().is_none_or(|after| position < after)
            && filter.since.is_none_or(|since| position.ended_at >= since)
            && filter.until.is_none_or(|until| position.ended_at < until)
            && (filter.tool.is_empty() || filter.tool.iter().any(|tool| tool == columns.tool))
            && has(&filter.plugin, &columns.plugins)
            && has(&filter.chain, &columns.chains)
            && fits(&filter.upstream, columns.upstream)
            && fits(&filter.method, columns.method)
            && fits(&filter.request, columns.request)
            && fits(&filter.session, columns.session)
            && fits(&filter.principal, columns.principal)
            && fits(&filter.issuer, columns.issuer)
            && fits(&filter.identity, columns.identity)
            && fits(&filter.outcome, columns.outcome)
    }
}

/// Whether `object`, given as `namespace/name`, has this full or bare name.
pub fn is_named(object: &str, name: &str) -> bool {
    object == name || object.rsplit('/').next() == Some(name)
}

impl HistoryPage {
    /// Makes a page of at most `limit` records out of records from several places, which can have the same ones.
    pub fn merge(mut found: Vec<(Position, Box<RawValue>)>, limit: usize) -> Self {
        found.sort_by(|(a, _), (b, _)| b.cmp(a));
        found.dedup_by(|(a, _), (b, _)| a == b);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|(position, _)| position.clone());
        Self { items: found.into_iter().map(|(_, item)| item).collect(), next, incomplete: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_a_position() {
        let position = Position { ended_at: 12, id: "a-b".into() };
        assert_eq!(position.to_string().parse(), Ok(position));
        assert!("a.b".parse::<Position>().is_err() && "12".parse::<Position>().is_err());
    }

    #[test]
    fn a_page_has_each_record_once_and_the_newest_first() {
        let row = |ended_at, id: &str| {
            (Position { ended_at, id: id.into() }, RawValue::from_string(format!("{ended_at}")).unwrap())
        };
        let page = HistoryPage::merge(vec![row(1, "a"), row(3, "b"), row(2, "c"), row(3, "b")], 2);
        assert_eq!(page.items.iter().map(|item| item.get()).collect::<Vec<_>>(), ["3", "2"]);
        assert_eq!(page.next, Some(Position { ended_at: 2, id: "c".into() }));
        assert_eq!(HistoryPage::merge(vec![row(1, "a")], 1).next, None);
    }
}
