//! An operator that lacks one of its rights: each in turn, all at once, in namespaces of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::harness::{ACCOUNT, Operated, api, condition, gateway, object};
use super::snapshots::plan;
use crate::harness::{Cluster, Process, Request, SOON, checkout};

/// How often what is forbidden may be tried.
const PERIOD: Duration = Duration::from_secs(60);
/// What a busy machine adds to that before everything works again.
const SLACK: Duration = Duration::from_secs(30);
/// Operators that are brought up or asked at once.
const AT_ONCE: usize = 8;
const KINDS: [&str; 6] = ["mcpgateways", "mcpupstreams", "plugins", "pluginchains", "toolpipelines", "sectionbindings"];

/// One right: group, resource, verb.
type Right = (String, String, String);

/// Every right that the operator's role gives.
async fn rights(cluster: &Cluster) -> Vec<Right> {
    let file = checkout().join("manifests/operator/rbac.yaml");
    cluster.kubectl(&["apply", "--server-side", "-f", &file.to_string_lossy()], "").await.unwrap();
    let role = cluster.kubectl(&["get", "clusterrole", "hawsepipe-operator", "-o", "json"], "").await.unwrap();
    let role: Value = serde_json::from_str(&role).unwrap();
    let words = |rule: &Value, member: &str| -> Vec<String> {
        rule[member].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        for group in words(rule, "apiGroups") {
            for resource in words(rule, "resources") {
                rights.extend(words(rule, "verbs").into_iter().map(|verb| (group.clone(), resource.clone(), verb)));
            }
        }
    }
    rights.into_iter().collect()
}

/// An operator without a right.
struct Case {
    right: Right,
    operated: Operated<'static>,
}

impl Case {
    async fn start(cluster: &'static Cluster, all: &[Right], right: Right) -> Self {
        let namespace = cluster.namespace().await;
        cluster.make_account(&namespace, ACCOUNT).await;
        give(cluster, &namespace, all.iter().filter(|other| **other != right)).await;
        let token = cluster.token(&namespace, ACCOUNT, &[]).await;
        let applied = format!("{}\n", objects().iter().map(Value::to_string).collect::<Vec<_>>().join("\n"));
        cluster.kubectl(&["apply", "-n", &namespace, "-f", "-"], &applied).await.unwrap();
        let arguments = ["operator", "--namespaces", &namespace, "--listen", "127.0.0.1:0"];
        let operator = Process::start(cluster, &namespace, &token, &arguments, &[]);
        Self { right, operated: Operated::of(cluster, namespace, operator).await }
    }

    fn name(&self) -> String {
        format!("{} {}", self.right.2, self.right.1)
    }

    fn user(&self) -> String {
        format!("system:serviceaccount:{}:{ACCOUNT}", self.operated.namespace)
    }

