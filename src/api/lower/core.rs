//! Reads the core Kubernetes kinds that a folder of manifests can contain: Secret, ConfigMap, Namespace.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::config::input::Labels;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::secret::SecretText;

/// Returns the values of a Secret: those in `data`, decoded from base64, and those in `stringData`, which take
/// precedence. A value that is not text is left out and reported as a Problem. Problems never contain a value.
pub fn secret(key: &ObjectKey, document: &Value) -> (BTreeMap<String, SecretText>, Vec<Problem>) {
    let id = ObjectId::new(Kind::Secret, key.clone());
    let mut problems = Vec::new();
    let mut values = BTreeMap::new();
    for (name, text) in strings(&id, document, "data", &mut problems) {
        let decoded = STANDARD.decode(text.split_ascii_whitespace().collect::<String>()).ok();
        match decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(text) => {
                values.insert(name, SecretText::new(text));
            }
            None => problems.push(Problem::error(
                Reason::InvalidSecret,
                id.clone(),
                format!("data.{name}"),
                "the value is not base64 of UTF-8 text; write it under stringData as it is",
            )),
        }
    }
    let plain = strings(&id, document, "stringData", &mut problems);
    values.extend(plain.into_iter().map(|(name, text)| (name, SecretText::new(text))));
    (values, problems)
}

/// Returns the `data` of a ConfigMap.
pub fn config_map(key: &ObjectKey, document: &Value) -> (BTreeMap<String, String>, Vec<Problem>) {
    let mut problems = Vec::new();
    let data = strings(&ObjectId::new(Kind::ConfigMap, key.clone()), document, "data", &mut problems);
    (data.into_iter().collect(), problems)
}

/// Returns the labels of a Namespace, including `kubernetes.io/metadata.name`, which Kubernetes sets on every
/// Namespace.
pub fn namespace(name: &str, document: &Value) -> (Labels, Vec<Problem>) {
    let id = ObjectId::new(Kind::Namespace, ObjectKey::new(name, name));
    let mut problems = Vec::new();
    let mut labels: Labels = strings(&id, document, "metadata.labels", &mut problems).into_iter().collect();
    labels.insert("kubernetes.io/metadata.name".into(), name.to_owned());
    (labels, problems)
}

/// Returns the members of the mapping at `field`. Members that are not strings are left out and reported.
fn strings(id: &ObjectId, document: &Value, field: &str, problems: &mut Vec<Problem>) -> Vec<(String, String)> {
    let mut wrong = |field: String| {
        let message = "must be a string; put the value in quotes";
        problems.push(Problem::error(Reason::InvalidObject, id.clone(), field, message));
    };
    let none = Map::new();
    let members = match field.split('.').try_fold(document, |value, part| value.get(part)) {
        None | Some(Value::Null) => &none,
        Some(Value::Object(members)) => members,
        Some(_) => {
            let message = "must be a mapping of names to strings";
            problems.push(Problem::error(Reason::InvalidObject, id.clone(), field, message));
            return Vec::new();
        }
    };
    let mut strings = Vec::with_capacity(members.len());
    for (name, value) in members {
        match value {
            Value::String(text) => strings.push((name.clone(), text.clone())),
            _ => wrong(format!("{field}.{name}")),
        }
    }
    strings
}
