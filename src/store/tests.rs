//! The store in memory and with databases.

use std::time::Duration;

use futures_util::FutureExt;

use super::connections::Connections;
use super::file::{Checked, check};
use super::insert::Insert;
use super::memory::MemoryRecords;
use super::writer::gather;
use super::*;
use crate::domain::history::HistoryFilter;
use crate::domain::identity::User;
use crate::domain::method::Method;
use crate::domain::plugin::{Mode, Phase};
use crate::domain::reason::Reason;
use crate::domain::record::{CallOutcome, EntryOutcome, EntryTrace, ExecutionStatus};

fn row(plugin: &str, n: u64) -> PluginExecution {
    PluginExecution {
        id: format!("{n:04}"),
        request_id: "r".into(),
        plugin_id: format!("id-{plugin}"),
        plugin: format!("default/{plugin}"),
        chain_id: "default/c".into(),
        started_at: n,
        duration_ms: 1.0,
        queue_ms: 0.0,
        run_ms: 1.0,
        status: ExecutionStatus::Success,
        reason: None,
        input_size_bytes: 1,
        output_size_bytes: Some(1),
        error_message: None,
        error_text: None,
        when: None,
        changed: false,
        method: Method::CallTool,
        phase: Some(Phase::Request),
        mode: Mode::Enforce,
        plugin_revision: String::new(),
        chain_revision: String::new(),
        upstream: "u".into(),
        tool: "t".into(),
        principal: "anonymous".into(),
        user: User::default(),
        session: String::new(),
        worker_pid: None,
    }
}

fn call() -> CallRecord {
    CallRecord {
        method: Method::CallTool,
        request_id: "r".into(),
        within: None,
        started_at: 1,
        duration_ms: 1.0,
        upstream_ms: None,
        retries: 0,
        plugin_ms: 0.0,
        upstream: "u".into(),
        tool: "t".into(),
        era: "modern",
        principal: "anonymous".into(),
        user: User::default(),
        session: String::new(),
        outcome: CallOutcome::Ok,
        reason: None,
        rule: None,
        entries: Vec::new(),
        arguments: None,
        answer: None,
        sources: None,
    }
}

fn query(filter: HistoryFilter, limit: usize) -> HistoryQuery {
    HistoryQuery { filter, after: None, limit }
}

fn of_plugin(plugin: Option<&str>) -> HistoryQuery {
    query(HistoryFilter { plugin: plugin.map(str::to_owned), ..HistoryFilter::default() }, 10)
}

/// The ids of the executions in memory that a query selects.
fn ids(records: &MemoryRecords, plugin: Option<&str>) -> Vec<String> {
    records.list(RecordKind::Executions, &of_plugin(plugin)).into_iter().map(|(position, _)| position.id).collect()
}

#[test]
fn keeps_the_newest_of_each_plugin() {
    let records = MemoryRecords::new(2);
    (0..5).for_each(|n| records.execution(Arc::new(row("a", n))));
    records.execution(Arc::new(row("b", 1)));
    assert_eq!(ids(&records, Some("a")), ["0004", "0003"]);
    assert_eq!(ids(&records, Some("default/b")), ["0001"]);
    assert_eq!(ids(&records, None), ["0004", "0003", "0001"]);
    assert_eq!(records.dropped(), [3, 0]);
}

