//! Once with `reuse: true`: the script of contract 1.0, run again and again in one process as if it had it to itself.

use std::time::Duration;

use hawsepipe::domain::plugin::{Input, Metadata, Phase};
use hawsepipe::domain::ports::RunPlugin;
use hawsepipe::domain::reason::Reason;

use super::{Alone, Code, Rig, input, once, reused};

/// Document 001, example 3, as printed.
const SECURITY: &str = include_str!("../../fixtures/contract-1.0/security-plugin.js");

const READ: &str = "const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));
    const say = (text) => console.log(JSON.stringify({ text, continue: true }));\n";

#[tokio::test]
async fn the_printed_security_example_blocks() {
    let plugin = reused(SECURITY).link();
    let rig = Rig::with(&[&plugin]).await;
    let request =
        |content| Input { metadata: Metadata { phase: Phase::Request.wire(), ..input("").metadata }, ..input(content) };
    let run = async |input| rig.workers.run(&plugin, &input, Duration::from_secs(5), &Alone).await.output.unwrap();
    for _ in 0..3 {
        let blocked = run(request("my password: x")).await;
        assert_eq!(blocked.text, "[BLOCKED] Request contains potentially sensitive information");
        assert_eq!(blocked.error.as_deref(), Some("Security policy violation: sensitive data detected in request"));
        assert_eq!(run(request("harmless")).await.text, "harmless");
        assert_eq!(run(input("my password: x")).await.error, None);
    }
}

#[tokio::test]
async fn each_call_has_a_context_of_its_own_in_one_process() {
    let plugin = reused(&format!(
        "{READ}
         globalThis.n = (globalThis.n ?? 0) + 1;
         Array.prototype.seen = (Array.prototype.seen ?? 0) + 1;
         process.env.SEEN = `${{process.env.SEEN ?? ''}}x`;
         process.on('exit', () => {{}});
         say([process.pid, n, [].seen, process.env.SEEN, process.listenerCount('exit'), require.main === module].join());
         setTimeout(() => {{ throw new Error('stray') }}, 100);"
    ))
    .link();
    let rig = Rig::with(&[&plugin]).await;
    let first = rig.run(&plugin, "").await;
    let pid = first.worker_pid.unwrap();
    assert_eq!(first.output.unwrap().text, format!("{pid},1,1,x,1,true"));
    for _ in 0..10 {
        assert_eq!(rig.answer(&plugin, "").await.text, format!("{pid},1,1,x,1,true"));
    }
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "demand"), 1.0);
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "replace"), 0.0);
}

#[tokio::test]
async fn input_is_read_in_every_usual_way() {
    for code in [
        "let s = ''; process.stdin.setEncoding('utf8'); process.stdin.on('data', (c) => s += c);
         process.stdin.on('end', () => answer(s));",
        "(async () => { const chunks = []; for await (const c of process.stdin) chunks.push(c);
            answer(Buffer.concat(chunks).toString()); })();",
        "answer(require('node:fs').readFileSync('/dev/stdin').toString());",
        "require('readline').createInterface({ input: process.stdin }).on('line', answer);",
        "require('node:stream/consumers').text(process.stdin).then(answer);",
        "const b = Buffer.alloc(7 << 20); let n = 0, r; while ((r = require('fs').readSync(0, b, n)) > 0) n += r;
         answer(b.toString('utf8', 0, n));",
        "const { text } = require('stream/consumers'); setTimeout(async () => {
            await require('util').promisify(setTimeout)(1); answer(await text(require('process').stdin)); process.exit();
         }, 1);",
    ] {
        let answer = "function answer(line) {
            process.stdout.write(JSON.stringify({ text: JSON.parse(line).rawContent, continue: true })); }\n";
        let plugin = reused(&format!("#!/usr/bin/env node\n{answer}{code}")).link();
        let rig = Rig::with(&[&plugin]).await;
        for content in ["", "a\nb\u{2028}\"\\é😀", &"é\n".repeat(1_000_000)] {
            assert!(rig.answer(&plugin, content).await.text == content, "{code}");
        }
        assert_eq!(rig.count("hawsepipe_worker_spawns_total", "demand"), 1.0);
    }
}

/// What a call gives: a text, or a reason and a part of its message.
type End = Result<&'static str, (Reason, &'static str)>;

