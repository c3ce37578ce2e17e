//! Turns an MCPUpstream into the compiler's input.

use std::path::Path;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::findings::Findings;
use super::managed::managed;
use super::place::ManifestSource;
use super::shared::{below, env, key, labels, named, namespaces, object_ref, program};
use super::tools::{overrides, pinning};
use crate::api::shared::{KeyRef, ObjectRef};
use crate::api::upstream::behaviour::{ArgumentValidation, Era, Retry, RetryWhen};
use crate::api::upstream::external::{CaKind, External, HttpTransport, OAuth, UpstreamTls};
use crate::api::upstream::managed::ManagedTransport;
use crate::api::upstream::process::{Process, ProcessSession};
use crate::api::upstream::referred::ServerRef;
use crate::api::upstream::tools::OfferedTo;
use crate::api::upstream::{MCPUpstream, MCPUpstreamSpec};
use crate::api::values::Size;
use crate::config::input::{InputValue, NamedInput, ServerInput, UpstreamInput};
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{
    self, EraSetting, ExchangePlan, HealthPlan, OAuthPlan, PhasePluginPlan, PinningPlan, Refusal, RetryPlan, TlsPlan,
    TransportPlan, UpstreamPlan,
};
use crate::domain::plugin::PluginKind;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Annotation of an MCPUpstream. Each change of its value puts an upstream that was taken out of routing back into
/// routing.
pub const ENABLE: &str = "hawsepipe.dev/enable";
/// Number of significant characters in the annotation's value. The status field `enableAcknowledged`, which repeats the
/// value, has the same limit.
const MAX_WORD: usize = 253;
/// Default time in milliseconds for connecting to a server, and to one whose process the bridge starts meanwhile.
const CONNECT_MS: (u32, u32) = (5000, 60_000);
/// Default time in milliseconds after which an unused session ends.
const IDLE_MS: u32 = 300_000;
/// Default pauses in milliseconds before retries.
const RETRIES: &[u32] = &[1000, 5000, 15_000];
/// The same for a server that the operator runs: in all 4.6 minutes, about as long as a container may take to start.
const RETRIES_OF_MANAGED: &[u32] = &[1000, 5000, 10_000, 15_000, 20_000, 30_000, 30_000, 45_000, 60_000, 60_000];
/// The effect of pinning without a list.
const TRUSTS_FIRST: &str = "without it, each process of the gateway trusts what the server lists first after a start; \
                            `hawsepipe tools pin` prints the list";
/// The effect of a list of approved tools without a mode.
const APPROVES_IN_VAIN: &str =
    "without it, pinning is off, and spec.pinning.approved has no effect: set Alert or Enforce";
/// What to use instead of `process` in a cluster.
const ONLY_STANDALONE: &str = "only a standalone gateway starts processes; in a cluster, write the same command into \
                               spec.managed with an image that contains the server, or use spec.external for a server \
                               that runs already";

