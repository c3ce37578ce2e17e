//! The Module protocol: what goes in, what comes out, how it fails.

use hawsepipe::domain::plugin::{Input, Metadata, Phase, Protocol};
use hawsepipe::domain::ports::RunPlugin;
use hawsepipe::domain::reason::Reason;
use serde_json::value::RawValue;
use std::time::Duration;

use super::{Alone, Code, Rig, input, module};

#[tokio::test]
async fn content_goes_in_and_comes_out() {
    let plugin = module(
        "export default async (input, ctx) => ({
            text: input.rawContent.toUpperCase(), continue: false,
            metadata: { ...input, rawContent: undefined, same: ctx.config === input.metadata.config } })",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    let config = RawValue::from_string(r#"{"k":"ä"}"#.into()).unwrap();
    let input = Input { metadata: Metadata { config: Some(&config), ..input("").metadata }, ..input("aé😀") };
    let ran = rig.workers.run(&plugin, &input, Duration::from_secs(5), &Alone).await;
    let output = ran.output.unwrap();
    assert_eq!((output.text.as_str(), output.proceed, output.error), ("AÉ😀", false, None));
    let seen: serde_json::Value = serde_json::from_str(output.metadata.unwrap().get()).unwrap();
    let expected = serde_json::json!({
        "toolName": "files/read", "maxTokens": 7, "same": true,
        "metadata": {
            "requestId": "0190-1", "method": "tools/call", "timestamp": "2026-01-02T03:04:05.678Z", "serverName": "files", "phase": "response",
            "userQuery": null, "contentType": "text", "config": {"k": "ä"}, "chain": "default/c", "attempt": 1,
        },
    });
    assert_eq!(seen, expected);
    assert!(rig.workers.workers().iter().any(|worker| Some(worker.pid) == ran.worker_pid));
}

#[tokio::test]
async fn content_of_every_size_comes_back_whole() {
    let plugin = module("export default (input) => ({ text: input.rawContent, continue: true })").link();
    let rig = Rig::with(&[&plugin]).await;
    for size in [0, 1, 1000, 65_536, 262_136, 262_144, 300_001, 3_000_000] {
        for unit in ["x", "\u{e9}", "\u{1f600}"] {
            let content = unit.repeat(size / unit.len());
            assert!(rig.answer(&plugin, &content).await.text == content, "{size} of {unit}");
        }
    }
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "demand"), 1.0);
}

#[tokio::test]
async fn every_form_of_module_is_found() {
    let request = || Input { metadata: Metadata { phase: Phase::Request.wire(), ..input("").metadata }, ..input("c") };
    for (file_name, code) in [
        (
            "p.mjs",
            "export const onRequest = () => ({ text: 'q', continue: true }); export default () => ({ text: 's', continue: true })",
        ),
        (
            "p.cjs",
            "exports.onRequest = () => ({ text: 'q', continue: true }); exports.onResponse = () => ({ text: 's', continue: true })",
        ),
        ("p.js", "module.exports = (i) => ({ text: i.metadata.phase === 'request' ? 'q' : 's', continue: true })"),
    ] {
        let plugin = Code { file_name, ..module(code) }.link();
        let rig = Rig::with(&[&plugin]).await;
        let ran = rig.workers.run(&plugin, &request(), Duration::from_secs(5), &Alone).await;
        assert_eq!(ran.output.unwrap().text, "q", "{file_name}");
        assert_eq!(rig.answer(&plugin, "c").await.text, "s", "{file_name}");
    }
}

