//! The Once protocol: contract 1.0 to the letter.

use std::time::Duration;

use hawsepipe::domain::plugin::{Input, Metadata, Phase};
use hawsepipe::domain::ports::RunPlugin;
use hawsepipe::domain::reason::Reason;

use super::{Alone, Code, Rig, input, once};

/// Document 001, example 1, as printed.
const ECHO: &str = include_str!("../../fixtures/contract-1.0/echo-plugin.js");
/// Document 001, example 3, as printed.
const SECURITY: &str = include_str!("../../fixtures/contract-1.0/security-plugin.js");

const READ: &str = "import { readFileSync } from 'node:fs';
    const input = JSON.parse(readFileSync(0, 'utf8'));
    import { Worker } from 'node:worker_threads';
    const ended = () => new Promise((done) => new Worker('', { eval: true }).on('exit', done));
    const say = (text) => console.log(JSON.stringify({ text, continue: true }));\n";

#[tokio::test]
async fn the_printed_echo_runs() {
    let plugin = once(ECHO).link();
    let rig = Rig::with(&[&plugin]).await;
    for content in ["hello", "", "a\nb\u{2028}\"\\é😀"] {
        let output = rig.answer(&plugin, content).await;
        assert_eq!((output.text.as_str(), output.proceed), (content, true));
        assert!(output.metadata.unwrap().get().starts_with("{\"echoedAt\":\"20"));
    }
}

#[tokio::test]
async fn the_printed_security_example_blocks() {
    let plugin = Code { file_name: "security-plugin.js", ..once(SECURITY) }.link();
    let rig = Rig::with(&[&plugin]).await;
    let request =
        |content| Input { metadata: Metadata { phase: Phase::Request.wire(), ..input("").metadata }, ..input(content) };
    let run = async |input| rig.workers.run(&plugin, &input, Duration::from_secs(5), &Alone).await.output.unwrap();
    let blocked = run(request("my password: x")).await;
    assert_eq!(blocked.text, "[BLOCKED] Request contains potentially sensitive information");
    assert_eq!(blocked.error.as_deref(), Some("Security policy violation: sensitive data detected in request"));
    let safe = run(request("harmless")).await;
    assert_eq!((safe.text.as_str(), safe.error), ("harmless", None));
    let response = run(input("my password: x")).await;
    assert_eq!((response.text.as_str(), response.error), ("my password: x", None));
}

#[tokio::test]
async fn large_content_goes_both_ways() {
    let plugin = once(&format!("{READ} say(input.rawContent); process.exit();")).link();
    let rig = Rig::with(&[&plugin]).await;
    for size in [60_000, 600_000, 3_000_000] {
        let content = "é\n".repeat(size / 3);
        assert!(rig.answer(&plugin, &content).await.text == content, "{size}");
    }
}

#[tokio::test]
async fn each_way_to_fail_has_its_reason() {
    for (code, reason, message) in [
        ("console.log('no json')", Reason::InvalidOutput, "returned invalid JSON: unexpected token at line 1"),
        ("console.log({ text: 'a' })", Reason::InvalidOutput, "returned invalid JSON"),
        (
            "console.log('{\"text\":\"a\",\"text\":\"b\",\"continue\":true}')",
            Reason::InvalidOutput,
            "returned invalid JSON: the key `text` stands twice at line 1, column",
        ),
        ("say('a'); say('b')", Reason::InvalidOutput, "printed more than one line"),
        ("", Reason::InvalidOutput, "ended without an answer"),
        (
            "process.stdout.write(Buffer.from([0xff, 10]))",
            Reason::InvalidOutput,
            "returned invalid JSON: it is not UTF-8",
        ),
        ("process.exit(3)", Reason::ExitCode, "exited with code 3"),
        ("throw new Error('x')", Reason::ExitCode, "exited with code 1: Error: x"),
        (
            "JSON.parse('s3cret')",
            Reason::ExitCode,
            "exited with code 1: JSON.parse was given text that is not JSON, at ",
        ),
        (
            "console.error('no configuration'); process.exit(2)",
            Reason::ExitCode,
            "exited with code 2: no configuration",
        ),
        ("process.stdout.write('{\"te'); process.exit(3)", Reason::ExitCode, "exited with code 3"),
        ("process.kill(process.pid, 'SIGKILL'); setInterval(() => {}, 9)", Reason::Crashed, "was ended by signal 9"),
    ] {
        let plugin = once(&format!("{READ}{code}")).link();
        let rig = Rig::with(&[&plugin]).await;
        let failure = rig.failure(&plugin, "content").await;
        assert_eq!(failure.reason, reason, "{code}: {}", failure.message);
        assert!(failure.full().starts_with(message), "{code}: {}", failure.full());
    }
}

