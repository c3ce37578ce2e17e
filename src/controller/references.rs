//! What objects refer to: ConfigMaps and servers by name.

use std::collections::BTreeSet;

use super::lowered::Read;
use crate::api::lower::Lowered;
use crate::config::input::{InputValue, NamedInput, PluginInput, ServerInput, SourceInput, UpstreamInput};
use crate::domain::ids::ObjectKey;

/// Everything that is referred to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct References {
    pub(super) config_maps: BTreeSet<ObjectKey>,
    /// With the namespace of the upstream that names it, which is its own.
    pub(super) servers: BTreeSet<(String, ServerInput)>,
}

/// What `objects` refer to.
pub(super) fn references(objects: &[Read]) -> References {
    let mut found = References::default();
    for object in objects {
        match &*object.lowered {
            Ok(Lowered::Plugin(plugin)) => of_plugin(plugin, &mut found),
            Ok(Lowered::Upstream(upstream)) => of_upstream(upstream, &mut found),
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
    found.servers.extend(upstream.server.iter().map(|server| (namespace.clone(), server.clone())));
}

fn of_values(namespace: &str, values: &[NamedInput], found: &mut References) {
    let names = values.iter().filter_map(|value| match &value.value {
        InputValue::ConfigMap { name, .. } => Some(ObjectKey::new(namespace, name)),
        _ => None,
    });
    found.config_maps.extend(names);
}
