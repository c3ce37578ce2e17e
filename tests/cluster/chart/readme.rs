//! The table of values in the chart's README, from the comments in values.yaml.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;

use super::golden::golden;
use crate::harness::{checkout, documents};

const HEAD: &str = "| Value | Default | What it is |\n|---|---|---|\n";

fn file(name: &str) -> PathBuf {
    checkout().join("charts/hawsepipe").join(name)
}

/// The values that have a comment `# --`, in their order, and the comment.
fn described() -> Vec<(String, String)> {
    let (mut rows, mut path, mut said) = (Vec::new(), Vec::new(), None::<String>);
    for line in std::fs::read_to_string(file("values.yaml")).unwrap().lines() {
        let text = line.trim_start();
        let depth = (line.len() - text.len()) / 2;
        if let Some(words) = text.strip_prefix("# -- ") {
            said = Some(words.to_owned());
        } else if let Some(more) = text.strip_prefix("# ") {
            said = said.map(|words| format!("{words} {more}"));
        } else if let Some((key, _)) = text.split_once(':') {
            path.truncate(depth);
            path.push(key.to_owned());
            rows.extend(said.take().map(|words| (path.join("."), words)));
        }
    }
    rows
}

fn at<'v>(value: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(value, |value, key| &value[key])
}

#[test]
fn the_readme_has_each_value_with_its_default() {
    let values = documents(&file("values.yaml")).remove(0);
    let row = |(path, words): (String, String)| format!("| `{path}` | `{}` | {words} |\n", at(&values, &path));
    let rows: String = described().into_iter().map(row).collect();
    let readme = file("README.md");
    let kept = std::fs::read_to_string(&readme).unwrap();
    let (before, _) = kept.split_once(HEAD).expect("the README has the head of the table");
    golden(&readme, &format!("{before}{HEAD}{rows}"));
}

/// The properties of the schema that have none of their own, by path.
fn leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let reference = property["$ref"].as_str();
        match property["properties"].is_object() || reference == Some("#/definitions/monitor") {
            true if reference.is_some() => {
                found.extend(["enabled", "labels", "interval"].map(|name| format!("{path}.{name}")));
            }
            true => leaves(property, &path, found),
            false => drop(found.insert(path)),
        }
    }
}

#[test]
fn what_the_schema_allows_is_described() {
    let schema = std::fs::read_to_string(file("values.schema.json")).unwrap();
    let mut allowed = BTreeSet::new();
    leaves(&serde_json::from_str(&schema).unwrap(), "", &mut allowed);
    // What parent charts set.
    allowed.remove("enabled");
    let described: BTreeMap<_, _> = described().into_iter().collect();
    assert_eq!(described.into_keys().collect::<BTreeSet<_>>(), allowed);
}
