//! An operator without one of its rights: an operator for each right, in a namespace of its own.

mod case;
mod objects;
mod rights;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use self::case::Case;
use self::rights::rights;
use super::harness::{ACCOUNT, Tenant};
use crate::harness::{Cluster, Request};

/// The longest pause before what is forbidden is tried again.
const PERIOD: Duration = Duration::from_secs(60);
/// How long each right is missing at least. The pauses have grown to 16 s by then, of which the last is waited for.
const MISSING: Duration = Duration::from_secs(20);
/// Operators that are brought up at once.
const AT_ONCE: usize = 8;

/// How often one thing may be tried in this time: with pauses of 1, 2, 4 .. seconds, up to a minute.
fn tries_within(milliseconds: i64) -> usize {
    let longest = i64::try_from(PERIOD.as_millis()).unwrap();
    let ends = (0..).scan(0, |end, n: u32| {
        *end += (1000 << n.min(16)).min(longest);
        Some(*end)
    });
    // A busy machine tells times late, and a part of a second makes no storm.
    1 + ends.take_while(|end| *end <= milliseconds + 500).count()
}

/// What was forbidden and tried again more than twice as often as the growing pauses allow, by user and what it was.
fn too_often(forbidden: &[Request]) -> Vec<String> {
    let mut times: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for request in forbidden.iter().filter(|request| request.user.ends_with(ACCOUNT)) {
        let Request { user, verb, resource, namespace, name, selector, .. } = request;
        times.entry((user, verb, resource, namespace, name, selector)).or_default().push(request.received);
    }
    let lasted = |times: &[i64]| times.iter().max().zip(times.iter().min()).map_or(0, |(last, first)| last - first);
    let is_too_often = |times: &Vec<i64>| times.len() > 2 * tries_within(lasted(times));
    times.into_iter().filter(|(_, times)| is_too_often(times)).map(|found| format!("{found:?}")).collect()
}

/// A short run tries one right in ten.
const EACH: usize = 10;

#[tokio::test]
async fn a_missing_right_is_told_and_seldom_tried_and_works_once_it_is_given() {
    without_each(EACH).await;
}

#[tokio::test]
#[ignore = "long: make test-long"]
async fn each_missing_right_is_told_and_seldom_tried_and_works_once_it_is_given() {
    without_each(1).await;
}

/// Runs an operator without a right, for every `step`th right.
async fn without_each(step: usize) {
    let cluster = Cluster::shared().await;
    let (client, rights) = (cluster.admin().await, rights(cluster).await);
    let (mark, places) = (cluster.mark().await, Semaphore::new(AT_ONCE));
    let needed = rights.iter().filter(|right| !right.is_spare()).step_by(step).cloned();
    let cases = needed.map(async |right| {
        let place = places.acquire().await.unwrap();
        let home = Tenant { cluster, client: client.clone(), namespace: cluster.namespace().await };
        let case = Case::start(home, &rights, right).await;
        let began = Instant::now();
        case.until_told().await;
        drop(place);
        tokio::time::sleep(MISSING.saturating_sub(began.elapsed())).await;
        case.give_back(&rights).await;
        case.stop()
    });
    let cases = join_all(cases).await;

    let forbidden = cluster.forbidden_since(mark).await;
    let unused = cases.iter().filter(|case| !forbidden.iter().any(|request| case.is_of(request)));
    let unused: Vec<_> = unused.map(Case::name).collect();
    assert!(unused.is_empty(), "nothing was refused without these, so they are too much: {unused:?}");
    let too_often = too_often(&forbidden);
    assert!(too_often.is_empty(), "{too_often:#?}");
}
