//! The CustomResourceDefinitions in `crds/`, as a real API server takes them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;

use crate::harness::{Cluster, checkout};

/// The definitions' files: their name in the cluster, and their path.
fn files() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(checkout().join("crds")).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &std::path::PathBuf| {
        let kind = path.file_stem().unwrap().to_string_lossy();
        (format!("{kind}.hawsepipe.dev"), path.to_string_lossy().into_owned())
    };
    let files: Vec<_> = entries.map(|path| named(&path)).collect();
    assert!(files.len() >= 7, "too few files to be all of them: {files:?}");
    files
}

#[tokio::test]
async fn each_is_established_and_free_of_complaints() {
    let cluster = Cluster::shared().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.admin().await);
    for (name, _) in files() {
        let definition = definitions.get(&name).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let conditions = definition.status.and_then(|status| status.conditions).unwrap_or_default();
        let mut seen: Vec<_> =
            conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_deref())).collect();
        seen.sort_unstable();
        // A schema that Kubernetes does not like would be here as a third: NonStructuralSchema.
        let wanted =
            [("Established", "True", Some("InitialNamesAccepted")), ("NamesAccepted", "True", Some("NoConflicts"))];
        assert_eq!(seen, wanted, "{name}: {conditions:?}");
    }
}

/// The API server keeps the definition as we write it: a second apply changes nothing.
#[tokio::test]
async fn a_second_apply_changes_none() {
    let cluster = Cluster::shared().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.admin().await);
    for (name, file) in files() {
        let before = definitions.get(&name).await.unwrap().metadata;
        let arguments = ["apply", "--server-side", "--validate=strict", "-f", &file];
        cluster.kubectl(&arguments, "").await.unwrap();
        let after = definitions.get(&name).await.unwrap().metadata;
        assert_eq!((before.uid, before.generation), (after.uid, after.generation), "{name} was changed");
    }
}

/// People read the API there.
#[tokio::test]
async fn each_field_is_explained() {
    let cluster = Cluster::shared().await;
    let explained = cluster.kubectl(&["explain", "pluginchains.spec.entries.failurePolicy"], "").await.unwrap();
    assert!(explained.contains("GROUP:      hawsepipe.dev"), "{explained}");
    assert!(!explained.contains("<empty>"), "it has no description:\n{explained}");
}