#[test]
fn executions_that_failed_of_late_are_counted_with_the_last_reason() {
    let records = MemoryRecords::new(10);
    let failed = |n, status, reason| PluginExecution { status, reason: Some(reason), ..row("a", n) };
    for row in [
        failed(1, ExecutionStatus::Failed, Reason::PluginError),
        failed(3, ExecutionStatus::Failed, Reason::PluginError),
        // It began before the one that ended first.
        failed(2, ExecutionStatus::Timeout, Reason::Timeout),
        PluginExecution { status: ExecutionStatus::Denied, ..row("a", 4) },
        row("a", 5),
        failed(9, ExecutionStatus::Failed, Reason::PluginError),
    ] {
        records.execution(Arc::new(row));
    }
    records.execution(Arc::new(row("b", 9)));
    let recent =
        |failed, executions, last_reason, last_at| Some(RecentFailures { failed, executions, last_reason, last_at });
    assert_eq!(records.failures("id-a", 2), recent(3, 5, Reason::PluginError, 9));
    assert_eq!(records.failures("id-a", 10), None);
    assert_eq!(records.failures("id-b", 0), None, "it did not fail");
    assert_eq!(records.failures("id-c", 0), None);
}

#[test]
fn rows_of_plugins_beyond_the_bound_are_counted_as_dropped() {
    let records = MemoryRecords::new(2);
    (0..=1000).for_each(|n| records.execution(Arc::new(row(&n.to_string(), n))));
    assert!(ids(&records, Some("0")).is_empty());
    assert_eq!(records.dropped()[0], 1);
}

#[test]
fn a_list_that_reads_one_plugin_s_rows_holds_up_no_other() {
    let records = MemoryRecords::new(2);
    records.execution(Arc::new(row("a", 1)));
    let ring = records.ring("id-a");
    let read = ring.rows();
    // With one lock for all rings, this would wait forever.
    records.execution(Arc::new(row("b", 2)));
    records.call(Arc::new(call()));
    let calls = records.list(RecordKind::Calls, &of_plugin(None)).len();
    assert_eq!((read.len(), calls, records.ring("id-b").rows().len()), (1, 1, 1));
}

#[test]
fn a_full_queue_drops_and_counts_rows_and_never_waits() {
    let (queue, _rows) = super::queue::RowQueue::new(Arc::default());
    let row = |reason: Option<String>| QueuedRow::Call(Arc::new(CallRecord { reason, ..call() }));
    (0..10_002).for_each(|_| queue.push(row(None)));
    assert_eq!((queue.counts.waiting(), queue.counts.dropped()), (10_000, 2));

    let (queue, _rows) = super::queue::RowQueue::new(Arc::default());
    (0..5).for_each(|_| queue.push(row(Some("x".repeat(10 << 20)))));
    assert_eq!((queue.counts.waiting(), queue.counts.dropped()), (3, 2), "32 MiB at most");
}

