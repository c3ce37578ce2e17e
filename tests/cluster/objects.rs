//! The objects of `tests/golden/api`, as a real API server takes them.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Cluster, checkout, documents};

/// The files whose objects are to be accepted: all but `refused.yaml`.
pub fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(checkout().join("tests/golden/api")).unwrap().map(|entry| entry.unwrap().path());
    let accepted = |path: &PathBuf| {
        path.extension().is_some_and(|e| e == "yaml") && path.file_stem().is_some_and(|s| s != "refused")
    };
    let files: Vec<_> = entries.filter(accepted).collect();
    assert!(files.len() >= 8, "too few files to be all of them: {files:?}");
    files
}

/// All of them in one namespace, as documents: other tests use the same names in theirs. (A `List` would not do:
/// kubectl checks its items itself, where the API server checks documents.)
fn placed_in(namespace: &str, objects: Vec<Value>) -> String {
    let placed = objects.into_iter().map(|mut object| {
        object["metadata"]["namespace"] = json!(namespace);
        object.to_string()
    });
    placed.collect::<Vec<_>>().join("\n")
}

/// `KIND.GROUP/NAME: what was done`, for the objects of our kinds, as kubectl prints it.
fn ours(printed: &str) -> Vec<(&str, &str)> {
    printed.lines().filter(|line| line.contains(".hawsepipe.dev/")).filter_map(|line| line.split_once(' ')).collect()
}

#[tokio::test]
async fn each_is_accepted_and_kept_as_it_is_written() {
    let cluster = Cluster::shared().await;
    for path in files() {
        let file = path.file_name().unwrap().to_string_lossy();
        let namespace = cluster.namespace().await;
        let objects = documents(&path);
        let count = objects.iter().filter(|object| object["apiVersion"] == "hawsepipe.dev/v1alpha1").count();
        assert!(count > 0, "{file} has none of our objects");
        let documents = placed_in(&namespace, objects);
        for wanted in ["created", "unchanged"] {
            let printed = cluster.kubectl(&["apply", "--validate=strict", "-f", "-"], &documents).await;
            let printed = printed.unwrap_or_else(|error| panic!("{file}: {error}"));
            let done = ours(&printed);
            assert_eq!(done.len(), count, "{file}:\n{printed}");
            assert!(done.iter().all(|(_, what)| *what == wanted), "{file}: not all are {wanted}:\n{printed}");
        }
    }
}
