//! Starts without the API server: from the last good plan on disk, with the Secrets that are mounted.

use std::os::unix::fs::MetadataExt;

use super::process::{Folder, Place, manifests};
use super::published::Revision;
use super::upstream;
use crate::harness::{API_SERVER, Cluster, until};

/// What a gateway keeps in its `--state-dir`.
const FILE: &str = "last-good-snapshot";

/// Manifests whose upstream is sent a Secret's value.
fn with_key(place: &Place<'_>, url: &str, word: &str) -> String {
    let headers = "external: {headers: [{name: X-Key, valueFrom: {secretKeyRef: {name: whoami, key: key}}}], ";
    manifests(&place.namespace, url, word).replace("external: {", headers)
}

/// Waits until a revision is on disk, which is after it is in force.
async fn until_kept(state: &Folder, revision: &Revision) {
    until("the revision is on disk", async || {
        let kept = std::fs::read_to_string(state.path().join(FILE)).ok()?;
        kept.contains(revision.name()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_restart_without_the_api_server_serves_what_was_served() {
    let cluster = Cluster::own().await;
    let place = Place::new(&cluster).await;
    let url = upstream::start().await;
    let (state, secrets) = (Folder::new(), Folder::new());
    secrets.write("whoami/key", "hunter2\n");
    let folders = ["--state-dir", state.path().to_str().unwrap(), "--secrets-dir", secrets.path().to_str().unwrap()];
    let [first, second] = ["one", "two"].map(|word| Revision::of(&with_key(&place, &url, word)));
    first.publish(&cluster, &place.namespace).await;
    let gateway = place.start(&folders).await;
    gateway.until_answers("up__whoami", "one hunter2").await;
    until_kept(&state, &first).await;

    cluster.plane().kill(API_SERVER);
    assert_eq!(gateway.call("up__whoami").await.unwrap(), "one hunter2");
    drop(gateway);
    let gateway = place.start(&folders).await;
    gateway.until_answers("up__whoami", "one hunter2").await;
    assert_eq!(gateway.report().await.revision, first.name());
    cluster.plane().start_api_server_again().await;
    second.publish(&cluster, &place.namespace).await;
    gateway.until_answers("up__whoami", "two hunter2").await;
    until_kept(&state, &second).await;
    drop(gateway);

    // One that hangs is not waited for either.
    cluster.plane().signal(API_SERVER, "STOP");
    let gateway = place.start(&folders).await;
    gateway.until_answers("up__whoami", "two hunter2").await;
    cluster.plane().signal(API_SERVER, "CONT");
    first.publish(&cluster, &place.namespace).await;
    gateway.until_answers("up__whoami", "one hunter2").await;
    until_kept(&state, &first).await;
    drop(gateway);

    // A torn file is nothing to start from, and no reason to end.
    cluster.plane().kill(API_SERVER);
    let file = state.path().join(FILE);
    let kept = std::fs::read(&file).unwrap();
    assert!(!String::from_utf8_lossy(&kept).contains("hunter2"), "a Secret's value is on disk");
    std::fs::write(&file, &kept[..kept.len() - 1]).unwrap();
    let gateway = place.start(&folders).await;
    assert_eq!(gateway.get("/readyz").await.status, 503);
    cluster.plane().start_api_server_again().await;
    gateway.until_answers("up__whoami", "one hunter2").await;
    assert!(!gateway.log().contains("hunter2"));
}

#[tokio::test]
async fn names_of_tools_alone_are_kept_and_the_plan_is_neither_linked_nor_kept_again() {
    let cluster = Cluster::shared().await;
    let place = Place::new(cluster).await;
    let state = Folder::new();
    let only = Revision::of(&manifests(&place.namespace, &upstream::start().await, "one"));
    only.publish(cluster, &place.namespace).await;
    let gateway = place.start(&["--state-dir", state.path().to_str().unwrap()]).await;
    gateway.until_answers("up__whoami", "one nobody").await;
    until_kept(&state, &only).await;
    let times_applied = async || {
        let metrics = gateway.get("/metrics").await.text;
        let count = metrics.lines().find_map(|line| line.strip_prefix("hawsepipe_plan_apply_duration_seconds_count "));
        count.unwrap().to_owned()
    };
    let plan = std::fs::metadata(state.path().join(FILE)).unwrap().ino();
    let before = times_applied().await;
    only.write_index_with_name(cluster, &place.namespace, "renamed").await;
    until("the name is on disk", async || {
        let kept = std::fs::read_to_string(state.path().join("last-good-extras")).ok()?;
        kept.contains("renamed").then_some(())
    })
    .await;
    assert_eq!(times_applied().await, before);
    assert_eq!(std::fs::metadata(state.path().join(FILE)).unwrap().ino(), plan, "it was written anew");
}
