//! A guard that is edited, broken, deleted, recreated, slow to load and not to be loaded, in front of servers that
//! restart and change their era, under load. Every answer of theirs holds a secret that only the guard takes out.

mod calls;
mod guard;
mod servers;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use self::calls::{Call, Clients, End, SECRET, UPSTREAMS};
use self::guard::{Gaps, Guard, Span};
use self::servers::Servers;
use crate::fixtures::DOUBLED;
use crate::gateway::harness::{Folder, Gateway, HEAVY};
use crate::gateway::manifests::{gateway, yaml};
use crate::gateway::outcomes::seen::list;

/// 50 calls a second.
const PERIOD: Duration = Duration::from_millis(20);
/// How often records are read: the gateway keeps the newest 1,000.
const READ: Duration = Duration::from_secs(2);

fn manifests(servers: &Servers) -> String {
    // A stall of the machine is not what is tried here.
    let main = gateway(&json!({
        "limits": {"perSession": {"concurrentCalls": -1}},
        "plugins": {"queueTimeoutMs": 10_000, "maxQueuedExecutions": 1000, "poolSizePerPlugin": 2},
        "chains": {"required": [{"name": "answers"}]},
    }));
    yaml(&[vec![main], servers.manifests()].concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_passes_a_guard_that_comes_and_goes_while_servers_restart() {
    guarded(Duration::from_secs(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: make test-long"]
async fn no_secret_passes_such_a_guard_in_five_minutes() {
    guarded(Duration::from_secs(300)).await;
}

async fn guarded(length: Duration) {
    let _alone = HEAVY.lock().await;
    let folder = Folder::new();
    let mut servers = Servers::start(&folder);
    guard::create(&folder);
    folder.write("manifests.yaml", &manifests(&servers));
    let gateway = Gateway::start(&folder);
    let clients = Clients::new(&gateway.url()).await;
    for upstream in UPSTREAMS {
        clients.until(upstream, |end| matches!(end, End::Answered(..))).await;
    }

    let (end, mut records) = (Instant::now() + length, HashMap::new());
    let lives = async {
        let guard = Guard::new(&folder, &clients).live(end);
        tokio::join!(guard, servers.live(&gateway, &clients, end))
    };
    let (gaps, away) = under_load(&gateway, &clients, &mut records, lives).await;
    read(&gateway, &mut records).await;
    let calls = clients.take();
    judge_answers(&calls, &gaps, &away);
    judge_records(&calls, &records);
    assert!(!gateway.log().iter().any(|line| line.contains(SECRET)), "the log holds a secret");
}

/// Runs `lives` to its end while clients call and records are read; waits for the calls that are in flight then.
async fn under_load<T>(
    gateway: &Gateway,
    clients: &Clients,
    records: &mut HashMap<String, Value>,
    lives: impl Future<Output = T>,
) -> T {
    let (over, ended) = tokio::sync::watch::channel(false);
    let load = async {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut calls = futures_util::stream::FuturesUnordered::new();
        while !*ended.borrow() {
            tokio::select! {
                _ = ticks.tick() => calls.push(clients.call_next()),
                Some(()) = futures_util::StreamExt::next(&mut calls) => {}
            }
        }
        while futures_util::StreamExt::next(&mut calls).await.is_some() {}
    };
    let reading = async {
        while !*ended.borrow() {
            read(gateway, records).await;
            tokio::time::sleep(READ).await;
        }
    };
    let lives = async {
        let lived = lives.await;
        over.send_replace(true);
        lived
    };
    tokio::join!(lives, load, reading).0
}

/// Adds the records that the gateway has now.
async fn read(gateway: &Gateway, records: &mut HashMap<String, Value>) {
    let named = |record: Value| (record["requestId"].as_str().unwrap().to_owned(), record);
    records.extend(list(gateway, "calls").await.into_iter().map(named));
}

fn overlaps(call: &Call, (from, to): Span) -> bool {
    call.began < to && call.ended > from
}

/// No answer holds a secret, and none passes by a guard that is not there; nearly all that can be answered is.
fn judge_answers(calls: &[Call], gaps: &Gaps, away: &[(&str, Span)]) {
    let leaked: Vec<_> = calls.iter().filter(|call| matches!(call.end, End::Leaked(_))).collect();
    assert!(leaked.is_empty(), "{} of {} answers leaked: {:?}", leaked.len(), calls.len(), leaked[0]);
    let within = |call: &&Call| gaps.surely.iter().any(|(from, to)| call.began > *from && call.ended < *to);
    let unguarded = calls.iter().filter(within).find(|call| matches!(call.end, End::Answered(..) | End::Withheld));
    assert!(unguarded.is_none(), "answered while the guard was deleted: {unguarded:?}");
    let doubled = calls.iter().find(|call| call.shape == DOUBLED && matches!(call.end, End::Answered(..)));
    assert!(doubled.is_none(), "not withheld: {doubled:?}");

    let could = |call: &&Call| {
        let gone = gaps.maybe.iter().any(|gap| overlaps(call, *gap));
        !gone && !away.iter().any(|(upstream, span)| *upstream == call.upstream && overlaps(call, *span))
    };
    let counted: Vec<_> = calls.iter().filter(could).collect();
    let well =
        |call: &&&Call| matches!(call.end, End::Answered(..)) || call.shape == DOUBLED && call.end == End::Withheld;
    let (all, can, did) = (calls.len(), counted.len(), counted.iter().filter(well).count());
    let unwell: Vec<_> = counted.iter().filter(|call| !well(call)).take(5).collect();
    println!("{all} calls; {can} of them could be answered, {did} were; {} restarts; others: {unwell:?}", away.len());
    assert!(can * 3 >= all, "only {can} of {all} calls could be answered");
    assert!(did * 100 >= can * 99, "only {did} of {can} calls were answered: {unwell:?}");
    judge_versions(calls);
}

/// Once a version was seen, no call that begins later is answered by an older one.
fn judge_versions(calls: &[Call]) {
    let mut seen: Vec<_> = calls.iter().filter_map(|call| Some((call, version(call)?))).collect();
    seen.sort_by_key(|(call, _)| call.ended);
    for (n, (call, version)) in seen.iter().enumerate() {
        let older = seen[n + 1..].iter().find(|(later, other)| later.began > call.ended && other < version);
        assert!(older.is_none(), "after version {version} was seen: {older:?}");
    }
}

fn version(call: &Call) -> Option<u32> {
    match call.end {
        End::Answered(version, _) => Some(version),
        _ => None,
    }
}

/// There is one record of each call, and it says whether the guard ran.
fn judge_records(calls: &[Call], records: &HashMap<String, Value>) {
    assert!(!records.values().any(|record| record.to_string().contains(SECRET)), "a record holds a secret");
    assert_eq!(records.len(), calls.len(), "records, and calls");
    let ran = |record: &Value| {
        let entries = record["entries"].as_array().unwrap();
        entries.iter().any(|entry| entry["plugin"] == "default/guard" && entry["outcome"] == "ran")
    };
    for request in calls.iter().filter_map(|call| match &call.end {
        End::Answered(_, request) => request.as_ref(),
        _ => None,
    }) {
        assert!(records.get(request).is_some_and(ran), "{request}: {:?}", records.get(request));
    }
    let passed_on = |record: &&Value| match record["outcome"].as_str().unwrap() {
        "ok" | "tool_error" => true,
        outcome => outcome == "rpc_error" && record["reason"].is_null(),
    };
    let unguarded = records.values().filter(passed_on).find(|record| !ran(record));
    assert!(unguarded.is_none(), "passed on, and the guard did not run: {unguarded:?}");
    let withheld = records.values().filter(|record| record["reason"] == "DuplicateKey").count();
    let refused = |record: &&Value| record["outcome"] == "refused" && record["reason"] != "AutoDisabled";
    let refused = records.values().filter(refused).count();
    let told = |end: End| calls.iter().filter(|call| call.end == end).count();
    assert_eq!(
        (withheld, refused),
        (told(End::Withheld), told(End::Refused)),
        "records of calls withheld, and refused"
    );
}
