//! An operator that lacks one of its rights: each in turn, all at once, in namespaces of their own.

mod case;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};

use self::case::{Case, give, rights};
use super::harness::ACCOUNT;
use crate::harness::{Cluster, Request, SOON};

/// How often what is forbidden may be tried, once the pauses have grown to this.
const PERIOD: Duration = Duration::from_secs(60);
/// What a busy machine adds to that before everything works again.
const SLACK: Duration = Duration::from_secs(150);
/// Operators that are brought up or asked at once.
const AT_ONCE: usize = 8;

/// Asks every case until nothing is left to say, or the time is over.
async fn until_none(cases: &[Case], within: Duration, ask: impl AsyncFn(&Case) -> Option<String>) {
    let (began, mut left): (_, Vec<&Case>) = (Instant::now(), cases.iter().collect());
    loop {
        let ask = &ask;
        let asked = stream::iter(left.iter().copied()).map(|case| async move { (case, ask(case).await) });
        let answers: Vec<_> = asked.buffer_unordered(AT_ONCE).collect().await;
        let said: Vec<_> = answers.into_iter().filter_map(|(case, said)| Some((case, said?))).collect();
        if said.is_empty() {
            return;
        }
        let told: Vec<_> = said.iter().map(|(_, said)| said.as_str()).collect();
        assert!(began.elapsed() < within, "{} of {}:\n{}", said.len(), cases.len(), told.join("\n"));
        left = said.into_iter().map(|(case, _)| case).collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

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

/// What was forbidden and tried again more often than the growing pauses allow for each of three objects, by user and
/// what it was. Services are watched twice, and a snapshot has several parts.
fn too_often(requests: &[Request]) -> Vec<String> {
    let mut times: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.code == 403 && request.user.ends_with(ACCOUNT)) {
        let Request { user, verb, resource, namespace, selector, .. } = request;
        times.entry((user, verb, resource, namespace, selector)).or_default().push(request.received);
    }
    let lasted = |times: &[i64]| times.iter().max().zip(times.iter().min()).map_or(0, |(last, first)| last - first);
    let is_too_often = |times: &Vec<i64>| times.len() > 3 * tries_within(lasted(times));
    times.into_iter().filter(|(_, times)| is_too_often(times)).map(|found| format!("{found:?}")).collect()
}

#[tokio::test]
async fn each_right_that_lacks_is_told_seldom_tried_and_missed_no_longer_than_it_lacks() {
    let cluster = Cluster::shared().await;
    let rights = rights(cluster).await;
    let mark = cluster.mark().await;
    let needed = rights.iter().filter(|right| !right.is_spare()).cloned();
    let started = stream::iter(needed).map(|right| Case::start(cluster, &rights, right));
    let cases: Vec<_> = started.buffer_unordered(AT_ONCE).collect().await;
    let (second, last) = ("export default () => ({ continue: true });", "export default () => ({ continue: false });");
    futures_util::future::join_all(cases.iter().map(|case| case.edit(second))).await;
    until_none(&cases, SOON, async |case| case.untold().await).await;
    // Long enough for several tries, of which none must come earlier.
    tokio::time::sleep(PERIOD).await;

    let requests = cluster.requests_since(mark).await;
    let refused: BTreeSet<_> = requests.iter().filter(|r| r.code == 403).map(|r| r.user.as_str()).collect();
    let unused: Vec<_> = cases.iter().filter(|case| !refused.contains(case.user().as_str())).map(Case::name).collect();
    assert!(unused.is_empty(), "nothing was refused without these, so they are too much: {unused:?}");
    for case in &cases {
        give(cluster, &case.operated.namespace, rights.iter()).await;
    }
    futures_util::future::join_all(cases.iter().map(|case| case.edit(last))).await;
    until_none(&cases, PERIOD + SLACK, async |case| case.wrong(last).await).await;
    let too_often = too_often(&cluster.requests_since(mark).await);
    assert!(too_often.is_empty(), "{too_often:#?}");
}
