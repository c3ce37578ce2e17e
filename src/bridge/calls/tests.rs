//! The ends of calls, and who gets what the server says.

use futures_util::FutureExt;

use super::super::message::BridgedMessage;
use super::*;
use crate::domain::budget::ByteBudget;

const LOG: &str = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"a secret"}}"#;
const ASKS: &str = r#"{"jsonrpc":"2.0","id":"s1","method":"elicitation/create"}"#;

fn outbox() -> Arc<Outbox> {
    Outbox::new(&Arc::new(ByteBudget::default()))
}

/// The next message in an outbox, if there is one.
fn next(outbox: &Outbox) -> Option<String> {
    outbox.next().now_or_never().flatten().map(|message| message.text)
}

fn open(calls: &Calls, id: u64, session: Option<SessionKey>, outbox: &Arc<Outbox>) -> Result<u64, RpcError> {
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#);
    let Ok(BridgedMessage::Request(request)) = BridgedMessage::parse(&text) else { panic!("a request") };
    calls.open(&request, &CallOutput { session, outbox, takes_events: true })
}

/// Passes a message of the server on, and returns what the server is answered.
fn take(calls: &Calls, text: &str) -> Option<String> {
    calls.take(ProcessMessage::parse(text).unwrap(), text)
}

fn answer(calls: &Calls, own: u64) {
    assert!(take(calls, &format!(r#"{{"jsonrpc":"2.0","id":{own},"result":{{}}}}"#)).is_none());
}

/// Two sessions of one process, and their streams.
fn two() -> (Calls, Arc<Outbox>, Arc<Outbox>) {
    let (calls, one, other) = (Calls::default(), outbox(), outbox());
    assert!(calls.join(1, &one) && calls.join(2, &other));
    (calls, one, other)
}

#[test]
fn a_cancelled_call_is_answered_and_takes_up_no_place() {
    let (calls, _, _) = two();
    for id in 0..3000 {
        let post = outbox();
        let own = open(&calls, id, Some(1), &post).unwrap();
        assert_eq!(calls.cancel(2, &id.to_string()), None, "it is another's");
        assert_eq!(calls.cancel(1, &id.to_string()), Some(own));
        let text = next(&post).unwrap();
        assert!(text.contains(&format!(r#""id":{id},"#)) && text.contains("-32800"), "{text}");
        // A second notification, or one after the client has closed its POST, is passed on too.
        assert_eq!(calls.cancel(1, &id.to_string()), Some(own));
        if id % 2 == 0 {
            answer(&calls, own);
            assert_eq!((calls.cancel(1, &id.to_string()), next(&post)), (None, None));
        }
    }
}

#[test]
fn what_the_server_still_does_for_one_client_reaches_no_other() {
    for leaves in [true, false] {
        let (calls, _, stream) = two();
        let (post, others) = (outbox(), outbox());
        let own = open(&calls, 1, Some(1), &post).unwrap();
        if leaves {
            assert_eq!(calls.leave(1).len(), 1);
        } else {
            assert!(calls.abandon(own));
        }
        let of_other = open(&calls, 1, Some(2), &others).unwrap();
        assert!(take(&calls, LOG).is_none());
        assert!(take(&calls, ASKS).unwrap().contains("not clear"));
        assert_eq!((next(&others), next(&stream), next(&post).is_some()), (None, None, leaves));
        answer(&calls, own);
        assert!(take(&calls, ASKS).is_none());
        assert_eq!(next(&others).as_deref(), Some(ASKS));
        answer(&calls, of_other);
    }
}

#[test]
fn what_calls_without_a_session_log_reaches_nobody() {
    let (calls, post) = (Calls::default(), outbox());
    open(&calls, 1, None, &post).unwrap();
    take(&calls, LOG);
    assert_eq!(next(&post), None);
    assert!(take(&calls, ASKS).unwrap().contains("not clear"));
}

#[test]
fn the_only_session_gets_all_whatever_it_has_cancelled() {
    let (calls, stream, post) = (Calls::default(), outbox(), outbox());
    calls.join(1, &stream);
    for id in 0..3000 {
        open(&calls, id, Some(1), &post).unwrap();
        calls.cancel(1, &id.to_string());
    }
    take(&calls, LOG);
    assert_eq!(next(&stream).as_deref(), Some(LOG));
    // More were cancelled than are remembered, so it is not known any more what the server does for whom.
    let other = outbox();
    calls.join(2, &other);
    calls.leave(1);
    take(&calls, LOG);
    assert_eq!(next(&other), None);
}

#[test]
fn one_of_several_sessions_leaves_room_to_the_others() {
    let (calls, _, stream) = two();
    let post = outbox();
    let taken = (0..2000).filter(|id| open(&calls, *id, Some(1), &post).is_ok()).count();
    assert_eq!(taken, 512);
    assert_eq!((0..2000).filter(|id| open(&calls, *id, Some(2), &post).is_ok()).count(), 256);
    calls.leave(1);
    assert_eq!((0..2000).filter(|id| open(&calls, *id, Some(2), &post).is_ok()).count(), 1024 - 256);
    assert_eq!(next(&stream), None);
}

#[test]
fn an_answer_that_cannot_be_used_fails_its_call_or_all_that_it_may_belong_to() {
    let (calls, _, _) = two();
    let posts = [(); 3].map(|()| outbox());
    let ids: Vec<u64> = posts.iter().map(|post| open(&calls, 9, Some(1), post).unwrap()).collect();
    calls.fail(ids[0], "too large");
    assert!(next(&posts[0]).unwrap().contains("too large") && next(&posts[1]).is_none());
    calls.fail_all("unreadable");
    assert!(posts[1..].iter().all(|post| next(post).unwrap().contains("unreadable")));
}