#[tokio::test]
async fn failures_have_their_reasons_and_the_worker_serves_on() {
    let plugin = module(
        "export default async (input) => {
            switch (input.rawContent) {
                case 'throw': throw new TypeError('no such field');
                case 'parse': return JSON.parse('s3cret');
                case 'string': throw 'the words of it';
                case 'nothing': return undefined;
                case 'text': return { text: 1, continue: true };
                case 'continue': return { text: 'a' };
                case 'both': return { text: 'a', continue: true, error: 'x' };
                case 'circular': { const o = { text: 'a', continue: true }; o.metadata = o; return o; }
                case 'own': return { text: 'mine', continue: false, error: 'no' };
                default: return { text: 'fine', continue: true };
            }
        }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    for (content, reason, message) in [
        ("throw", Reason::PluginError, "reported error: TypeError: no such field"),
        ("parse", Reason::PluginError, "reported error: JSON.parse was given text that is not JSON, at plugin.mjs:4:"),
        ("string", Reason::PluginError, "reported error: threw the words of it"),
        ("nothing", Reason::InvalidOutput, "its answer has no `text`"),
        ("text", Reason::InvalidOutput, "its `text` is not a string"),
        ("continue", Reason::InvalidOutput, "its answer has no `continue`"),
        ("both", Reason::InvalidOutput, "its answer has an `error` with `continue: true`"),
        ("circular", Reason::InvalidOutput, "its answer cannot be used: TypeError"),
    ] {
        let failure = rig.failure(&plugin, content).await;
        assert_eq!(failure.reason, reason, "{content}: {}", failure.message);
        assert!(failure.full().starts_with(message), "{content}: {}", failure.full());
    }
    let own = rig.answer(&plugin, "own").await;
    assert_eq!((own.text.as_str(), own.error.as_deref()), ("mine", Some("no")));
    assert_eq!(rig.answer(&plugin, "").await.text, "fine");
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "demand"), 1.0);
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "replace"), 0.0);
}

/// A plugin that denies in many ways.
const DENIALS: &str = "
class Getters {
    get text() { return 'g'; }
    get continue() { return false; }
    get error() { return 'no'; }
    get metadata() { return { m: 1 }; }
}
class Denial { constructor() { this.text = 'd'; this.continue = false; } get error() { return 'no'; } }
function Old() { this.text = 'o'; this.continue = false; }
Old.prototype.error = 'no';
class Passes extends Denial { get error() { return null; } }
export default async ({ rawContent }) => {
    const answer = { text: 'a', continue: false };
    switch (rawContent) {
        case 'getters': return new Getters();
        case 'class': return new Denial();
        case 'prototype': return new Old();
        case 'created': return Object.assign(Object.create({ error: 'no' }), answer);
        case 'hidden': return Object.defineProperty(answer, 'error', { value: 'no', enumerable: false });
        case 'proxy': return new Proxy(answer, { get: (of, name) => (name === 'error' ? 'no' : of[name]) });
        case 'none': return new Passes();
        case 'function': return { ...answer, error: () => 'no' };
        case 'symbol': return { ...answer, error: Symbol('no') };
        case 'nan': return { ...answer, error: NaN };
        case 'zero': return { ...answer, error: 0 };
        case 'boxed': return { ...answer, error: new String('no') };
        case 'said': return { ...answer, error: { toJSON: () => 'no' } };
        case 'named': return { ...answer, error: Object.assign(() => 'yes', { toJSON: (of) => (of === 'error' ? 'no' : 'yes') }) };
        case 'object': return { ...answer, error: { message: 'no' } };
        case 'big': return { ...answer, error: 1n };
        case 'vanishes': return { ...answer, error: { toJSON: () => undefined } };
        case 'throws': return { ...answer, get error() { throw new Error('no'); } };
        case 'both': return Object.assign(new Denial(), { continue: true });
        default:
            for (const name of ['error', 'text']) Object.prototype[name] = 'polluted';
            return rawContent === '' ? answer : { continue: true };
    }
}";

#[tokio::test]
async fn a_denial_counts_wherever_the_answer_has_it() {
    let plugin = module(DENIALS).link();
    let rig = Rig::with(&[&plugin]).await;
    for content in ["getters", "class", "prototype", "created", "hidden", "proxy", "boxed", "said", "named"] {
        let output = rig.answer(&plugin, content).await;
        assert_eq!((output.proceed, output.error.as_deref()), (false, Some("no")), "{content}");
        assert_eq!(output.metadata.is_some(), content == "getters", "{content}");
    }
    assert_eq!(rig.answer(&plugin, "none").await.error, None);
    for (content, message) in [
        ("function", "its answer cannot be used: TypeError: its `error` is not a string"),
        ("symbol", "its answer cannot be used: TypeError: its `error` is not a string"),
        ("zero", "its answer cannot be used: TypeError: its `error` is not a string"),
        ("nan", "its answer cannot be used: TypeError: its `error` is not a string"),
        ("object", "its answer cannot be used: TypeError: its `error` is not a string"),
        ("big", "its answer cannot be used: TypeError: Do not know how to serialize a BigInt"),
        ("vanishes", "its answer cannot be used: TypeError: its `error` is not a string"),
        ("throws", "its answer cannot be used: Error: no"),
        ("both", "its answer has an `error` with `continue: true`"),
    ] {
        let failure = rig.failure(&plugin, content).await;
        assert_eq!((failure.reason, failure.full()), (Reason::InvalidOutput, message), "{content}");
    }
    assert_eq!(rig.answer(&plugin, "").await.error, None, "what was added to Object.prototype is part of no answer");
    assert_eq!(rig.answer(&plugin, "class").await.error.as_deref(), Some("no"));
    assert_eq!(rig.failure(&plugin, "no text").await.message, "its answer has no `text`");
}

