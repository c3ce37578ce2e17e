//! The audit trail of clients that leave, of rules that deny, and of what operators do.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use super::audited::{call, of_kind, rows, started, verified};
use super::harness::{Folder, Gateway, run};
use super::history::{err, out};
use super::http::{Http, call_body, call_headers};
use super::parts::{chain, object, plugin, raw_stdio, tools_of, until};
use crate::fixtures::python;

/// A client leaves while the end row of its call waits for a store that is locked: the call has one end, and it says who called
/// what. So does the end of a call that a rule denied before it was sent.
#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one gateway answers all of it")]
async fn a_client_that_leaves_while_its_last_row_waits_leaves_one_end() {
    let folder = Folder::new();
    let store = folder.path().join("audit.db");
    let store = store.to_str().unwrap();
    let slow = "export default async ({ rawContent }) => {
      await new Promise((done) => setTimeout(done, 1000));
      return { text: rawContent, continue: true };
    };";
    let rules = "authentication: {anonymous: {}}, audit: {mode: Required}, authorization: {default: Allow, rules: [\
        {name: no-secrets, effect: Deny, when: 'has(call.arguments.secret)'}]}";
    let manifests = object("MCPGateway", "main", rules)
        + &raw_stdio("raw", &folder.path().join("log"))
        + &plugin("slow", slow, "")
        + &chain("answers", "Response", &["raw"], &["slow"]);
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start_with(&folder, &["--store", store]);
    tools_of(&gateway, &["raw"]).await;
    let url = gateway.url();
    let calling = tokio::spawn(async move {
        let body = call_body("raw__args", "{}", &json!({}));
        Http::new().try_send(Method::POST, &url, &call_headers("raw__args"), body).await.map(drop)
    });
    until("the call is sent", async || of_kind(&rows(store), "begin").len() == 1).await;
    let lock = "import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute('BEGIN IMMEDIATE')
print('locked', flush=True)
sys.stdin.read()";
    let mut locked =
        Command::new(python()).args(["-c", lock, store]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(locked.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "locked\n");
    // The end row is queued once the plugin has answered.
    tokio::time::sleep(Duration::from_millis(1300)).await;
    assert!(!calling.is_finished(), "its row waits");
    calling.abort();
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(locked.stdin.take());
    assert!(locked.wait().unwrap().success());
    let result = call(&gateway, json!({"secret": 1})).await;
    assert_eq!(result["isError"], true, "{result}");
    gateway.end();
    let rows: Vec<_> = rows(store).into_iter().map(|mut row| row["row"].take()).collect();
    let kinds: Vec<_> = rows.iter().map(|row| (row["kind"].as_str().unwrap(), row["outcome"].as_str())).collect();
    assert_eq!(kinds, [("begin", None), ("end", Some("ok")), ("end", Some("denied"))], "{rows:?}");
    assert_eq!(rows[0]["requestId"], rows[1]["requestId"]);
    assert_eq!((&rows[2]["rule"], &rows[2]["reason"]), (&json!("no-secrets"), &json!("NotAuthorized")));
    for row in &rows {
        let named = ["principal", "method", "upstream", "tool"].map(|member| row[member].as_str().unwrap());
        assert_eq!(named, ["anonymous", "tools/call", "raw", "args"], "{row}");
        assert_eq!(row["user"], json!({"method": "anonymous"}), "{row}");
    }
    assert!(verified(store, &[]).0);
}

/// What operators do by the admin API is in the trail, and can be exported alone.
#[tokio::test]
async fn stop_and_resume_are_rows() {
    let folder = Folder::new();
    let store = folder.path().join("audit.db");
    let store = store.to_str().unwrap();
    let gateway = started(&folder, "Required", store).await;
    let admin = gateway.admin().to_string();
    for (command, succeeds) in [(&["stop"][..], true), (&["resume"], true), (&["cancel", "none"], false)] {
        let output = run(&[command, &["--admin", &admin]].concat());
        assert_eq!(output.status.success(), succeeds, "{}", err(&output));
    }
    assert_eq!(call(&gateway, json!({"a": 1})).await["isError"], Value::Null);
    gateway.end();
    let output = run(&["audit", "export", "--store", store, "--kind", "admin", "--principal", "local"]);
    let exported: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said =
        |row: &Value| ["action", "target", "outcome"].map(|member| row["row"][member].as_str().unwrap().to_owned());
    let said: Vec<_> = exported.iter().map(said).collect();
    assert_eq!(
        said[..2],
        [["stop", "gateway default/main", "done"], ["resume", "gateway default/main", "done"]],
        "{said:?}"
    );
    assert!(
        said[2..].iter().all(|row| row[0] == "cancel" && row[2].ends_with("NotFound")) && said.len() > 2,
        "{said:?}"
    );
    assert_eq!(rows(store).len(), exported.len() + 2, "the rows of the call");
}
