//! An operator that lacks one right, and what is seen of it.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::{Cluster, Process, until};
use crate::operator::harness::{ACCOUNT, Operated, api, apply_roles, condition, gateway, object};
use crate::operator::snapshots::stored_plan;
use crate::operator::workload::IMAGE;

const KINDS: [&str; 6] = ["mcpgateways", "mcpupstreams", "plugins", "pluginchains", "toolpipelines", "sectionbindings"];

/// One right.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The kind of the role that gives it: a Role gives it in the operator's own namespace alone.
    role: String,
    group: String,
    resource: String,
    /// The one object that it is on; none is all.
    name: Option<String>,
    verb: String,
}

impl Right {
    /// Whether nothing asks for it while the operator has its other rights: namespaces that can be listed are not read.
    pub fn is_spare(&self) -> bool {
        (self.resource.as_str(), self.verb.as_str()) == ("namespaces", "get")
    }
}

/// Every right that the operator's roles give, but that on tokens, which nothing asks for where no pod runs, and those on
/// routes, whose kind is not installed.
pub async fn rights(cluster: &Cluster) -> Vec<Right> {
    apply_roles(cluster).await;
    let get = ["get", "clusterrole,role", "hawsepipe-operator", "-n", "hawsepipe-system", "-o", "json"];
    let roles: Value = serde_json::from_str(&cluster.kubectl(&get, "").await.unwrap()).unwrap();
    let words = |rule: &Value, member: &str| -> Vec<String> {
        rule[member].as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    for role in roles["items"].as_array().unwrap() {
        for rule in role["rules"].as_array().unwrap() {
            let [groups, resources, verbs] = ["apiGroups", "resources", "verbs"].map(|member| words(rule, member));
            for (group, resource) in groups.iter().flat_map(|group| resources.iter().map(move |r| (group, r))) {
                rights.extend(verbs.iter().map(|verb| Right {
                    role: role["kind"].as_str().unwrap().to_owned(),
                    group: group.clone(),
                    resource: resource.clone(),
                    name: words(rule, "resourceNames").pop(),
                    verb: verb.clone(),
                }));
            }
        }
    }
    let is_used = |right: &Right| !["serviceaccounts/token", "httproutes"].contains(&right.resource.as_str());
    rights.into_iter().filter(is_used).collect()
}

/// An operator without a right.
pub struct Case {
    right: Right,
    pub operated: Operated<'static>,
}

impl Case {
    pub async fn start(cluster: &'static Cluster, all: &[Right], right: Right) -> Self {
        let namespace = cluster.namespace().await;
        cluster.make_account(&namespace, ACCOUNT).await;
        give(cluster, &namespace, all.iter().filter(|other| **other != right)).await;
        let token = cluster.token(&namespace, ACCOUNT, &[]).await;
        let applied = format!("{}\n", objects().iter().map(Value::to_string).collect::<Vec<_>>().join("\n"));
        cluster.kubectl(&["apply", "-n", &namespace, "-f", "-"], &applied).await.unwrap();
        let arguments = ["operator", "--namespaces", &namespace, "--listen", "127.0.0.1:0"];
        let operator = Process::start(cluster, &namespace, &token, &arguments, &[IMAGE]);
        Self { right, operated: Operated::of(cluster, namespace, operator).await }
    }

    pub fn name(&self) -> String {
        format!("{} {}", self.right.verb, self.right.resource)
    }

    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{ACCOUNT}", self.operated.namespace)
    }

    /// Has the operator do whatever it ever does: several revisions, an Event twice.
    pub async fn edit(&self, last: &str) {
        let other = [2, 3, 4].map(|n| format!("export default () => ({{ metadata: {{ n: {n} }} }});"));
        let [second, third, fourth] = other.each_ref().map(String::as_str);
        let broken = "export default (";
        let texts = [broken, "export default () => ({});", broken, second, third, fourth, last];
        for (n, text) in texts.into_iter().enumerate() {
            let params = PatchParams::apply("test").force();
            let mut edited = gateway("main");
            let has_all = self.has_optional(n);
            edited["spec"]["networkPolicy"] = json!(if has_all { "Managed" } else { "None" });
            if has_all {
                edited["spec"]["autoscaling"] = json!({"maxReplicas": 2});
            }
            let edited: DynamicObject = serde_json::from_value(edited).unwrap();
            let gateways = api(&self.operated.client, &self.operated.namespace, "mcpgateways");
            gateways.patch("main", &params, &Patch::Apply(edited)).await.unwrap();
            if self.needs_server() {
                if self.right.verb == "delete" && n + 1 == texts.len() {
                    self.until_there().await;
                }
                let tools: DynamicObject = serde_json::from_value(self.tools(n)).unwrap();
                let upstreams = api(&self.operated.client, &self.operated.namespace, "mcpupstreams");
                upstreams.patch("tools", &params, &Patch::Apply(tools)).await.unwrap();
            }
            let plugin: DynamicObject = serde_json::from_value(plugin(text)).unwrap();
            let api = api(&self.operated.client, &self.operated.namespace, "plugins");
            api.patch("say", &params, &Patch::Apply(plugin)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Whether only servers of managed upstreams need the right.
    fn needs_server(&self) -> bool {
        let is_removed = ["serviceaccounts", "services", "deployments"].contains(&self.right.resource.as_str());
        self.right.resource == "statefulsets" || is_removed && self.right.verb == "delete"
    }

    /// Waits until the object is there that the last edit takes away.
    async fn until_there(&self) {
        let name = format!("{}/tools-mcp", self.right.resource);
        let get = ["get", &name, "-n", &self.operated.namespace, "-o", "name"];
        until(&format!("{name} is there"), async || self.operated.cluster.kubectl(&get, "").await.ok()).await;
    }

    /// The managed upstream as it is with this edit: with every other one it has a Deployment or a StatefulSet. The last
    /// edit needs the right.
    fn tools(&self, edit: usize) -> Value {
        let volume = json!({"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "data"}});
        let server = |volumes: Value| {
            json!({"managed": {"image": "server:1", "transport": "StreamableHTTP", "ports": [{"name": "mcp", "port": 80}],
                "volumes": volumes}})
        };
        let (deployment, stateful_set) = (server(json!([])), server(json!([volume])));
        let last = match (self.right.resource.as_str(), self.right.verb.as_str()) {
            ("services" | "serviceaccounts", "delete") => json!({"external": {"url": "http://tools.example/mcp"}}),
            ("deployments", "delete") => stateful_set.clone(),
            ("statefulsets", verb) if verb != "delete" => stateful_set.clone(),
            _ => deployment.clone(),
        };
        let other = if last == deployment { stateful_set } else { deployment };
        object("MCPUpstream", "tools", if edit.is_multiple_of(2) { &last } else { &other })
    }

    /// Whether the gateway wants a NetworkPolicy and an autoscaler with this edit. It does with every other one.
    fn has_optional(&self, edit: usize) -> bool {
        edit.is_multiple_of(2) != self.ends_without_optional()
    }

    /// Whether the last edit takes them away, since only that needs the right.
    fn ends_without_optional(&self) -> bool {
        let is_optional = ["networkpolicies", "horizontalpodautoscalers"].contains(&self.right.resource.as_str());
        is_optional && self.right.verb == "delete"
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
    pub async fn untold(&self) -> Option<String> {
        let Right { group, resource, verb, .. } = &self.right;
        let plural = resource.split('/').next().unwrap();
        let told = match (group.as_str(), resource.as_str(), verb.as_str()) {
            // No object can carry it.
            ("coordination.k8s.io" | "events.k8s.io", ..) => told(&self.operated.operator.log().lines(), plural),
            (_, "mcpgateways/status", _) => self.operated.events().await.iter().any(|reason| reason == "Forbidden"),
            // The operator reads each namespace that it watches instead.
            (_, "namespaces", "list") => true,
            _ => told(&self.messages().await.iter().map(String::as_str), plural),
        };
        if !told {
            return Some(format!("{}: it is not said: {:#?}", self.name(), self.messages().await));
        }
        let wanted = self.can_plan()?;
        let stored = self.operated.object("gatewaysnapshots", "main").await != Value::Null;
        (stored != wanted).then(|| format!("{}: whether there is a snapshot: {stored}", self.name()))
    }

    /// Whether an operator that lacks the right can write snapshots; `None` if that depends on how quick it is.
    fn can_plan(&self) -> Option<bool> {
        let Right { group, resource, verb, .. } = &self.right;
        match (group.as_str(), resource.as_str(), verb.as_str()) {
            // It leads until the Lease that it created runs out.
            ("coordination.k8s.io", _, "update") => None,
            ("coordination.k8s.io", ..) => Some(false),
            (_, "gatewaysnapshots", "list" | "create" | "patch") => Some(false),
            (_, "mcpgateways" | "mcpupstreams" | "plugins" | "pluginchains", "list") => Some(false),
            _ => Some(true),
        }
    }

    /// What is still wrong after the right was given back.
    pub async fn wrong(&self, last: &str) -> Option<String> {
        let wrong = |what: &str| Some(format!("{}: {what}", self.name()));
        if self.operated.object("gatewaysnapshots", "main").await == Value::Null {
            return wrong("there is no snapshot");
        }
        let Some(plan) = stored_plan(&self.operated).await else {
            return wrong("a shard that the index names is missing");
        };
        if !plan.code.values().any(|code| code == last) {
            return wrong("the last edit is not in the snapshot");
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
        if let Some(message) = messages.iter().find(|message| message.contains("forbidden")) {
            return wrong(message);
        }
        let kinds = ["sa", "role", "rolebinding", "svc", "deploy", "pdb", "netpol", "hpa"];
        let kinds =
            kinds.into_iter().filter(|kind| !matches!(*kind, "netpol" | "hpa") || !self.ends_without_optional());
        let names: Vec<_> = kinds.map(|kind| format!("{kind}/main-gateway")).collect();
        let mut access = vec!["get", "-n", &self.operated.namespace];
        access.extend(names.iter().map(String::as_str));
        if self.operated.cluster.kubectl(&access, "").await.is_err() {
            return wrong("not all that pods need is there");
        }
        None
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
pub async fn give(cluster: &Cluster, namespace: &str, rights: impl Iterator<Item = &Right>) {
    let rights: Vec<_> = rights.collect();
    let group = "rbac.authorization.k8s.io";
    let name = format!("denied-{namespace}");
    let mut objects = String::new();
    for kind in ["ClusterRole", "Role"] {
        let given = rights.iter().filter(|right| right.role == kind);
        let rules: Vec<_> = given
            .map(|Right { group, resource, name, verb, .. }| {
                let names = name.iter().collect::<Vec<_>>();
                json!({"apiGroups": [group], "resources": [resource], "resourceNames": names, "verbs": [verb]})
            })
            .collect();
        let place = (kind == "Role").then_some(namespace);
        let metadata = json!({"name": name, "namespace": place});
        let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]);
        let role = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "rules": rules});
        let binding = json!({"apiVersion": format!("{group}/v1"), "kind": format!("{kind}Binding"),
            "metadata": metadata, "roleRef": {"apiGroup": group, "kind": kind, "name": name}, "subjects": subjects});
        objects.push_str(&format!("{role}\n{binding}\n"));
    }
    cluster.kubectl(&["apply", "-f", "-"], &objects).await.unwrap();
}
