//! Tests of the gateway's metrics.

use super::*;
use crate::domain::ports::{WorkerInfo, WorkerState};

#[test]
fn every_metric_can_be_registered() {
    let metrics = Metrics::new().unwrap();
    metrics.refused(Reason::Stopped);
    let text = metrics.render(&ScrapeInput::default());
    assert!(text.contains("hawsepipe_calls_refused_total{reason=\"Stopped\"} 1"), "{text}");
}

fn worker(plugin: &str, memory_bytes: Option<u64>) -> WorkerInfo {
    WorkerInfo {
        pid: 1,
        plugin: plugin.into(),
        plugin_id: String::new(),
        revision: String::new(),
        spawned_at: 0,
        last_used_at: None,
        execution_count: 0,
        is_healthy: true,
        memory_bytes,
        state: WorkerState::Available,
    }
}

#[test]
fn workers_are_counted_and_their_memory_added_up_for_each_plugin() {
    let metrics = Metrics::new().unwrap();
    let workers = vec![worker("n/a", Some(10)), worker("n/a", Some(5)), worker("n/b", None)];
    let mut now = ScrapeInput { workers, ..ScrapeInput::default() };
    for _ in 0..2 {
        let text = metrics.render(&now);
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("hawsepipe_worker")).collect();
        let expected = [
            r#"hawsepipe_worker_memory_bytes{plugin="n/a"} 15"#,
            r#"hawsepipe_workers{plugin="n/a",state="available"} 2"#,
            r#"hawsepipe_workers{plugin="n/b",state="available"} 1"#,
        ];
        assert_eq!(lines, expected);
    }
    // A plugin without workers has no series any more.
    now.workers.drain(..2);
    let text = metrics.render(&now);
    assert!(!text.contains(r#"plugin="n/a""#), "{text}");
}

#[test]
fn tools_beyond_the_bound_share_a_label() {
    let metrics = Metrics::new().unwrap();
    for n in 0..MAX_TOOLS {
        let name = format!("t{n}");
        assert_eq!(metrics.tools.label("u", &name), name);
    }
    assert_eq!(metrics.tools.label("u", "one-more"), "_other");
    assert_eq!(metrics.tools.label("u", "t7"), "t7");
}
