//! What the admin API changes, in the audit trail.

use serde_json::{Value, json};

use super::audited::{call, rows, started};
use super::harness::{Folder, run};
use super::history::{err, out};

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
