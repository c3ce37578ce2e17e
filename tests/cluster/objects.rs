//! The objects of `tests/golden/api`, as a real API server takes them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, Error};
use serde_json::{Value, json};

use crate::harness::{Cluster, checkout};

/// The files whose objects are to be accepted: all but `refused.yaml`.
fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(checkout().join("tests/golden/api")).unwrap().map(|entry| entry.unwrap().path());
    let accepted = |path: &PathBuf| {
        path.extension().is_some_and(|e| e == "yaml") && path.file_stem().is_some_and(|s| s != "refused")
    };
    let files: Vec<_> = entries.filter(accepted).collect();
    assert!(files.len() >= 8, "too few files to be all of them: {files:?}");
    files
}

/// The documents of a file, as `hawsepipe run` reads them.
fn documents(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let documents = hawsepipe::source::yaml::read(&text).unwrap_or_else(|_| panic!("{} is no YAML", file.display()));
    documents.into_iter().map(|document| document.value).collect()
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

/// The objects of `refused.yaml`: each breaks one rule or one part of a schema, and says with which words a rule refuses.
#[tokio::test]
async fn what_hawsepipe_run_refuses_is_refused_and_rules_use_the_same_words() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace().await;
    let client = cluster.admin().await;
    let rules = rules(&client).await;
    let mut broken = BTreeSet::new();
    for document in documents(&checkout().join("tests/golden/api/refused.yaml")) {
        let message = document["metadata"]["annotations"]["message"].as_str().unwrap();
        let answer = create(&client, &namespace, &document).await;
        // The one difference: an API server takes a null field for an absent one.
        if message.contains("it is empty") {
            answer.unwrap();
            continue;
        }
        let Err(Error::Api(refused)) = answer else { panic!("{answer:?}: {document}") };
        assert!([400, 422].contains(&refused.code), "{refused:?}: {document}");
        if let Some(rule) = rules.get(message) {
            assert!(refused.message.contains(rule), "{}: {document}", refused.message);
            broken.insert(rule);
        }
    }
    assert!(broken.len() > 50, "too few rules to be all of them: {broken:?}");
}

/// Creates an object, but not where it has a field that the schema does not know.
async fn create(client: &Client, namespace: &str, object: &Value) -> kube::Result<Value> {
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let path = format!("/apis/hawsepipe.dev/v1alpha1/namespaces/{namespace}/{kind}s?fieldValidation=Strict");
    let request = http::Request::post(path).header("content-type", "application/json");
    client.request(request.body(object.to_string().into_bytes()).unwrap()).await
}

/// The messages of the definitions' rules.
async fn rules(client: &Client) -> BTreeSet<String> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definitions = definitions.list(&ListParams::default()).await.unwrap();
    let mut found = BTreeSet::new();
    messages(&serde_json::to_value(definitions.items).unwrap(), &mut found);
    found
}

fn messages(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            let own = members.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
            found.extend(own.filter_map(|rule| Some(rule["message"].as_str()?.to_owned())));
            members.values().for_each(|member| messages(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| messages(item, found)),
        _ => {}
    }
}
