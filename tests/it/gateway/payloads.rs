//! `history.payloads` and `history.redact`: the arguments and answers that the history keeps, on both databases.

use std::path::Path;

use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::history::{Postgres, sqlite};
use super::http::Http;
use super::parts::{chain, object, plugin, raw_stdio, tools_of, until};

/// What must be found nowhere, and why it is taken out.
const CANARIES: [&str; 6] = [
    "canary-0001",      // a rule
    "gone-by-its-name", // a rule that matches the name of the member
    "4111111111111111", // a rule, as a number
    "swordfish-7",      // the value of a Secret
    "hunter22hunter22", // credentials by their form
    "quokka",           // the request chain takes it out
];
const RULES: &str = r"['canary-\d+', '(?i)^x-internal$', '\b\d{16}\b']";

/// A gateway whose server has a Secret, a request chain that takes a word out and denies another, and a response chain that
/// fails if it finds a third.
async fn started(folder: &Folder, secrets: &Folder, history: &str, store: &str) -> Gateway {
    let server = raw_stdio("raw", &folder.path().join("log"));
    let secret = "env: [{name: KEY, valueFrom: {secretKeyRef: {name: api, key: key}}}]";
    let asks = "export default ({ rawContent }) => rawContent.includes('denied')
      ? { text: 'no: ' + rawContent, continue: false, error: rawContent }
      : { text: rawContent.replaceAll('quokka', 'animal'), continue: true };";
    let answers = "export default ({ rawContent }) => {
      if (rawContent.includes('withheld')) throw new Error(rawContent);
      return { text: JSON.stringify({ ...JSON.parse(rawContent), checked: true }), continue: true };
    };";
    folder.write(
        "manifests.yaml",
        &(server.replace("process: {", &format!("process: {{{secret}, "))
            + &object("MCPGateway", "main", &format!("authentication: {{anonymous: {{}}}}, history: {history}"))
            + &plugin("asks", asks, "role: Guard")
            + &plugin("answers", answers, "role: Guard")
            + &chain("asks", "Request", &["raw"], &["asks"])
            + &chain("answers", "Response", &["raw"], &["answers"])),
    );
    std::fs::create_dir_all(secrets.path().join("api")).unwrap();
    secrets.write("api/key", "swordfish-7\n");
    let gateway = Gateway::start_with(folder, &["--store", store, "--secrets-dir", secrets.path().to_str().unwrap()]);
    tools_of(&gateway, &["raw"]).await;
    gateway
}

async fn call(gateway: &Gateway, arguments: Value) -> Value {
    Http::new().call(&gateway.url(), "raw__args", &arguments, &json!({})).await["result"].take()
}

/// The newest records of the admin API, as text and parsed.
async fn records(gateway: &Gateway) -> (String, Vec<Value>) {
    let text = Http::new().get(&format!("http://{}/api/v1/calls", gateway.admin())).await.body;
    let items = serde_json::from_str::<Value>(&text).unwrap()["items"].as_array().unwrap().clone();
    (text, items)
}

/// All that a store has on disk or in its tables.
fn stored(store: &str, postgres: Option<&mut Postgres>) -> String {
    if let Some(postgres) = postgres {
        return postgres.does("SELECT document FROM calls") + &postgres.does("SELECT document FROM executions");
    }
    let files = ["", "-wal", "-journal"].map(|end| std::fs::read(format!("{store}{end}")).unwrap_or_default());
    String::from_utf8_lossy(&files.concat()).into_owned()
}

fn arguments() -> Value {
    json!({
        "text": "visible canary-0001, swordfish-7 and a quokka", "X-Internal": {"a": "gone-by-its-name"},
        "card": 4_111_111_111_111_111_u64, "head": "Authorization: Bearer hunter22hunter22",
    })
}

