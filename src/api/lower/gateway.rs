//! Turns an MCPGateway into the compiler's input.

use std::net::IpAddr;
use std::path::Path;

use super::access;
use super::access_tests::access_tests;
use super::findings::Findings;
use super::model::models;
use super::place::ManifestSource;
use super::route_hosts;
use super::runtime::{discovers, runtime};
use super::shared::{key, namespaces, object_ref, selector, size};
use crate::api::gateway::inbound::Listener;
use crate::api::gateway::pods::workload;
use crate::api::gateway::records::{
    AuditMode, EmbeddedStore, History, LogLevel, Payloads, PostgresStore, Tracing, TracingProtocol,
};
use crate::api::gateway::runtime::GatewayLimits;
use crate::api::gateway::takes::{InvalidTools, Prefix, TakesUpstreams, ToolDiscovery};
use crate::api::gateway::{MCPGateway, MCPGatewaySpec, NetworkPolicy, StopMode};
use crate::api::shared::{FromNamespaces, Selector};
use crate::api::values::{Quantity, Size};
use crate::config::input::{GatewayInput, Takes};
use crate::config::redaction::Redaction;
use crate::domain::audit;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{
    self, GatewayPlan, HistoryPlan, Limits, ListenerPlan, OtlpProtocol, PrefixMode, StorePlan, TracingPlan,
};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// The warning of a listener that asks for a transport that was removed.
const NO_LEGACY_SSE: &str =
    "HTTP+SSE was removed for clients: take the field out, and have clients use Streamable HTTP at";

/// Default percentage of calls that are traced.
const DEFAULT_SAMPLE_PERCENT: u32 = 10;

/// Default plugin folder in a pod; `source.path` of plugins is relative to it.
const POD_PLUGINS: &str = "/plugins";

pub fn gateway(object: &MCPGateway, place: ManifestSource<'_>) -> (GatewayInput, Vec<Problem>) {
    let (folder, plugin_dir) = folders(place);
    let (spec, key) = (&object.spec, key(&object.metadata));
    let mut findings = Findings::at(ObjectId::new(Kind::MCPGateway, key.clone()), place);
    let (own, telemetry) = (key.namespace.clone(), spec.telemetry.clone().unwrap_or_default());
    let required = spec.chains.iter().filter_map(|c| c.required.as_ref()).flatten();
    let plan = GatewayPlan {
        declared: true,
        stopped: spec.stopped.unwrap_or(false),
        stop_cancels: spec.stop_mode == Some(StopMode::Cancel),
        listeners: listeners(spec, &key, place, &mut findings),
        anonymous: spec.authentication.anonymous.is_some(),
        authentication: access::authentication(&spec.authentication, &own, &mut findings),
        authorization: spec.authorization.as_ref().map(access::authorization),
        prefix: prefix(spec.upstreams.as_ref().and_then(|u| u.prefix)),
        max_name_length: spec.upstreams.as_ref().and_then(|u| u.max_name_length),
        tool_discovery: tool_discovery(spec.upstreams.as_ref().and_then(|u| u.tool_discovery)),
        offers_invalid_tools: spec.upstreams.as_ref().and_then(|u| u.invalid_tools) == Some(InvalidTools::Offer),
        allowed_addresses: allowed_addresses(spec.upstreams.as_ref(), &mut findings),
        limits: spec.limits.as_ref().map(limits).unwrap_or_default(),
        runtime: runtime(spec.plugins.as_ref(), (folder, plugin_dir), &key, place, &mut findings),
        session_idle_seconds: spec.sessions.as_ref().and_then(|s| s.idle_seconds).unwrap_or(3600),
        audit: spec.audit.as_ref().map(|audit| audit_mode(audit.mode)).unwrap_or_default(),
        awaited_audit: None,
        history_per_plugin: spec.history.as_ref().and_then(|h| h.per_plugin).unwrap_or(1000),
        history: spec.history.as_ref().map(|history| history_plan(history, &own, &mut findings)).unwrap_or_default(),
        log_level: telemetry.log_level.map(|level| log_level(level).to_owned()),
        tracing: telemetry.tracing.as_ref().map(tracing),
        admin_authentication: spec.admin.as_ref().is_some_and(|admin| admin.authentication.is_some()),
        admin_methods: access::admin(spec.admin.as_ref(), &own, &mut findings),
        models: models(spec.models.as_ref(), &own),
        required: required.map(|chain| object_ref(chain, &own)).collect(),
        refusing: None,
        key,
    };
    note_cluster(spec, &plan.listeners, place, &mut findings);
    note_later(spec, &mut findings);
    let ([upstreams, chains, pipelines, sections, plugins], pinned) = (selected(spec), spec.pinned_revision.clone());
    let (access_tests, discovers) = (access_tests(spec.authorization.as_ref(), &own), discovers(spec.plugins.as_ref()));
    let input = GatewayInput { plan, upstreams, chains, pipelines, sections, plugins, discovers, access_tests, pinned };
    (input, findings.finish())
}

