//! Tests of how a gateway follows its plan: retries, tool names, the workload, pins.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::controller::apply::tests::urgent::{Sent, api_server};
use crate::controller::compiled;
use crate::controller::dereference::Dereferenced;
use crate::controller::pods::Reported;
use crate::controller::status::tests::read;
use crate::controller::workload::{ImagePullPolicy, PodSettings};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::report::Report;

/// Returns a gateway with an upstream at this URL.
fn planned(url: &str) -> PlannedGateway {
    planned_with(&json!(null), url)
}

/// Like [`planned`], with this `spec.replicas`.
fn planned_with(replicas: &Value, url: &str) -> PlannedGateway {
    let mut spec = json!({"authentication": {"anonymous": {}}, "upstreams": {"prefix": "OnConflict"}});
    if !replicas.is_null() {
        spec["replicas"] = replicas.clone();
    }
    let objects = [
        read(Kind::MCPGateway, "main", &spec, &json!({})),
        read(Kind::MCPUpstream, "up", &json!({"external": {"url": url}}), &json!({})),
    ];
    let mut inputs = compiled::inputs(&objects, &Dereferenced::default());
    compiled::plan(&objects[0], &mut inputs, None, None, &BTreeMap::new(), &mut LoadReports::default())
}

#[test]
fn an_edit_of_something_else_does_not_shorten_the_wait_of_a_gateway_that_fails() {
    let fails = || Err(ApplyError::Request { what: String::new(), error: RequestError::Conflict });
    let mut kept =
        GatewayReconciler::new(planned("http://up/mcp"), SnapshotStore::default(), LoadReports::default(), None);
    let now = Instant::now();
    assert!(kept.note(fails(), now) && !kept.note(fails(), now));
    let again = |kept: &GatewayReconciler| kept.retry.map(|(_, again)| again.duration_since(now));
    assert_eq!(again(&kept), Some(FIRST_RETRY * 2));
    let mut kept = kept.with_plan(planned("http://up/mcp"));
    kept.note(fails(), now);
    assert_eq!(again(&kept), Some(FIRST_RETRY * 4));
    let kept = kept.with_plan(planned_with(&json!(3), "http://up/mcp"));
    assert!(kept.retry.is_none(), "an edit of its pods is tried at once");
    assert!(kept.with_plan(planned("http://other/mcp")).retry.is_none(), "its own edit is tried at once");
}

#[test]
fn the_workload_follows_the_last_valid_spec_and_stays_as_it_is_where_none_is_known() {
    let settings = || {
        let pods =
            PodSettings { image: "image".to_owned(), pull_policy: ImagePullPolicy::IfNotPresent, assigned_ids: false };
        WorkloadSettings { pods, cluster_domain: "cluster.local".into(), operator: "system/operator".into() }
    };
    let replicas = |kept: &mut GatewayReconciler| {
        let desired = kept.desired(Some(&settings()), Ok(&|_, _| None));
        let deployment = desired.workload.as_ref()?.deployment.as_ref()?;
        deployment.body()["spec"]["replicas"].as_u64()
    };
    let new = |replicas: Value| {
        let planned = planned_with(&replicas, "http://up/mcp");
        GatewayReconciler::new(planned, SnapshotStore::default(), LoadReports::default(), None)
    };
    let mut kept = new(json!(3));
    assert_eq!(replicas(&mut kept), Some(3));
    assert!(kept.desired(None, Ok(&|_, _| None)).workload.is_none(), "the operator creates no pods");
    let mut kept = kept.with_plan(planned_with(&json!("many"), "http://up/mcp"));
    assert_eq!(replicas(&mut kept), Some(3));
    assert!(!kept.state(true).addresses.is_empty());
    let mut kept = kept.with_plan(planned_with(&json!(4), "http://up/mcp"));
    assert_eq!(replicas(&mut kept), Some(4));
    assert_eq!(replicas(&mut new(json!("many"))), None);
}

/// Lets a pod report this tool name.
fn hear(kept: &mut GatewayReconciler, name: &str) {
    let mut report = Report::default();
    report.seen_names.add(&ObjectKey::new("ns", "up"), [name]);
    let ready = [("pod".to_owned(), Ok(Arc::new(Reported::new(report))))];
    kept.hear_names(&Pods { all: 1, ready: ready.into(), ..Pods::default() });
}

/// For each object that was sent, returns the number of tool names in its index and the index's current revision.
fn indexes(sent: &Sent) -> Vec<(usize, String)> {
    let sent = std::mem::take(&mut *sent.lock().unwrap());
    let of = |object: &Value| {
        let index = &object["spec"]["index"];
        let names = index["seenNames"][0]["tools"].as_array().map_or(0, Vec::len);
        (names, index["current"].as_str().unwrap_or("none: a shard").to_owned())
    };
    sent.iter().map(of).collect()
}

