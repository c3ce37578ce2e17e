//! Tests that invalid objects are refused: one object for each rule and each kind of schema error.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::{one, said};
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

/// Collects the messages of all rules in a schema; of one that an expression makes, its end, which is constant.
fn messages(schema: &Value, found: &mut BTreeSet<String>) {
    if let Some(rules) = schema.get("x-kubernetes-validations").and_then(Value::as_array) {
        let end = |rule: &Value| {
            Some(rule["messageExpression"].as_str()?.strip_suffix('\'')?.rsplit_once('\'')?.1.to_owned())
        };
        found.extend(rules.iter().filter_map(|rule| rule["message"].as_str().map(str::to_owned).or_else(|| end(rule))));
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
            let is_broken = broken.iter().any(|(kind, said)| *kind == crd.spec.names.kind && said.ends_with(&message));
            assert!(message.contains("is immutable") || is_broken, "no object breaks {message:?}");
        }
    }
}

#[test]
fn what_cannot_be_sent_or_started_as_it_is_written_is_refused() {
    let of = |spec: &str| {
        let head = "apiVersion: hawsepipe.dev/v1alpha1\nkind: MCPUpstream\nmetadata: {name: u}\nspec: ";
        said(&one(&format!("{head}{spec}\n")))
    };
    let header =
        |header: &str| of(&format!("{{external: {{url: 'http://h', headers: [{{name: A, value: b}}, {header}]}}}}"));
    for own in ["Host", "content-LENGTH", "Transfer-Encoding", "Mcp-Session-Id", "MCP-Protocol-Version", "Accept"] {
        let said = header(&format!("{{name: {own}, value: x}}"));
        assert!(said.len() == 1 && said[0].contains(&format!("header {own}: the gateway sets")), "{own}: {said:?}");
    }
    assert!(header("{name: Mcp-Param-X, value: x}")[0].contains("header Mcp-Param-X: the gateway makes"));
    assert!(header("{name: a, value: x}")[0].contains("two have the same name"));
    assert!(
        header(r#"{name: B, value: "x\r\nC: d"}"#)[0].contains("headers[1].value: must be text without line breaks")
    );
    assert_eq!(header("{name: Authorization, value: x}"), Vec::<String>::new());
    let user = of("{external: {url: 'https://user:hunter2@h/mcp'}}");
    assert!(user.len() == 1 && user[0].contains("a password in the URL"), "{user:?}");
    assert!(!user[0].contains("hunter2"), "{user:?}");
    for (process, field) in [
        (r#"args: [a, "b\0"]"#, "spec.process.args[1]"),
        (r#"env: [{name: A, value: "b\0"}]"#, "spec.process.env[0].value"),
        ("env: [{name: A=B, value: x}]", "spec.process.env[0].name"),
        ("env: [{name: '', value: x}]", "spec.process.env[0].name"),
    ] {
        let said = of(&format!("{{process: {{command: node, {process}}}}}"));
        assert!(said.len() == 1 && said[0].contains(field), "{process}: {said:?}");
    }
}
