//! Tests of who has the Service of a server.

use super::*;

#[tokio::test]
async fn the_service_of_somebody_else_is_told_whatever_else_is_wrong() {
    let mut running = running(Fault::TakenAndForbidden).await;
    running.plan(running.leadership.term(), &managed_spec());
    assert_eq!(running.round().await, ["serviceaccounts", "networkpolicies"]);
    let server = running.server();
    let (reason, message) = server.fault.unwrap();
    assert!(reason == Reason::NameTaken && message.contains("Service ns/up-mcp"), "{message}");
    assert_eq!(server.address, Address::Taken(message));
}

#[tokio::test]
async fn the_service_of_somebody_else_stays_so_if_it_cannot_be_read() {
    let mut running = running(Fault::TakenThenUnread).await;
    let mut spec = managed_spec();
    running.plan(running.leadership.term(), &spec);
    running.round().await;
    let before = running.server();
    assert!(matches!(before.address, Address::Taken(_)), "{before:?}");
    running.seen.cancel();
    // An edit has the name read at once.
    spec["managed"]["image"] = json!("j");
    running.plan(running.leadership.term(), &spec);
    running.round().await;
    assert_eq!(running.server(), before);
}

#[tokio::test]
async fn the_address_is_ours_once_our_service_is_seen() {
    for (there, expected) in [(&[][..], Address::Unseen), (&["services"], Address::Ours)] {
        let mut running = running(Fault::Existing(there)).await;
        running.plan(running.leadership.term(), &managed_spec());
        running.round().await;
        assert_eq!(running.server().address, expected);
    }
}

#[tokio::test]
async fn a_service_whose_owner_somebody_takes_is_looked_at_again() {
    let mut running = running(Fault::Disowned).await;
    running.plan(running.leadership.term(), &managed_spec());
    running.round().await;
    assert_eq!(running.server().address, Address::Ours);
    let changed = Arc::clone(&running.servers.around.watches.managed_changed);
    // What was changed until now.
    let _ = futures_util::FutureExt::now_or_never(changed.notified());
    running.seen.cancel();
    tokio::time::timeout(Duration::from_secs(30), changed.notified()).await.expect("in time");
}
