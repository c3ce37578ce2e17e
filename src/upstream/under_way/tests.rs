//! Tests of whom log messages are given to.

use super::*;
use crate::domain::budget::Account;

const PLAIN: Expected = Expected { hears: true, may_begin_task: false, are_read_later: false };

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

fn client(session: &str) -> Requester {
    Requester { session: session.to_owned(), account: None }
}

/// Whether a message over a shared connection belongs to no request.
fn is_own(requests: &UnderWay) -> bool {
    requests.say(RawValue::NULL, false) == Whose::Nobodys
}

#[test]
fn a_message_is_given_to_a_request_that_it_must_belong_to() {
    let requests = UnderWay::default();
    assert!(is_own(&requests), "it is the server's own");
    let one = requests.begin(client("a"), PLAIN);
    assert!(!is_own(&requests) && one.waiting().is_some());
    let newer = requests.begin(client("a"), PLAIN);
    assert!(!is_own(&requests) && one.waiting().is_none() && newer.waiting().is_some());
    let of_another = requests.begin(client("b"), PLAIN);
    assert!(!is_own(&requests));
    assert!(newer.waiting().is_none() && of_another.waiting().is_none(), "it may be of either client");
    [&one, &newer].into_iter().for_each(|request| request.answered(None));
    drop((one, newer));
    assert!(!is_own(&requests) && of_another.waiting().is_some());
    of_another.answered(None);
    drop(of_another);
    let nameless = [requests.begin(client(""), PLAIN), requests.begin(client(""), PLAIN)];
    assert!(!is_own(&requests) && nameless.iter().all(|request| request.waiting().is_none()));
    nameless.iter().for_each(|request| request.answered(None));
    drop(nameless);
    let deaf = requests.begin(client("a"), Expected { hears: false, ..PLAIN });
    assert!(!is_own(&requests) && deaf.waiting().is_none());
    deaf.answered(None);
    drop(deaf);
    let later = Expected { are_read_later: true, ..PLAIN };
    requests.begin(client(""), later).answered(None);
    assert!(!is_own(&requests), "it may be of the one that was answered");
    let nameless = requests.begin(client(""), later);
    assert!(!is_own(&requests) && nameless.waiting().is_some());
    let named = requests.begin(client("a"), later);
    nameless.answered(None);
    drop(nameless);
    assert!(!is_own(&requests) && named.waiting().is_none(), "nor is it for a client with a session");
}

#[test]
fn what_may_belong_to_a_request_that_was_given_up_is_for_nobody_until_it_is_answered() {
    let requests = UnderWay::default();
    let given_up = requests.begin(client("a"), PLAIN);
    requests.sent_as(given_up.number(), 7);
    drop(given_up);
    assert!(!is_own(&requests), "the server may still work on it");
    requests.lock().unread = Unread::default();
    assert!(!is_own(&requests), "nor does it say when it stops");
    assert_eq!(requests.say(RawValue::NULL, true), Whose::Nobodys, "the connection is of one client");
    let of_another = requests.begin(client("b"), PLAIN);
    assert!(!is_own(&requests) && of_another.waiting().is_none());
    let newer = requests.begin(client("a"), PLAIN);
    of_another.answered(None);
    drop(of_another);
    assert!(!is_own(&requests) && newer.waiting().is_some(), "it is of the same client");
    newer.answered(None);
    drop(newer);
    let answer = Answer::Result(raw("{}"));
    requests.answered(8, &answer);
    assert!(!is_own(&requests), "another request was answered");
    requests.answered(7, &answer);
    assert!(is_own(&requests));
    (0..=MAX_LEFT).for_each(|_| drop(requests.begin(client("a"), PLAIN)));
    assert!(requests.lock().requests.is_empty() && !is_own(&requests), "what is left is not remembered");
    assert_eq!(requests.say(RawValue::NULL, true), Whose::Nobodys);
}

#[test]
fn what_may_belong_to_a_task_is_for_nobody_until_the_task_has_ended() {
    let begins = Expected { may_begin_task: true, ..PLAIN };
    for is_late in [false, true] {
        let requests = UnderWay::default();
        let request = requests.begin(client("a"), begins);
        requests.sent_as(request.number(), 7);
        let answer = Answer::Result(raw(r#"{"task":{"taskId":"t","status":"working"}}"#));
        if is_late {
            drop(request);
            requests.answered(7, &answer);
        } else {
            requests.answered(7, &answer);
            request.answered(Some(&answer));
            drop(request);
        }
        assert!(!is_own(&requests), "{is_late}");
        let of_another = requests.begin(client("b"), PLAIN);
        assert!(!is_own(&requests) && of_another.waiting().is_none());
        requests.task_ended("u");
        assert!(!is_own(&requests) && of_another.waiting().is_none());
        requests.task_ended("t");
        assert!(!is_own(&requests) && of_another.waiting().is_some());
    }
}

#[test]
fn what_was_said_on_another_stream_before_an_answer_may_be_read_after_it() {
    let later = Expected { are_read_later: true, ..PLAIN };
    let requests = UnderWay::default();
    let request = requests.begin(client("a"), later);
    request.answered(Some(&Answer::Result(raw("{}"))));
    drop(request);
    assert!(!is_own(&requests));
    assert!(requests.lock().requests.is_empty(), "it was answered");
    let newer = requests.begin(client("b"), later);
    assert!(!is_own(&requests) && newer.waiting().is_none(), "it is not for another client");
    let of_same = requests.begin(client("a"), later);
    assert!(!is_own(&requests) && of_same.waiting().is_none(), "it may be of the other one");
    newer.answered(None);
    drop(newer);
    assert!(!is_own(&requests) && of_same.waiting().is_none(), "that one was answered a moment ago too");
    assert_eq!(requests.say(RawValue::NULL, true), Whose::OneClients, "the connection is of one client");
    assert!(of_same.waiting().is_some());
    requests.lock().unread = Unread::default();
    assert!(!is_own(&requests) && of_same.waiting().is_some(), "that is soon over");
    of_same.answered(None);
    drop(of_same);
    let newest = requests.begin(client("a"), later);
    assert!(!is_own(&requests) && newest.waiting().is_some(), "it is of the same client");
    newest.answered(None);
    drop(newest);
    assert!(!is_own(&requests));
    requests.lock().unread = Unread::default();
    assert!(is_own(&requests));
}

#[test]
fn clients_without_a_session_hear_no_messages_that_were_said_for_one_at_another_address() {
    let later = Expected { are_read_later: true, ..PLAIN };
    let at = |account: &Arc<Account>| Requester { session: String::new(), account: Some(Arc::clone(account)) };
    let (here, there) = (Arc::default(), Arc::default());
    let requests = UnderWay::default();
    requests.begin(at(&there), later).answered(None);
    let of_another = requests.begin(at(&here), later);
    assert!(!is_own(&requests) && of_another.waiting().is_none(), "it may be of the one that was answered");
    of_another.answered(None);
    drop(of_another);
    requests.lock().unread = Unread::default();
    requests.begin(at(&here), later).answered(None);
    let of_same = requests.begin(at(&here), later);
    assert!(!is_own(&requests) && of_same.waiting().is_some());
    let two = requests.begin(at(&here), later);
    assert!(!is_own(&requests) && of_same.waiting().is_none() && two.waiting().is_none(), "nothing tells these apart");
}