#[tokio::test]
async fn texts_that_a_database_cannot_hold_or_match_are_no_trouble() {
    let folder = std::env::temp_dir().join(format!("hawsepipe-store-{}", uuid::Uuid::new_v4().simple()));
    std::fs::create_dir_all(&folder).unwrap();
    let store = Store::new(1000);
    let limits = HistoryLimits { per_plugin: 1000, retention: Duration::from_hours(1_000_000), max_bytes: 1 << 20 };
    store.follow(&limits, Some(StoreTarget::Sqlite(folder.join("a?b#c d.db")))).unwrap();
    let plugin = EntryTrace { plugin: "team/a_b".into(), ..entry() };
    let odd = CallRecord { tool: "a\0'b".into(), entries: vec![plugin], ..call() };
    store.call(CallRecord { request_id: "1".into(), ..odd });
    store.close().await;
    let again = Store::new(1000);
    again.follow(&limits, Some(StoreTarget::Sqlite(folder.join("a?b#c d.db")))).unwrap();
    for (plugin, found) in [("a_b", 1), ("team/a_b", 1), ("axb", 0), ("%", 0), ("m/a_b", 0)] {
        let page = again.list(RecordKind::Calls, &of_plugin(Some(plugin))).await;
        assert_eq!((page.items.len(), page.incomplete), (found, None), "{plugin}");
    }
    let filter = HistoryFilter { tool: vec!["a\0'b".into()], ..HistoryFilter::default() };
    assert_eq!(again.list(RecordKind::Calls, &query(filter, 1)).await.items.len(), 1);
    again.close().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_refused_when_it_is_opened() {
    let folder = std::env::temp_dir().join(format!("hawsepipe-store-{}", uuid::Uuid::new_v4().simple()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.db");
    let target = StoreTarget::Sqlite(path.clone());
    let store = Store::new(1000);
    let limits = HistoryLimits { per_plugin: 1000, retention: Duration::from_hours(1_000_000), max_bytes: 8 << 20 };
    store.follow(&limits, Some(target.clone())).unwrap();
    (0..500).for_each(|at| store.call(CallRecord { request_id: at.to_string(), ..call() }));
    store.close().await;
    Store::check(&target).await.unwrap();
    assert_eq!(check(&path, Duration::from_secs(9)).unwrap(), Checked::Whole);
    assert_eq!(check(&path, Duration::ZERO).unwrap(), Checked::InPart);

    let whole = std::fs::read(&path).unwrap();
    assert!(whole.len() > 50 * 4096, "{}", whole.len());
    for damaged in [8 * 4096..9 * 4096, 0..100] {
        let mut bytes = whole.clone();
        bytes[damaged.clone()].fill(0x5a);
        std::fs::write(&path, bytes).unwrap();
        let why = Store::check(&target).await.unwrap_err().to_string();
        assert!(why.contains("the file is damaged (") && why.contains("Move it away"), "{damaged:?}: {why}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn nothing_is_written_while_the_file_or_its_wal_is_elsewhere() {
    let folder = std::env::temp_dir().join(format!("hawsepipe-store-{}", uuid::Uuid::new_v4().simple()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.db");
    let connections = Connections::new(StoreTarget::Sqlite(path.clone()), 8 << 20).unwrap();
    connections.prepare().await.unwrap();
    let mut written = 0;
    let mut write = async |is_durable| {
        written += 1;
        let row = statements::row(&CallRecord { request_id: written.to_string(), ..call() }).unwrap();
        let insert = Insert { table: statements::table(RecordKind::Calls), rows: vec![row] };
        connections.insert(vec![insert], is_durable).await.map_err(|why| why.to_string())
    };
    assert_eq!(write(true).await, Ok(()));
    for (end, is_replaced) in [("", false), ("-wal", false), ("", true), ("-wal", true)] {
        let [from, away] = ["", ".away"].map(|away| folder.join(format!("a.db{end}{away}")));
        std::fs::rename(&from, &away).unwrap();
        if is_replaced {
            std::fs::copy(&away, &from).unwrap();
        }
        for is_durable in [true, false] {
            let why = write(is_durable).await.unwrap_err();
            assert!(why.contains("was removed or replaced"), "{end} {is_replaced}: {why}");
        }
        std::fs::rename(&away, &from).unwrap();
        assert_eq!(write(false).await, Ok(()), "{end} {is_replaced}");
    }
    connections.close().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_full_batch_is_written_at_once_and_another_gathers_rows() {
    let (sender, mut rows) = tokio::sync::mpsc::channel(4);
    let mut batch = vec![1, 2];
    assert!(gather(&mut rows, &mut batch, 2).now_or_never().is_some());
    assert!(gather(&mut rows, &mut batch, 3).now_or_never().is_none());
    sender.send(3).await.unwrap();
    sender.send(4).await.unwrap();
    gather(&mut rows, &mut batch, 3).await;
    assert_eq!(batch, [1, 2, 3]);
}

fn entry() -> EntryTrace {
    EntryTrace {
        chain: "default/c".into(),
        plugin: String::new(),
        revision: String::new(),
        method: Method::CallTool,
        phase: Phase::Request,
        outcome: EntryOutcome::Ran,
        error: None,
        error_text: None,
        hides_error: false,
        when: None,
        mode: Mode::Enforce,
        changed: false,
        stops: false,
        duration_ms: 0.0,
        metadata: None,
        metadata_omitted: None,
    }
}
