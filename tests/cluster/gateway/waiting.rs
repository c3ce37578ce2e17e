//! A gateway without a snapshot says what it waits for, and asks seldom.

use std::time::Duration;

use super::process::{ACCOUNT, Place};
use super::published::GATEWAY;
use crate::harness::{Cluster, until};

/// How long is counted how often it asks. The waits between add up to more with the sixth try, or the fifth.
const COUNTED: Duration = Duration::from_secs(6);

#[tokio::test]
async fn a_gateway_whose_snapshot_is_not_there_says_so_once() {
    let place = Place::new(Cluster::shared().await).await;
    let gateway = place.start(&[]).await;
    let wanted = format!("there is no GatewaySnapshot {}/{GATEWAY}", place.namespace);
    until("it says what it waits for", async || gateway.log().contains(&wanted).then_some(())).await;
    assert_eq!(gateway.log().matches(&wanted).count(), 1);
    assert_eq!(gateway.get("/readyz").await.status, 503);
}

#[tokio::test]
async fn a_gateway_that_may_read_nothing_says_so_and_asks_seldom() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace().await;
    cluster.make_account(&namespace, ACCOUNT).await;
    let token = cluster.token(&namespace, ACCOUNT, &[]).await;
    let mark = cluster.mark().await;
    let gateway = Place::of(cluster, &namespace, GATEWAY, token).start(&[]).await;
    let said = "run it under the service account NAME-gateway";
    until("it says that it may not", async || gateway.log().contains(said).then_some(())).await;
    tokio::time::sleep(COUNTED).await;
    let user = format!("system:serviceaccount:{namespace}:{ACCOUNT}");
    let asked = cluster.requests_since(mark).await.into_iter().filter(|request| request.user == user).count();
    assert!((2..=7).contains(&asked), "it asked {asked} times");
    let failures = gateway.log().lines().filter(|line| line.contains("forbidden")).count();
    assert_eq!(failures, 1, "{}", gateway.log());
}
