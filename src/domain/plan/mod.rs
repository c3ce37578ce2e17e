//! The plan: the compiled gateway configuration, as data. The compiler makes the plan, and the engine links it so that
//! calls can run on it.
//!
//! A plan refers to secrets but never holds their values, and it names plugin code by digest. It has a format
//! version, so that gateways of adjacent versions can read it.

mod access;
mod chain;
mod customization;
mod gateway;
mod history;
mod image;
mod label;
mod model;
mod phase;
mod pinning;
mod pipeline;
mod plugin;
mod refusal;
mod restrictions;
mod retry;
mod runtime;
mod section;
mod synthesizer;
mod tool_override;
mod tracing;
mod upstream;
mod value;
mod wrapper;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use access::{
    AdminMethodsPlan, ApiKeysPlan, AuthenticationPlan, AuthorizationPlan, JwtPlan, ResourcePlan, RulePlan,
    TokenReviewPlan,
};
pub use chain::{ChainPlan, EntryPlan, UpstreamScope};
pub use customization::{AgentOverridePlan, CustomizationPlan};
pub use gateway::{GatewayPlan, GatewayTakes, Limits, ListenerPlan, Namespaces, PrefixMode, Takes, ToolDiscovery};
pub use history::{HistoryPlan, StorePlan};
pub use image::{ImagePlan, in_image};
pub use label::{LabelExpression, LabelOperator, LabelSelector};
pub use model::ModelPlan;
pub use phase::{InsertedPhasePlan, PhasePluginPlan};
pub use pinning::PinningPlan;
pub use pipeline::{AgentKind, AgentPlan, PipelineBudgets, PipelinePlan, PipelineStorePlan};
pub use plugin::{PluginLimits, PluginPlan};
pub use refusal::Refusal;
pub use restrictions::{Restrictions, Revoked};
pub use retry::{RetryPlan, RetryWhen};
pub use runtime::Runtime;
pub use section::{SectionHeading, SectionPart, SectionPlan};
pub use synthesizer::{OutputFormat, OutputTypePlan, SynthesizerConfig, SynthesizerPlan};
pub use tool_override::{AnnotationsOverride, ArgumentOverride, ToolOverride};
pub use tracing::{OtlpProtocol, TracingPlan};
pub use upstream::{
    ArgumentValidation, EraSetting, ExchangePlan, HealthPlan, HttpTransport, OAuthPlan, SERVER_ID, TlsPlan,
    TransportPlan, UpstreamPlan,
};
pub use value::{NamedValue, ValueSource};
pub use wrapper::{ENTRY, InterpreterPlan, WrapperPlan, program_digest, program_text};

use super::ids::ObjectKey;

/// The plan format that this version writes.
pub const FORMAT_VERSION: u32 = 2;

/// The features that this version supports and that a plan can list in [`Plan::requires`].
pub const FEATURES: &[&str] = &[
    TOOL_ARGUMENTS,
    TOOL_PINNING,
    CHAINED_CONTENT,
    UPSTREAM_TLS,
    LISTENER_TLS,
    UPSTREAM_OAUTH,
    SECTION_BINDINGS,
    ACCESS,
    PIPELINES,
    TOOLS_OF_PIPELINES,
    TOOL_PROVIDERS,
    WRAPPERS,
    STAGE_PLUGINS,
];

/// The feature of plans with an override of a tool that [decides what is sent](ToolOverride::decides_what_is_sent).
pub const TOOL_ARGUMENTS: &str = "tool-arguments";

/// The feature of plans that withhold tools whose definitions are not approved.
pub const TOOL_PINNING: &str = "tool-pinning";

/// The feature of plans with chains over questions of servers or over lists.
pub const CHAINED_CONTENT: &str = "chained-content";

/// The feature of plans with an upstream that has certificates of its own.
pub const UPSTREAM_TLS: &str = "upstream-tls";

/// The feature of plans with a listener that serves HTTPS.
pub const LISTENER_TLS: &str = "listener-tls";

