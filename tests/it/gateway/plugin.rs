//! `hawsepipe plugin`, as authors use it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::contract::stand_in;
use super::harness::{Folder, hawsepipe, run};
use super::parts::{object, plugin};
use crate::fixtures::checkout;

const SHOUT: &str = "export default async ({ rawContent }, ctx) => {
  ctx.log('heard', rawContent.length);
  process.stderr.write('on the side\\n');
  return { text: rawContent.toUpperCase(), continue: true, metadata: { loud: true } };
};";

fn out(output: &Output) -> String {
    assert!(!output.stdout.contains(&0x1b), "colours without a terminal");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A file of code, its path and the folder that it goes with.
fn code(text: &str) -> (Folder, String) {
    let folder = Folder::new();
    folder.write("plugin.mjs", text);
    let path = folder.path().join("plugin.mjs").to_str().unwrap().to_owned();
    (folder, path)
}

/// Runs `plugin run` on a file; its exit code and report.
fn report(path: &str, more: &[&str]) -> (i32, Value) {
    let output = run(&[&["plugin", "run", path, "-o", "json"], more].concat());
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code().unwrap(), report.unwrap_or_else(|_| panic!("{}{}", out(&output), err(&output))))
}

/// The same of code that is only that.
fn report_of(text: &str, more: &[&str]) -> (i32, Value) {
    let (_folder, path) = code(text);
    report(&path, more)
}

