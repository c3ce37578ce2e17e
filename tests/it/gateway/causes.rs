//! Why entries failed, denied or ran: in the trace, the records, the log and the metrics.

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::parts::{chain, object, plugin, raw_stdio, tools_of, until};

/// Calls the tool `args` of an upstream with a trace.
async fn traced(gateway: &Gateway, upstream: &str) -> (Value, Vec<Value>) {
    let meta = json!({"hawsepipe.dev/trace": true});
    let answer = Http::new().call(&gateway.url(), &format!("{upstream}__args"), &json!({"a": "b"}), &meta).await;
    let trace = answer["result"]["_meta"]["hawsepipe.dev/trace"].as_array().cloned();
    (answer.clone(), trace.unwrap_or_else(|| panic!("{answer}")))
}

/// The message of the newest execution of a plugin.
async fn message_of(gateway: &Gateway, plugin: &str) -> String {
    let url = format!("http://{}/api/v1/executions?plugin={plugin}", gateway.admin());
    let listed = Http::new().get(&url).await.json();
    listed["items"][0]["errorMessage"].as_str().unwrap_or_default().to_owned()
}

fn table(arguments: &[&str]) -> String {
    String::from_utf8(run(arguments).stdout).unwrap()
}

/// What a plugin does, the words of its error in records and the log, and those that a client gets.
const FAILING: [(&str, &str, &str, [&str; 2]); 4] = [
    (
        "late",
        "export default async () => {
            setTimeout(() => { throw new Error(`too late with ${process.env.KEY}`); }, 5);
            await new Promise(() => {});
        };",
        "env: [{name: KEY, value: hunter2-of-tests}]",
        [
            "ended before it answered (exit status: 1): Error with a message of 30 characters, at index.mjs:",
            "ended before it answered (exit status: 1): Error: too late with [secret]",
        ],
    ),
    (
        "heavy",
        "export default () => { for (const kept = []; ; ) kept.push(new Array(1e5).fill(kept.length + 0.5)); };",
        "limits: {memory: 64Mi}",
        ["exceeded its memory limit of 64Mi (ended before it answered (signal: "; 2],
    ),
    (
        "parse",
        "export default ({ rawContent }) => ({ text: JSON.parse(`x${rawContent}`), continue: true });",
        "",
        ["reported error: JSON.parse was given text that is not JSON, at index.mjs:1:"; 2],
    ),
    (
        "leaves",
        "require('fs').readFileSync(0); console.error('no work left'); process.exit(3);",
        "protocol: Once",
        ["exited with code 3 (the log has its last output at level debug)", "exited with code 3: no work left"],
    ),
];

#[tokio::test]
async fn the_error_of_an_entry_has_the_cause_of_its_failure() {
    let folder = Folder::new();
    let mut manifests = String::new();
    for (name, code, more, _) in FAILING {
        manifests += &raw_stdio(name, &folder.path().join(name));
        manifests += &plugin(name, code, more);
        manifests += &chain(name, "Response", &[name], &[name]);
    }
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &FAILING.map(|(name, ..)| name)).await;
    for (name, _, _, [recorded, told]) in FAILING {
        let (answer, trace) = traced(&gateway, name).await;
        assert_eq!(answer["result"]["content"][0]["text"], r#"{"a":"b"}"#, "{answer}");
        let error = trace[0]["error"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(error.starts_with(told), "{error}");
        let error = &message_of(&gateway, name).await;
        assert!(error.starts_with(recorded), "{error}");
        let of_log = |line: &Value| line["message"].as_str().is_some_and(|text| text.ends_with(error));
        gateway.logged(|line| line["plugin"] == format!("default/{name}") && of_log(line));
        for command in ["executions", "calls"] {
            let shown = table(&[command, "--admin", &gateway.admin()]);
            assert!(shown.lines().next().unwrap().contains(" SAYS") && shown.contains(error), "{shown}");
        }
    }
    let shown = table(&["call", "parse__args", "--trace", "--url", &gateway.url()]);
    assert!(
        shown.lines().any(|line| line.contains(" failed(PluginError) ") && line.contains(FAILING[2].3[1])),
        "{shown}"
    );
    assert!(!gateway.log().concat().contains("hunter2"), "{}", gateway.log().join("\n"));
}

#[tokio::test]
async fn a_worker_that_dies_after_its_answer_is_in_the_log_with_the_cause() {
    let folder = Folder::new();
    let code = "export default ({ rawContent }) => {
        setTimeout(() => { throw new Error('after the answer'); }, 5);
        return { text: rawContent, continue: true };
    };";
    let manifests = raw_stdio("up", &folder.path().join("log"))
        + &plugin("late", code, "")
        + &chain("answers", "Response", &["up"], &["late"]);
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    assert_eq!(traced(&gateway, "up").await.1[0]["outcome"], "ran");
    let words = "ended between calls (exit status: 1): Error with a message of 16 characters, at index.mjs:2:";
    gateway.logged(|line| line["plugin"] == "default/late" && line["message"].as_str().unwrap().contains(words));
}

