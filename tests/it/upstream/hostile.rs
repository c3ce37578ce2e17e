//! Servers that answer with what is no answer: each gets its own error, and the next call works.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::Response;
use futures_util::StreamExt;
use hawsepipe::domain::budget::{Category, FREE};
use hawsepipe::domain::plan::{EraSetting, NamedValue, TransportPlan, ValueSource};

use super::fake::{Fake, Seen, answer, answer_text, endless, events, status, typed};
use super::*;

const LIMIT: u64 = 64 * 1024;
pub const GOOD: &str = r#"{"content":[]}"#;

/// What a tool call named for the fault is answered with.
fn misbehave(seen: &Seen) -> Response<Body> {
    let json = |text: String| typed(200, "application/json", text);
    let own = answer_text(seen, GOOD);
    let other = r#"{"jsonrpc":"2.0","id":987654,"result":{}}"#.to_owned();
    match seen.body["params"]["name"].as_str().unwrap() {
        "wrong_id" => json(other),
        "wrong_id_in_events" => events(&[other]),
        "no_id" => json(r#"{"jsonrpc":"2.0","result":{}}"#.into()),
        "no_json" => json("hello".into()),
        "cut_off" => json(own[..own.len() - 1].into()),
        "nothing" => json(String::new()),
        "batch" => json(format!("[{own},{own}]")),
        "two_answers" => json(format!("{own}{own}")),
        "both" => json(own.replace("\"result\"", "\"error\":{},\"result\"")),
        "neither" => json(format!(r#"{{"jsonrpc":"2.0","id":{}}}"#, seen.body["id"])),
        "brackets" => json("[".repeat(10_000)),
        "bad_utf8" => typed(200, "application/json", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}".to_vec()),
        "bad_utf8_in_events" => typed(200, "text/event-stream", b"data: \xff\n\n".to_vec()),
        "html" => typed(200, "text/html", "<p>"),
        "accepted" => status(202),
        "broken" => status(500),
        "ends_early" => events(&[]),
        "overloaded" => status(503),
        "forbidden" => typed(403, "application/json", r#"{"error":"no"}"#),
        "refused" => {
            typed(400, "application/json", r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"m"}}"#)
        }
        "noise_first" => events(&[
            r#"{"jsonrpc":"2.0","method":"notifications/unheard_of"}"#.into(),
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"theirs","progress":1}}"#
                .into(),
            own.clone(),
            own,
        ]),
        fault => exceed(seen, fault),
    }
}

fn brackets(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

/// The same for what is too much, or too long in coming; all else is answered well.
fn exceed(seen: &Seen, fault: &str) -> Response<Body> {
    match fault {
        "large" => answer(seen, &format!("\"{}\"", "x".repeat(200_000))),
        "number" => answer(seen, "5"),
        "list" => answer(seen, "[1,2,3]"),
        "endless_json" => typed(200, "application/json", endless("          ")),
        "endless_event" => typed(200, "text/event-stream", endless("data: xxxxxxxxxxxxxxxxxx\n")),
        "endless_line" => typed(200, "text/event-stream", endless("data: xxxxxxxxxxxxxxxxxx")),
        "endless_comments" => typed(200, "text/event-stream", endless(": still here\n\n")),
        "deep" => answer(seen, &format!("{{\"a\":{}}}", brackets(10_000))),
        "deep_error" => typed(
            200,
            "application/json",
            format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"data":{}}}}}"#, seen.body["id"], brackets(10_000)),
        ),
        "never" => {
            typed(200, "text/event-stream", Body::from_stream(futures_util::stream::pending::<std::io::Result<&str>>()))
        }
        _ => answer(seen, GOOD),
    }
}