fn with_input(arguments: &[&str], input: &str) -> Output {
    let mut command = hawsepipe();
    let mut child =
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_file_of_code_just_runs() {
    let (_folder, path) = code(SHOUT);
    let output = run(&["plugin", "run", &path, "--text", "hello\nthere"]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", err(&output));
    assert!(text.starts_with("ran: changed the content\n"), "{text}");
    assert!(text.contains("\noutput:\nHELLO\nTHERE\n"), "{text}");
    assert!(text.contains("\n-hello\n-there\n+HELLO\n+THERE\n"), "{text}");
    assert!(text.contains("metadata: {\"loud\":true}"), "{text}");
    assert!(text.contains("  info   heard 11\n") && text.contains("  stderr on the side\n"), "{text}");
    let times = text.lines().find(|line| line.starts_with("time: start ")).unwrap();
    assert!(times.contains(" ms, queue ") && times.contains(" ms, run "), "{times}");
    assert!(!text.contains("heard 11\n  info"), "it runs once: {text}");
}

#[test]
fn a_plugin_that_is_not_asked_is_said_and_why() {
    let (_folder, path) = code(SHOUT);
    let doubled = r#"{"content":[],"n":1,"n":2}"#;
    let (exit, told) = report(&path, &["--phase", "request", "--text", doubled]);
    assert_eq!((exit, &told["outcome"], &told["reason"]), (1, &json!("skipped(stopped)"), &json!("DuplicateKey")));
    assert!(told["message"].as_str().unwrap().starts_with("arguments/n: this key stands twice"), "{told}");
    let folder = Folder::new();
    folder.write("guard.yaml", &plugin("guard", SHOUT, "role: Guard"));
    let path = folder.path().to_str().unwrap();
    let (exit, told) = report(path, &["--content-type", "json", "--text", doubled]);
    assert_eq!((exit, &told["reason"]), (1, &json!("DuplicateKey")), "{told}");
    assert!(told["message"].as_str().unwrap().contains("the key at /* stands twice"), "{told}");
}

#[test]
fn what_a_command_line_cannot_mean_is_said() {
    let (_folder, path) = code(SHOUT);
    for (more, said) in [
        (["--plugin", "foo"], "there is no Plugin foo; there are: plugin"),
        (["--config", r#"{"a": {"b": 1, "b": 2}}"#], "--config: the key at /a/b stands twice in its object"),
        (["--tool", "a/b/c"], "write SERVER/TOOL"),
        (["--tool", "b"], "write SERVER/TOOL, such as files/read_file"),
    ] {
        let output = run(&[&["plugin", "run", &path, "--text", "x"], &more[..]].concat());
        assert!(!output.status.success() && err(&output).contains(said), "{more:?}: {}", err(&output));
    }
}

#[test]
fn what_it_is_given_is_what_a_gateway_gives() {
    let code =
        "export default (input, ctx) => ({ text: JSON.stringify({ input, config: ctx.config, key: process.env.KEY }),
      continue: false })";
    let (exit, all) = report_of(
        code,
        &[
            "--text",
            "x",
            "--tool",
            "docs/get",
            "--max-tokens",
            "7",
            "--user-query",
            "why",
            "--config",
            "{\"a\":1}",
            "--env",
            "KEY=swordfish",
        ],
    );
    assert_eq!((exit, &all["outcome"], &all["stops"]), (0, &json!("ran"), &json!(true)), "{all}");
    let seen: Value = serde_json::from_str(all["text"].as_str().unwrap()).unwrap();
    let input = &seen["input"];
    assert_eq!(
        (&input["toolName"], &input["rawContent"], &input["maxTokens"]),
        (&json!("docs/get"), &json!("x"), &json!(7))
    );
    let metadata = &input["metadata"];
    assert_eq!((&metadata["serverName"], &metadata["userQuery"]), (&json!("docs"), &json!("why")), "{seen}");
    assert_eq!((&metadata["phase"], &metadata["contentType"]), (&json!("response"), &json!("text")), "{seen}");
    assert_eq!((&seen["config"], &seen["key"]), (&json!({"a": 1}), &json!("swordfish")), "{seen}");
}

#[test]
fn an_input_of_the_contract_is_read_from_everywhere() {
    let (folder, path) = code(
        "export default ({ toolName, rawContent, maxTokens, metadata }) => ({ continue: true,
      text: JSON.stringify({ said: [toolName, rawContent, maxTokens, metadata.userQuery, metadata.phase] }) })",
    );
    let input = json!({"toolName": "a/b", "rawContent": "{\"x\": 1}", "maxTokens": 5,
        "metadata": {"requestId": "1", "timestamp": "2025-10-10T12:00:00Z", "phase": "request", "userQuery": "q"}})
    .to_string();
    folder.write("input.json", &input);
    let file = folder.path().join("input.json");
    for given in [input.as_str(), file.to_str().unwrap(), "-"] {
        let output = with_input(&["plugin", "run", &path, "--input", given, "-o", "json"], &input);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", err(&output)));
        assert_eq!(report["text"], r#"{"said":["a/b","{\"x\": 1}",5,"q","request"]}"#, "{report}");
    }
    let piped = with_input(&["plugin", "run", &path, "--text", "-", "-o", "json"], "from a pipe");
    assert!(out(&piped).contains("from a pipe"), "{}", err(&piped));
}

#[test]
fn failures_have_the_reason_that_a_gateway_gives() {
    let cases: [(&str, &[&str], &str, &str); 10] = [
        ("export default () => { throw new Error('no way'); }", &[], "PluginError", "no way"),
        ("export default () => ({ text: '' })", &[], "InvalidOutput", "continue"),
        ("export default () => process.exit(3)", &[], "Crashed", "ended before it answered"),
        ("export default () => { for (;;); }", &["--timeout-ms", "200"], "Timeout", "200ms"),
        ("throw new Error('not today')", &["--protocol", "module"], "UnsupportedExports", "exports"),
        ("export const onRequst = () => 1", &[], "UnsupportedExports", "did you mean onRequest?"),
        ("throw new Error('not today'); export default 1;", &[], "NotLoaded", "not today"),
        ("export default (", &[], "SyntaxError", "plugin.mjs:1:"),
        ("for await (const _ of process.stdin); process.exit(4);", &[], "ExitCode", "exited with code 4"),
        (
            "export default () => ({ text: '[]', continue: true })",
            &["--phase", "request"],
            "InvalidOutput",
            "JSON object",
        ),
    ];
    for (code, more, reason, words) in cases {
        let (exit, report) = report_of(code, &[&["--text", "{}"], more].concat());
        assert_eq!((exit, &report["reason"]), (1, &json!(reason)), "{code}: {report}");
        assert_eq!(report["outcome"], format!("failed({reason})"), "{code}");
        assert!(report["message"].as_str().unwrap().contains(words), "{code}: {report}");
        assert!(report["text"].is_null(), "{report}");
    }
}

#[test]
fn a_denial_is_no_failure() {
    let guard = "export const onRequest = () => ({ text: 'not this', continue: false, error: 'secrets' })";
    let (exit, report) = report_of(guard, &["--text", "{\"a\": 1}"]);
    assert_eq!((exit, &report["outcome"], &report["phase"]), (0, &json!("denied"), &json!("request")), "{report}");
    assert_eq!((&report["told"], &report["message"]), (&json!("not this"), &json!("denied the call: secrets")));
    let (_folder, path) = code(guard);
    let refused = run(&["plugin", "run", &path, "--text", "{}", "--phase", "response"]);
    assert!(refused.status.code() == Some(1) && err(&refused).contains("does not serve the response phase"));
    let no_json = run(&["plugin", "run", &path, "--text", "hello"]);
    assert!(no_json.status.code() == Some(1) && err(&no_json).contains("JSON text of the tool's arguments"));
}

#[test]
fn a_whole_result_stays_valid() {
    let code = "export default ({ rawContent, metadata }) => {
      const result = JSON.parse(rawContent);
      return { text: JSON.stringify({ ...result, content: [], seen: metadata.contentType }), continue: true };
    }";
    let result = "{\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}";
    let (exit, report) = report_of(code, &["--text", result, "--content-type", "json"]);
    assert_eq!((exit, &report["text"]), (0, &json!("{\"content\":[],\"seen\":\"json\"}")), "{report}");
    assert!(report["diff"].as_str().unwrap().contains("+  \"seen\": \"json\"\n"), "{report}");
    let (exit, report) =
        report_of(&code.replace("content: []", "content: 1"), &["--text", result, "--content-type", "json"]);
    assert_eq!((exit, &report["reason"]), (1, &json!("InvalidOutput")), "{report}");
}

