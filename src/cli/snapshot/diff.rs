//! Compares two plans, object by object. The result contains the paths of the fields that differ, but not their values.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::Plan;

/// Maximum number of fields that are listed for one object.
const MAX_FIELDS: usize = 32;

/// How an object differs between two plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// The object is only in the later plan.
    Added,
    /// The object is only in the earlier plan.
    Removed,
    /// The object is in both plans, but differs.
    Changed,
}

/// An object that differs between two plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub change: Change,
    pub kind: Kind,
    /// `namespace/name`.
    pub object: String,
    /// Paths of the differing fields, as the plan names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// The digests of a plugin's code, if the code changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<CodeChange>,
}

/// SHA-256 digests of a plugin's code, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodeChange {
    /// The digest in the earlier plan.
    pub from: String,
    /// The digest in the later plan.
    pub to: String,
}

/// Returns all differences, sorted by kind and name.
pub fn differences(from: &Plan, to: &Plan) -> Vec<Difference> {
    let (mut before, after) = (objects(from), objects(to));
    let mut found = BTreeMap::new();
    for (id, later) in after {
        match before.remove(&id) {
            None => drop(found.insert(id, (Change::Added, Vec::new(), None))),
            Some(earlier) if earlier != later => drop(found.insert(id, changed(&earlier, &later))),
            Some(_) => {}
        }
    }
    found.extend(before.into_keys().map(|id| (id, (Change::Removed, Vec::new(), None))));
    let differences = found.into_iter().map(|(id, (change, fields, code))| Difference {
        change,
        kind: id.kind,
        object: id.key.to_string(),
        fields,
        code,
    });
    differences.collect()
}

/// Returns the content of each object in a plan. The revisions of chains are left out, because a revision differs only
/// if the chain or its plugins' code differs, which is reported anyway.
fn objects(plan: &Plan) -> BTreeMap<ObjectId, Value> {
    let gateway = (Kind::MCPGateway, &plan.gateway.key, with_takes(plan));
    let upstreams = plan.upstreams.iter().map(|upstream| (upstream.kind(), &upstream.key, json!(upstream)));
    let plugins = plan.plugins.iter().map(|plugin| (Kind::Plugin, &plugin.key, json!(plugin)));
    let chains = plan.chains.iter().map(|chain| {
        let mut content = json!(chain);
        content["revision"] = Value::Null;
        (Kind::PluginChain, &chain.key, content)
    });
    let sections = plan.sections.iter().map(|section| (Kind::SectionBinding, &section.key, json!(section)));
    let all = std::iter::once(gateway).chain(upstreams).chain(plugins).chain(chains).chain(sections);
    all.map(|(kind, key, content)| (ObjectId::new(kind, key.clone()), content)).collect()
}

fn with_takes(plan: &Plan) -> Value {
    let mut content = json!(plan.gateway);
    content["takes"] = json!(plan.takes);
    content
}

/// Compares two versions of an object. Returns the paths of the fields that differ (at most [`MAX_FIELDS`], then how
/// many more) and, if the code differs, its two digests.
fn changed(earlier: &Value, later: &Value) -> (Change, Vec<String>, Option<CodeChange>) {
    let mut fields = Vec::new();
    compare("", earlier, later, &mut fields);
    fields.retain(|field| field != "digest");
    let more = fields.len().saturating_sub(MAX_FIELDS);
    fields.truncate(MAX_FIELDS);
    if more > 0 {
        fields.push(format!("and {more} more"));
    }
    let digest = |content: &Value| content["digest"].as_str().unwrap_or_default().to_owned();
    let (from, to) = (digest(earlier), digest(later));
    (Change::Changed, fields, (from != to).then_some(CodeChange { from, to }))
}

/// Adds the path of each value that differs to `found`. If two lists differ in length, only the path of the list is
/// added.
fn compare(path: &str, earlier: &Value, later: &Value, found: &mut Vec<String>) {
    match (earlier, later) {
        (Value::Object(before), Value::Object(after)) => {
            let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let member = |members: &Map<String, Value>| members.get(name).cloned().unwrap_or_default();
                compare(&path, &member(before), &member(after), found);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (i, (before, after)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}[{i}]"), before, after, found);
            }
        }
        _ if earlier != later => found.push(path.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::compile::compile;
    use crate::config::compile::tests::{chain, chain_of, folder, know, plugin_of, upstream};
    use crate::config::input::{InputValue, Inputs, NamedInput, SourceInput};

    /// Returns what an edit of the [`folder`] changes in the plan, as one line for each object.
    fn after(edit: impl FnOnce(&mut Inputs)) -> Vec<String> {
        let mut inputs = folder();
        let (before, _) = compile(&inputs, None);
        edit(&mut inputs);
        let (after, _) = compile(&inputs, None);
        let line = |d: &Difference| {
            let code = if d.code.is_some() { " code" } else { "" };
            format!("{:?} {} {} {}{code}", d.change, d.kind, d.object, d.fields.join(","))
        };
        differences(&before, &after).iter().map(line).collect()
    }

    #[test]
    fn the_same_plan_differs_in_nothing() {
        assert_eq!(after(|_| {}), [""; 0]);
    }

    #[test]
    fn objects_come_and_go() {
        let found = after(|inputs| {
            inputs.upstreams = vec![upstream("other")];
            inputs.chains.push(chain("more", &["guard"]));
        });
        assert_eq!(
            found,
            ["Added MCPUpstream default/other ", "Removed MCPUpstream default/up ", "Added PluginChain default/more ",]
        );
    }

    #[test]
    fn fields_are_named_and_values_are_not_told() {
        let secret = "hunter2";
        let found = after(|inputs| {
            let value = InputValue::Literal(secret.into());
            inputs.upstreams[0].values.push(NamedInput { name: "X-Key".into(), value, field: String::new() });
            inputs.upstreams[0].plan.health.period_seconds = 7;
            chain_of(inputs, "checks").entries[1].max_tokens = Some(3);
        });
        assert_eq!(
            found,
            [
                "Changed MCPUpstream default/up health.period_seconds,transport.External.headers",
                "Changed PluginChain default/checks entries[1].max_tokens",
            ]
        );
    }

    #[test]
    fn code_is_told_by_its_digests() {
        let found = after(|inputs| {
            plugin_of(inputs, "guard").source = SourceInput::Inline("new".into());
            know(inputs, "new", "index.js", &["default"]);
        });
        assert_eq!(found, ["Changed Plugin default/guard  code"]);
    }

    #[test]
    fn no_more_fields_are_named_than_are_read() {
        let many = |n: u32| json!((0..100).map(|i| (format!("f{i}"), json!(n))).collect::<serde_json::Map<_, _>>());
        let (_, fields, _) = changed(&many(1), &many(2));
        assert_eq!((fields.len(), fields[MAX_FIELDS].as_str()), (MAX_FIELDS + 1, "and 68 more"));
    }
}
