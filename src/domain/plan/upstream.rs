//! An upstream: how it is reached, how its health is checked, and which tools it offers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::value::NamedValue;
use super::{PhasePluginPlan, PinningPlan, PipelinePlan, Refusal, RetryPlan, ToolOverride};
use crate::domain::ids::{Kind, ObjectKey};

/// The label with the id that the configuration of another form has for the server. Invocations can name it.
pub const SERVER_ID: &str = "hawsepipe.dev/server-id";

/// An upstream with all defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamPlan {
    /// Namespace and name of the MCPUpstream. The name is unique in a gateway, even without the namespace.
    pub key: ObjectKey,
    /// The labels of the object, for `upstream.labels` in CEL.
    pub labels: BTreeMap<String, String>,
    /// Whether the upstream is enabled (`spec.enabled`).
    pub enabled: bool,
    /// The transport, and the server's address or program.
    pub transport: TransportPlan,
    /// The MCP era to use with the upstream.
    pub era: EraSetting,
    /// The transport of a server at a URL.
    #[serde(default, skip_serializing_if = "HttpTransport::is_auto")]
    pub http_transport: HttpTransport,
    /// Timeout in milliseconds for connecting, with the handshake; 0 means none, for a process.
    pub connect_timeout_ms: u32,
    /// How long to wait for the answer to a call, in milliseconds; `None` means the gateway's setting.
    pub call_timeout_ms: Option<u32>,
    /// Whether each progress notification restarts `call_timeout_ms`, up to the gateway's limit on the duration of
    /// calls.
    #[serde(default = "extends", skip_serializing_if = "Clone::clone")]
    pub extend_on_progress: bool,
    /// Which calls that failed are sent again, and how often.
    #[serde(default, skip_serializing_if = "RetryPlan::is_default")]
    pub retry: RetryPlan,
    /// Milliseconds after which a connection that no call uses is closed; 0 means never.
    pub idle_timeout_ms: u32,
    /// How the upstream's health is checked.
    pub health: HealthPlan,
    /// The value of the annotation `hawsepipe.dev/enable`. If the upstream was taken out of routing, a new value
    /// returns it to routing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable: Option<String>,
    /// What is done with the arguments of calls that do not fit the tool's input schema.
    pub argument_validation: ArgumentValidation,
    /// Maximum number of calls in flight; `None` means no limit.
    pub concurrent_calls: Option<u32>,
    /// Maximum size of an answer in bytes; `None` means the gateway's setting.
    pub max_response_size: Option<u64>,
    /// Globs that match the server's own names of the tools to offer. Empty means all tools.
    pub include: Vec<String>,
    /// Globs that match the server's own names of tools not to offer, even if `include` matches them.
    pub exclude: Vec<String>,
    /// Changes to individual tools.
    pub overrides: Vec<ToolOverride>,
    /// Whether only pipelines can use the tools that no override offers to clients.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_pipelines: bool,
    /// Which definitions of tools are approved; `None` means that none needs to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinning: Option<PinningPlan>,
    /// If set, calls to the upstream are refused: a protective setting cannot be enforced, or something that the
    /// upstream needs is missing.
    pub refusing: Option<Refusal>,
}

impl UpstreamPlan {
    /// Returns the pipeline that the gateway runs in the place of a server; `None` if there is a server.
    pub fn pipeline(&self) -> Option<&PipelinePlan> {
        match &self.transport {
            TransportPlan::Pipeline(pipeline) => Some(pipeline),
            _ => None,
        }
    }

    /// Whether the server gets a token of the user with each call, in the place of the gateway's.
    pub fn exchanges_tokens(&self) -> bool {
        matches!(&self.transport, TransportPlan::External { oauth: Some(oauth), .. } if oauth.exchange.is_some())
    }

    /// Whether only pipelines can use the tool to which this override belongs, if there is one.
    pub fn is_for_pipelines(&self, change: Option<&ToolOverride>) -> bool {
        change.and_then(|change| change.for_pipelines).unwrap_or(self.for_pipelines)
    }

    /// Returns the plugin that makes the tools in the place of a server.
    pub fn provider(&self) -> Option<&PhasePluginPlan> {
        match &self.transport {
            TransportPlan::Plugin(provider) => Some(provider),
            _ => None,
        }
    }

    /// Whether the gateway serves the upstream itself: there is no server.
    pub fn is_served_here(&self) -> bool {
        matches!(self.transport, TransportPlan::Pipeline(_) | TransportPlan::Plugin(_))
    }

    /// Returns the plugins that the gateway runs in the place of a server.
    pub fn plugins(&self) -> impl Iterator<Item = &PhasePluginPlan> {
        self.pipeline().into_iter().flat_map(PipelinePlan::plugins).chain(self.provider())
    }

    /// Returns the wrappers that steps of the pipeline can run.
    pub fn helpers(&self) -> impl Iterator<Item = &PhasePluginPlan> {
        self.pipeline().into_iter().flat_map(|pipeline| &pipeline.helpers)
    }

    /// Whether the pipeline changes the configuration of the plugin of this step.
    pub fn configures(&self, step: &PhasePluginPlan) -> bool {
        let mut configured = self.pipeline().into_iter().flat_map(PipelinePlan::configured_by_customizations);
        self.pipeline().is_some() && (step.config.is_some() || configured.any(|plugin| *plugin == step.key))
    }

    /// Returns the kind of the object that this is a form of.
    pub fn kind(&self) -> Kind {
        if self.pipeline().is_some() { Kind::ToolPipeline } else { Kind::MCPUpstream }
    }
}

