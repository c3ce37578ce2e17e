//! What an operator without a right is given to do.

use serde_json::{Value, json};

use super::rights::Right;
use crate::operator::harness::{gateway, object};

/// The plugin whose code is edited.
pub fn plugin(text: &str) -> Value {
    object("Plugin", "say", &json!({"source": {"inline": text}}))
}

/// A gateway with a NetworkPolicy and an autoscaler, or without either.
pub fn gateway_with_optional(has_optional: bool) -> Value {
    let mut gateway = gateway("main");
    gateway["spec"]["networkPolicy"] = json!(if has_optional { "Managed" } else { "None" });
    if has_optional {
        gateway["spec"]["autoscaling"] = json!({"maxReplicas": 2});
    }
    gateway
}

/// How the server of the upstream `tools` is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Server {
    Deployment,
    StatefulSet,
    /// Not by the operator.
    External,
}

impl Server {
    pub fn upstream(self) -> Value {
        let volumes = match self {
            Self::External => {
                return object("MCPUpstream", "tools", &json!({"external": {"url": "http://t.example/mcp"}}));
            }
            Self::Deployment => json!([]),
            Self::StatefulSet => {
                json!([{"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "data"}}])
            }
        };
        let managed = json!({"image": "server:1", "transport": "StreamableHTTP", "ports": [{"name": "mcp", "port": 80}],
            "volumes": volumes});
        object("MCPUpstream", "tools", &json!({"managed": managed}))
    }

    /// The servers that `tools` has, first and last, if only servers of managed upstreams need the right.
    pub fn that_needs(right: &Right) -> Option<(Self, Self)> {
        match (right.resource.as_str(), right.verb.as_str()) {
            ("services" | "serviceaccounts", "delete") => Some((Self::Deployment, Self::External)),
            ("deployments", "delete") => Some((Self::Deployment, Self::StatefulSet)),
            ("statefulsets", "delete") => Some((Self::StatefulSet, Self::Deployment)),
            ("statefulsets", _) => Some((Self::StatefulSet, Self::StatefulSet)),
            _ => None,
        }
    }
}

/// One of everything that the operator reads, and what they refer to.
pub fn objects(text: &str) -> Vec<Value> {
    let server = json!({"kind": "Service", "name": "server", "port": "80"});
    let code = json!({"configMapKeyRef": {"name": "code", "key": "p.mjs"}});
    let pipeline = json!({
        "tool": {"description": "d"},
        "declared": {"agents": [{"name": "coordinator", "type": "coordinator"}]},
        "models": [{"role": "analytical", "baseURL": "http://model.example/v1", "model": "m"}],
    });
    let section = json!({"document": {"glob": "a.md"}, "upstream": {"name": "up"}, "block": {"id": "b"}});
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"},
            "data": {"p.mjs": "export default () => ({});"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "server"}, "spec": {"ports": [{"port": 80}]}}),
        gateway_with_optional(true),
        object("MCPUpstream", "up", &json!({"external": {"url": "http://up.example/mcp"}})),
        object("MCPUpstream", "service", &json!({"serverRef": server})),
        plugin(text),
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