/// What a script does, and how a call of it ends by contract 1.0.
const ENDS: &[(&str, End)] = &[
    ("say('a')", Ok("a")),
    ("say('a'); process.exit()", Ok("a")),
    ("console.log(''); say('a'); console.log('')", Ok("a")),
    ("process.stdout.write(JSON.stringify({ text: 'a', continue: true }))", Ok("a")),
    ("require('fs').writeSync(1, JSON.stringify({ text: 'a', continue: true }))", Ok("a")),
    ("console.error('noise'); say('a')", Ok("a")),
    ("say('a'); setTimeout(() => process.exit(9), 500)", Ok("a")),
    ("console.log('no json')", Err((Reason::InvalidOutput, "returned invalid JSON: unexpected token at line 1"))),
    ("console.log({ text: 'a' })", Err((Reason::InvalidOutput, "returned invalid JSON"))),
    ("say('a'); say('b')", Err((Reason::InvalidOutput, "printed more than one line"))),
    ("", Err((Reason::InvalidOutput, "ended without an answer"))),
    ("process.stdout.write(Buffer.from([0xff, 10]))", Err((Reason::InvalidOutput, "returned invalid JSON: it is not"))),
    ("process.exit(3)", Err((Reason::ExitCode, "exited with code 3"))),
    ("process.exitCode = 4", Err((Reason::ExitCode, "exited with code 4"))),
    ("process.exitCode = 4; process.exit()", Err((Reason::ExitCode, "exited with code 4"))),
    ("throw new Error('x')", Err((Reason::ExitCode, "exited with code 1"))),
    ("setTimeout(() => { throw new Error('x') }, 1)", Err((Reason::ExitCode, "exited with code 1"))),
    ("Promise.reject(new Error('x'))", Err((Reason::ExitCode, "exited with code 1"))),
    ("process.stdout.write('{\"te'); process.exit(3)", Err((Reason::ExitCode, "exited with code 3"))),
    ("process.on('uncaughtException', () => say('a')); throw new Error('x')", Ok("a")),
    ("process.on('exit', () => say('a'))", Ok("a")),
    ("say('a'); process.exit(3)", Err((Reason::ExitCode, "exited with code 3"))),
];

#[tokio::test]
async fn a_call_ends_as_in_a_process_of_its_own() {
    for (code, expected) in ENDS {
        let plugin = reused(&format!("{READ}{code}")).link();
        let rig = Rig::with(&[&plugin]).await;
        for _ in 0..2 {
            let output = rig.run(&plugin, "content").await.output;
            match (output, expected) {
                (Ok(output), Ok(text)) => assert_eq!(output.text, *text, "{code}"),
                (Err(failure), Err((reason, message))) => {
                    assert_eq!(failure.reason, *reason, "{code}: {}", failure.message);
                    assert!(failure.message.starts_with(message), "{code}: {}", failure.message);
                }
                (output, _) => panic!("{code}: {output:?}"),
            }
        }
        assert_eq!(rig.count("hawsepipe_worker_spawns_total", "replace"), 0.0, "{code}");
    }
}

/// What [`ENDS`] says of a script that is run again is what one with a process of its own does.
#[tokio::test]
async fn a_process_of_its_own_ends_so_too() {
    // An exit right after the line is seen only within its window, which a busy machine may miss.
    for (code, expected) in ENDS.iter().filter(|(code, _)| !code.ends_with("say('a'); process.exit(3)")) {
        let plugin = Code { file_name: "plugin.cjs", ..once(&format!("{READ}{code}")) }.link();
        let rig = Rig::with(&[&plugin]).await;
        let output = rig.run(&plugin, "content").await.output;
        let said = output.as_ref().map(|output| output.text.as_str()).map_err(|failure| failure.reason);
        assert_eq!(said, expected.map_err(|(reason, _)| reason), "{code}: {output:?}");
    }
}

#[tokio::test]
async fn what_a_call_left_behind_is_not_charged_to_the_next() {
    // A timer of Node's own outlives the call; the worker that it brings down is replaced.
    let plugin = reused(&format!(
        "{READ} say('a');
         require('timers').setTimeout(() => {{ throw new Error('late') }}, 50);"
    ))
    .link();
    let rig = Rig::with(&[&plugin]).await;
    let first = rig.run(&plugin, "").await;
    assert_eq!(first.output.unwrap().text, "a");
    rig.until("it is replaced", |rig| {
        rig.workers.workers().iter().any(|w| Some(w.pid) != first.worker_pid && w.is_healthy)
    })
    .await;
    assert_eq!(rig.answer(&plugin, "").await.text, "a");
}

#[tokio::test]
async fn one_that_does_not_parse_says_so() {
    let plugin = reused("const x = ;").link();
    let rig = Rig::with(&[&plugin]).await;
    let failure = rig.workers.availability(&plugin).unwrap_err();
    assert!(failure.message.contains("SyntaxError"), "{failure}");
}

#[tokio::test]
async fn a_loop_is_killed_at_its_deadline() {
    let plugin = reused(&format!("{READ} if (input.rawContent) for (;;); say('fine')")).link();
    let rig = Rig::with(&[&plugin]).await;
    assert_eq!(rig.run_for(&plugin, "loop", 150).await.output.unwrap_err().reason, Reason::Timeout);
    assert_eq!(rig.answer(&plugin, "").await.text, "fine");
    let never = reused(&format!("{READ} setInterval(() => {{}}, 1000)")).link();
    let rig = Rig::with(&[&never]).await;
    assert_eq!(rig.run_for(&never, "", 150).await.output.unwrap_err().reason, Reason::Timeout);
}