pub fn upstream(object: &MCPUpstream, place: ManifestSource<'_>) -> (UpstreamInput, Vec<Problem>) {
    let spec = &object.spec;
    let key = key(&object.metadata);
    let mut findings = Findings::at(ObjectId::new(Kind::MCPUpstream, key.clone()), place);
    let (transport, values, unreachable) = transport(spec, &key.namespace, place, &mut findings);
    let pinning = checked_pinning(spec, &mut findings);
    let timeouts = spec.timeouts.clone().unwrap_or_default();
    let limits = spec.limits.clone().unwrap_or_default();
    let tools = spec.tools.clone().unwrap_or_default();
    let plan = UpstreamPlan {
        key,
        labels: labels(&object.metadata),
        enabled: spec.enabled.unwrap_or(true),
        transport,
        era: era(spec.protocol.as_ref().and_then(|p| p.era)),
        http_transport: http_transport(spec),
        connect_timeout_ms: timeouts.connect_ms.unwrap_or_else(|| connect_ms(spec)),
        call_timeout_ms: timeouts.call_ms,
        extend_on_progress: timeouts.extend_on_progress.unwrap_or(true),
        retry: spec.retry.as_ref().map(retry).unwrap_or_default(),
        // A process can hold state in its memory.
        idle_timeout_ms: timeouts.idle_ms.unwrap_or(if spec.process.is_some() { 0 } else { IDLE_MS }),
        health: health(spec),
        enable: enable_word(&object.metadata),
        argument_validation: argument_validation(spec.argument_validation),
        concurrent_calls: limits.concurrent_calls,
        max_response_size: limits.max_response_size.as_ref().and_then(Size::value),
        overrides: overrides(&tools),
        for_pipelines: tools.offered_to == Some(OfferedTo::Pipelines),
        include: tools.include.unwrap_or_default(),
        exclude: tools.exclude.unwrap_or_default(),
        pinning,
        refusing: unreachable,
    };
    let share_with = spec.share_with.as_ref().map(|s| namespaces(&s.namespaces));
    let server = spec.server_ref.as_ref().map(server);
    let managed = spec.managed.as_ref().map(managed);
    let tls = spec.external.as_ref().map(proofs).unwrap_or_default();
    (UpstreamInput { plan, values, tls, server, managed, share_with }, findings.finish())
}

fn argument_validation(written: Option<ArgumentValidation>) -> plan::ArgumentValidation {
    match written {
        None | Some(ArgumentValidation::Coerce) => plan::ArgumentValidation::Coerce,
        Some(ArgumentValidation::Enforce) => plan::ArgumentValidation::Enforce,
        Some(ArgumentValidation::Off) => plan::ArgumentValidation::Off,
    }
}

/// Lowers the pinning of an upstream, and warns of what has less effect than it seems to have.
fn checked_pinning(spec: &MCPUpstreamSpec, findings: &mut Findings) -> Option<PinningPlan> {
    let written = spec.pinning.as_ref()?;
    if written.mode.is_none() && written.approved.is_some() {
        findings.ineffective("spec.pinning.mode", APPROVES_IN_VAIN.to_owned());
    }
    let plan = pinning(written)?;
    if plan.approved.is_none() {
        findings.ineffective("spec.pinning.approved", TRUSTS_FIRST.to_owned());
    }
    Some(plan)
}

type LoweredTransport = (TransportPlan, Vec<NamedInput>, Option<Refusal>);

fn transport(
    spec: &MCPUpstreamSpec,
    namespace: &str,
    place: ManifestSource<'_>,
    findings: &mut Findings,
) -> LoweredTransport {
    if let Some(plugin) = &spec.plugin {
        return (provider(plugin, namespace), Vec::new(), None);
    }
    match (&spec.external, &spec.process, place) {
        (Some(server), ..) => external(server),
        (_, Some(server), ManifestSource::File { folder, .. }) => process(server, folder),
        (_, _, ManifestSource::Cluster { .. }) => match (&spec.server_ref, &spec.managed) {
            // The compiler fills in the address if it is known.
            (Some(_), _) | (_, Some(_)) => (TransportPlan::None, Vec::new(), None),
            _ => unreachable(spec, findings),
        },
        _ => unreachable(spec, findings),
    }
}

/// Lowers the reference to the plugin that makes the tools.
fn provider(plugin: &ObjectRef, namespace: &str) -> TransportPlan {
    let key = object_ref(plugin, namespace);
    let plan = PhasePluginPlan { key, config: None, kind: PluginKind::ToolProvider, unavailable: None };
    TransportPlan::Plugin(Box::new(plan))
}

