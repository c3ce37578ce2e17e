//! Tests that invalid objects are refused: one object for each rule and each kind of schema error.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::api::{check, crds};
use crate::domain::ids::{ObjectId, ObjectKey};
use crate::source::yaml;

fn refused() -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/api/refused.yaml");
    let documents = yaml::read(&std::fs::read_to_string(file).unwrap()).unwrap();
    documents.into_iter().map(|document| document.value).collect()
}

fn annotation(document: &Value, name: &str) -> String {
    document["metadata"]["annotations"][name].as_str().unwrap().to_owned()
}

#[test]
fn each_is_refused_where_and_with_the_words_it_says() {
    for document in refused() {
        let expected = [(annotation(&document, "field"), annotation(&document, "message"))];
        let kind = serde_json::from_value(document["kind"].clone()).unwrap();
        let id = ObjectId::new(kind, ObjectKey::new("default", "x"));
        let found = check::check(&id, &document, None).into_iter().map(|p| (p.field, p.message));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{document}");
    }
}

/// Collects the messages of all rules in a schema.
fn messages(schema: &Value, found: &mut BTreeSet<String>) {
    if let Some(rules) = schema.get("x-kubernetes-validations").and_then(Value::as_array) {
        found.extend(rules.iter().filter_map(|rule| Some(rule["message"].as_str()?.to_owned())));
    }
    match schema {
        Value::Object(members) => members.values().for_each(|member| messages(member, found)),
        Value::Array(items) => items.iter().for_each(|item| messages(item, found)),
        _ => {}
    }
}

#[test]
fn every_rule_has_an_object_that_breaks_it() {
    let broken: BTreeSet<(String, String)> = refused()
        .iter()
        .map(|document| (document["kind"].as_str().unwrap().to_owned(), annotation(document, "message")))
        .collect();
    // GatewaySnapshots are left out, because only the operator writes them.
    for crd in crds().into_iter().filter(|crd| crd.spec.names.kind != "GatewaySnapshot") {
        let mut all = BTreeSet::new();
        messages(&serde_json::to_value(&crd).unwrap(), &mut all);
        for message in all {
            // Rules about immutable fields need the old version of an object. They are tested beside the check.
            let rule = (crd.spec.names.kind.clone(), message);
            assert!(rule.1.contains("is immutable") || broken.contains(&rule), "no object breaks {rule:?}");
        }
    }
}