#[tokio::test]
async fn an_exit_right_after_the_line_has_a_say() {
    for (code, exit) in [
        ("say('a'); process.exit(3)", 3),
        ("say('a'); process.exitCode = -1", 255),
        ("process.on('exit', () => { process.exitCode = '4'; }); say('a')", 4),
        ("say('a'); await new Promise(() => {})", 13),
        ("say('a'); Promise.reject(new Error('late'))", 1),
        // It is said before the process ends: this one does not.
        ("say('a'); process.reallyExit = () => { for (;;); }; process.exit(3)", 3),
        ("await ended(); say('a'); process.exit(3)", 3),
    ] {
        let plugin = once(&format!("{READ}{code}")).link();
        let rig = Rig::with(&[&plugin]).await;
        // Within 20 ms, which a busy machine may take to come to its end.
        let mut failure = None;
        for _ in 0..20 {
            failure = rig.run(&plugin, "").await.output.err();
            if failure.is_some() {
                break;
            }
        }
        let failure = failure.unwrap_or_else(|| panic!("never seen: {code}"));
        assert_eq!(failure.reason, Reason::ExitCode, "{code}");
        assert!(failure.message.starts_with(&format!("exited with code {exit}")), "{code}: {failure}");
        assert_eq!(rig.count("hawsepipe_worker_kills_total", ""), 0.0, "{code}");
    }
}

#[tokio::test]
async fn an_answer_counts_in_spite_of_how_it_is_put() {
    for code in [
        "process.stdout.write(JSON.stringify({ text: 'a', continue: true }))",
        "console.log(''); say('a'); console.log('')",
        "say('a'); setTimeout(() => process.exit(9), 300)",
        "console.error('noise'); say('a')",
        "process.on('exit', () => say('a'))",
        "await ended(); say('a')",
        "say('a'); process.on('exit', () => process.exit(0))",
        "say('a'); (await import('node:fs')).closeSync(1)",
    ] {
        let plugin = once(&format!("{READ}{code}")).link();
        let rig = Rig::with(&[&plugin]).await;
        assert_eq!(rig.answer(&plugin, "").await.text, "a", "{code}");
    }
    // One that does not read its input at all is done before it is asked.
    let plugin = once("console.log(JSON.stringify({ text: 'a', continue: true }))").link();
    let rig = Rig::with(&[&plugin]).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(rig.answer(&plugin, &"x".repeat(100_000)).await.text, "a");
}

#[tokio::test]
async fn a_hundred_megabytes_without_a_newline_are_bounded() {
    let code = format!("{READ} for (let i = 0; i < 100; i++) process.stdout.write('x'.repeat(1 << 20));");
    let mut code = once(&code);
    code.limits.max_output = 1 << 20;
    let plugin = code.link();
    let rig = Rig::with(&[&plugin]).await;
    assert_eq!(rig.failure(&plugin, "").await.reason, Reason::TooLarge);
    rig.until("the flooding process is gone", |rig| rig.workers.workers().iter().all(|w| w.execution_count == 0)).await;
}

#[tokio::test]
async fn each_call_has_a_process_of_its_own_started_ahead() {
    let plugin =
        once(&format!("{READ} globalThis.n = (globalThis.n ?? 0) + 1; say(`${{process.pid}} ${{n}}`);")).link();
    let rig = Rig::with(&[&plugin]).await;
    let mut pids = Vec::new();
    for _ in 0..3 {
        rig.until("one is ready", |rig| rig.workers.workers().iter().any(|w| w.execution_count == 0)).await;
        let ran = rig.run(&plugin, "").await;
        let pid = ran.worker_pid.unwrap();
        assert_eq!(ran.output.unwrap().text, format!("{pid} 1"));
        pids.push(pid);
    }
    pids.dedup();
    assert_eq!(pids.len(), 3);
}
