//! Checks that a gateway serves the host names of its route: its listeners refuse requests with other ones.

use super::findings::Findings;
use crate::api::gateway::inbound::Route;
use crate::domain::plan::ListenerPlan;

const FIELD: &str = "spec.route.hostnames";

/// Warns of a route whose requests every listener refuses because of their `Host` header.
pub(super) fn check(route: &Route, listeners: &[ListenerPlan], findings: &mut Findings) {
    let accepted = || listeners.iter().filter(|listener| listener.refusing.is_none()).map(hosts_of);
    let names: Vec<_> = route.hostnames.iter().flatten().map(|host| host.to_ascii_lowercase()).collect();
    if names.is_empty() {
        // Listeners with `hosts` accept names that the route does not know.
        if listeners.iter().all(|listener| listener.hosts.is_empty()) {
            let message = "no host name is here or in `hosts` of a listener, so each request that comes by the route \
                           is refused: name the hosts under which clients reach the Gateway";
            findings.ineffective(FIELD, message.to_owned());
        }
        return;
    }
    let is_accepted = |name: &str| accepted().any(|known| known.iter().any(|known| overlaps(known, name)));
    let refused: Vec<_> = names.into_iter().filter(|name| !is_accepted(name)).collect();
    if !refused.is_empty() {
        let message = format!(
            "requests for {} are refused: each listener names other `hosts`; add them there, or take `hosts` out",
            refused.join(", ")
        );
        findings.ineffective(FIELD, message);
    }
}

fn hosts_of(listener: &ListenerPlan) -> &[String] {
    if listener.hosts.is_empty() { &listener.default_hosts } else { &listener.hosts }
}

/// Whether there is a host that both names match. `*.` stands for one or more labels.
fn overlaps(one: &str, other: &str) -> bool {
    let covers = |wildcard: &str, name: &str| wildcard.strip_prefix('*').is_some_and(|end| name.ends_with(end));
    one == other || covers(one, other) || covers(other, one)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::api::lower::gateway;
    use crate::api::lower::place::ManifestSource;
    use crate::domain::problem::Problem;

    #[test]
    fn a_route_whose_requests_every_listener_refuses_is_told() {
        let told = |hostnames: Value, hosts: &[Value]| {
            let listener =
                |(n, hosts): (usize, &Value)| json!({"name": format!("l{n}"), "port": 80 + n, "hosts": hosts});
            let listeners: Vec<_> = hosts.iter().enumerate().map(listener).collect();
            let route = json!({"parentRefs": [{"name": "edge"}], "hostnames": hostnames});
            let spec = json!({"authentication": {"anonymous": {}}, "route": route, "listeners": listeners});
            let object = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "MCPGateway",
            "metadata": {"name": "x", "namespace": "ns"}, "spec": spec});
            let object = serde_json::from_value(object).unwrap();
            let problems = gateway(&object, ManifestSource::Cluster { domain: "cluster.local" }).1;
            let told = |problem: &Problem| !problem.is_error() && problem.field == "spec.route.hostnames";
            assert!(problems.iter().all(told), "{problems:?}");
            problems.into_iter().map(|problem| problem.message).next().unwrap_or_default()
        };
        let (none, named) = (Value::Null, json!(["MCP.example.com"]));
        assert!(told(none.clone(), std::slice::from_ref(&none)).contains("no host name is here"));
        assert!(told(json!([]), &[none.clone(), json!([])]).contains("no host name is here"));
        assert_eq!(told(none.clone(), &[none.clone(), json!(["a"])]), "");
        assert_eq!(told(named.clone(), std::slice::from_ref(&none)), "");
        assert!(told(named.clone(), &[json!(["a"])]).contains("requests for mcp.example.com are refused"));
        assert!(told(named.clone(), &[json!(["*.com.org"])]).contains("mcp.example.com"));
        assert_eq!(told(named.clone(), &[json!(["a"]), none]), "");
        assert_eq!(told(named, &[json!(["*.example.com:443"])]), "");
        assert_eq!(told(json!(["*.example.com"]), &[json!(["a.example.com"])]), "");
    }
}