#[test]
fn a_plugin_of_manifests_runs_as_they_say() {
    let folder = Folder::new();
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: api}\nstringData: {key: swordfish}\n";
    let says =
        "export default (input, ctx) => ({ text: JSON.stringify([ctx.config, process.env.KEY, input.metadata.chain]),
      continue: true })";
    let spec = "config: {a: 1, b: 2}, env: [{name: KEY, valueFrom: {secretKeyRef: {name: api, key: key}}}]";
    let broken = "export default (";
    let guards = object("PluginChain", "guards", "phase: Request, entries: [{name: broken}]");
    let manifests = [secret, &plugin("says", says, spec), &plugin("broken", broken, "role: Guard"), &guards].concat();
    folder.write("manifests.yaml", &manifests);
    let path = folder.path().to_str().unwrap();
    let (exit, report) = report(path, &["--plugin", "says", "--text", "x", "--config", "{\"b\": 3}"]);
    assert_eq!((exit, &report["outcome"]), (0, &json!("ran")), "{report}");
    assert_eq!(report["text"], r#"[{"a":1,"b":3},"swordfish","default/plugin-run"]"#, "{report}");
    let several = run(&["plugin", "run", path, "--text", "x"]);
    assert!(err(&several).contains("default/broken, default/says"), "{}", err(&several));
    let (exit, report) = self::report(path, &["--plugin", "default/broken", "--text", "x"]);
    assert_eq!((exit, &report["reason"]), (1, &json!("SyntaxError")), "{report}");
    let flags = run(&["plugin", "run", path, "--plugin", "says", "--text", "x", "--env", "A=b"]);
    assert!(flags.status.code() == Some(1) && err(&flags).contains("says it itself"), "{}", err(&flags));
}

#[test]
fn our_own_plugins_run() {
    let cases: [(&str, &str, &[&str], &str); 4] = [
        ("echo-plugin", "hello", &[], "hello"),
        ("redact", "ann@example.com", &[], "[redacted:email]"),
        ("path-normalizer", "/srv/files//a", &["--config", "{\"roots\": [\"/srv/files\"]}"], "a"),
        ("logger", "hello", &[], "hello"),
    ];
    for (name, text, more, expected) in cases {
        let path = checkout().join("plugins").join(name).join("index.mjs");
        let (exit, report) = report(path.to_str().unwrap(), &[&["--text", text], more].concat());
        assert_eq!((exit, &report["text"]), (0, &json!(expected)), "{name}: {report}");
        assert_eq!(report["plugin"], format!("default/{name}"));
    }
}

#[test]
fn it_reaches_what_it_is_given_and_tells_how_far_it_is() {
    let asks = "export default async ({ rawContent }, ctx) => {
      ctx.progress(1, 2, 'asking');
      const { status } = await ctx.fetch(rawContent);
      return { text: String(status), continue: true };
    }";
    let (_running, url) = stand_in(&[]);
    let host = url.strip_prefix("http://").unwrap();
    let (exit, report) = report_of(asks, &["--text", &url, "--egress", host]);
    assert_eq!((exit, &report["text"]), (0, &json!("404")), "{report}");
    assert_eq!(report["progress"], json!([{"progress": 1, "total": 2, "message": "asking"}]), "{report}");
    for more in [&[][..], &["--egress", "127.0.0.1:1"]] {
        let (exit, report) = report_of(asks, &[&["--text", &url], more].concat());
        assert_eq!((exit, &report["reason"]), (1, &json!("PluginError")), "{report}");
    }
}

