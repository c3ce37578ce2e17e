//! The Lines protocol: a message in, a message out, in one process that stays; as JSON and as MessagePack.

use std::path::Path;
use std::time::{Duration, Instant};

use hawsepipe::domain::plugin::{Encoding, Input, Metadata};
use hawsepipe::domain::ports::RunPlugin;
use hawsepipe::domain::reason::Reason;
use serde_json::value::RawValue;

use super::{Alone, Code, Rig, input, lines};

const PACKED: &str = include_str!("msgpack.mjs");

/// A script that answers each line as `body` says, which has `input`, `n`, how many there were, and `say`.
fn answering(body: &str) -> Code {
    lines(&format!(
        "import {{ createInterface }} from 'node:readline';
         import {{ setTimeout as sleep }} from 'node:timers/promises';
         const say = (text) => console.log(JSON.stringify({{ text, continue: true, metadata: {{ pid: process.pid }} }}));
         let n = 0;
         for await (const line of createInterface({{ input: process.stdin }})) {{
             const input = JSON.parse(line);
             n += 1;
             {body}
         }}"
    ))
}

/// The same with MessagePack; `body` is a function of the input that gives the bytes of an answer.
fn packing(body: &str) -> Code {
    Code { encoding: Encoding::MessagePack, ..lines(&format!("{PACKED}\nawait serve({body});")) }
}

#[tokio::test]
async fn one_process_answers_line_after_line() {
    let plugin = answering("say(`${n} ${input.rawContent}`);").link();
    let rig = Rig::with(&[&plugin]).await;
    let mut pids = Vec::new();
    for (n, content) in ["hello", "", "a\nb\u{2028}\"\\é😀"].into_iter().enumerate() {
        let ran = rig.run(&plugin, content).await;
        pids.push(ran.worker_pid.unwrap());
        let output = ran.output.unwrap();
        assert_eq!((output.text, output.proceed), (format!("{} {content}", n + 1), true));
        assert_eq!(output.metadata.unwrap().get(), format!("{{\"pid\":{}}}", pids[0]));
    }
    pids.dedup();
    assert_eq!(pids.len(), 1);
}

#[tokio::test]
async fn large_content_goes_both_ways() {
    for plugin in [
        answering("say(input.rawContent);").link(),
        packing("(input) => encode({ text: input.rawContent, continue: true })").link(),
    ] {
        let rig = Rig::with(&[&plugin]).await;
        for size in [60_000, 600_000, 3_000_000] {
            let content = "é\n".repeat(size / 3);
            assert!(rig.answer(&plugin, &content).await.text == content, "{size}");
        }
    }
}

