//! A SQLite file that is removed or replaced under a running gateway, and files that are no store.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::audited::{call, of_kind, rows, started, verified};
use super::harness::{Folder, run};
use super::history::{err, out, sqlite};
use super::parts::until;

/// Moves a store with its other files.
fn moved(from: &str, to: &str) {
    for end in ["", "-wal", "-shm"] {
        fs::rename(format!("{from}{end}"), format!("{to}{end}")).unwrap();
    }
}

#[tokio::test]
async fn a_sqlite_file_that_is_removed_or_replaced_gets_no_rows_and_required_refuses() {
    for (mode, reason) in [("Required", "AuditUnavailable"), ("BestEffort", "StoreUnavailable")] {
        let folder = Folder::new();
        let stores = Folder::new();
        let [store, away] = ["audit.db", "away.db"].map(|name| stores.path().join(name).display().to_string());
        let gateway = started(&folder, mode, &store).await;
        assert_eq!(call(&gateway, json!({"a": 1})).await["isError"], Value::Null);
        let status = || out(&run(&["status", "--admin", &gateway.admin()]));
        for is_replaced in [false, true] {
            moved(&store, &away);
            if is_replaced {
                fs::copy(&away, &store).unwrap();
            }
            let result = call(&gateway, json!({"a": 2})).await;
            if mode == "Required" {
                assert_eq!(result["_meta"]["hawsepipe.dev/refused"]["reason"], reason, "{result}");
            } else {
                assert_eq!(result["isError"], Value::Null, "{result}");
            }
            until("the status says so", async || {
                let status = status();
                status.contains(reason) && status.contains("was removed or replaced")
            })
            .await;
            let _ = fs::remove_file(&store);
            moved(&away, &store);
            until("rows are stored again", async || {
                call(&gateway, json!({"a": 3})).await["isError"].is_null() && !status().contains("Unavailable")
            })
            .await;
        }
        assert!(gateway.end().1);
        let rows = rows(&store);
        assert!(of_kind(&rows, "begin").len() >= 3, "{rows:?}");
        let (whole, said) = verified(&store, &[]);
        assert!(whole, "{said}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_store_is_named() {
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("text"), "a text that is no database").unwrap();
    fs::write(path("empty"), "").unwrap();
    sqlite(&path("other"), &["CREATE TABLE a (b TEXT)", "SELECT 1"]);
    for (file, words) in [
        ("text", "the file is no SQLite database"),
        ("empty", "the file is no SQLite database"),
        ("other", "The database is no store of a gateway"),
        ("none", "there is no such file"),
    ] {
        for command in ["verify", "export", "unfinished"] {
            let output = run(&["audit", command, "--store", &path(file)]);
            let said = err(&output);
            assert!(
                !output.status.success() && said.contains(words) && said.contains(file),
                "{command} {file}: {said}"
            );
        }
    }
    assert_eq!(fs::read(path("text")).unwrap(), b"a text that is no database");
    assert!(fs::read(path("empty")).unwrap().is_empty() && !Path::new(&path("none")).exists());
}
