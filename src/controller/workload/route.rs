//! The HTTPRoute (Gateway API) to a gateway's Service.

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::input::WorkloadInput;
use crate::api::gateway::inbound::ParentRef;
use crate::controller::manifest::Manifest;
use crate::domain::plan::ListenerPlan;
use crate::domain::protected_resource::metadata_path;

/// The member of a rule that bounds how long its requests may take.
const TIMEOUTS: &str = "timeouts";

/// The spec of an HTTPRoute. It declares no fields, because routes are built as JSON and never read.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "gateway.networking.k8s.io", version = "v1", kind = "HTTPRoute", namespaced, schema = "disabled")]
pub struct HTTPRouteSpec {}

/// Returns the route; `None` if the gateway's spec does not ask for one, or if no listener is open.
pub(super) fn route(input: &WorkloadInput<'_>) -> Option<Manifest<HTTPRoute>> {
    let written = input.spec.route.as_ref()?;
    let name = input.owner.workload();
    let parents: Vec<_> = written.parent_refs.iter().map(parent).collect();
    let hosts: Vec<_> = written.hostnames.iter().flatten().map(|host| host.to_ascii_lowercase()).collect();
    let prefixes = prefixes(&input.listeners);
    let &(_, port) = prefixes.first()?;
    let mut rules: Vec<_> = prefixes.iter().map(|found| rule(&name, *found)).collect();
    let resource = input.spec.authentication.resource_metadata.as_ref();
    if let Some(resource) = resource.filter(|_| prefixes.iter().all(|(prefix, _)| *prefix != "/")) {
        // Clients look for the metadata outside of the paths of listeners (RFC 9728, 3.1).
        rules.push(rule(&name, (&metadata_path(&resource.resource), port)));
    }
    Some(Manifest::from_json(json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": input.owner.metadata(&name, None),
        "spec": {"parentRefs": parents, "hostnames": hosts, "rules": rules},
    })))
}

/// Returns the route without timeouts, for Gateway API before 1.2, whose standard channel does not have the field. How
/// long requests may take is then the default of the Gateway.
pub(in crate::controller) fn without_timeouts(route: &Manifest<HTTPRoute>) -> Manifest<HTTPRoute> {
    route.edited(|body| {
        let rules = body.pointer_mut("/spec/rules").and_then(Value::as_array_mut).into_iter().flatten();
        rules.filter_map(Value::as_object_mut).for_each(|rule| drop(rule.remove(TIMEOUTS)));
    })
}

fn rule(service: &str, (prefix, port): (&str, u16)) -> Value {
    json!({
        "matches": [{"path": {"type": "PathPrefix", "value": prefix}}],
        "backendRefs": [{"name": service, "port": port}],
        // No timeout: streams last as long as the client and the gateway want.
        TIMEOUTS: {"request": "0s"},
    })
}

/// Returns the path below which all endpoints of a listener are, with its port, for each open listener. If two
/// listeners have the same path, the first of plain HTTP counts, which a route speaks without a BackendTLSPolicy.
fn prefixes(listeners: &[ListenerPlan]) -> Vec<(&str, u16)> {
    let mut prefixes: Vec<(&str, u16)> = Vec::new();
    let (plain, tls): (Vec<_>, Vec<_>) = listeners.iter().partition(|listener| listener.tls.is_none());
    for listener in plain.into_iter().chain(tls).filter(|listener| listener.refusing.is_none()) {
        let path = listener.path.as_str();
        let base = path.strip_suffix("/mcp").unwrap_or(path.trim_end_matches('/'));
        let prefix = if base.is_empty() { "/" } else { base };
        if prefixes.iter().all(|(known, _)| *known != prefix) {
            prefixes.push((prefix, listener.port));
        }
    }
    prefixes
}

fn parent(parent: &ParentRef) -> Value {
    json!({"name": parent.name, "namespace": parent.namespace, "sectionName": parent.section_name})
}