/// Returns the folder of the manifests and that of plugins.
fn folders(place: ManifestSource<'_>) -> (&Path, &Path) {
    match place {
        ManifestSource::File { folder, plugin_dir } => (folder, plugin_dir),
        ManifestSource::Cluster { .. } => (Path::new("/"), Path::new(POD_PLUGINS)),
    }
}

fn history_plan(written: &History, namespace: &str, findings: &mut Findings) -> HistoryPlan {
    let embedded = |embedded: &EmbeddedStore| StorePlan::Embedded {
        max_size: embedded.max_size.as_ref().and_then(Quantity::value).unwrap_or(HistoryPlan::MAX_SIZE),
    };
    let postgres = |postgres: &PostgresStore| StorePlan::Postgres {
        secret: ObjectKey::new(namespace, &postgres.url_secret_ref.name),
        key: postgres.url_secret_ref.key.clone(),
    };
    let store = written.store.as_ref();
    HistoryPlan {
        retention_days: written.retention_days.unwrap_or(HistoryPlan::default().retention_days),
        store: store
            .and_then(|store| store.embedded.as_ref().map(embedded).or_else(|| store.postgres.as_ref().map(postgres))),
        redact: redact(written, findings).filter(|_| written.payloads == Some(Payloads::Redacted)),
    }
}

/// Returns the rules for payloads; `None` if one of them is invalid, because no payload may be kept without it.
fn redact(written: &History, findings: &mut Findings) -> Option<Vec<String>> {
    let rules = written.redact.clone().unwrap_or_default();
    let mut are_valid = true;
    for (i, rule) in rules.iter().enumerate() {
        if let Err(why) = Redaction::rule(rule) {
            let message = format!("{why}. Until it is corrected, no payloads are kept");
            findings.wrong(Reason::InvalidPattern, &format!("spec.history.redact[{i}]"), &message);
            are_valid = false;
        }
    }
    are_valid.then_some(rules)
}

fn listeners(
    spec: &MCPGatewaySpec,
    key: &ObjectKey,
    place: ManifestSource<'_>,
    findings: &mut Findings,
) -> Vec<ListenerPlan> {
    let (default, default_hosts) = match place {
        // The command line decides.
        ManifestSource::File { .. } => (Vec::new(), Vec::new()),
        ManifestSource::Cluster { domain } => (vec![Listener::default()], default_hosts(spec, key, domain)),
    };
    let listeners = spec.listeners.as_ref().unwrap_or(&default);
    let mut plans = Vec::with_capacity(listeners.len());
    for (i, listener) in listeners.iter().enumerate() {
        let field = format!("spec.listeners[{i}]");
        let tls = listener.tls.as_ref();
        let asks_clients = tls.is_some_and(|tls| tls.client_ca_secret_ref.is_some());
        let refusing =
            findings.refuse(asks_clients, format!("{field}.tls.clientCASecretRef"), "the listener stays closed");
        let path = listener.path.clone().unwrap_or_else(|| "/mcp".to_owned());
        if listener.legacy_sse == Some(true) {
            findings.ineffective(&format!("{field}.legacySSE"), format!("{NO_LEGACY_SSE} {path}"));
        }
        let hosts: Vec<_> = listener.hosts.iter().flatten().map(|host| without_port(host)).collect();
        plans.push(ListenerPlan {
            name: listener.name.clone(),
            port: listener.port,
            path,
            default_hosts: if hosts.is_empty() { default_hosts.clone() } else { Vec::new() },
            hosts,
            allowed_origins: listener.allowed_origins.clone().unwrap_or_default(),
            tls: tls.map(|tls| ObjectKey::new(&key.namespace, &tls.certificate_secret_ref.name)),
            refusing,
        });
    }
    plans
}

