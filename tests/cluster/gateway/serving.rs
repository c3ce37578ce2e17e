//! Plans come in, edits follow, and what is broken is left out.

use hawsepipe::api::snapshot::{Revocation, SnapshotRestrictions, SnapshotRevision};

use super::process::{Gateway, Place, manifests};
use super::published::Revision;
use super::upstream;
use crate::harness::{Cluster, until};

#[tokio::test]
async fn it_serves_nothing_before_its_first_plan_and_then_each_edit() {
    let cluster = Cluster::shared().await;
    let place = Place::new(cluster).await;
    let url = upstream::start().await;
    let gateway = place.start(&[]).await;
    assert_eq!(gateway.get("/healthz").await.text, "ok\n");
    let waits = gateway.get("/readyz").await;
    assert_eq!(waits.status, 503, "{waits:?}");
    assert!(waits.text.contains("no plan"), "{waits:?}");
    assert!(!gateway.has_logged("MCP endpoint"), "{}", gateway.log());
    assert_eq!(gateway.report().await.revision, "");

    let first = Revision::of(&manifests(&place.namespace, &url, "one"));
    first.publish(cluster, &place.namespace).await;
    gateway.until_answers("up__whoami", "one nobody").await;
    assert_eq!(gateway.get("/readyz").await.status, 200);
    assert_eq!(gateway.report().await.revision, first.name());

    let second = Revision::of(&manifests(&place.namespace, &url, "two"));
    second.publish(cluster, &place.namespace).await;
    gateway.until_runs(second.name()).await;
    gateway.until_answers("up__whoami", "two nobody").await;
    let report = gateway.report().await;
    assert_eq!((report.problems.as_slice(), report.pending), (&[][..], None));
    assert_eq!(report.upstreams[0].tools[0].r#as.as_deref(), Some("up__whoami"));
}

/// A gateway that runs a first revision, and a second one that is not published.
async fn running(cluster: &Cluster) -> (Place<'_>, Gateway, Revision, Revision) {
    let place = Place::new(cluster).await;
    let url = upstream::start().await;
    let first = Revision::of(&manifests(&place.namespace, &url, "one"));
    first.publish(cluster, &place.namespace).await;
    let gateway = place.start(&[]).await;
    gateway.until_answers("up__whoami", "one nobody").await;
    let second = Revision::of(&manifests(&place.namespace, &url, "two"));
    (place, gateway, first, second)
}

/// Waits until the gateway says that it cannot run `revision`, and that it still runs the first.
async fn is_refused(gateway: &Gateway, first: &Revision, revision: &str, reason: &str) {
    let pending = gateway.until_reported("it is pending", |report| report.pending.clone()).await;
    assert_eq!((pending.revision.as_str(), pending.reason.as_str()), (revision, reason), "{pending:?}");
    assert_eq!(gateway.report().await.revision, first.name());
    assert_eq!(gateway.call("up__whoami").await.unwrap(), "one nobody");
}

#[tokio::test]
async fn one_that_is_told_to_end_is_not_ready_and_follows_for_as_long_as_it_serves() {
    let cluster = Cluster::shared().await;
    let (place, gateway, _, second) = running(cluster).await;
    second.write_shards(cluster, &place.namespace).await;
    gateway.signal("TERM");
    until("it is not ready", async || (gateway.get("/readyz").await.status == 503).then_some(())).await;
    second.write_index(cluster, &place.namespace).await;
    gateway.until_runs(second.name()).await;
    assert_eq!(gateway.call("up__whoami").await.unwrap(), "two nobody");
}

#[tokio::test]
async fn an_incomplete_revision_is_taken_once_it_is_whole() {
    let cluster = Cluster::shared().await;
    let (place, gateway, first, second) = running(cluster).await;
    second.write_index(cluster, &place.namespace).await;
    is_refused(&gateway, &first, second.name(), "SnapshotIncomplete").await;
    second.write_shards(cluster, &place.namespace).await;
    gateway.until_answers("up__whoami", "two nobody").await;
    assert_eq!(gateway.report().await.pending, None);
}

#[tokio::test]
async fn a_corrupt_revision_is_not_taken_and_the_next_good_one_is() {
    let cluster = Cluster::shared().await;
    let (place, gateway, first, mut second) = running(cluster).await;
    let good = Revision::of(&manifests(&place.namespace, "http://127.0.0.1:1/mcp", "three"));
    let old: Vec<_> = first.shards.iter().map(|(reference, _)| reference.name.clone()).collect();
    let (_, shard) = second.shards.iter_mut().find(|(reference, _)| !old.contains(&reference.name)).unwrap();
    "KLUv/SAA".clone_into(&mut shard.data);
    second.publish(cluster, &place.namespace).await;
    is_refused(&gateway, &first, second.name(), "SnapshotUnreadable").await;
    good.publish(cluster, &place.namespace).await;
    gateway.until_runs(good.name()).await;
    assert_eq!(gateway.report().await.pending, None);
}

#[tokio::test]
async fn an_unknown_format_leaves_what_runs() {
    let cluster = Cluster::shared().await;
    let (place, gateway, first, mut second) = running(cluster).await;
    second.entry.format_version += 1;
    second.publish(cluster, &place.namespace).await;
    is_refused(&gateway, &first, second.name(), "UnknownFormat").await;
    // Back to what runs: nothing is pending any more.
    first.write_index(cluster, &place.namespace).await;
    until("nothing is pending", async || gateway.report().await.pending.is_none().then_some(())).await;
}

/// That an object was taken away from a revision.
fn lost(kind: &str, namespace: &str, name: &str) -> SnapshotRestrictions {
    let [kind, namespace, name] = [kind, namespace, name].map(str::to_owned);
    let lost = Revocation { kind, namespace, name, chain_namespace: None, chain: None, reason: None };
    SnapshotRestrictions { revoked: Some(vec![lost]), ..SnapshotRestrictions::default() }
}

#[tokio::test]
async fn what_was_taken_away_stays_away_while_the_newest_revision_cannot_be_taken() {
    let cluster = Cluster::shared().await;
    let (place, gateway, first, _) = running(cluster).await;
    let namespace = &place.namespace;
    let nothing = SnapshotRestrictions::default();
    let lost = lost("MCPUpstream", namespace, "up");
    let until_gone = async || {
        until("the call is refused", async || gateway.call("up__whoami").await.err()).await;
    };
    let stays_gone = async || {
        // A pod reports an index as pending once it obeys what that says.
        let answer = gateway.call("up__whoami").await;
        assert!(answer.is_err(), "it is served again: {answer:?}");
        assert_eq!(gateway.report().await.revision, first.name());
    };
    let newer = |word: &str| Revision::of_the_future(&manifests(namespace, "http://127.0.0.1:1/mcp", word));
    let is_pending = async |newest: &Revision| {
        let of_newest = |report: &hawsepipe::domain::report::Report| {
            report.pending.clone().filter(|pending| pending.revision == newest.name())
        };
        gateway.until_reported("the newest is pending", of_newest).await;
    };

    // It is pinned, and its upstream is deleted.
    let (second, third) = (newer("two"), newer("three"));
    first.write_index_with(cluster, namespace, &[], Some(lost.clone())).await;
    until_gone().await;
    // The pin is taken out: the newest revision knows by itself what is gone.
    second.write_shards(cluster, namespace).await;
    let told = SnapshotRevision { restrictions: Some(lost), ..first.entry.clone() };
    second.write_index_with(cluster, namespace, &[&told], Some(nothing.clone())).await;
    is_pending(&second).await;
    stays_gone().await;
    // The index does not keep the revision any more that runs.
    third.write_shards(cluster, namespace).await;
    third.write_index_with(cluster, namespace, &[&second.entry], Some(nothing.clone())).await;
    is_pending(&third).await;
    stays_gone().await;
    // The upstream is back, which the index says of that revision.
    let told = SnapshotRevision { restrictions: Some(nothing.clone()), ..first.entry.clone() };
    third.write_index_with(cluster, namespace, &[&second.entry, &told], Some(nothing)).await;
    gateway.until_answers("up__whoami", "one nobody").await;
}

#[tokio::test]
async fn a_pod_that_cannot_take_the_newest_revision_learns_what_is_taken_away_from_its_own() {
    let cluster = Cluster::shared().await;
    let (place, gateway, first, _) = running(cluster).await;
    let second = Revision::of_the_future(&manifests(&place.namespace, "http://127.0.0.1:1/mcp", "two"));
    second.publish(cluster, &place.namespace).await;
    is_refused(&gateway, &first, second.name(), "UnknownFormat").await;
    let lost = lost("Plugin", &place.namespace, "say");
    let told = SnapshotRevision { restrictions: Some(lost), ..first.entry.clone() };
    second.write_index_with(cluster, &place.namespace, &[&told], Some(SnapshotRestrictions::default())).await;
    until("the call is refused", async || {
        gateway.call("up__whoami").await.err().filter(|why| why.contains("PluginNotFound"))
    })
    .await;
}
