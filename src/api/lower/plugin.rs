//! Turns a Plugin into the compiler's input.

use super::findings::Findings;
use super::shared::{env, key, namespaces, size};
use crate::api::canonical::canonical_text;
use crate::api::plugin::code::Source;
use crate::api::plugin::{self as api, ConfigOverrides, Plugin, PluginSpec, PluginType};
use crate::config::input::{PluginInput, ProtocolSetting, SourceInput};
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{PluginLimits, Refusal};
use crate::domain::plugin::{Encoding, Phase, Role};
use crate::domain::problem::Problem;
use serde_json::Value;

/// The effect of a setting that the plugin needs and that is not implemented.
const IT_CANNOT_RUN: &str = "the plugin cannot run";

pub fn plugin(object: &Plugin) -> (PluginInput, Vec<Problem>) {
    let spec = &object.spec;
    let key = key(&object.metadata);
    let mut findings = Findings::new(ObjectId::new(Kind::Plugin, key.clone()));
    let refusing = refusing(spec, &mut findings);
    note_later(spec, &mut findings);
    let filter = spec.filter.clone().unwrap_or_default();
    let pool = spec.pool.clone().unwrap_or_default();
    let input = PluginInput {
        key,
        enabled: spec.enabled.unwrap_or(true),
        role: spec.role.map(role).unwrap_or_default(),
        phases: spec.phases.as_ref().map(|phases| phases.iter().copied().map(phase).collect()),
        order: i64::from(spec.order.unwrap_or(0)),
        protocol: protocol(spec.protocol),
        source: source(&spec.source),
        sha256: spec.sha256.clone(),
        filter_upstreams: filter.upstreams.unwrap_or_default(),
        filter_tools: filter.tools.unwrap_or_default(),
        timeout_ms: spec.timeout_ms,
        config: spec.config.as_ref().map(canonical_text),
        config_schema: spec.config_schema.as_ref().map(|schema| Value::Object(schema.0.clone())),
        env: env(spec.env.as_ref(), "spec.env"),
        egress: spec.egress.clone().unwrap_or_default(),
        reuse: spec.reuse.unwrap_or(false),
        encoding: encoding(spec.encoding),
        concurrency: pool.concurrency.unwrap_or(1),
        pool_size: pool.size,
        max_executions: pool.max_executions,
        max_lifetime_seconds: pool.max_lifetime_seconds,
        limits: limits(spec),
        share_with: spec.share_with.as_ref().map(|s| namespaces(&s.namespaces)),
        config_overrides: spec.share_with.as_ref().is_some_and(|s| s.config_overrides == Some(ConfigOverrides::Allow)),
        refusing,
    };
    (input, findings.finish())
}

/// Reports types and sources that are not implemented. Returns the first one as the reason why the plugin cannot run.
fn refusing(spec: &PluginSpec, findings: &mut Findings) -> Option<Refusal> {
    let typed = spec.r#type.is_some_and(|t| t != PluginType::Middleware);
    let parts = [
        (typed, "spec.type"),
        (spec.source.image.is_some(), "spec.source.image"),
        (spec.wrapper.is_some(), "spec.wrapper"),
    ];
    let mut refusals = parts.map(|(set, field)| findings.refuse(set, field, IT_CANNOT_RUN)).into_iter().flatten();
    refusals.next()
}

fn note_later(spec: &PluginSpec, findings: &mut Findings) {
    findings.later(spec.descriptor.is_some(), "spec.descriptor");
}

fn role(role: api::Role) -> Role {
    match role {
        api::Role::Guard => Role::Guard,
        api::Role::Transform => Role::Transform,
        api::Role::Observe => Role::Observe,
    }
}

pub(super) fn phase(phase: api::Phase) -> Phase {
    match phase {
        api::Phase::Request => Phase::Request,
        api::Phase::Response => Phase::Response,
    }
}

fn protocol(protocol: Option<api::Protocol>) -> ProtocolSetting {
    match protocol {
        None | Some(api::Protocol::Auto) => ProtocolSetting::Auto,
        Some(api::Protocol::Once) => ProtocolSetting::Once,
        Some(api::Protocol::Lines) => ProtocolSetting::Lines,
        Some(api::Protocol::Module) => ProtocolSetting::Module,
    }
}

fn encoding(encoding: Option<api::Encoding>) -> Encoding {
    match encoding {
        None | Some(api::Encoding::JSON) => Encoding::Json,
        Some(api::Encoding::MessagePack) => Encoding::MessagePack,
    }
}

fn source(source: &Source) -> SourceInput {
    match source {
        Source { inline: Some(text), .. } => SourceInput::Inline(text.clone()),
        Source { config_map_key_ref: Some(reference), .. } => {
            SourceInput::ConfigMap { name: reference.name.clone(), key: reference.key.clone() }
        }
        Source { path: Some(path), .. } => SourceInput::Path(path.clone()),
        _ => SourceInput::NotBuilt,
    }
}

fn limits(spec: &PluginSpec) -> PluginLimits {
    let defaults = PluginLimits::default();
    let written = spec.limits.clone().unwrap_or_default();
    PluginLimits {
        max_input: size(written.max_input_size.as_ref()).unwrap_or(defaults.max_input),
        max_output: size(written.max_output_size.as_ref()).unwrap_or(defaults.max_output),
        max_stderr: size(written.max_stderr_size.as_ref()).unwrap_or(defaults.max_stderr),
        memory: size(written.memory.as_ref()).unwrap_or(defaults.memory),
    }
}