#[tokio::test]
async fn each_way_to_fail_has_its_reason_and_the_next_call_is_fine() {
    let plugin = answering(
        "switch (input.rawContent) {
            case 'json': console.log('no json'); break;
            case 'text': console.log('{\"continue\":true}'); break;
            case 'both': say('a'); say('b'); break;
            case 'utf8': process.stdout.write(Buffer.from([0xff, 10])); break;
            case 'exit': process.exit(3);
            case 'throw': throw new Error('x');
            case 'cut': process.stdout.write('{\"te'); process.exit(0);
            case 'nothing': process.exit(0);
            case 'signal': process.kill(process.pid, 'SIGKILL'); await sleep(9999);
            default: console.log(''); say('fine'); console.error('noise');
        }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    for (content, reason, message) in [
        ("json", Reason::InvalidOutput, "returned invalid JSON: unexpected token at line 1"),
        ("text", Reason::InvalidOutput, "its answer has no `text`"),
        ("utf8", Reason::InvalidOutput, "returned invalid JSON: it is not UTF-8"),
        ("exit", Reason::ExitCode, "exited with code 3"),
        ("throw", Reason::ExitCode, "exited with code 1: Error: x"),
        ("cut", Reason::InvalidOutput, "returned invalid JSON: it ends too early"),
        ("nothing", Reason::InvalidOutput, "ended without an answer"),
        ("signal", Reason::Crashed, "was ended by signal 9"),
    ] {
        let failure = rig.failure(&plugin, content).await;
        assert_eq!(failure.reason, reason, "{content}: {}", failure.message);
        assert!(failure.full().starts_with(message), "{content}: {}", failure.full());
        assert_eq!(rig.answer(&plugin, "").await.text, "fine", "after {content}");
    }
    // The second line may be seen with the first, or while nobody asks.
    if let Err(failure) = rig.run(&plugin, "both").await.output {
        assert_eq!((failure.reason, failure.message.as_str()), (Reason::InvalidOutput, "printed more than one line"));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(rig.answer(&plugin, "").await.text, "fine");
}

#[tokio::test]
async fn a_late_line_is_nobodys_answer() {
    let plugin = answering("say(input.rawContent); if (n === 1) { await sleep(50); say('late'); }").link();
    let rig = Rig::with(&[&plugin]).await;
    let first = rig.run(&plugin, "first").await;
    assert_eq!(first.output.unwrap().text, "first");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let second = rig.run(&plugin, "second").await;
    assert_eq!(second.output.unwrap().text, "second");
    assert_ne!(first.worker_pid, second.worker_pid);
    assert_eq!(rig.count("hawsepipe_worker_recycles_total", "stray"), 1.0);
}

#[tokio::test]
async fn a_script_that_speaks_first_is_never_asked() {
    let plugin = lines("console.log('hello'); process.stdin.resume();").link();
    let rig = Rig::with(&[&plugin]).await;
    rig.until("it failed", |rig| rig.workers.availability(&plugin).is_err()).await;
    let failure = rig.failure(&plugin, "").await;
    assert_eq!(failure.reason, Reason::NotLoaded);
    assert!(failure.message.contains("printed something on standard output before it was asked"), "{failure}");
    let spawned = ["demand", "retry", "replace"].map(|cause| rig.count("hawsepipe_worker_spawns_total", cause));
    assert!(spawned.iter().sum::<f64>() <= 3.0, "{spawned:?}");
}

#[tokio::test]
async fn what_does_not_end_is_bounded() {
    let mut code = answering("for (let i = 0; i < 100; i++) process.stdout.write('x'.repeat(1 << 20));");
    code.limits.max_output = 1 << 20;
    let mut packed = packing("() => { send(Buffer.alloc(100 << 20)); for (;;); }");
    packed.limits.max_output = 1 << 20;
    for plugin in [code.link(), packed.link()] {
        let rig = Rig::with(&[&plugin]).await;
        let failure = rig.failure(&plugin, "").await;
        assert_eq!(failure.reason, Reason::TooLarge, "{}", failure.message);
    }
}

#[tokio::test]
async fn a_late_call_is_answered_at_its_deadline_and_the_next_one_is_fine() {
    let plugin = answering("if (input.rawContent === 'loop') for (;;); say('fine');").link();
    let rig = Rig::with(&[&plugin]).await;
    let began = Instant::now();
    assert_eq!(rig.run_for(&plugin, "loop", 150).await.output.unwrap_err().reason, Reason::Timeout);
    assert!(began.elapsed() < Duration::from_millis(250), "{:?}", began.elapsed());
    assert_eq!(rig.answer(&plugin, "").await.text, "fine");
    assert_eq!(rig.count("hawsepipe_worker_kills_total", "timeout"), 1.0);
}

#[tokio::test]
async fn message_pack_says_what_json_says() {
    let plugin = packing(
        "(input) => {
            if (input.rawContent === 'bytes') return Buffer.of(0xc1);
            if (input.rawContent === 'more') return Buffer.concat([encode({ text: '', continue: true }), Buffer.of(0xc0)]);
            if (input.rawContent === 'text') return encode({ continue: true });
            if (input.rawContent === 'type') return encode({ text: 1, continue: true });
            if (input.rawContent === 'error') return encode({ text: 'mine', continue: false, error: 'no' });
            return encode({ text: input.rawContent, continue: true, error: null, metadata: { input, list: [1.5, -2] } });
        }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    let config = RawValue::from_string(r#"{"mask":"é","deep":{"list":[1,-7,2.5,null,true]}}"#.into()).unwrap();
    let metadata = Metadata { config: Some(&config), user_query: Some("why?"), ..input("").metadata };
    let asked = Input { metadata, ..input("content é") };
    let output = rig.workers.run(&plugin, &asked, Duration::from_secs(5), &Alone).await.output.unwrap();
    assert_eq!((output.text.as_str(), output.proceed, output.error), ("content é", true, None));
    let echoed: serde_json::Value = serde_json::from_str(output.metadata.unwrap().get()).unwrap();
    // As MessagePack it went out and came back: numbers of JavaScript are all doubles.
    let sent: serde_json::Value = serde_json::to_value(&asked).unwrap();
    for pointer in ["/toolName", "/rawContent", "/metadata/requestId", "/metadata/phase", "/metadata/userQuery"] {
        assert_eq!(echoed["input"].pointer(pointer), sent.pointer(pointer), "{pointer}");
    }
    assert_eq!(echoed["input"]["maxTokens"].as_f64(), Some(7.0));
    assert_eq!(echoed["input"]["metadata"]["config"]["deep"]["list"][1].as_f64(), Some(-7.0));
    assert_eq!(echoed["input"]["metadata"]["config"]["mask"], "é");
    assert_eq!(echoed["list"][0].as_f64(), Some(1.5));
    for (content, message) in [
        ("bytes", "returned invalid MessagePack"),
        ("more", "returned invalid MessagePack"),
        ("type", "returned invalid MessagePack"),
        ("text", "its answer has no `text`"),
    ] {
        let failure = rig.failure(&plugin, content).await;
        assert_eq!((failure.reason, failure.message.as_str()), (Reason::InvalidOutput, message), "{content}");
    }
    assert_eq!(rig.answer(&plugin, "error").await.error.as_deref(), Some("no"));
    assert!(Path::new(&format!("/proc/{}", rig.run(&plugin, "").await.worker_pid.unwrap())).exists());
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "demand"), 1.0);
}