#[tokio::test]
async fn http_servers_that_answer_nonsense() {
    let fake = Fake::legacy(misbehave).await;
    let upstreams = started(UpstreamTarget { max_response_size: LIMIT, ..external(&fake.url) });
    for (fault, reason) in [
        ("wrong_id", "ProtocolError"),
        ("wrong_id_in_events", "ProtocolError"),
        ("no_id", "ProtocolError"),
        ("no_json", "ProtocolError"),
        ("cut_off", "ProtocolError"),
        ("nothing", "ProtocolError"),
        ("batch", "ProtocolError"),
        ("two_answers", "ProtocolError"),
        ("both", "ProtocolError"),
        ("neither", "ProtocolError"),
        ("brackets", "ProtocolError"),
        ("bad_utf8", "ProtocolError"),
        ("bad_utf8_in_events", "ProtocolError"),
        ("html", "ProtocolError"),
        ("accepted", "ProtocolError"),
        ("broken", "ProtocolError"),
        ("number", "ProtocolError"),
        ("list", "ProtocolError"),
        ("deep", "ProtocolError"),
        ("deep_error", "ProtocolError"),
        ("large", "TooLarge"),
        ("endless_json", "TooLarge"),
        ("endless_event", "TooLarge"),
        ("endless_line", "TooLarge"),
        ("endless_comments", "TooLarge"),
        ("ends_early", "ConnectFailed"),
        ("overloaded", "ConnectFailed"),
        ("forbidden", "Unauthorized"),
        ("never", "Timeout"),
    ] {
        let timeout = if fault == "never" { Duration::from_millis(50) } else { PATIENCE };
        let error = call(&upstreams, OutCall { timeout, ..out(fault, "{}") }).await.unwrap_err();
        assert_eq!(error.reason().as_str(), reason, "{fault}: {error}");
        assert_eq!(result_of(&upstreams, out("good", "{}")).await, GOOD, "after {fault}");
    }
    assert_eq!(fake.seen("initialize").len(), 1, "one session for all of it");
}

#[tokio::test]
async fn odd_answers_that_are_answers_pass() {
    let fake = Fake::legacy(misbehave).await;
    let upstreams = started(UpstreamTarget { max_response_size: LIMIT, ..external(&fake.url) });
    assert_eq!(result_of(&upstreams, out("noise_first", "{}")).await, GOOD);
    let Answer::Error(error) = call(&upstreams, out("refused", "{}")).await.unwrap() else { panic!() };
    assert_eq!(error.get(), r#"{"code":-32602,"message":"m"}"#);
}

/// A process that shakes hands and then does what `then` says with the call, whose id is 2.
pub fn fake_process(then: &str) -> UpstreamTarget {
    let init = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}"#;
    let mut target = process("sh", &["-c", &format!("read -r _; echo '{init}'; read -r _; read -r call; {then}")]);
    target.plan.era = EraSetting::Legacy;
    target.max_response_size = LIMIT;
    target
}

async fn fails_with(then: &str, timeout: Duration) -> UpstreamError {
    let upstreams = started(fake_process(then));
    let error = call(&upstreams, OutCall { timeout, ..out("x", "{}") }).await.unwrap_err();
    upstreams.shutdown().await;
    error
}

