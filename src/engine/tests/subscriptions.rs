//! Subscriptions to resources: how many a client may have, also of those that are under way.

use std::sync::atomic::AtomicUsize;

use futures_util::FutureExt;
use futures_util::future::join_all;

use super::items::items;
use super::*;
use crate::domain::upstream::MAX_SUBSCRIBED;
use crate::engine::views::scrape::render_metrics;
use crate::engine::{MAX_OF_CLIENT, Mailbox, SubscribeRequest, Subscription};

/// Subscribes a client, whose notices go to `mailbox`, to this many resources at the same time. The server answers when it
/// was asked for all of them. Returns what it has then.
async fn subscribe(engine: &Gateway, caller: &Caller, mailbox: &Arc<Mailbox>, count: usize) -> Vec<Subscription> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let uris: Vec<_> = (0..count).map(|_| format!("db:///{}", NEXT.fetch_add(1, Ordering::Relaxed))).collect();
    let asked = uris.iter().map(|uri| {
        engine.calls.subscribe(SubscribeRequest { endpoint: Endpoint::All, caller, uri, mailbox, within: None })
    });
    let mut all = Box::pin(join_all(asked));
    assert!(all.as_mut().now_or_never().is_none(), "the server does not answer yet");
    engine.server.go.notify_waiters();
    all.await.into_iter().filter_map(Result::ok).collect()
}

async fn started() -> Gateway {
    let mut inputs = bare();
    inputs.gateway.as_mut().unwrap().plan.limits.session_concurrent_calls = Some(1000);
    let engine = items(&inputs, "{}").await;
    engine.server.subscribes.store(true, Ordering::Relaxed);
    *engine.server.holds.lock().unwrap() = true;
    engine
}

#[tokio::test]
async fn subscriptions_that_are_under_way_count() {
    let engine = started().await;
    let (client, mailbox) = (caller(Era::Legacy), Arc::default());
    let mine = subscribe(&engine, &client, &mailbox, MAX_OF_CLIENT + 5).await;
    assert_eq!(mine.len(), MAX_OF_CLIENT);
    let scraped = render_metrics(&engine.views);
    assert!(scraped.contains("hawsepipe_calls_refused_total{reason=\"Subscriptions\"} 5\n"), "{scraped}");
    drop(mine);
    assert_eq!(subscribe(&engine, &client, &mailbox, 1).await.len(), 1, "their places are free again");
}

#[tokio::test]
async fn of_an_upstream_whose_places_become_few_a_client_gets_a_few() {
    let engine = started().await;
    let (greedy, late, mut taken) = (caller(Era::Modern), caller(Era::Legacy), Vec::new());
    while taken.len() <= MAX_SUBSCRIBED / 2 {
        let most = (MAX_SUBSCRIBED / 2 + 1 - taken.len()).min(MAX_OF_CLIENT);
        taken.extend(subscribe(&engine, &greedy, &Arc::default(), most).await);
    }
    assert_eq!(subscribe(&engine, &late, &Arc::default(), 40).await.len(), 16);
}

#[tokio::test]
async fn a_subscription_that_the_server_refuses_leaves_nothing() {
    let engine = started().await;
    let (client, mailbox) = (caller(Era::Legacy), Arc::default());
    engine.server.subscribes.store(false, Ordering::Relaxed);
    for _ in 0..3 {
        assert!(subscribe(&engine, &client, &mailbox, MAX_OF_CLIENT).await.is_empty());
    }
    engine.server.subscribes.store(true, Ordering::Relaxed);
    let kept = subscribe(&engine, &client, &mailbox, MAX_OF_CLIENT).await;
    assert_eq!(kept.len(), MAX_OF_CLIENT);
    assert!(engine.server.unsubscribed.lock().unwrap().is_empty(), "it had nothing to end");
}
