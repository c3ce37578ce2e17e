//! Hosts that a gateway's pods connect to, and the peers of a NetworkPolicy that they stand for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use http::Uri;
use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::api::gateway::MCPGatewaySpec;
use crate::domain::egress::EgressRule;
use crate::domain::plan::{Plan, TransportPlan, UpstreamPlan};

/// A host and a port that pods connect to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::controller) struct NetworkTarget {
    host: String,
    port: u16,
}

impl NetworkTarget {
    /// Returns the target of a rule of `egress`.
    pub(in crate::controller) fn of_rule(rule: &EgressRule) -> Self {
        Self { host: rule.host().to_owned(), port: rule.port() }
    }
}

/// The port of a container, by number or by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::controller) enum Port {
    Number(u16),
    Name(String),
}

/// The other ends of connections. A NetworkPolicy is applied after the address of a Service is replaced by that of one of
/// its pods, so that a Service counts as its pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::controller) enum Peer {
    /// Pods of a namespace with these labels.
    Pods(String, BTreeMap<String, String>),
    /// All pods of a namespace.
    Namespace(String),
    /// An address.
    Address(IpAddr),
    /// Anything.
    Anywhere,
}

/// Peers with the ports that are open to them. No ports are all ports.
pub(in crate::controller) type Peers = BTreeMap<Peer, BTreeSet<Port>>;

/// Returns the targets of pods that run one of these plans.
pub(in crate::controller) fn targets(plans: &[&Plan]) -> BTreeSet<NetworkTarget> {
    let upstreams = plans.iter().flat_map(|plan| &plan.upstreams).filter(|upstream| upstream.enabled);
    let urls = upstreams.flat_map(|upstream| match &upstream.transport {
        TransportPlan::External { url, oauth, .. } => [Some(url), oauth.as_ref().and_then(|oauth| oauth.url())],
        TransportPlan::Process { .. } | TransportPlan::Pipeline(_) | TransportPlan::Plugin(_) | TransportPlan::None => {
            [None, None]
        }
    });
    let urls = urls.flatten();
    let collectors = plans.iter().filter_map(|plan| plan.gateway.tracing.as_ref()).map(|tracing| &tracing.endpoint);
    let pipelines = plans.iter().flat_map(|plan| &plan.upstreams).filter_map(UpstreamPlan::pipeline);
    let models = pipelines.flat_map(|pipeline| &pipeline.models).map(|model| &model.base_url);
    // The metadata of an issuer can name keys at another host, which then has one of the usual ports, or is named by `jwks.uri`.
    let issuers = plans.iter().flat_map(|plan| &plan.gateway.authentication.jwt);
    let issuers = issuers.map(|jwt| jwt.jwks_uri.as_ref().unwrap_or(&jwt.issuer));
    let plugins = plans.iter().flat_map(|plan| &plan.plugins).filter(|plugin| plugin.enabled);
    let egress = plugins.flat_map(|plugin| &plugin.egress).filter_map(|entry| EgressRule::parse(entry).ok());
    let egress = egress.map(|rule| NetworkTarget::of_rule(&rule));
    urls.chain(collectors).chain(models).chain(issuers).filter_map(|url| of_url(url)).chain(egress).collect()
}

/// Returns the targets that only the spec names: proxies that the pods' variables name in plain text, and the database.
pub(in crate::controller) fn of_spec(spec: &MCPGatewaySpec) -> impl Iterator<Item = NetworkTarget> {
    let variables = spec.pod.iter().filter_map(|pod| pod.env.as_ref()).flatten();
    let named = variables
        .filter(|variable| ["HTTPS_PROXY", "HTTP_PROXY"].iter().any(|name| variable.name.eq_ignore_ascii_case(name)));
    named.filter_map(|variable| of_url(variable.value.as_ref()?)).chain(database(spec))
}

fn database(spec: &MCPGatewaySpec) -> Option<NetworkTarget> {
    let postgres = spec.history.as_ref()?.store.as_ref()?.postgres.as_ref()?;
    let rule = EgressRule::parse(postgres.address.as_ref()?).ok()?;
    Some(NetworkTarget::of_rule(&rule))
}

fn of_url(url: &str) -> Option<NetworkTarget> {
    let url: Uri = url.parse().ok()?;
    let default = if url.scheme_str() == Some("https") { 443 } else { 80 };
    let host = url.host()?.trim_start_matches('[').trim_end_matches(']');
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let port = url.port_u16().unwrap_or(default);
    (port > 0).then_some(NetworkTarget { host, port })
}

/// Whether a namespace or a Service can have this name (RFC 1123, label). The API server refuses a whole policy that
/// selects a namespace by any other text.
fn is_label(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len()) && name.chars().all(is_inner) && !name.starts_with('-') && !name.ends_with('-')
}

/// Looks up a Service by its namespace and name. `None` if the operator does not see it.
pub(in crate::controller) type FindService<'a> = &'a dyn Fn(&str, &str) -> Option<ServiceSpec>;