    /// Has the operator do whatever it ever does: several revisions, an Event twice.
    async fn edit(&self, last: &str) {
        let texts = ["export default (", "export default () => ({});", "export default (", "2;", "3;", "4;", last];
        for text in texts {
            let params = PatchParams::apply("test").force();
            let plugin: DynamicObject = serde_json::from_value(plugin(text)).unwrap();
            let api = api(&self.operated.client, &self.operated.namespace, "plugins");
            api.patch("say", &params, &Patch::Apply(plugin)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Every message of every condition.
    async fn messages(&self) -> Vec<String> {
        let mut messages = Vec::new();
        for plural in KINDS {
            for object in self.operated.objects(plural).await {
                for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
                    let name = object["metadata"]["name"].as_str().unwrap();
                    messages.push(format!("{plural}/{name} {} {}", condition["type"], condition["message"]));
                }
            }
        }
        messages
    }

    /// What has to be said while the right lacks, and is not.
    async fn untold(&self) -> Option<String> {
        let (group, resource, verb) = &self.right;
        let plural = resource.split('/').next().unwrap();
        let told = match (group.as_str(), resource.as_str(), verb.as_str()) {
            // No object can carry it.
            ("coordination.k8s.io" | "events.k8s.io", ..) => told(&self.operated.operator.log().lines(), plural),
            (_, "mcpgateways/status", _) => self.operated.events().await.iter().any(|reason| reason == "Forbidden"),
            _ => told(&self.messages().await.iter().map(String::as_str), plural),
        };
        if !told {
            return Some(format!("{}: it is not said: {:#?}", self.name(), self.messages().await));
        }
        let stored = self.operated.object("gatewaysnapshots", "main").await != Value::Null;
        (stored != self.can_plan()).then(|| format!("{}: whether there is a snapshot: {stored}", self.name()))
    }

    /// Whether an operator that lacks the right can write snapshots.
    fn can_plan(&self) -> bool {
        let (group, resource, verb) = &self.right;
        match (group.as_str(), resource.as_str(), verb.as_str()) {
            ("coordination.k8s.io", _, verb) => verb == "update",
            (_, "gatewaysnapshots", "list" | "create" | "patch") => false,
            (_, "mcpgateways" | "mcpupstreams" | "plugins" | "pluginchains" | "namespaces", "list") => false,
            _ => true,
        }
    }

    /// What is still wrong after the right was given back.
    async fn wrong(&self, last: &str) -> Option<String> {
        let wrong = |what: &str| Some(format!("{}: {what}", self.name()));
        if self.operated.object("gatewaysnapshots", "main").await == Value::Null {
            return wrong("there is no snapshot");
        }
        if !plan(&self.operated).await.code.values().any(|code| code == last) {
            return wrong("the last edit is not in the snapshot");
        }
        let access = ["get", "-n", &self.operated.namespace, "sa/main-gateway", "role/main-gateway"];
        if self.operated.cluster.kubectl(&[&access[..], &["rolebinding/main-gateway"]].concat(), "").await.is_err() {
            return wrong("not all that pods need is there");
        }
        for plural in KINDS {
            for object in self.operated.objects(plural).await {
                let is = |name: &str| condition(&object["status"], name).map(|(is, _)| is);
                let programmed = is("Programmed").is_some_and(|is| !is.starts_with("Unknown"));
                let resolved = plural.contains('o') || is("ResolvedRefs").is_some_and(|is| is.starts_with("True"));
                let current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
                if !programmed || !resolved || !current {
                    return wrong(&format!("{plural}: {:#}", object["status"]));
                }
            }
        }
        let messages = self.messages().await;
        messages.iter().find(|message| message.contains("forbidden")).and_then(|message| wrong(message))
    }
}

fn told<'a>(lines: &(impl Iterator<Item = &'a str> + Clone), plural: &str) -> bool {
    lines.clone().any(|line| line.contains("forbidden") && line.contains(plural))
}

fn plugin(text: &str) -> Value {
    object("Plugin", "say", &json!({"source": {"inline": text}}))
}

/// One of everything that the operator reads, and what they refer to.
fn objects() -> Vec<Value> {
    let server = json!({"kind": "Service", "name": "server", "port": "80"});
    let code = json!({"configMapKeyRef": {"name": "code", "key": "p.mjs"}});
    let pipeline = json!({"tool": {"description": "d"}, "declared": {"agents": [
        {"name": "coordinator", "type": "coordinator"}]}});
    let section = json!({"document": {"glob": "a.md"}, "upstream": {"name": "up"}, "block": {"id": "b"}});
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"},
            "data": {"p.mjs": "export default () => ({});"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "server"}, "spec": {"ports": [{"port": 80}]}}),
        gateway("main"),
        object("MCPUpstream", "up", &json!({"external": {"url": "http://up.example/mcp"}})),
        object("MCPUpstream", "service", &json!({"serverRef": server})),
        plugin("1;"),
        object("Plugin", "mapped", &json!({"source": code})),
        object(
            "PluginChain",
            "answers",
            &json!({"phase": "Response", "entries": [{"name": "say"}, {"name": "mapped"}]}),
        ),
        object("ToolPipeline", "pipeline", &pipeline),
        object("SectionBinding", "section", &section),
    ]
}