/// The default of `extend_on_progress`, for plans that do not have the field.
fn extends() -> bool {
    true
}

/// How an upstream is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransportPlan {
    /// A server at a URL.
    External {
        /// URL of the server's endpoint.
        url: String,
        /// Headers that are sent with every request.
        headers: Vec<NamedValue>,
        /// Certificates for the connection.
        #[serde(default, skip_serializing_if = "TlsPlan::is_default")]
        tls: TlsPlan,
        /// How the gateway gets access tokens for the server; `None` if it sends none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        oauth: Option<Box<OAuthPlan>>,
    },
    /// A child process that communicates over stdin and stdout.
    Process {
        /// The program to run.
        command: String,
        /// The arguments of the program.
        args: Vec<String>,
        /// The working directory.
        cwd: PathBuf,
        /// Environment variables, in addition to PATH, HOME, USER, LANG and TMPDIR.
        env: Vec<NamedValue>,
        /// Whether each client session has a process of its own.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        per_session: bool,
    },
    /// No server: the gateway runs a pipeline.
    Pipeline(Box<PipelinePlan>),
    /// A plugin of type tool-provider, which the gateway runs.
    Plugin(Box<PhasePluginPlan>),
    /// A transport that this gateway cannot use. `refusing` says why.
    None,
}

impl TransportPlan {
    /// A server at a URL, without headers and with the machine's certificates.
    pub fn at(url: impl Into<String>) -> Self {
        Self::External { url: url.into(), headers: Vec::new(), tls: TlsPlan::default(), oauth: None }
    }

    /// Returns all values of the transport: headers and certificates, environment variables, or keys of models.
    pub fn values(&self) -> impl Iterator<Item = &NamedValue> {
        let (values, tls) = match self {
            Self::External { headers, tls, .. } => (&headers[..], &tls.values[..]),
            Self::Process { env, .. } => (&env[..], &[][..]),
            Self::Pipeline(_) | Self::Plugin(_) | Self::None => (&[][..], &[][..]),
        };
        let models = match self {
            Self::Pipeline(pipeline) => &pipeline.models[..],
            Self::External { .. } | Self::Process { .. } | Self::Plugin(_) | Self::None => &[],
        };
        values.iter().chain(tls).chain(models.iter().filter_map(|model| model.key.as_ref()))
    }
}

/// Certificates for the connection to a server at a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsPlan {
    /// Those of [`Self::CA`], [`Self::CLIENT_CERTIFICATE`] and [`Self::CLIENT_KEY`] that are set, and the secret of
    /// [`OAuthPlan`], which also proves who the gateway is.
    pub values: Vec<NamedValue>,
    /// The name that the server's certificate must have; `None` means the host of the URL.
    pub server_name: Option<String>,
}

impl TlsPlan {
    /// The name of the value with the certificate authorities to trust.
    pub const CA: &str = "caRef";
    /// The name of the value with the certificate of the gateway. It is the key of a Secret of type kubernetes.io/tls.
    pub const CLIENT_CERTIFICATE: &str = "tls.crt";
    /// The same for the private key.
    pub const CLIENT_KEY: &str = "tls.key";
    /// The keys of a Secret of type kubernetes.io/tls.
    pub const PAIR: [&str; 2] = [Self::CLIENT_CERTIFICATE, Self::CLIENT_KEY];

    /// Whether nothing is set.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How the gateway gets access tokens for a server (RFC 6749, 4.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OAuthPlan {
    /// The issuer, whose metadata names the token endpoint; `None` if `token_url` is set.
    pub issuer: Option<String>,
    /// The token endpoint.
    pub token_url: Option<String>,
    /// The id of the gateway as a client. Its secret is the value [`Self::SECRET`] of [`TlsPlan`].
    pub client_id: String,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// The resource that tokens are for (RFC 8707).
    pub resource: String,
    /// How the token of a user becomes one for the server; `None` if all calls carry the token of the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<ExchangePlan>,
}

/// The exchange of a user's token for one that the server gets with the user's calls (RFC 8693).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangePlan {
    /// The audience to request; `None` means the resource.
    pub audience: Option<String>,
}

impl OAuthPlan {
    /// The name of the value with the secret of the gateway as a client.
    pub const SECRET: &str = "clientSecretRef";

    /// Returns the URL of the issuer, or of the token endpoint if that is set.
    pub fn url(&self) -> Option<&String> {
        self.issuer.as_ref().or(self.token_url.as_ref())
    }
}

/// What is done with arguments that do not fit the input schema of their tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArgumentValidation {
    /// They are refused.
    Enforce,
    /// Texts become the values that the schema wants, if they are the exact form of one; others are refused.
    Coerce,
    /// They pass.
    Off,
}

/// The transport of a server at a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpTransport {
    /// Try Streamable HTTP first, then HTTP+SSE.
    #[default]
    Auto,
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

impl HttpTransport {
    /// Whether this is the default.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// Which protocol era to use with an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EraSetting {
    /// Try modern first, then legacy, and keep the one that works.
    #[default]
    Auto,
    /// Legacy: sessions that `initialize` begins.
    Legacy,
    /// Modern: 2026-07-28, stateless.
    Modern,
}

/// How the health of an upstream is checked (document 003, ServerHealthStatus).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthPlan {
    /// Seconds between probes.
    pub period_seconds: u32,
    /// Timeout of a probe in milliseconds.
    pub timeout_ms: u32,
    /// Milliseconds to wait before each retry. When the last retry fails, the upstream is taken out of routing.
    pub retry_backoff_ms: Vec<u32>,
    /// Whether an upstream that was taken out of routing is still probed.
    pub auto_recover: bool,
}