/// Resolves names as pods of a namespace do.
pub(in crate::controller) struct Resolver<'a> {
    /// The namespace of the pods.
    pub(in crate::controller) namespace: &'a str,
    /// The DNS domain of the cluster.
    pub(in crate::controller) domain: &'a str,
    /// Finds the Services that names stand for.
    pub(in crate::controller) service: FindService<'a>,
}

impl Resolver<'_> {
    /// Returns the peers that targets stand for.
    pub(in crate::controller) fn peers<'t>(&self, targets: impl IntoIterator<Item = &'t NetworkTarget>) -> Peers {
        let mut peers = Peers::new();
        for target in targets {
            let (peer, ports) = self.peer(target);
            peers.entry(peer).or_default().extend(ports);
        }
        peers
    }

    fn peer(&self, target: &NetworkTarget) -> (Peer, Vec<Port>) {
        let own_port = vec![Port::Number(target.port)];
        if let Ok(address) = target.host.parse() {
            return (Peer::Address(address), own_port);
        }
        let service = self.service_name(&target.host);
        let Some((namespace, name, is_certain)) = service.filter(|(namespace, ..)| is_label(namespace)) else {
            return (Peer::Anywhere, own_port);
        };
        match (self.service)(namespace, name) {
            Some(service) if is_external(&service) => self.of_external(&service, target.port),
            Some(service) => of_service(namespace, &service, target.port),
            // The ports of its pods are not known.
            None if is_certain => (Peer::Namespace(namespace.to_owned()), Vec::new()),
            None => (Peer::Anywhere, own_port),
        }
    }

    /// Returns the peer and the ports of an ExternalName Service. Such a Service is only an alias of a host, which DNS
    /// resolves as an absolute name: its ports replace none. An alias of an alias counts as a host outside.
    fn of_external(&self, alias: &ServiceSpec, port: u16) -> (Peer, Vec<Port>) {
        let host = alias.external_name.as_deref().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
        let named = self.in_cluster(&host).and_then(|_| self.service_name(&host));
        let outside = (Peer::Anywhere, vec![Port::Number(port)]);
        let Some((namespace, name, true)) = named.filter(|(namespace, ..)| is_label(namespace)) else { return outside };
        match (self.service)(namespace, name) {
            Some(service) if is_external(&service) => outside,
            Some(service) => of_service(namespace, &service, port),
            None => (Peer::Namespace(namespace.to_owned()), Vec::new()),
        }
    }

    /// Returns a host without the domain of the cluster, if it is below this domain.
    fn in_cluster<'h>(&self, host: &'h str) -> Option<&'h str> {
        host.strip_suffix(self.domain)?.strip_suffix('.')
    }

    /// Returns the namespace and the name of the Service that a host would be, and whether it can be nothing else.
    fn service_name<'h>(&'h self, host: &'h str) -> Option<(&'h str, &'h str, bool)> {
        if host.contains('*') {
            return None;
        }
        let in_cluster = self.in_cluster(host).unwrap_or(host);
        if let Some(service) = in_cluster.strip_suffix(".svc") {
            // A pod of a headless Service has a name below that of the Service.
            let (rest, namespace) = service.rsplit_once('.')?;
            return Some((namespace, rest.rsplit('.').next().unwrap_or(rest), true));
        }
        match host.split_once('.') {
            None => Some((self.namespace, host, false)),
            Some((name, namespace)) => (!namespace.contains('.')).then_some((namespace, name, false)),
        }
    }
}

fn is_external(service: &ServiceSpec) -> bool {
    service.type_.as_deref() == Some("ExternalName")
}

fn of_service(namespace: &str, service: &ServiceSpec, port: u16) -> (Peer, Vec<Port>) {
    let own_port = Port::Number(port);
    // Two ports of a Service can have the same number, for TCP and for UDP.
    let is_tcp = |declared: &&ServicePort| declared.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    let mut declared = service.ports.iter().flatten().filter(is_tcp);
    let declared = declared.find(|declared| declared.port == i32::from(port));
    let container = declared.map_or_else(|| own_port.clone(), |declared| container_port(declared, port));
    let Some(selector) = service.selector.clone().filter(|selector| !selector.is_empty()) else {
        // Its endpoints are written by hand. A policy knows the names of ports of pods only.
        let is_number = matches!(container, Port::Number(_));
        return (Peer::Anywhere, vec![if is_number { container } else { own_port }]);
    };
    // A headless Service has no address that would be replaced: its port is not replaced either.
    let is_headless = service.cluster_ip.as_deref() == Some("None");
    let ports = if is_headless && container != own_port { vec![container, own_port] } else { vec![container] };
    (Peer::Pods(namespace.to_owned(), selector), ports)
}

fn container_port(declared: &ServicePort, port: u16) -> Port {
    match &declared.target_port {
        Some(IntOrString::Int(number)) => Port::Number(u16::try_from(*number).unwrap_or(port)),
        Some(IntOrString::String(name)) => Port::Name(name.clone()),
        None => Port::Number(port),
    }
}