#[tokio::test]
async fn a_trace_has_the_error_of_a_denial_and_none_about_what_a_guard_withholds() {
    let folder = Folder::new();
    let denies = "export const onRequest = () => ({ text: '', continue: false, error: 'not on Mondays' });";
    let quotes = "export default ({ rawContent }) => { throw new Error(`found ${rawContent}`); };";
    let names = ["denied", "open", "guarded"];
    let mut manifests: String = names.iter().map(|name| raw_stdio(name, &folder.path().join(name))).collect();
    manifests += &(plugin("denies", denies, "role: Guard") + &chain("denied", "Request", &["denied"], &["denies"]));
    manifests += &(plugin("quotes", quotes, "") + &chain("open", "Response", &["open"], &["quotes"]));
    manifests += &(plugin("strict", quotes, "role: Guard") + &chain("guarded", "Response", &["guarded"], &["strict"]));
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &names).await;

    let (answer, trace) = traced(&gateway, "denied").await;
    assert_eq!(answer["result"]["content"][0]["text"], "Denied by default/denies", "{answer}");
    assert_eq!((&trace[0]["outcome"], &trace[0]["error"]), (&json!("denied"), &json!("not on Mondays")), "{answer}");
    let found = r#"reported error: Error: found {"a":"b"}"#;
    let (answer, trace) = traced(&gateway, "open").await;
    assert_eq!(trace[0]["error"], found, "the client has the content: {answer}");
    let (answer, trace) = traced(&gateway, "guarded").await;
    assert_eq!(trace[0]["outcome"], "failed(PluginError)", "{answer}");
    assert!(!answer.to_string().contains("found"), "{answer}");
    let recorded = "reported error: Error with a message of 15 characters, at index.mjs:1:";
    assert!(message_of(&gateway, "strict").await.starts_with(recorded));
}

#[tokio::test]
async fn a_condition_that_cannot_be_evaluated_is_seen_before_and_after() {
    let folder = Folder::new();
    let entry = |when: &str| format!("{{name: marks, when: {when:?}}}");
    let of = |name: &str, when: &str| {
        let spec = format!("phase: Request, upstreams: {{names: [{name}]}}, entries: [{}]", entry(when));
        raw_stdio(name, &folder.path().join(name)) + &object("PluginChain", name, &spec)
    };
    let echo = "export default ({ rawContent }) => ({ text: rawContent, continue: true });";
    // A tool of each server has the argument `ms`, and none has `path`.
    let manifests = plugin("marks", echo, "")
        + &of("slips", "call.arguments.path.startsWith('/etc')")
        + &of("tests", "has(call.arguments.path) && call.arguments.path.startsWith('/etc')")
        + &of("fits", "call.arguments.ms > 5");
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["slips", "tests", "fits"]).await;
    let plan = format!("http://{}/api/v1/plan", gateway.admin());
    let problems = async || {
        let plan = Http::new().get(&plan).await.json();
        let of = plan["problems"].as_array().unwrap().iter().filter(|problem| problem["reason"] == "UnknownArgument");
        of.map(|problem| (problem["object"]["name"].clone(), problem["field"].clone())).collect::<Vec<_>>()
    };
    until("the slip is a problem", async || problems().await == [(json!("slips"), json!("spec.entries[0].when"))])
        .await;

    let (_, trace) = traced(&gateway, "slips").await;
    assert_eq!((&trace[0]["outcome"], &trace[0]["when"]), (&json!("ran"), &json!("no key path")), "{trace:?}");
    let (_, trace) = traced(&gateway, "tests").await;
    assert_eq!((&trace[0]["outcome"], &trace[0]["when"]), (&json!("skipped(when)"), &Value::Null), "{trace:?}");
    let (_, trace) = traced(&gateway, "fits").await;
    assert_eq!((&trace[0]["outcome"], &trace[0]["when"]), (&json!("ran"), &json!("no key ms")), "{trace:?}");
    let executions = table(&["executions", "--admin", &gateway.admin(), "-o", "json"]);
    let executions: Value = serde_json::from_str(&executions).unwrap();
    let of_chain =
        |chain: &str| executions["items"].as_array().unwrap().iter().find(|row| row["chainId"] == chain).cloned();
    assert_eq!(of_chain("default/slips").unwrap()["when"], "no key path", "{executions}");
    assert!(table(&["executions", "--admin", &gateway.admin()]).contains("when: no key path"));
    let metrics = Http::new().get(&format!("http://{}/metrics", gateway.admin())).await.body;
    let counted = |chain: &str| {
        let begin = format!("hawsepipe_plugin_conditions_failed_total{{chain=\"default/{chain}\"");
        metrics.lines().find(|line| line.starts_with(&begin)).map(|line| line.rsplit_once(' ').unwrap().1.to_owned())
    };
    assert_eq!((counted("slips").as_deref(), counted("tests")), (Some("1"), None), "{metrics}");
}

#[tokio::test]
async fn a_line_that_a_plugin_logs_names_its_call_and_its_chain() {
    let folder = Folder::new();
    let logs = "export default async ({ rawContent }, ctx) => {
        ctx.log(`saw ${rawContent}`); console.warn('and printed');
        return { text: rawContent, continue: true };
    };";
    let manifests = raw_stdio("up", &folder.path().join("log"))
        + &plugin("logs", logs, "")
        + &chain("asks", "Request", &["up"], &["logs"])
        + &chain("answers", "Response", &["up"], &["logs"]);
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    traced(&gateway, "up").await;
    let calls = table(&["calls", "--admin", &gateway.admin(), "-o", "json"]);
    let calls: Value = serde_json::from_str(&calls).unwrap();
    let id = &calls["items"][0]["requestId"];
    assert!(id.is_string(), "{calls}");
    for chain in ["default/asks", "default/answers"] {
        for (level, text) in [("INFO", r#"saw {"a":"b"}"#), ("WARN", "and printed")] {
            let line = gateway.logged(|line| line["message"] == text && line["chain"] == chain);
            let told = (&line["level"], &line["plugin"], &line["request_id"], &line["target"]);
            assert_eq!(told, (&json!(level), &json!("default/logs"), id, &json!("hawsepipe::plugin")), "{line}");
        }
    }
}