/// The names that a cluster has for a gateway: those of its Service, and those of its route. `NAME-gateway.NAMESPACE` is
/// not one of them: where a namespace is called like a top-level domain, such as `dev` or `finance`, somebody can own that
/// name on the internet, and have web pages reach the gateway by it (DNS rebinding).
fn default_hosts(spec: &MCPGatewaySpec, key: &ObjectKey, domain: &str) -> Vec<String> {
    let name = workload(&key.name);
    let in_namespace = format!("{name}.{}", key.namespace);
    let service = [format!("{in_namespace}.svc"), format!("{in_namespace}.svc.{domain}"), name];
    let route = spec.route.iter().flat_map(|route| route.hostnames.iter().flatten());
    service.into_iter().chain(route.cloned()).map(|host| host.to_ascii_lowercase()).collect()
}

/// Returns a host in lower case and without its port.
fn without_port(host: &str) -> String {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    let has_port = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':');
    if has_port { name.to_ascii_lowercase() } else { host.to_ascii_lowercase() }
}

fn prefix(prefix: Option<Prefix>) -> PrefixMode {
    match prefix {
        None | Some(Prefix::Always) => PrefixMode::Always,
        Some(Prefix::OnConflict) => PrefixMode::OnConflict,
        Some(Prefix::Never) => PrefixMode::Never,
    }
}

fn tool_discovery(written: Option<ToolDiscovery>) -> plan::ToolDiscovery {
    match written {
        None | Some(ToolDiscovery::All) => plan::ToolDiscovery::All,
        Some(ToolDiscovery::Search) => plan::ToolDiscovery::Search,
    }
}

/// Returns the addresses that upstreams may have, and reports those that are none.
fn allowed_addresses(written: Option<&TakesUpstreams>, findings: &mut Findings) -> Vec<IpAddr> {
    let written = written.and_then(|upstreams| upstreams.allowed_addresses.as_ref()).into_iter().flatten();
    let mut addresses = Vec::new();
    for (i, address) in written.enumerate() {
        match address.parse() {
            Ok(address) => addresses.push(address),
            Err(_) => {
                let message = format!("{address} is no IP address, so that it allows nothing: correct it");
                findings.wrong(Reason::InvalidConfig, &format!("spec.upstreams.allowedAddresses[{i}]"), &message);
            }
        }
    }
    addresses
}

fn limits(written: &GatewayLimits) -> Limits {
    let defaults = Limits::default();
    let session = written.per_session.clone().unwrap_or_default();
    // -1, which does not fit into an unsigned integer, means no limit.
    let concurrent = session.concurrent_calls.map(|calls| u32::try_from(calls).ok());
    let total = session.total_calls.map(|calls| u64::try_from(calls).ok());
    let max_connections = written.max_connections.unwrap_or(defaults.max_connections);
    Limits {
        concurrent_calls: written.concurrent_calls.unwrap_or(defaults.concurrent_calls),
        concurrent_runs: written.concurrent_runs.unwrap_or(defaults.concurrent_runs),
        call_timeout_ms: written.call_timeout_ms.unwrap_or(defaults.call_timeout_ms),
        call_ceiling_ms: written.call_ceiling_ms.unwrap_or(defaults.call_ceiling_ms),
        list_timeout_ms: written.list_timeout_ms.unwrap_or(defaults.list_timeout_ms),
        max_request_size: size(written.max_request_size.as_ref()).unwrap_or(defaults.max_request_size),
        max_response_size: written
            .max_response_size
            .as_ref()
            .and_then(Size::value)
            .unwrap_or(defaults.max_response_size),
        session_concurrent_calls: concurrent.unwrap_or(defaults.session_concurrent_calls),
        session_total_calls: total.unwrap_or(defaults.session_total_calls),
        max_connections,
        max_streams: written.max_streams.unwrap_or_else(|| defaults.max_streams.min(max_connections / 2)),
    }
}

