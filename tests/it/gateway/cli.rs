//! The command line, as people and scripts use it.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, hawsepipe, run};
use super::http::Http;
use super::parts::{ECHO_MODULE, chain, everything, object, plugin, raw_stdio, tools_of};
use crate::fixtures::checkout;

/// Where no gateway listens.
const NOWHERE: &str = "127.0.0.1:1";

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// A server, a chain of a module and a guard, in two phases.
fn manifests(folder: &Folder) -> String {
    let guard = "export default ({ rawContent }) => rawContent.includes('swordfish')
      ? { text: 'no fish here', continue: false, error: 'fish' } : { text: rawContent, continue: true };";
    [
        raw_stdio("raw", &folder.path().join("log")),
        plugin("guard", guard, "role: Guard, phases: [Request]"),
        plugin("shout", "export default ({ rawContent }) => ({ text: rawContent.toUpperCase(), continue: true });", ""),
        chain("asks", "Request", &["raw"], &["guard"]),
        chain("answers", "Response", &["raw"], &["shout"]),
        chain("elsewhere", "Response", &["other"], &["shout"]),
    ]
    .concat()
}

fn with_input(arguments: &[&str], input: &str) -> Output {
    let mut command = hawsepipe();
    let mut child =
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// `call`: what it prints, and its exit codes.
fn calls_print(url: &str) {
    let good = run(&["call", "raw__args", r#"{"a": "b"}"#, "--url", url]);
    assert_eq!((code(&good), out(&good).as_str()), (0, "{\"A\": \"B\"}\n"), "{}", err(&good));
    let piped = with_input(&["call", "raw__args", "-", "--url", url], r#"{"from": "stdin"}"#);
    assert_eq!((code(&piped), out(&piped).as_str()), (0, "{\"FROM\": \"STDIN\"}\n"), "{}", err(&piped));
    let denied = run(&["call", "raw__args", r#"{"a":"swordfish"}"#, "--url", url]);
    assert_eq!((code(&denied), out(&denied).as_str()), (1, "no fish here\n"));
    let unknown = run(&["call", "raw__nothing", "--url", url]);
    assert_eq!((code(&unknown), out(&unknown).as_str()), (2, ""));
    assert!(
        err(&unknown).contains("Unknown tool: raw__nothing") && err(&unknown).contains("-32602"),
        "{}",
        err(&unknown)
    );
    let twice = run(&["call", "raw__args", r#"{"a": 1, "b": {"c": 1.0, "c": 2}}"#, "--url", url]);
    assert_eq!(code(&twice), 2, "{}", err(&twice));
    assert!(err(&twice).contains("arguments/b/c: this key stands twice"), "{}", err(&twice));
    let exact = run(&["call", "raw__args", r#"{"z": 1.0, "a": 12345678901234567890123}"#, "--url", url]);
    assert_eq!(out(&exact), "{\"Z\": 1.0, \"A\": 12345678901234567890123}\n", "{}", err(&exact));
    let foreign = run(&["call", "zürich__größe", "--url", url]);
    assert!(code(&foreign) == 2 && err(&foreign).contains("Unknown tool: zürich__größe"), "{}", err(&foreign));
    for (arguments, words) in [("nonsense", "not JSON"), ("[1]", "must be a JSON object")] {
        let refused = run(&["call", "raw__args", arguments, "--url", url]);
        assert!(code(&refused) == 1 && err(&refused).contains(words), "{}", err(&refused));
    }
    let traced = out(&run(&["call", "raw__args", "--trace", "--url", url]));
    let rows: Vec<Vec<&str>> = traced.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["PHASE", "CHAIN", "PLUGIN", "OUTCOME", "CHANGED", "MS", "SAYS"], "{traced}");
    assert_eq!(rows[1][..5], ["Request", "default/asks", "default/guard", "ran", "false"], "{traced}");
    assert_eq!(rows[2][..4], ["Response", "default/answers", "default/shout", "ran"], "{traced}");
    let as_json: Value = serde_json::from_str(&out(&run(&["call", "raw__args", "-o", "json", "--url", url]))).unwrap();
    assert_eq!(as_json["content"][0]["text"], "{}");
    for output in [good, denied, unknown] {
        assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b), "colours without a terminal");
    }
}

/// `tools`, `executions` and `workers`.
fn lists_print(admin: &str) {
    let tools = run(&["tools", "--admin", admin]);
    assert!(code(&tools) == 0 && out(&tools).starts_with("NAME"), "{}", err(&tools));
    assert!(out(&tools).lines().any(|line| line.starts_with("raw__exact ") && line.contains("default/answers")));
    let listed: Value = serde_json::from_str(&out(&run(&["tools", "--admin", admin, "-o", "json"]))).unwrap();
    assert!(listed["items"].as_array().unwrap().iter().any(|tool| tool["name"] == "raw__exact"), "{listed}");
    let all = out(&run(&["executions", "--admin", admin]));
    assert!(all.starts_with("STARTED") && all.contains("Denied") && all.contains("default/shout"), "{all}");
    let of_guard = run(&["executions", "--admin", admin, "--plugin", "guard", "--limit", "2", "-o", "json"]);
    let of_guard: Value = serde_json::from_str(&out(&of_guard)).unwrap();
    let items = of_guard["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{of_guard}");
    assert!(items.iter().all(|execution| execution["plugin"] == "default/guard"), "{of_guard}");
    workers_print(admin);
}

fn workers_print(admin: &str) {
    let all = out(&run(&["workers", "--admin", admin]));
    assert!(all.starts_with("PID") && all.contains("default/guard") && all.contains("default/shout"), "{all}");
    let of_guard = out(&run(&["workers", "--admin", admin, "--plugin", "guard", "-o", "json"]));
    let of_guard: Value = serde_json::from_str(&of_guard).unwrap();
    let worker = &of_guard["items"][0];
    // Document 000, PluginProcess.
    assert!(worker["pid"].as_u64().is_some_and(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()));
    assert_eq!((&worker["plugin"], &worker["isHealthy"]), (&json!("default/guard"), &json!(true)), "{of_guard}");
    assert!(worker["executionCount"].as_u64() >= Some(2), "{of_guard}");
    assert!(worker["lastUsedAt"].as_u64() >= worker["spawnedAt"].as_u64(), "{of_guard}");
    assert!(["Available", "Executing"].iter().any(|state| worker["state"] == *state), "{of_guard}");
    let (id, revision) = (worker["pluginId"].as_str().unwrap(), worker["revision"].as_str().unwrap());
    let wide = out(&run(&["workers", "--admin", admin, "--plugin", "default/guard", "-o", "wide"]));
    assert!(wide.contains(id) && wide.contains(&revision[..12]) && !wide.contains("default/shout"), "{wide}");
    for command in ["workers", "executions"] {
        let slip = run(&[command, "--admin", admin, "--plugin", "gaurd"]);
        assert_eq!((code(&slip), out(&slip).as_str()), (1, ""), "{command}");
        assert!(err(&slip).contains("no Plugin \"gaurd\"; did you mean guard?"), "{}", err(&slip));
    }
}

/// `explain`, of the gateway that runs and of manifests alone.
fn explanations_print(admin: &str, folder: &str) {
    for arguments in [&["explain", "raw__exact", "--admin", admin][..], &["explain", "raw/exact", "-f", folder]] {
        let explained = run(arguments);
        let text = out(&explained);
        assert_eq!(code(&explained), 0, "{}", err(&explained));
        assert!(text.contains("default/asks") && text.contains("default/guard"), "{text}");
        let elsewhere = text.lines().find(|line| line.contains("default/elsewhere")).unwrap();
        assert!(elsewhere.contains("not selected"), "{text}");
        assert!(text.find("default/asks") < text.find("default/answers"), "requests come first: {text}");
    }
    let unknown = run(&["explain", "raw__nothing", "--admin", admin]);
    assert!(code(&unknown) == 1 && err(&unknown).contains("raw__nothing"), "{}", err(&unknown));
}

/// `call` of what is refused, as JSON; what a terminal would obey, in a table; and the port of the admin API.
fn refused_calls_print(gateway: &Gateway) {
    let refused = run(&["call", "no\u{1b}[31mpe", "-o", "json", "--url", &gateway.url()]);
    let error: Value = serde_json::from_str(&out(&refused)).unwrap();
    assert_eq!((code(&refused), &error["error"]["code"]), (2, &json!(-32602)), "{error}");
    let calls = out(&run(&["calls", "--admin", &gateway.admin()]));
    assert!(calls.contains("no\u{fffd}[31mpe") && !calls.contains('\u{1b}'), "{calls}");
    let admin = run(&["call", "raw__args", "--url", &format!("http://{}", gateway.admin())]);
    assert_eq!(code(&admin), 1);
    assert!(err(&admin).trim_end().ends_with("name one with --url URL"), "{}", err(&admin));
}

#[tokio::test]
async fn a_running_gateway_is_asked() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &manifests(&folder));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["raw"]).await;
    calls_print(&gateway.url());
    lists_print(&gateway.admin());
    explanations_print(&gateway.admin(), folder.path().to_str().unwrap());
    refused_calls_print(&gateway);
    assert!(gateway.log().iter().all(|line| !line.contains('\u{1b}')));
}

#[test]
fn without_a_gateway_it_says_how_to_start_one() {
    let url = format!("http://{NOWHERE}/mcp");
    for arguments in [
        &["tools", "--admin", NOWHERE][..],
        &["executions", "--admin", NOWHERE],
        &["workers", "--admin", NOWHERE],
        &["explain", "x__y", "--admin", NOWHERE],
        &["call", "x__y", "--url", &url],
    ] {
        let output = run(arguments);
        assert_eq!((code(&output), out(&output).as_str()), (1, ""), "{arguments:?}");
        assert!(err(&output).contains("hawsepipe run -f PATH"), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains("127.0.0.1:1"), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn help_and_completion() {
    let asks = ["status", "wait", "tools", "call", "calls", "executions", "workers", "explain"];
    let commands = [&["run", "validate", "crds", "completion"][..], &asks].concat();
    for command in &commands {
        let help = out(&run(&[*command, "--help"]));
        assert!(help.contains("Examples:") && help.contains(&format!("hawsepipe {command}")), "{command}: {help}");
        assert!(!help.contains('\u{1b}'), "{command}");
    }
    let top = out(&run(&["--help"]));
    assert!(top.contains("Examples:") && commands.iter().all(|command| top.contains(command)), "{top}");
    for shell in ["bash", "zsh", "fish"] {
        let script = out(&run(&["completion", shell]));
        assert!(script.contains("HAWSEPIPE_COMPLETE") && script.contains("hawsepipe"), "{shell}");
    }
}

#[test]
fn crds_are_printed_and_written() {
    let folder = Folder::new();
    let written = folder.path().join("crds");
    assert_eq!(code(&run(&["crds", "--write", written.to_str().unwrap()])), 0);
    let printed = out(&run(&["crds"]));
    let mut kept: Vec<_> =
        std::fs::read_dir(checkout().join("crds")).unwrap().map(|f| f.unwrap().file_name()).collect();
    kept.sort();
    assert_eq!(kept.len(), std::fs::read_dir(&written).unwrap().count());
    for name in kept {
        let text = std::fs::read_to_string(checkout().join("crds").join(&name)).unwrap();
        assert_eq!(std::fs::read_to_string(written.join(&name)).unwrap(), text, "{name:?}");
        assert!(printed.contains(&text), "{name:?}");
    }
}

#[test]
fn validate_names_place_field_and_what_to_do() {
    let folder = Folder::new();
    folder.write("good.yaml", &(raw_stdio("raw", Path::new("/dev/null")) + &plugin("echo", ECHO_MODULE, "")));
    let path = folder.path().to_str().unwrap();
    let good = run(&["validate", path]);
    assert_eq!(code(&good), 0, "{}", out(&good));
    folder.write(
        "chain.yaml",
        &chain("warned", "Response", &["raw"], &["echo"])
            .replace("name: echo", "name: echo, canary: {name: next, percent: 5}"),
    );
    let warned = run(&["validate", path]);
    assert!(
        code(&warned) == 0 && out(&warned).contains("warning") && out(&warned).contains("].canary"),
        "{}",
        out(&warned)
    );
    folder.write("bad.yaml", "apiVersion: hawsepipe.dev/v1alpha1\nkind: Plugin\nmetadata: {name: bad}\nspec:\n  timeoutMS: 5\n  source: {inline: ''}\n");
    let bad = run(&["validate", path]);
    assert_eq!(code(&bad), 1);
    let line = out(&bad).lines().find(|line| line.contains("timeoutMS")).map(ToOwned::to_owned);
    let line = line.unwrap_or_else(|| panic!("{}", out(&bad)));
    let file = folder.path().join("bad.yaml");
    assert!(line.starts_with(&format!("{}:5:3: error: ", file.display())), "{line}");
    assert!(line.contains("spec.timeoutMS") && line.contains("timeoutMs"), "the field and the nearest known: {line}");
    assert!(!out(&bad).contains('\u{1b}'));
    let as_json = run(&["validate", path, "-o", "json"]);
    assert_eq!(code(&as_json), 1);
    let found: Value = serde_json::from_str(&out(&as_json)).unwrap();
    let item = found["items"].as_array().unwrap().iter().find(|item| item["field"] == "spec.timeoutMS").unwrap();
    assert_eq!((&item["level"], &item["line"], &item["column"]), (&json!("error"), &json!(5), &json!(3)), "{item}");
    assert_eq!(item["file"], file.to_str().unwrap());
    assert_eq!(item["object"], json!({"kind": "Plugin", "namespace": "default", "name": "bad"}), "{item}");
    let nowhere = run(&["validate", "/no/such/folder"]);
    assert_eq!(code(&nowhere), 1);
    assert!(out(&nowhere).starts_with("/no/such/folder: error: cannot be read"), "{}", out(&nowhere));
}

#[test]
fn run_refuses_what_would_be_open() {
    let folder = Folder::with(&raw_stdio("raw", Path::new("/dev/null")));
    let path = folder.path().to_str().unwrap();
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = run(&[&["run", "-f", path, "--admin", "127.0.0.1:0"][..], arguments].concat());
        assert_eq!(code(&output), 1, "{arguments:?}");
        assert!(words.iter().all(|word| err(&output).contains(word)), "{arguments:?}: {}", err(&output));
    };
    let output = run(&["run", "-f", path, "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0"]);
    assert!(code(&output) == 1 && err(&output).contains("loopback only"), "{}", err(&output));
    refused(&["--listen", "0.0.0.0:0"], &["is not loopback", "--insecure-anonymous", "anonymous: {}"]);
    let gateway = |name: &str| object("MCPGateway", name, "authentication: {anonymous: {}}");
    folder.write("gateways.yaml", &(gateway("one") + &gateway("two")));
    refused(&["--listen", "127.0.0.1:0"], &["--gateway", "one", "two"]);
    refused(&["--listen", "127.0.0.1:0", "--gateway", "three"], &["three"]);
    folder.write("gateways.yaml", "kind: [");
    refused(&["--listen", "127.0.0.1:0"], &["gateways.yaml", "cannot be read"]);
}

/// Values that must be seen nowhere.
const CANARIES: [&str; 3] = ["canary-of-a-document", "canary-of-a-folder", "canary-of-the-environment"];

/// Counts what it was given, writes it to its log, and throws it.
const SPY: &str = r"const given = Object.keys(process.env).filter((name) => /^(DOCUMENT|FOLDER|STRANGER)$/.test(name));
const known = given.filter((name) => process.env[name].startsWith('canary-of-a-'));
export default ({ rawContent }, ctx) => {
  ctx.log(`the key is ${process.env.DOCUMENT}`);
  if (rawContent.includes('throw')) throw new Error(`${process.env.FOLDER} is wrong`);
  return { text: `${known.length} of ${given.length}`, continue: true };
};";

fn secretive(folder: &Folder) -> String {
    let from = |name: &str, source: &str| format!("{{name: {name}, valueFrom: {{{source}}}}}");
    let env = [
        from("DOCUMENT", "secretKeyRef: {name: written, key: value}"),
        from("FOLDER", "secretKeyRef: {name: kept, key: value}"),
    ];
    let secret = object("Secret", "written", "").replace("hawsepipe.dev/v1alpha1", "v1");
    let secret = secret.replace("spec: {}", &format!("stringData: {{value: {}}}", CANARIES[0]));
    let server = from("GIVEN", "environment: HAWSEPIPE_TEST_CANARY");
    [
        secret,
        raw_stdio("raw", &folder.path().join("log")),
        everything("everything").replace("process: {", &format!("process: {{env: [{server}], ")),
        plugin("spy", SPY, &format!("env: [{}]", env.join(", "))),
        chain("answers", "Response", &["raw"], &["spy"]),
    ]
    .concat()
}

/// All that the admin address answers.
async fn seen_of(gateway: &Gateway, http: &Http) -> Vec<(&'static str, String)> {
    let lists =
        "executions calls plugins workers chains upstreams tools sessions invocations plan explain?tool=raw__args";
    let mut seen = Vec::new();
    for path in lists.split(' ') {
        let answer = http.get(&format!("http://{}/api/v1/{path}", gateway.admin())).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        seen.push((path, answer.body));
    }
    seen.push(("metrics", http.get(&format!("http://{}/metrics", gateway.admin())).await.body));
    seen
}

#[tokio::test]
async fn secrets_reach_the_plugin_and_nothing_else() {
    let folder = Folder::new();
    let secrets = Folder::new();
    std::fs::create_dir(secrets.path().join("kept")).unwrap();
    std::fs::write(secrets.path().join("kept/value"), format!("{}\n", CANARIES[1])).unwrap();
    folder.write("manifests.yaml", &secretive(&folder));
    let secrets_dir = ["--secrets-dir", secrets.path().to_str().unwrap()];
    let environment = [("HAWSEPIPE_TEST_CANARY", CANARIES[2]), ("STRANGER", "x"), ("HAWSEPIPE_LOG", "debug")];
    let gateway = Gateway::start_in(&folder, &secrets_dir, &environment);
    tools_of(&gateway, &["raw", "everything"]).await;
    let http = Http::new();
    let session = http.initialize(&gateway.url()).await;
    let counted = session.call_raw(1, "raw__args", "{}").await;
    assert_eq!(counted.json()["result"]["content"][0]["text"], "2 of 2", "{}", counted.body);
    let given = session.call_raw(3, "everything__get-env", "{}").await;
    let given = given.json()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(given.contains(CANARIES[2]) && !given.contains("STRANGER"), "{given}");
    let thrown = session.call_raw(2, "raw__args", r#"{"throw":1}"#).await;
    assert_eq!(thrown.json()["result"]["content"][0]["text"], r#"{"throw":1}"#, "{}", thrown.body);

    let said =
        |words: &'static str| move |line: &Value| line["message"].as_str().is_some_and(|said| said.contains(words));
    gateway.logged(said("the key is [secret]"));
    // The text of an exception is content.
    gateway.logged(said("reported error: Error"));
    let mut seen = seen_of(&gateway, &http).await;
    assert!(seen[0].1.contains("reported error: Error") && !seen[0].1.contains("is wrong"), "{}", seen[0].1);
    seen.push(("the log", gateway.log().join("\n")));
    seen.push(("an answer", thrown.body));
    let mut validate = hawsepipe();
    validate.arg("validate").arg(folder.path()).args(secrets_dir).env("HAWSEPIPE_TEST_CANARY", CANARIES[2]);
    let validated = validate.output().unwrap();
    assert_eq!(code(&validated), 0, "{}{}", out(&validated), err(&validated));
    seen.push(("validate", out(&validated) + &err(&validated)));
    for (place, text) in seen {
        for canary in CANARIES {
            assert!(!text.contains(canary), "{place} shows {canary}: {text:.2000}");
        }
    }
}