#[tokio::test]
async fn what_it_says_of_its_file_names_no_private_folder() {
    let throws =
        module("export default () => { throw new Error(`at ${import.meta.url} in ${import.meta.dirname}/`); };");
    let misses = module("import './not-there.mjs'; export default () => {};");
    let (throws, misses) = (throws.link(), misses.link());
    let rig = Rig::with(&[&throws, &misses]).await;
    let failure = rig.failure(&throws, "").await;
    assert!(failure.full().starts_with("reported error: Error: at plugin.mjs in "), "{failure:?}");
    assert!(!format!("{failure:?}").contains("hawsepipe-plugins-"), "{failure:?}");
    let failure = rig.failure(&misses, "").await;
    assert!(failure.message.contains("'not-there.mjs' imported from plugin.mjs"), "{failure}");
}

#[tokio::test]
async fn a_worker_that_ends_in_a_call_is_replaced() {
    let plugin = module(
        "export default (input) => {
            if (input.rawContent === 'exit') process.exit(0);
            if (input.rawContent === 'signal') process.kill(process.pid, 'SIGSEGV');
            if (input.rawContent === 'reject') { Promise.reject(new Error('late')); return new Promise(() => {}); }
            return { text: 'fine', continue: true };
        }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    for content in ["exit", "signal", "reject"] {
        let failure = rig.failure(&plugin, content).await;
        assert_eq!(failure.reason, Reason::Crashed, "{content}: {}", failure.message);
        assert_eq!(rig.answer(&plugin, "").await.text, "fine", "after {content}");
    }
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "replace"), 3.0);
}

#[tokio::test]
async fn what_it_prints_does_not_disturb_the_wire() {
    let plugin = module(
        "export default (input, ctx) => {
            console.log('a line', { of: 'mine' }); console.error('an error'); ctx.log('x'); ctx.log.warn('y');
            process.stdout.write('raw\\n'); process.stderr.write('no newline');
            for (let i = 0; i < 100000; i++) console.log('flood');
            return { text: 'fine', continue: true };
        }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    for _ in 0..3 {
        assert_eq!(rig.answer(&plugin, "").await.text, "fine");
    }
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "demand"), 1.0);
}

#[tokio::test]
async fn frames_that_it_forges_are_refused() {
    for (forged, reason) in [
        ("Buffer.from([0, 0, 0, 0x3f, 0, 0, 0, 0])", Reason::InvalidOutput),
        ("Buffer.from([0, 0, 0, 0x42, 255, 255, 255, 255])", Reason::TooLarge),
        ("Buffer.from([255, 255, 255, 0x42, 0, 0, 0, 0])", Reason::TooLarge),
    ] {
        let code = format!(
            "import {{ writeSync }} from 'node:fs';
             export default () => {{ writeSync(3, {forged}); return new Promise(() => {{}}); }}"
        );
        let plugin = module(&code).link();
        let rig = Rig::with(&[&plugin]).await;
        assert_eq!(rig.failure(&plugin, "").await.reason, reason, "{forged}");
    }
    // An answer to a call that is not in flight counts for nothing.
    let plugin = module(
        "import { writeSync } from 'node:fs';
         export default (input) => {
            const json = Buffer.from('{\"id\":99,\"text\":\"forged\",\"continue\":true}');
            writeSync(3, Buffer.concat([Buffer.from([json.length, 0, 0, 2, 0, 0, 0, 0]), json]));
            return { text: 'fine', continue: true };
         }",
    )
    .link();
    let rig = Rig::with(&[&plugin]).await;
    assert_eq!(rig.answer(&plugin, "").await.text, "fine");
}

#[tokio::test]
async fn it_is_warmed_up_before_its_first_call() {
    let plugin = module(
        "let warm = false; export const warmup = async () => { warm = true; };
         export default () => ({ text: String(warm), continue: true })",
    )
    .link();
    assert_eq!(plugin.plan.protocol, Protocol::Module);
    let rig = Rig::with(&[&plugin]).await;
    assert_eq!(rig.answer(&plugin, "").await.text, "true");
}