/// The feature of plans with an upstream that gets access tokens.
pub const UPSTREAM_OAUTH: &str = "upstream-oauth";

/// The feature of plans with bindings of sections.
pub const SECTION_BINDINGS: &str = "section-bindings";

/// The feature of plans with pipelines.
pub const PIPELINES: &str = "pipelines";

/// The feature of plans with tools that are offered to pipelines only.
pub const TOOLS_OF_PIPELINES: &str = "tools-of-pipelines";

/// The feature of plans with upstreams whose tools a plugin makes.
pub const TOOL_PROVIDERS: &str = "tool-providers";

/// The feature of plans with plugins that are programs of any language.
pub const WRAPPERS: &str = "wrappers";

/// The feature of plans with plugins for the stages of planned pipelines.
pub const STAGE_PLUGINS: &str = "stage-plugins";

/// The feature of plans of gateways that authenticate or authorize their clients, by scopes among others.
pub const ACCESS: &str = "access-by-scopes";

/// The complete configuration of one gateway: its settings, upstreams, chains, and plugins with their code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The format version of the plan; see [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Digest of the other fields, computed while this field is empty; 12 hex characters.
    pub revision: String,
    /// The features that a gateway must support to run the plan as intended, such as a kind of guard that an older
    /// version would ignore. A gateway that does not support all of them refuses the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// [`Restrictions::digest`] of the restrictions that were applied to the plan; empty if there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub restrictions: String,
    /// The gateway's own settings.
    pub gateway: GatewayPlan,
    /// The objects that the gateway selects; `None` means all objects, as for the implicit gateway.
    pub takes: Option<GatewayTakes>,
    /// Upstreams in routing order: by creation time in a cluster, by the order of the files on disk.
    pub upstreams: Vec<UpstreamPlan>,
    /// Plugins that were accepted and still exist, sorted by key.
    pub plugins: Vec<PluginPlan>,
    /// Chains in the order in which they run on a call that several chains select.
    pub chains: Vec<ChainPlan>,
    /// Bindings of sections, in the order that decides between equally specific ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<SectionPlan>,
    /// Plugin code, by its SHA-256 in hex.
    pub code: BTreeMap<String, String>,
}

impl Plan {
    /// Returns the plugin with this key.
    pub fn plugin(&self, key: &ObjectKey) -> Option<&PluginPlan> {
        self.plugins.iter().find(|p| p.key == *key)
    }

    /// Returns the chain with this key.
    pub fn chain(&self, key: &ObjectKey) -> Option<&ChainPlan> {
        self.chains.iter().find(|c| c.key == *key)
    }

    /// Returns the upstream with this name.
    pub fn upstream(&self, name: &str) -> Option<&UpstreamPlan> {
        self.upstreams.iter().find(|u| u.key.name == name)
    }

    /// Returns the plugins of the gateway's namespace for the stages of planned pipelines. They are loaded even if no pipeline
    /// names them, so that they are listed with what their code says of them.
    pub fn stage_plugins(&self) -> impl Iterator<Item = &ObjectKey> {
        let namespace = &self.gateway.key.namespace;
        let own =
            self.plugins.iter().filter(move |plugin| plugin.kind.is_stage() && plugin.key.namespace == *namespace);
        own.filter(|plugin| plugin.enabled).map(|plugin| &plugin.key)
    }

    /// Returns the plugins that the plan runs: those of all entries of chains, and of all steps of pipelines, and those for
    /// stages.
    pub fn used_plugins(&self) -> impl Iterator<Item = &ObjectKey> {
        let entries = self.chains.iter().flat_map(|chain| &chain.entries).map(|entry| &entry.plugin);
        let steps = self.upstreams.iter().flat_map(|upstream| upstream.plugins().chain(upstream.helpers()));
        entries.chain(steps.map(|step| &step.key)).chain(self.stage_plugins())
    }