/// Lowers an upstream of a type that cannot be served in this place or by this version, and reports why.
fn unreachable(spec: &MCPUpstreamSpec, findings: &mut Findings) -> LoweredTransport {
    let (reason, elsewhere, field) = if spec.process.is_some() {
        (Reason::StandaloneOnly, ONLY_STANDALONE, "spec.process")
    } else if spec.managed.is_some() {
        (Reason::ClusterOnly, "only a cluster runs servers", "spec.managed")
    } else if spec.server_ref.is_some() {
        (Reason::ClusterOnly, "only a cluster has such an object", "spec.serverRef")
    } else if spec.vector_search.is_some() {
        (Reason::NotImplemented, "", "spec.vectorSearch")
    } else {
        (Reason::NotImplemented, "", "spec.knowledgeAssistant")
    };
    let message = match reason {
        Reason::NotImplemented => format!("{field}: this version does not serve such an upstream"),
        _ => format!("{field}: {elsewhere}"),
    };
    match reason {
        Reason::ClusterOnly => findings.cluster(true, field),
        Reason::StandaloneOnly => findings.wrong(reason, field, elsewhere),
        _ => findings.later(true, field),
    }
    (TransportPlan::None, Vec::new(), Some(Refusal { reason, message }))
}

/// Lowers the reference to the object that publishes the server's address.
fn server(reference: &ServerRef) -> ServerInput {
    ServerInput {
        group: reference.api_group.clone().unwrap_or_default(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        port: reference.port.as_ref().map(|port| match port {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(name) => name.clone(),
        }),
        path: reference.path.clone(),
    }
}

fn external(server: &External) -> LoweredTransport {
    let headers = server.headers.iter().flatten().enumerate().map(|(i, header)| {
        let field = format!("spec.external.headers[{i}]");
        named(&header.name, header.value.as_ref(), header.value_from.as_ref(), field)
    });
    // An `http` client sends no other Host than one that is set.
    let host =
        server.host_header.as_ref().map(|host| named("host", Some(host), None, "spec.external.hostHeader".to_owned()));
    let server_name = server.tls.as_ref().and_then(|tls| tls.server_name.clone());
    let tls = TlsPlan { server_name, ..TlsPlan::default() };
    let oauth = server.oauth.as_ref().map(|oauth| Box::new(oauth_plan(oauth, &server.url)));
    let plan = TransportPlan::External { url: server.url.clone(), headers: Vec::new(), tls, oauth };
    (plan, headers.chain(host).collect(), None)
}

fn oauth_plan(written: &OAuth, url: &str) -> OAuthPlan {
    OAuthPlan {
        issuer: written.issuer.clone(),
        token_url: written.token_url.clone(),
        client_id: written.client_id.clone(),
        scopes: written.scopes.clone().unwrap_or_default(),
        resource: written.resource.clone().unwrap_or_else(|| url.to_owned()),
        exchange: written.token_exchange.as_ref().map(|it| ExchangePlan { audience: it.audience.clone() }),
    }
}

/// Lowers the reference to the secret by which the gateway gets access tokens.
fn client_secret(oauth: &OAuth) -> NamedInput {
    let KeyRef { name, key } = oauth.client_secret_ref.clone();
    NamedInput {
        name: OAuthPlan::SECRET.to_owned(),
        value: InputValue::Secret { name, key, optional: false },
        field: "spec.external.oauth.clientSecretRef".to_owned(),
    }
}

/// Lowers the references to what proves who the gateway is: certificates and the client secret.
fn proofs(server: &External) -> Vec<NamedInput> {
    let mut proofs = server.tls.as_ref().map(certificates).unwrap_or_default();
    proofs.extend(server.oauth.as_ref().map(client_secret));
    proofs
}

/// Lowers the references to certificates for the connection to a server.
fn certificates(tls: &UpstreamTls) -> Vec<NamedInput> {
    let certificate = |name: &str, value: InputValue, field: &str| NamedInput {
        name: name.to_owned(),
        value,
        field: format!("spec.external.tls.{field}"),
    };
    let authorities = tls.ca_ref.as_ref().map(|from| {
        let (name, key, optional) = (from.name.clone(), from.key.clone(), false);
        let value = match from.kind {
            None | Some(CaKind::ConfigMap) => InputValue::ConfigMap { name, key, optional },
            Some(CaKind::Secret) => InputValue::Secret { name, key, optional },
        };
        certificate(TlsPlan::CA, value, "caRef")
    });
    let client = tls.client_certificate_secret_ref.iter().flat_map(|secret| {
        [TlsPlan::CLIENT_CERTIFICATE, TlsPlan::CLIENT_KEY].map(|key| {
            let value = InputValue::Secret { name: secret.name.clone(), key: key.to_owned(), optional: false };
            certificate(key, value, "clientCertificateSecretRef")
        })
    });
    authorities.into_iter().chain(client).collect()
}

fn process(server: &Process, folder: &Path) -> LoweredTransport {
    let plan = TransportPlan::Process {
        command: program(folder, &server.command).to_string_lossy().into_owned(),
        args: server.args.clone().unwrap_or_default(),
        cwd: below(folder, server.cwd.as_deref().unwrap_or(".")),
        env: Vec::new(),
        per_session: server.session == Some(ProcessSession::PerSession),
    };
    (plan, env(server.env.as_ref(), "spec.process.env"), None)
}

fn retry(written: &Retry) -> RetryPlan {
    let default = RetryPlan::default();
    RetryPlan {
        attempts: written.attempts.unwrap_or(default.attempts),
        backoff_ms: written.backoff_ms.unwrap_or(default.backoff_ms),
        when: written.when.map_or(default.when, |when| match when {
            RetryWhen::Never => plan::RetryWhen::Never,
            RetryWhen::IfSafe => plan::RetryWhen::IfSafe,
            RetryWhen::Always => plan::RetryWhen::Always,
        }),
    }
}

fn era(era: Option<Era>) -> EraSetting {
    match era {
        None | Some(Era::Auto) => EraSetting::Auto,
        Some(Era::Legacy) => EraSetting::Legacy,
        Some(Era::Modern) => EraSetting::Modern,
    }
}

/// Returns the transport of a server at a URL. A bridge speaks Streamable HTTP.
fn http_transport(spec: &MCPUpstreamSpec) -> plan::HttpTransport {
    let written = spec.external.as_ref().and_then(|server| server.transport);
    let written = written.or_else(|| spec.server_ref.as_ref().and_then(|server| server.transport));
    let managed = spec.managed.as_ref().map(|server| match server.transport() {
        ManagedTransport::Stdio | ManagedTransport::StreamableHTTP => HttpTransport::StreamableHTTP,
        ManagedTransport::SSE => HttpTransport::SSE,
    });
    match written.or(managed) {
        None | Some(HttpTransport::Auto) => plan::HttpTransport::Auto,
        Some(HttpTransport::StreamableHTTP) => plan::HttpTransport::StreamableHttp,
        Some(HttpTransport::SSE) => plan::HttpTransport::Sse,
    }
}

/// Returns the value of the [`ENABLE`] annotation, cut to its significant characters.
pub fn enable_word(metadata: &ObjectMeta) -> Option<String> {
    let word = metadata.annotations.as_ref()?.get(ENABLE)?;
    Some(word.chars().take(MAX_WORD).collect())
}

/// Returns the default time for connecting; 0 means no limit. The bridge starts a server's process when a session begins. A
/// process of this gateway has all the time that it takes: its first start can download it.
fn connect_ms(spec: &MCPUpstreamSpec) -> u32 {
    if spec.process.is_some() {
        return 0;
    }
    let is_stdio = spec.managed.as_ref().is_some_and(|managed| managed.transport() == ManagedTransport::Stdio);
    if is_stdio { CONNECT_MS.1 } else { CONNECT_MS.0 }
}

fn health(spec: &MCPUpstreamSpec) -> HealthPlan {
    let written = spec.health.clone().unwrap_or_default();
    let retries = if spec.managed.is_some() { RETRIES_OF_MANAGED } else { RETRIES };
    HealthPlan {
        period_seconds: written.period_seconds.unwrap_or(30),
        timeout_ms: written.timeout_ms.unwrap_or(5000),
        retry_backoff_ms: written.retry_backoff_ms.unwrap_or_else(|| retries.to_vec()),
        auto_recover: written.auto_recover.unwrap_or(true),
    }
}
