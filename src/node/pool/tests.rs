//! Tests which seat is given up if there is no room for another one, and which calls fail immediately.

use super::super::fixture::{plugin, starter};
use super::*;
use crate::domain::reason::Reason;

#[test]
fn a_seat_gives_way_to_its_successor_where_there_is_no_room_for_both() {
    let after = |idle: &[bool], target, coming| gives_way(idle, target, &coming, |succeeded| *succeeded);
    assert_eq!(after(&[false, true], 2, false), Some(1));
    assert_eq!(after(&[false, true], 1, false), Some(1));
    assert_eq!(after(&[false, true], 3, false), None, "there is room");
    assert_eq!(after(&[false, true], 2, true), None, "it has a successor itself");
    assert_eq!(after(&[false, false], 2, false), None, "none has one");
}

fn failure() -> Failure {
    Failure::new(Reason::NotLoaded, "it throws")
}

#[tokio::test]
async fn a_plugin_that_was_loaded_once_stays_loaded_whatever_fails_later() {
    let starter = starter();
    let admission = Arc::new(ExecutionLimits::new(starter.tasks.clone()));
    let pool = WorkerPool::new(plugin(), starter, admission);
    for (loaded, cause, expected) in [
        (false, None, Loading::Underway),
        (false, Some(failure()), Loading::Failed { failure: failure(), own: true }),
        (true, None, Loading::Loaded),
        (true, Some(failure()), Loading::Loaded),
    ] {
        *pool.lock() = PoolState { loaded, cause, is_own_fault: true, ..PoolState::default() };
        assert_eq!(pool.loading(), expected);
    }
}

#[test]
fn calls_fail_at_once_where_no_worker_is_there_and_none_may_be_started_for_them() {
    for (size, is_paused, leased, fails) in [
        // A pool that keeps workers restarts them without a call.
        (1, false, 0, true),
        (1, true, 0, true),
        // A leased seat becomes free again, so calls can wait for it.
        (1, false, 1, false),
        // A pool that keeps no workers starts one for each call, unless a start has just failed.
        (0, false, 0, false),
        (0, true, 0, true),
    ] {
        let not_before = is_paused.then(|| Instant::now() + Duration::from_secs(60));
        let state = PoolState { size, leased, not_before, cause: Some(failure()), ..PoolState::default() };
        assert_eq!(state.unavailable(), fails.then(failure), "{size} {is_paused} {leased}");
        assert_eq!(PoolState { cause: None, ..state }.unavailable(), None);
    }
}