#[tokio::test]
async fn names_of_tools_alone_are_written_now_and_then_and_with_a_new_plan_at_once() {
    let (writer, sent) = api_server(None);
    let mut kept =
        GatewayReconciler::new(planned("http://up/mcp"), SnapshotStore::default(), LoadReports::default(), None);
    kept.write(&writer, false).await.unwrap();
    let (_, first) = indexes(&sent).pop().unwrap();
    // This other plan is not written, which shows that writing names does not depend on the plan.
    kept.planned = Arc::new(planned("http://other/mcp"));
    hear(&mut kept, "a");
    assert_eq!(kept.look_again(), Duration::ZERO);
    kept.write(&writer, false).await.unwrap();
    assert_eq!(indexes(&sent), [(1, first.clone())]);
    hear(&mut kept, "b");
    kept.write(&writer, false).await.unwrap();
    assert_eq!(indexes(&sent), [], "not so soon");
    assert!(kept.look_again() > Duration::ZERO && kept.look_again() <= NAMES_PERIOD);
    kept.names_written = Instant::now().checked_sub(NAMES_PERIOD);
    kept.write(&writer, false).await.unwrap();
    assert_eq!(indexes(&sent), [(2, first.clone())]);

    hear(&mut kept, "c");
    let mut kept = kept.with_plan(planned("http://third/mcp"));
    kept.write(&writer, false).await.unwrap();
    let written = indexes(&sent).pop().unwrap();
    assert!(written.0 == 3 && written.1 != first && !kept.named, "{written:?}");

    hear(&mut kept, "d");
    kept.write_names(&writer).await.unwrap();
    assert_eq!(indexes(&sent), [(4, written.1)], "at its end it waits for nothing");
    kept.write_names(&writer).await.unwrap();
    assert_eq!(indexes(&sent), [], "nothing is new");
}

#[tokio::test]
async fn what_was_read_again_is_compared_with_the_plan() {
    let (writer, _) = api_server(None);
    let mut kept =
        GatewayReconciler::new(planned("http://up/mcp"), SnapshotStore::default(), LoadReports::default(), None);
    kept.write(&writer, false).await.unwrap();
    assert!(kept.applied);
    let wrong = RequestError::Api(Box::new(kube::Error::LinesCodecMaxLineLengthExceeded));
    kept.note(Err(ApplyError::Request { what: "deployments in mcp".to_owned(), error: wrong }), Instant::now());
    assert!(kept.retry.is_some() && !kept.is_unsure(), "the snapshots were written");
    let server = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(kube::Error::LinesCodecMaxLineLengthExceeded)
    });
    let silent = kube::Client::new(server, "mcp");
    let silent = Writer::new(silent, crate::controller::lease::Leadership::default(), writer.pulse.clone());
    assert!(kept.refresh(&silent).await.is_err());
    assert!(!kept.applied && kept.is_unsure(), "nobody knows what is stored");
}

#[test]
fn a_contest_is_looked_at_when_its_object_may_be_written_again_and_is_no_retry() {
    let mut kept =
        GatewayReconciler::new(planned("http://up/mcp"), SnapshotStore::default(), LoadReports::default(), None);
    assert!(kept.look_again() > LAG);
    let now = Instant::now();
    let of = ("Service ns/main-gateway", "digest");
    kept.owned.contests.wrote("services".into(), of, (None, Some("uid".to_owned())), now);
    assert!(kept.look_again() <= Duration::from_secs(1));
    kept.note(Err(ApplyError::Contested("another client".to_owned())), now);
    assert!(kept.fault.is_some() && kept.waits_until().is_none());
}

#[test]
fn a_pin_says_whether_pods_run_an_older_revision_or_it_is_lost() {
    let revisions = ["new", "old"].map(|name| json!({"revision": name, "formatVersion": 1, "shards": []}));
    for (pinned, current, expected) in [
        (None, Some("new"), Pin::None),
        (Some("new"), Some("new"), Pin::None),
        (Some("old"), Some("old"), Pin::Kept),
        (Some("gone"), Some("old"), Pin::Lost("gone".into())),
        (Some("gone"), None, Pin::None),
    ] {
        let mut planned = planned("http://up/mcp");
        planned.pinned = pinned.map(ToOwned::to_owned);
        let mut kept = GatewayReconciler::new(planned, SnapshotStore::default(), LoadReports::default(), None);
        let index = current.map(|current| json!({"current": current, "revisions": revisions}));
        kept.stored.index = index.map(|index| serde_json::from_value(index).unwrap());
        assert_eq!(kept.state(false).pin, expected, "{pinned:?} {current:?}");
    }
}