#[test]
fn an_edit_is_run_at_once() {
    let (folder, path) = code("export default () => ({ text: 'one', continue: true })");
    let mut command = hawsepipe();
    command.args(["plugin", "run", &path, "--text", "x", "--watch"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "one"));
    folder.write("plugin.mjs", "export default (");
    assert!(lines.any(|line| line.starts_with("failed(SyntaxError): ")));
    folder.write("plugin.mjs", "export default () => ({ text: 'two', continue: true })");
    assert!(lines.any(|line| line == "two"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn it_is_measured() {
    let (_folder, path) = code(SHOUT);
    let arguments = ["plugin", "bench", &path, "--count", "50", "--concurrency", "2", "--text", "hello", "-o", "json"];
    let output = run(&arguments);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", err(&output)));
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(report["cold"]["calls"], 5);
    let rows = report["warm"].as_array().unwrap();
    let sizes: Vec<_> =
        rows.iter().map(|row| (row["bytes"].as_u64().unwrap(), row["calls"].as_u64().unwrap())).collect();
    assert_eq!(sizes, [(1024, 50), (51200, 50), (5, 50)]);
    for row in rows {
        let ms = |name: &str| row[name].as_f64().unwrap();
        assert!(ms("p50Ms") > 0.0 && ms("p50Ms") <= ms("p95Ms") && ms("p95Ms") <= ms("p99Ms"), "{row}");
        assert!(ms("floorP50Ms") > 0.0 && ms("perSecond") > 0.0, "{row}");
    }
    let failing = report_bench("export const onRequest = () => { throw new Error('no way'); }");
    assert_eq!(failing.status.code(), Some(1));
    let text = out(&failing);
    assert!(text.starts_with("CONTENT") && text.contains("50 KB") && text.contains("no way"), "{text}");
}

fn report_bench(text: &str) -> Output {
    let (_folder, path) = code(text);
    run(&["plugin", "bench", &path, "--count", "20"])
}

#[test]
fn the_types_are_those_of_the_repository() {
    let types = std::fs::read_to_string(checkout().join("plugins/sdk/index.d.ts")).unwrap();
    assert_eq!(out(&run(&["plugin", "types"])), types);
}

#[test]
fn the_example_in_typescript_runs_once_it_is_built() {
    let folder = Folder::new();
    let sdk = checkout().join("plugins/sdk");
    let built = Command::new("node")
        .arg(sdk.join("node_modules/typescript/bin/tsc"))
        .args(["--target", "es2023", "--module", "nodenext", "--skipLibCheck", "--outDir"])
        .arg(folder.path())
        .arg(sdk.join("examples/shorten.mts"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", out(&built));
    let path = folder.path().join("shorten.mjs");
    let more = ["--text", "One. Two. Three.", "--config", r#"{"maxCharacters": 10}"#];
    let (exit, report) = report(path.to_str().unwrap(), &more);
    assert_eq!((exit, &report["text"], &report["metadata"]), (0, &json!("One. Two."), &json!({"cut": 7})), "{report}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of files for each version of Node.js")]
fn typescript_runs_where_node_removes_types_and_says_how_to_build_it_where_not() {
    let folder = Folder::new();
    const WORDS: &str = "export const loud = (text: string): string => text.toUpperCase();";
    folder.write("words.ts", WORDS);
    let code = "import type { Input, Output } from './hawsepipe-plugin.d.ts';
        import { loud } from './words.ts';
        export default async ({ rawContent }: Input): Promise<Output> => ({ text: loud(rawContent), continue: true });";
    for name in ["shout.ts", "shout.mts"] {
        folder.write(name, code);
    }
    folder.write("wrong.ts", "enum Level { Low }\nexport default () => ({ text: `${Level.Low}`, continue: true });");
    folder.write("types.ts", "export type Kind = string;");
    folder.write(
        "imports.ts",
        "import { Kind } from './types.ts';\nexport default () => ({ text: 'a' as Kind, continue: true });",
    );
    folder.write("plugins/shout.ts", code);
    folder.write("plugins/words.ts", WORDS);
    folder.write("plugin.yaml", &object("Plugin", "shout", "source: {path: shout.ts}"));
    let run = |file: &str, node: &str| {
        report(folder.path().join(file).to_str().unwrap(), &["--text", "hello", "--node", node])
    };
    // The tests run on a Node.js of at least 20; what the conformance suite needs is newer.
    let newer = checkout().join(".cache/node-suite/bin/node");
    for node in ["node", newer.to_str().unwrap()] {
        let Ok(version) = std::process::Command::new(node).arg("--version").output() else { continue };
        let version = String::from_utf8(version.stdout).unwrap();
        let removes_types = !["v20.", "v21."].iter().any(|old| version.starts_with(old));
        for file in ["shout.ts", "shout.mts", "plugin.yaml"] {
            let (exit, report) = run(file, node);
            if removes_types {
                assert_eq!((exit, &report["text"]), (0, &json!("HELLO")), "{version} {file}: {report}");
            } else {
                let message = report["message"].as_str().unwrap();
                assert!(
                    exit == 1 && message.contains("22.18") && message.contains("npx esbuild"),
                    "{version} {report}"
                );
            }
        }
        for (file, words) in [("wrong.ts", "TypeScript enum"), ("imports.ts", "an export named 'Kind'")] {
            let (exit, report) = run(file, node);
            let message = report["message"].as_str().unwrap();
            assert!(exit == 1 && (!removes_types || message.contains(words)), "{version} {report}");
        }
    }
}
