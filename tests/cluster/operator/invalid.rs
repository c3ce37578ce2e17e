//! Objects that were stored before a rule of the definitions existed.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use super::harness::{Operated, api, condition, gateway, object};
use super::snapshots::plan;
use crate::harness::{Cluster, checkout, counts, documents, until};

/// What a schema asks of values. Without them any value of the right type is stored.
const ASKED: [&str; 13] = [
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "required",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "maxProperties",
];
/// How long the operator is watched for what it tries again.
const WATCHED: Duration = Duration::from_secs(20);
const CODE: &str = "export default () => ({ continue: true });";

/// The plurals of our kinds.
const PLURALS: [(&str, &str); 6] = [
    ("MCPGateway", "mcpgateways"),
    ("MCPUpstream", "mcpupstreams"),
    ("Plugin", "plugins"),
    ("PluginChain", "pluginchains"),
    ("ToolPipeline", "toolpipelines"),
    ("SectionBinding", "sectionbindings"),
];

/// Takes out of a schema what it asks of values. (Of properties with these names nothing is taken.)
fn relax(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    ASKED.iter().for_each(|asked| drop(members.remove(*asked)));
    for (name, member) in members {
        match name.as_str() {
            "properties" => member.as_object_mut().into_iter().flat_map(|all| all.values_mut()).for_each(relax),
            "items" | "additionalProperties" => relax(member),
            _ => {}
        }
    }
}

/// The definitions with other schemas in place of those that are there.
async fn define(cluster: &Cluster, change: impl Fn(&mut Value)) {
    for entry in std::fs::read_dir(checkout().join("crds")).unwrap() {
        let mut definition = documents(&entry.unwrap().path()).remove(0);
        for version in definition["spec"]["versions"].as_array_mut().unwrap() {
            change(&mut version["schema"]["openAPIV3Schema"]);
        }
        cluster.kubectl(&["replace", "-f", "-"], &definition.to_string()).await.unwrap();
    }
}

/// Objects that break one rule or range each, with what is said of it.
fn broken() -> Vec<(Value, String)> {
    let all = documents(&checkout().join("tests/golden/api/refused.yaml"));
    let named = all.into_iter().enumerate().map(|(n, mut object)| {
        let message = object["metadata"]["annotations"]["message"].as_str().unwrap_or_default().to_owned();
        let is_of_name = message.starts_with("metadata.name");
        let name = if is_of_name { object["metadata"]["name"].clone() } else { json!(format!("broken-{n}")) };
        object["metadata"] = json!({"name": name});
        (object, message)
    });
    // A field that no definition knows is not stored at all.
    named.filter(|(_, message): &(Value, String)| !message.starts_with("unknown field")).collect()
}

/// Stores what the API server takes, by plural and name, with what is said of it.
async fn store(operated: &Operated<'_>, objects: Vec<(Value, String)>) -> BTreeMap<(&'static str, String), String> {
    let mut stored = BTreeMap::new();
    for (value, message) in objects {
        let Some((_, plural)) = PLURALS.iter().find(|(kind, _)| value["kind"] == *kind) else { continue };
        let object: DynamicObject = serde_json::from_value(value).unwrap();
        let name = object.metadata.name.clone().unwrap();
        let api = api(&operated.client, &operated.namespace, plural);
        if api.create(&PostParams::default(), &object).await.is_ok() {
            stored.insert((*plural, name), message);
        }
    }
    stored
}

fn good() -> Vec<Value> {
    let entries = json!({"phase": "Response", "entries": [{"name": "say"}], "upstreams": {"names": ["up"]}});
    vec![
        gateway("main"),
        object("MCPUpstream", "up", &json!({"external": {"url": "http://up.example/mcp"}})),
        object("Plugin", "say", &json!({"source": {"inline": CODE}})),
        object("PluginChain", "answers", &entries),
    ]
}

#[tokio::test]
#[ignore = "long: make test-long"]
async fn what_was_stored_before_a_rule_stops_nothing_else() {
    let cluster = Cluster::own().await;
    define(&cluster, relax).await;
    let probe = object("Plugin", "probe", &json!({}));
    until("the definitions ask for nothing", async || {
        let object: DynamicObject = serde_json::from_value(probe.clone()).unwrap();
        let api = api(&cluster.admin().await, "default", "plugins");
        api.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await.ok()
    })
    .await;
    let mut operated = Operated::on(&cluster).await;
    operated.operator.kill();
    let stored = store(&operated, broken()).await;
    assert!(stored.len() > 60, "too few are stored to be all of them: {}", stored.len());
    define(&cluster, |_| ()).await;
    let dry_run = ["apply", "--dry-run=server", "-n", &operated.namespace, "-f", "-"];
    until("the rules are there again", async || cluster.kubectl(&dry_run, &probe.to_string()).await.err()).await;

    operated.apply(&good()).await;
    operated.operator = operated.another("next").await;
    programmed(&operated).await;
    let untold = until("each object is told of, or cannot be", async || told(&operated, &stored).await).await;
    println!("{} objects are stored; of {} no status can be written: {untold:?}", stored.len(), untold.len());
    // Time enough for what is tried again at first, and seldom then.
    tokio::time::sleep(WATCHED).await;
    let mark = cluster.mark().await;
    tokio::time::sleep(WATCHED).await;
    let requests = cluster.requests_since(mark).await;
    let user = format!("system:serviceaccount:{}:next", operated.namespace);
    let tried: Vec<_> = requests.iter().filter(|r| r.user == user && r.verb == "patch").collect();
    assert!(tried.len() <= untold.len(), "{:?}", counts(tried));
    assert!(!operated.operator.log().contains("panicked"), "{}", operated.operator.log());
}

/// Waits until what is good is planned.
async fn programmed(operated: &Operated<'_>) {
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    until("what is good is in the plan", async || {
        let plan = plan(operated).await;
        let chain = plan.chains.iter().find(|chain| chain.key.name == "answers")?;
        let up = plan.upstreams.iter().any(|up| up.key.name == "up" && up.refusing.is_none());
        (up && chain.refusing.is_none() && plan.code.values().any(|code| code == CODE)).then_some(())
    })
    .await;
}

/// Those of which no status can be written, once each other one has its condition and the log names these.
async fn told(operated: &Operated<'_>, stored: &BTreeMap<(&'static str, String), String>) -> Option<Vec<String>> {
    let (mut untold, mut wrong) = (Vec::new(), Vec::new());
    for ((plural, name), message) in stored {
        let object = operated.object(plural, name).await;
        match condition(&object["status"], "Accepted") {
            Some((is, told)) if is.starts_with("False") && told.contains(message.as_str()) => {}
            Some(other) => wrong.push(format!("{plural}/{name}: {message:?}, {other:?}")),
            None => untold.push(name.clone()),
        }
    }
    assert!(wrong.is_empty(), "{} are told otherwise: {wrong:#?}", wrong.len());
    let log = operated.operator.log();
    let is_logged = |name: &String| log.lines().any(|l| l.contains("its status cannot be written") && l.contains(name));
    untold.iter().all(is_logged).then_some(untold)
}