#[tokio::test]
async fn processes_that_answer_nonsense() {
    for (then, reason, words) in [
        (r#"printf '{"jsonrpc":"2.0","id":2,"result":'; tr '\0' x </dev/zero"#, "TooLarge", "65536"),
        ("echo 'out of ink' >&2; exit 3", "ConnectFailed", "out of ink"),
        ("exec >&-; read -r _", "ConnectFailed", "ended"),
        (r#"printf '{"jsonrpc":"2.0","id":2,"result":{'; exit 3"#, "ConnectFailed", "exit status: 3"),
        (r#"echo '{"jsonrpc":"2.0","id":99,"result":{}}'; read -r _"#, "Timeout", "300ms"),
    ] {
        let timeout = if reason == "Timeout" { Duration::from_millis(300) } else { PATIENCE };
        let error = fails_with(then, timeout).await;
        assert_eq!(error.reason().as_str(), reason, "{then}: {error}");
        assert!(error.to_string().contains(words), "{then}: {error}");
    }
}

#[tokio::test]
async fn a_process_that_reads_no_more_is_ended_though_it_lives() {
    let folder = std::env::temp_dir().join(format!("hawsepipe-deaf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let deaf = folder.join("deaf");
    // The first one closes its input after the handshake and lives on; the second one answers.
    let init = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
    let script = format!(
        r#"read -r _; echo '{init}'; read -r _
        if [ ! -e "$0" ]; then exec <&-; echo $$ >"$0.new"; mv "$0.new" "$0"; while :; do sleep 1; done; fi
        read -r _; echo '{{"jsonrpc":"2.0","id":2,"result":{GOOD}}}'; read -r _"#
    );
    let mut target = process("sh", &["-c", &script, &deaf.to_string_lossy()]);
    target.plan.era = EraSetting::Legacy;
    let upstreams = started(target);
    upstreams.probe(PATIENCE).await.unwrap();
    until("it closed its input", || deaf.exists()).await;
    let pid = std::fs::read_to_string(&deaf).unwrap();
    let error = call(&upstreams, out("x", "{}")).await.unwrap_err();
    assert_eq!(error.reason().as_str(), "ConnectFailed", "{error}");
    until("it is ended", || !std::path::Path::new(&format!("/proc/{}", pid.trim())).exists()).await;
    assert_eq!(result_of(&upstreams, out("x", "{}")).await, GOOD);
    upstreams.shutdown().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn noise_on_stdout_is_passed_over() {
    let noise = r#"echo 'Server is ready!'; echo '{"level":30,"msg":"a log"}'; echo; echo '[1]'"#;
    let ping = r#"echo '{"jsonrpc":"2.0","id":"p","method":"ping"}'; read -r pong"#;
    let good = r#"echo '{"jsonrpc":"2.0","id":2,"result":{"pong":'"$pong"'}}'; read -r _"#;
    let upstreams = started(fake_process(&format!("{noise}; {ping}; {good}")));
    let result = result_of(&upstreams, out("x", "{}")).await;
    assert_eq!(result, r#"{"pong":{"jsonrpc":"2.0","id":"p","result":{}}}"#);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn an_answer_that_is_too_large_fails_its_own_call_only() {
    // Two calls are in flight; the first one's answer is too large, the second one's comes after it.
    let large = r#"printf '{"jsonrpc":"2.0","id":2,"result":"'; head -c 200000 /dev/zero | tr '\0' x; echo '"}'"#;
    let noise = r#"printf '{"jsonrpc":"2.0","method":"notifications/message","params":"'; head -c 200000 /dev/zero | tr '\0' x; echo '"}'"#;
    let good = format!(r#"echo '{{"jsonrpc":"2.0","id":3,"result":{GOOD}}}'; read -r _"#);
    let upstreams = started(fake_process(&format!("read -r other; {large}; {noise}; {good}")));
    let (first, second) = tokio::join!(call(&upstreams, out("x", "{}")), call(&upstreams, out("x", "{}")));
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    for outcome in [first, second] {
        match outcome {
            Ok(Answer::Result(result)) => answers.push(result.get().to_owned()),
            Ok(Answer::Error(error)) => panic!("{error}"),
            Err(error) => failures.push(error),
        }
    }
    assert_eq!((answers, failures), (vec![GOOD.to_owned()], vec![UpstreamError::TooLarge(LIMIT)]));
    assert_eq!(upstreams.dropped("large"), 1, "the notification");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn an_answer_of_a_process_that_finds_no_room_fails_its_own_call_only() {
    let large = r#"printf '{"jsonrpc":"2.0","id":2,"result":"'; head -c 300000 /dev/zero | tr '\0' x; echo '"}'"#;
    let good = format!(r#"echo '{{"jsonrpc":"2.0","id":3,"result":{GOOD}}}'; read -r _"#);
    let mut target = fake_process(&format!("read -r other; {large}; {good}"));
    target.max_response_size = 1 << 20;
    let budget = Arc::new(ByteBudget::new(256 << 10));
    let upstreams = started_within(target, &budget);
    upstreams.probe(PATIENCE).await.unwrap();
    let (first, second) = tokio::join!(call(&upstreams, out("x", "{}")), result_of(&upstreams, out("x", "{}")));
    assert_eq!((first.unwrap_err(), second.as_str()), (UpstreamError::NoRoom, GOOD));
    upstreams.shutdown().await;
    assert_eq!(budget.held(Category::Answer), 0);
}

#[tokio::test]
async fn an_http_server_whose_answers_pile_up_leaves_room_for_those_of_another() {
    const SIZE: usize = 150 << 10;
    const CALLS: usize = 8;
    // An event of which only the beginning comes.
    let greedy = Fake::legacy(|_| {
        let beginning = format!("data: {}", "x".repeat(SIZE - "data: ".len()));
        let once = futures_util::stream::once(async { std::io::Result::Ok(beginning) });
        typed(200, "text/event-stream", Body::from_stream(once.chain(futures_util::stream::pending())))
    })
    .await;
    let modest = Fake::legacy(|seen| events(&[answer_text(seen, &format!(r#"{{"a":"{}"}}"#, "x".repeat(SIZE)))])).await;
    let [greedy, modest] = [("greedy", &greedy), ("modest", &modest)].map(|(name, fake)| {
        let mut target = external(&fake.url);
        target.plan.key = ObjectKey::new("default", name);
        Arc::new(target)
    });
    let budget = Arc::new(ByteBudget::new(1 << 20));
    let metrics = UpstreamMetrics::new().unwrap();
    let launcher = ServerLauncher::at(fixtures::program());
    let upstreams = Arc::new(Upstreams::new(launcher, metrics, &budget, Instance::new("test")));
    upstreams.prepare(&[Arc::clone(&greedy), Arc::clone(&modest)]);

    let refused = Arc::new(AtomicUsize::new(0));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..CALLS {
        let (upstreams, greedy, refused) = (Arc::clone(&upstreams), Arc::clone(&greedy), Arc::clone(&refused));
        calls.spawn(async move {
            let error = upstreams.call(&greedy, &out("x", "{}"), &Listener::default()).await.unwrap_err();
            assert_eq!(error, UpstreamError::NoRoom);
            refused.fetch_add(1, Ordering::SeqCst);
        });
    }
    until("each call waits or is refused", || {
        let waiting = (CALLS - refused.load(Ordering::SeqCst)) * (SIZE - FREE as usize);
        budget.held(Category::Answer) == waiting as u64
    })
    .await;
    let answer = upstreams.call(&modest, &out("x", "{}"), &Listener::default()).await;
    assert!(matches!(&answer, Ok(answered) if matches!(answered.answer, Answer::Result(_))), "{answer:?}");
    assert!(refused.load(Ordering::SeqCst) < CALLS, "the greedy one has its share");
    calls.shutdown().await;
}

#[tokio::test]
async fn what_a_call_or_a_process_does_not_take_is_counted() {
    let long = r#"printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"message":"'
        head -c 70000 /dev/zero | tr '\0' x; echo '"}}'"#;
    let asks = r#"yes '{"jsonrpc":"2.0","id":"p","method":"ping"}' | head -n 5000"#;
    let mut target =
        fake_process(&format!(r#"{long}; {asks}; echo '{{"jsonrpc":"2.0","id":2,"result":{GOOD}}}'; sleep 1000"#));
    target.max_response_size = 1 << 20;
    let upstreams = started(target);
    assert_eq!(result_of(&upstreams, out("x", "{}")).await, GOOD);
    assert_eq!(upstreams.dropped("progress"), 1);
    assert!(!upstreams.counted.render().contains("messages_unsent_total{upstream=\"up\"} 0\n"));
    upstreams.shutdown().await;
}

#[tokio::test]
async fn a_server_that_floods_is_still_heard() {
    // Its log without end goes on while it answers; so does what it prints before its handshake.
    let init = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
    let answer = format!(r#"{{"jsonrpc":"2.0","id":2,"result":{GOOD}}}"#);
    let script = format!(
        "yes a line of a log >&2 & read -r _; yes a stray line | head -n 100000; echo '{init}'; read -r _; read -r _
        echo '{answer}'; read -r _"
    );
    let mut target = process("sh", &["-c", &script]);
    target.plan.era = EraSetting::Legacy;
    let upstreams = started(target);
    assert_eq!(result_of(&upstreams, out("x", "{}")).await, GOOD);
    assert_eq!(upstreams.dropped("stray"), 100_000);
    assert!(upstreams.dropped("log") > 0);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn what_cannot_be_started_says_so_without_secrets() {
    let mut target = process("no-such-program", &["--token", "swordfish"]);
    target.values = vec![secret("TOKEN", "swordfish")];
    let error = started(target).probe(PATIENCE).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Start(_)), "{error:?}");
    assert!(error.to_string().contains("no-such-program") && !error.to_string().contains("swordfish"), "{error}");

    let mut target = process("sh", &["-c", "echo \"bad token $TOKEN\" >&2; exit 1"]);
    target.values = vec![secret("TOKEN", "swordfish")];
    let error = started(target).probe(PATIENCE).await.unwrap_err().to_string();
    assert!(error.contains("bad token [secret]") && error.contains("exit status: 1"), "{error}");

    let mut target = external(format!("http://user:swordfish@127.0.0.1:{}/mcp?a=1", free_port()));
    target.values = vec![secret("authorization", "Bearer swordfish")];
    let error = started(target).probe(PATIENCE).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Connect(_)), "{error:?}");
    assert!(!error.to_string().contains("swordfish"), "{error}");

    let mut target = external("http://127.0.0.1:1/mcp");
    target.values = vec![secret("authorization", "Bearer sword\nfish")];
    let error = started(target).probe(PATIENCE).await.unwrap_err().to_string();
    assert!(error.contains("authorization") && !error.contains("fish"), "{error}");
}

#[tokio::test]
async fn an_error_of_a_call_hides_what_the_server_was_given_and_a_small_answer_is_bounded_too() {
    let init = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
    let error = r#"printf '{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"bad %s","data":"%s %s"}}\n' "$TOKEN" "$MY_KEY" "$CITY""#;
    let large = r#"printf '{"jsonrpc":"2.0","id":3,"result":{"content":[],"x":"%060d"}}\n' 0"#;
    let script = format!("read -r _; echo '{init}'; read -r _; read -r _; {error}; read -r _; {large}; read -r _");
    let mut target = process("sh", &["-c", &script]);
    target.plan.era = EraSetting::Legacy;
    target.values = vec![secret("TOKEN", "swordfish"), secret("MY_KEY", "carp"), secret("CITY", "Bonn")];
    // The manifest has these as text. By their names, only one is a secret.
    let TransportPlan::Process { env, .. } = &mut target.plan.transport else { panic!("it is no process") };
    for (name, value) in [("MY_KEY", "carp"), ("CITY", "Bonn")] {
        env.push(NamedValue { name: name.to_owned(), value: ValueSource::Literal(value.to_owned()) });
    }
    target.max_response_size = 60;
    let upstreams = started(target);
    let Ok(Answer::Error(error)) = call(&upstreams, out("x", "{}")).await else { panic!("it is no error") };
    assert_eq!(error.get(), r#"{"code":-1,"message":"bad [secret]","data":"[secret] Bonn"}"#);
    assert_eq!(call(&upstreams, out("x", "{}")).await.unwrap_err(), UpstreamError::TooLarge(60));
    upstreams.shutdown().await;
}
