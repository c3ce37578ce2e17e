//! An operator without one right, and what is seen of it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::PERIOD;
use super::objects::{Server, gateway_with_optional, objects, plugin};
use super::rights::{Right, give};
use crate::harness::{Process, Request, SOON, until};
use crate::operator::harness::{ACCOUNT, Operated, Tenant, condition};
use crate::operator::snapshots::stored_plan;
use crate::operator::workload::IMAGE;

const KINDS: [&str; 6] = ["mcpgateways", "mcpupstreams", "plugins", "pluginchains", "toolpipelines", "sectionbindings"];
/// What a gateway's pods need. All are named after the gateway.
const NEEDED: [(&str, &str); 8] = [
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("v1", "Service"),
    ("apps/v1", "Deployment"),
    ("policy/v1", "PodDisruptionBudget"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
];
const FIRST: &str = "export default () => ({});";
/// It is told by an Event.
const BROKEN: &str = "export default (";
const LAST: &str = "export default () => ({ continue: false });";
/// What a busy machine adds to the longest pause before everything works again.
const SLACK: Duration = Duration::from_secs(150);

/// An operator without a right.
pub struct Case {
    right: Right,
    operated: Operated<'static>,
}

impl Case {
    pub async fn start(home: Tenant<'static>, all: &[Right], right: Right) -> Self {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
        home.apply(&[account]).await;
        give(&home, all.iter().filter(|other| **other != right)).await;
        let token = home.cluster.token(&home.namespace, ACCOUNT, &[]).await;
        let has_event = right.resource == "events";
        let mut applied = objects(if has_event { BROKEN } else { FIRST });
        applied.extend(Server::that_needs(&right).map(|(first, _)| first.upstream()));
        home.apply(&applied).await;
        let arguments = ["operator", "--namespaces", &home.namespace, "--listen", "127.0.0.1:0"];
        let operator = Process::start(home.cluster, &home.namespace, &token, &arguments, &[IMAGE]);
        Self { right, operated: Operated::at(home, operator) }
    }

    pub fn name(&self) -> String {
        format!("{} {}", self.right.verb, self.right.resource)
    }

    /// Whether a request was made by the operator and needs the right.
    pub fn is_of(&self, request: &Request) -> bool {
        let user = format!("system:serviceaccount:{}:{ACCOUNT}", self.operated.namespace);
        request.user == user && self.right.is_needed_by(request)
    }

    /// Has the operator do what needs the right, and waits until it tells of it.
    pub async fn until_told(&self) {
        self.ask().await;
        until_none(SOON, async || self.untold().await).await;
    }

    /// Gives the right back, and waits until nothing shows any more that it was missing.
    pub async fn give_back(&self, all: &[Right]) {
        give(&self.operated, all.iter()).await;
        self.edit(LAST).await;
        until_none(PERIOD + SLACK, async || self.wrong().await).await;
    }

    /// Ends the operator.
    pub fn stop(mut self) -> Self {
        self.operated.operator.kill();
        self
    }

    /// Has the operator do what needs the right, where it does not do that at its start.
    async fn ask(&self) {
        match (self.right.resource.as_str(), self.right.verb.as_str()) {
            // The same Event twice.
            ("events", _) => {
                self.until_accepted(false).await;
                self.edit(FIRST).await;
                self.until_accepted(true).await;
                self.edit(BROKEN).await;
            }
            // More revisions than are kept.
            ("gatewaysnapshots", "delete") => {
                for n in 0..5 {
                    let text = format!("export default () => ({{ metadata: {{ n: {n} }} }});");
                    self.edit(&text).await;
                    until("the edit is in the snapshot", async || self.has_stored(&text).await.then_some(())).await;
                }
            }
            _ if self.is_removed("main-gateway").is_some() => {
                self.until_there("main-gateway").await;
                self.operated.apply(&[gateway_with_optional(false)]).await;
            }
            (_, "delete") => {
                self.until_there("tools-mcp").await;
                let (_, last) = Server::that_needs(&self.right).expect("a server needs the right");
                self.operated.apply(&[last.upstream()]).await;
            }
            _ => {}
        }
    }

    /// Changes the code of a plugin.
    async fn edit(&self, text: &str) {
        self.operated.apply(&[plugin(text)]).await;
    }

    async fn until_accepted(&self, is: bool) {
        let is = if is { "True" } else { "False" };
        until(&format!("{}: whether the plugin is accepted: {is}", self.name()), async || {
            let status = self.operated.object("plugins", "say").await["status"].clone();
            condition(&status, "Accepted")?.0.starts_with(is).then_some(())
        })
        .await;
    }

    /// Whether the current revision has this code.
    async fn has_stored(&self, text: &str) -> bool {
        if self.operated.object("gatewaysnapshots", "main").await == Value::Null {
            return false;
        }
        stored_plan(&self.operated).await.is_some_and(|plan| plan.code.values().any(|code| code == text))
    }

    /// The kind of the object of this name that an edit removes, if that needs the right.
    fn is_removed(&self, name: &str) -> Option<(&'static str, &'static str)> {
        let kind = match (self.right.resource.as_str(), name) {
            ("networkpolicies", "main-gateway") => ("networking.k8s.io/v1", "NetworkPolicy"),
            ("horizontalpodautoscalers", "main-gateway") => ("autoscaling/v2", "HorizontalPodAutoscaler"),
            ("serviceaccounts", "tools-mcp") => ("v1", "ServiceAccount"),
            ("services", "tools-mcp") => ("v1", "Service"),
            ("deployments", "tools-mcp") => ("apps/v1", "Deployment"),
            ("statefulsets", "tools-mcp") => ("apps/v1", "StatefulSet"),
            _ => return None,
        };
        (self.right.verb == "delete").then_some(kind)
    }

    async fn until_there(&self, name: &str) {
        let kind = self.is_removed(name).expect("an edit removes it");
        until(&format!("{kind:?} {name} is there"), async || self.operated.has(kind, name).await.then_some(())).await;
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

    /// What must be said while the right is missing, and is not.
    async fn untold(&self) -> Option<String> {
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

    /// Whether an operator without the right can write snapshots; `None` if that depends on how quick it is.
    fn can_plan(&self) -> Option<bool> {
        let Right { group, resource, verb, .. } = &self.right;
        match (group.as_str(), resource.as_str(), verb.as_str()) {
            // It leads until the Lease that it created runs out.
            ("coordination.k8s.io", _, "update") => None,
            ("coordination.k8s.io", ..) => Some(false),
            (_, "gatewaysnapshots", "list" | "create" | "patch") => Some(false),
            (_, kind, "list") if KINDS.contains(&kind) => Some(false),
            _ => Some(true),
        }
    }

    /// What is still wrong after the right was given back.
    async fn wrong(&self) -> Option<String> {
        let wrong = |what: &str| Some(format!("{}: {what}", self.name()));
        if !self.has_stored(LAST).await {
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
        let without_optional = self.is_removed("main-gateway").is_some();
        for (version, kind) in NEEDED {
            let is_needed = !(without_optional && matches!(kind, "NetworkPolicy" | "HorizontalPodAutoscaler"));
            if self.operated.has((version, kind), "main-gateway").await != is_needed {
                return wrong(&format!("whether {kind} main-gateway is there: {}", !is_needed));
            }
        }
        match self.is_removed("tools-mcp") {
            Some(kind) if self.operated.has(kind, "tools-mcp").await => wrong("what nothing wants any more is there"),
            _ => None,
        }
    }
}

/// Asks until nothing is left to say, or the time is over.
async fn until_none(within: Duration, ask: impl AsyncFn() -> Option<String>) {
    let began = Instant::now();
    while let Some(said) = ask().await {
        assert!(began.elapsed() < within, "{said}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn told<'a>(lines: &(impl Iterator<Item = &'a str> + Clone), plural: &str) -> bool {
    lines.clone().any(|line| line.contains("forbidden") && line.contains(plural))
}