fn audit_mode(mode: AuditMode) -> audit::AuditMode {
    match mode {
        AuditMode::Off => audit::AuditMode::Off,
        AuditMode::BestEffort => audit::AuditMode::BestEffort,
        AuditMode::Required => audit::AuditMode::Required,
    }
}

fn log_level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    }
}

fn tracing(written: &Tracing) -> TracingPlan {
    let protocol = match written.protocol {
        None | Some(TracingProtocol::GRPC) => OtlpProtocol::Grpc,
        Some(TracingProtocol::HTTP) => OtlpProtocol::Http,
    };
    let sample_percent = written.sample_percent.unwrap_or(DEFAULT_SAMPLE_PERCENT);
    TracingPlan { endpoint: written.endpoint.clone(), protocol, sample_percent }
}

/// Returns which upstreams, chains, pipelines, bindings of sections and plugins the gateway takes.
fn selected(spec: &MCPGatewaySpec) -> [Takes; 5] {
    let upstreams = spec.upstreams.as_ref().map(|u| takes(u.namespaces.as_ref(), u.selector.as_ref()));
    let chains = spec.chains.as_ref().map(|c| takes(c.namespaces.as_ref(), c.selector.as_ref()));
    let pipelines = spec.pipelines.as_ref().map(|p| takes(p.namespaces.as_ref(), p.selector.as_ref()));
    let sections = spec.sections.as_ref().map(|s| takes(s.namespaces.as_ref(), s.selector.as_ref()));
    let plugins = spec.plugins.as_ref().map(|p| takes(p.namespaces.as_ref(), p.selector.as_ref()));
    [upstreams, chains, pipelines, sections, plugins].map(Option::unwrap_or_default)
}

fn takes(from: Option<&FromNamespaces>, labels: Option<&Selector>) -> Takes {
    Takes { namespaces: from.map(namespaces).unwrap_or_default(), selector: labels.map(selector).unwrap_or_default() }
}

fn note_cluster(spec: &MCPGatewaySpec, listeners: &[ListenerPlan], place: ManifestSource<'_>, findings: &mut Findings) {
    if let (Some(route), ManifestSource::Cluster { .. }) = (&spec.route, place) {
        route_hosts::check(route, listeners, findings);
    }
    findings.served_in_cluster(spec.pinned_revision.is_some(), "spec.pinnedRevision");
    findings.served_in_cluster(spec.replicas.is_some(), "spec.replicas");
    findings.served_in_cluster(spec.autoscaling.is_some(), "spec.autoscaling");
    findings.served_in_cluster(spec.disruption_budget.is_some(), "spec.disruptionBudget");
    findings.served_in_cluster(spec.pod.is_some(), "spec.pod");
    findings.served_in_cluster(spec.network_policy.is_some(), "spec.networkPolicy");
    findings.served_in_cluster(spec.service.is_some(), "spec.service");
    findings.served_in_cluster(spec.route.is_some(), "spec.route");
    findings.served_in_cluster(spec.admin.as_ref().is_some_and(|a| a.port.is_some()), "spec.admin.port");
    let mounted = spec.plugins.as_ref().is_some_and(|p| p.plugin_dir_from.is_some());
    findings.served_in_cluster(mounted, "spec.plugins.pluginDirFrom");
    let postgres = spec.history.as_ref().and_then(|history| history.store.as_ref()?.postgres.as_ref());
    findings.served_in_cluster(postgres.is_some_and(|it| it.address.is_some()), "spec.history.store.postgres.address");
    let is_closed = matches!(place, ManifestSource::Cluster { .. }) && spec.network_policy != Some(NetworkPolicy::None);
    if is_closed && postgres.is_some_and(|it| it.address.is_none()) {
        let message = "the NetworkPolicy of the gateway's pods does not allow connections to the database: write its HOST:PORT \
                       into address, or set spec.networkPolicy to None and write a policy of your own";
        findings.ineffective("spec.history.store.postgres", message.to_owned());
    }
    let sealed = spec.sessions.as_ref().is_some_and(|s| s.sealing_key_secret_ref.is_some());
    findings.served_in_cluster(sealed, "spec.sessions.sealingKeySecretRef");
}

fn note_later(spec: &MCPGatewaySpec, findings: &mut Findings) {
    findings.later(spec.admin.as_ref().is_some_and(|a| a.console.is_some()), "spec.admin.console");
}
