//! The manifests in `manifests/examples`, which people apply as they stand.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::harness::{Cluster, checkout, documents};

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(checkout().join("manifests/examples")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect();
    let names: BTreeSet<_> = files.iter().map(|path| path.file_stem().unwrap().to_string_lossy()).collect();
    assert_eq!(names, ["curate", "guard", "managed", "redact", "shadow", "shape", "truncate"].map(Into::into).into());
    files
}

#[tokio::test]
async fn validate_and_an_api_server_accept_each() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace().await;
    for path in files() {
        let file = path.to_string_lossy();
        let said =
            cluster.hawsepipe(None, &["validate", &file]).await.unwrap_or_else(|error| panic!("{file}: {error}"));
        let expected = if file.ends_with("/managed.yaml") {
            &["warning: MCPUpstream default/memory: spec.managed: only a cluster can serve this", "0 errors, 1 warning"]
                [..]
        } else {
            &["0 errors, 0 warnings"]
        };
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{file}: {said}");
        assert!(lines.iter().zip(expected).all(|(line, expected)| line.contains(expected)), "{file}: {said}");
        let apply = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-n", &namespace, "-f", &file];
        let applied = cluster.kubectl(&apply, "").await.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(applied.lines().count(), documents(&path).len(), "{file}: {applied}");
    }
}

/// So that several can be applied to one namespace.
#[test]
fn what_two_of_them_declare_is_the_same() {
    let mut objects = std::collections::BTreeMap::new();
    for path in files() {
        for object in documents(&path) {
            let id = format!("{} {}", object["kind"], object["metadata"]["name"]);
            let before = objects.entry(id).or_insert_with(|| object.clone());
            assert_eq!(*before, object, "{}", path.display());
        }
    }
}