/// Gives the operator of a namespace these rights and no others.
async fn give(cluster: &Cluster, namespace: &str, rights: impl Iterator<Item = &Right>) {
    let mut verbs: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (group, resource, verb) in rights {
        verbs.entry((group, resource)).or_default().push(verb);
    }
    let rule = |((group, resource), verbs): (&(&str, &str), &Vec<&str>)| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let group = "rbac.authorization.k8s.io";
    let name = format!("denied-{namespace}");
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
        "rules": verbs.iter().map(rule).collect::<Vec<_>>()});
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": name}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]});
    cluster.kubectl(&["apply", "-f", "-"], &format!("{role}\n{binding}")).await.unwrap();
}

/// Asks every case until nothing is left to say, or the time is over.
async fn until_none(cases: &[Case], within: Duration, ask: impl AsyncFn(&Case) -> Option<String>) {
    let (began, mut left): (_, Vec<&Case>) = (Instant::now(), cases.iter().collect());
    loop {
        let ask = &ask;
        let asked = stream::iter(left.iter().copied()).map(|case| async move { (case, ask(case).await) });
        let answers: Vec<_> = asked.buffer_unordered(AT_ONCE).collect().await;
        let said: Vec<_> = answers.into_iter().filter_map(|(case, said)| Some((case, said?))).collect();
        if said.is_empty() {
            return;
        }
        let told: Vec<_> = said.iter().map(|(_, said)| said.as_str()).collect();
        assert!(began.elapsed() < within, "{} of {}:\n{}", said.len(), cases.len(), told.join("\n"));
        left = said.into_iter().map(|(case, _)| case).collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// What was forbidden more often than once a minute, by user and what it was.
fn too_often(requests: &[Request]) -> Vec<String> {
    let mut times: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.code == 403 && request.user.ends_with(ACCOUNT)) {
        let what = (&request.user, &request.verb, &request.resource, &request.namespace);
        times.entry(what).or_default().push(request.received);
    }
    let period = i64::try_from(PERIOD.as_millis()).unwrap() - 500;
    let is_too_often = |times: &Vec<_>| times.windows(2).any(|two: &[_]| two[1] - two[0] < period);
    times.into_iter().filter(|(_, times)| is_too_often(times)).map(|found| format!("{found:?}")).collect()
}

#[tokio::test]
async fn each_right_that_lacks_is_told_seldom_tried_and_missed_no_longer_than_it_lacks() {
    let cluster = Cluster::shared().await;
    let rights = rights(cluster).await;
    let mark = cluster.mark().await;
    let started = stream::iter(rights.iter().cloned()).map(|right| Case::start(cluster, &rights, right));
    let cases: Vec<_> = started.buffer_unordered(AT_ONCE).collect().await;
    let (second, last) = ("export default () => ({ continue: true });", "export default () => ({ continue: false });");
    futures_util::future::join_all(cases.iter().map(|case| case.edit(second))).await;
    until_none(&cases, SOON, async |case| case.untold().await).await;
    // Long enough for a second try, which must not come earlier.
    tokio::time::sleep(PERIOD).await;

    let requests = cluster.requests_since(mark).await;
    let refused: BTreeSet<_> = requests.iter().filter(|r| r.code == 403).map(|r| r.user.as_str()).collect();
    let unused: Vec<_> = cases.iter().filter(|case| !refused.contains(case.user().as_str())).map(Case::name).collect();
    assert!(unused.is_empty(), "nothing was refused without these, so they are too much: {unused:?}");
    for case in &cases {
        give(cluster, &case.operated.namespace, rights.iter()).await;
    }
    futures_util::future::join_all(cases.iter().map(|case| case.edit(last))).await;
    until_none(&cases, PERIOD + SLACK, async |case| case.wrong(last).await).await;
    let too_often = too_often(&cluster.requests_since(mark).await);
    assert!(too_often.is_empty(), "{too_often:#?}");
}