    /// Whether a step of a pipeline runs this plugin, or an upstream has its tools from it.
    pub fn has_step_of(&self, plugin: &ObjectKey) -> bool {
        let mut steps = self.upstreams.iter().flat_map(|upstream| upstream.plugins().chain(upstream.helpers()));
        steps.any(|step| step.key == *plugin && step.unavailable.is_none())
    }

    /// Makes pipelines and upstreams that run this plugin refuse their calls: that of the key `user`, or all.
    pub fn withhold_steps(&mut self, plugin: &ObjectKey, user: Option<&ObjectKey>, refusal: &Refusal) {
        for upstream in self.upstreams.iter_mut().filter(|upstream| user.is_none_or(|user| upstream.key == *user)) {
            let steps: Vec<_> = match &mut upstream.transport {
                TransportPlan::Pipeline(pipeline) => {
                    pipeline.helpers.retain(|helper| helper.key != *plugin);
                    pipeline.plugins_mut().map(|(_, step)| step).collect()
                }
                TransportPlan::Plugin(provider) => vec![&mut **provider],
                _ => continue,
            };
            for step in steps.into_iter().filter(|step| step.key == *plugin) {
                step.unavailable = Some(refusal.clone());
                upstream.refusing.get_or_insert_with(|| refusal.clone());
            }
        }
    }

    /// Hides values that can be secrets although they are written as plain text, so that the plan can be shown: literal
    /// values of headers and environment variables, arguments of processes, fixed arguments of tools, and the user, query
    /// and fragment of URLs.
    pub fn hide_values(&mut self) {
        for upstream in &mut self.upstreams {
            let arguments = upstream.overrides.iter_mut().flat_map(|tool| &mut tool.arguments);
            arguments.filter_map(|argument| argument.value.as_mut()).for_each(|value| *value = "[hidden]".into());
            match &mut upstream.transport {
                TransportPlan::External { url, oauth, .. } => {
                    let oauth = oauth.iter_mut().flat_map(|oauth| {
                        let OAuthPlan { issuer, token_url, resource, .. } = &mut **oauth;
                        issuer.iter_mut().chain(token_url).chain([resource])
                    });
                    oauth.chain([url]).for_each(|url| *url = address_of(url));
                }
                TransportPlan::Process { args, .. } => args.iter_mut().for_each(|arg| "[hidden]".clone_into(arg)),
                TransportPlan::Pipeline(_) | TransportPlan::Plugin(_) | TransportPlan::None => {}
            }
        }
        let of_pipelines = self.upstreams.iter_mut().filter_map(|upstream| match &mut upstream.transport {
            TransportPlan::Pipeline(pipeline) => Some(&mut pipeline.models),
            _ => None,
        });
        for model in of_pipelines.chain([&mut self.gateway.models]).flatten() {
            (model.base_url, model.extra_body) = (address_of(&model.base_url), None);
        }
        let upstreams = self.upstreams.iter_mut().flat_map(|upstream| match &mut upstream.transport {
            TransportPlan::External { headers, tls, .. } => vec![headers, &mut tls.values],
            TransportPlan::Process { env, .. } => vec![env],
            TransportPlan::Pipeline(_) | TransportPlan::Plugin(_) | TransportPlan::None => Vec::new(),
        });
        for value in upstreams.chain(self.plugins.iter_mut().map(|p| &mut p.env)).flatten() {
            if let ValueSource::Literal(text) = &mut value.value {
                "[hidden]".clone_into(text);
            }
        }
    }
}

/// Returns a URL without its user, query and fragment.
pub fn address_of(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = plain.split_once("://") else { return plain.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_address_holds_no_user_and_no_query() {
        for (url, address) in [
            ("https://user:pw@host:8443/mcp?token=x#y", "https://host:8443/mcp"),
            ("http://host/a@b", "http://host/a@b"),
            ("http://host", "http://host"),
        ] {
            assert_eq!(super::address_of(url), address);
        }
    }
}
