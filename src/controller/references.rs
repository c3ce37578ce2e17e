//! Collects the ConfigMaps and servers that objects refer to.

use std::collections::{BTreeMap, BTreeSet};

use super::lowered::LoweredObject;
use crate::api::lower::Lowered;
use crate::config::input::{
    InputValue, ManagedInput, NamedInput, PluginInput, ServerInput, SourceInput, UpstreamInput,
};
use crate::domain::ids::ObjectKey;

/// The ConfigMaps and servers that objects refer to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct References {
    pub(super) config_maps: BTreeSet<ObjectKey>,
    /// Servers, each with the namespace of the upstream that refers to it.
    pub(super) servers: BTreeSet<(String, ServerInput)>,
    /// Servers that the operator runs, by the upstream.
    pub(super) managed: BTreeMap<ObjectKey, ManagedInput>,
}

pub(super) fn references(objects: &[LoweredObject]) -> References {
    let mut found = References::default();
    for object in objects {
        match &*object.lowered {
            Ok(Lowered::Plugin(plugin)) => of_plugin(plugin, &mut found),
            Ok(Lowered::Upstream(upstream)) => of_upstream(upstream, &mut found),
            Ok(Lowered::Gateway(gateway)) => {
                let keys = gateway.plan.authentication.jwt.iter().filter_map(|jwt| jwt.jwks_ref.as_ref());
                let namespace = &gateway.plan.key.namespace;
                found.config_maps.extend(keys.map(|(name, _)| ObjectKey::new(namespace, name)));
            }
            _ => {}
        }
    }
    found
}

fn of_plugin(plugin: &PluginInput, found: &mut References) {
    let namespace = &plugin.key.namespace;
    if let SourceInput::ConfigMap { name, .. } = &plugin.source {
        found.config_maps.insert(ObjectKey::new(namespace, name));
    }
    of_values(namespace, &plugin.env, found);
}

fn of_upstream(upstream: &UpstreamInput, found: &mut References) {
    let namespace = &upstream.plan.key.namespace;
    of_values(namespace, &upstream.values, found);
    of_values(namespace, &upstream.tls, found);
    found.managed.extend(upstream.managed.iter().map(|managed| (upstream.plan.key.clone(), managed.clone())));
    found.servers.extend(upstream.server.iter().map(|server| (namespace.clone(), server.clone())));
}

fn of_values(namespace: &str, values: &[NamedInput], found: &mut References) {
    let names = values.iter().filter_map(|value| match &value.value {
        InputValue::ConfigMap { name, .. } => Some(ObjectKey::new(namespace, name)),
        _ => None,
    });
    found.config_maps.extend(names);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::api::DynamicObject;
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::lowered::Lowering;
    use crate::domain::ids::Kind;

    fn object(kind: Kind, name: &str, spec: &Value) -> (Kind, Arc<DynamicObject>) {
        let object = json!({
            "apiVersion": "hawsepipe.dev/v1alpha1", "kind": kind.as_str(),
            "metadata": {"name": name, "namespace": "ns", "uid": name, "generation": 1}, "spec": spec,
        });
        (kind, Arc::new(serde_json::from_value(object).unwrap()))
    }

    #[test]
    fn config_maps_and_servers_are_found_wherever_an_object_names_them() {
        let value = |map: &str| json!([{"name": "X", "valueFrom": {"configMapKeyRef": {"name": map, "key": "k"}}}]);
        let code = json!({"configMapKeyRef": {"name": "code", "key": "p.mjs"}});
        let server = json!({"kind": "Service", "name": "mcp", "port": "80"});
        let objects = [
            object(Kind::Plugin, "p", &json!({"source": code, "env": value("variables")})),
            object(Kind::MCPUpstream, "a", &json!({"external": {"url": "https://x/mcp", "headers": value("headers")}})),
            object(Kind::MCPUpstream, "b", &json!({"serverRef": server})),
        ];
        let found = references(&Lowering::new("cluster.local").read(objects.into_iter()).0);
        let maps = ["code", "headers", "variables"].map(|name| ObjectKey::new("ns", name));
        assert_eq!(found.config_maps, maps.into());
        let servers: Vec<_> = found.servers.iter().map(|(ns, server)| (ns.as_str(), server.name.as_str())).collect();
        assert_eq!(servers, [("ns", "mcp")]);
    }
}