async fn spec_history_payloads(store: &str, mut postgres: Option<Postgres>) {
    let (folder, secrets) = (Folder::new(), Folder::new());
    let gateway = started(&folder, &secrets, &format!("{{payloads: Redacted, redact: {RULES}}}"), store).await;
    let text = call(&gateway, arguments()).await["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("canary-0001") && text.contains("checked"), "only the history is redacted: {text}");
    for word in ["denied", "withheld"] {
        assert_eq!(call(&gateway, json!({"a": format!("{word} visible-never")})).await["isError"], true);
    }
    until("three calls are recorded", async || records(&gateway).await.1.len() == 3).await;
    let (shown, items) = records(&gateway).await;
    let of = |outcome: &str| items.iter().find(|item| item["outcome"] == outcome).unwrap();
    let kept = json!({
        "text": "visible [redacted], [secret] and a animal", "[redacted]": "[redacted]", "card": "[redacted]",
        "head": "Authorization: [redacted]",
    });
    assert_eq!(of("ok")["arguments"]["content"], kept, "{shown}");
    let answer = of("ok")["answer"]["content"]["content"][0]["text"].as_str().unwrap();
    let mut answered = kept;
    answered["checked"] = json!(true);
    assert_eq!(serde_json::from_str::<Value>(answer).unwrap(), answered, "{shown}");
    // Of a call that was denied nothing passed the chains, of an answer that was withheld only the arguments.
    assert_eq!((&of("denied")["arguments"], &of("denied")["answer"]), (&Value::Null, &Value::Null));
    assert_eq!(of("failed")["answer"], Value::Null);
    assert_eq!(of("failed")["arguments"]["content"]["a"], "withheld visible-never");
    let log = gateway.log().concat();
    assert!(gateway.end().1);
    let stored = stored(store, postgres.as_mut());
    assert!(stored.contains("visible [redacted]"), "{stored}");
    for canary in CANARIES {
        for (place, text) in [("the admin API", &shown), ("the store", &stored), ("the log", &log)] {
            assert!(!text.contains(canary), "{canary} is in {place}: {text}");
        }
    }
}

#[tokio::test]
async fn spec_history_payloads_with_sqlite() {
    let folder = Folder::new();
    spec_history_payloads(folder.path().join("history.db").to_str().unwrap(), None).await;
}

#[tokio::test]
async fn spec_history_payloads_with_postgres() {
    let postgres = Postgres::start();
    spec_history_payloads(&postgres.url.clone(), Some(postgres)).await;
}

/// Without `Redacted`, and with a rule that is invalid, no payload is kept. An edit takes effect while the gateway runs.
#[tokio::test]
async fn spec_history_redact_keeps_nothing_if_a_rule_is_invalid() {
    let (folder, secrets) = (Folder::new(), Folder::new());
    let store = folder.path().join("history.db");
    let store = store.to_str().unwrap();
    let invalid = "{payloads: Redacted, redact: ['canary', '(']}";
    for (history, is_kept) in [("{payloads: None}", false), (invalid, false), ("{payloads: Redacted}", true)] {
        let gateway = started(&folder, &secrets, history, store).await;
        call(&gateway, json!({"text": "visible"})).await;
        let problems = Http::new().get(&format!("http://{}/api/v1/plan", gateway.admin())).await.body;
        let names_rule = problems.contains("spec.history.redact[1]") && problems.contains("no payloads are kept");
        assert_eq!(names_rule, history == invalid, "{problems}");
        assert!(gateway.end().1);
        let kept = sqlite(store, &["SELECT count(*) FROM calls WHERE document LIKE '%visible%'"]);
        assert_eq!(kept, if is_kept { "1" } else { "0" }, "{history}");
    }
    assert!(Path::new(store).exists());
}

/// A long text is cut, and content that is too large is left out.
#[tokio::test]
async fn large_payloads_are_cut_or_left_out() {
    let (folder, secrets) = (Folder::new(), Folder::new());
    let store = folder.path().join("history.db");
    let gateway = started(&folder, &secrets, "{payloads: Redacted}", store.to_str().unwrap()).await;
    call(&gateway, json!({"text": format!("{}end-of-text", "ab ".repeat(5000))})).await;
    call(&gateway, json!({"text": "a".repeat(70_000)})).await;
    until("two calls are recorded", async || records(&gateway).await.1.len() == 2).await;
    let (shown, items) = records(&gateway).await;
    let cut = items[1]["arguments"]["content"]["text"].as_str().unwrap();
    assert!(cut.len() < 5000 && cut.ends_with("...") && !shown.contains("end-of-text"), "{cut}");
    assert_eq!(items[0]["arguments"], json!({"omitted": "too large: 70011 bytes"}), "{shown:.500}");
}
