//! Turns a Plugin into the compiler's input.

use std::net::IpAddr;

use serde_json::Value;

use super::findings::Findings;
use super::place::ManifestSource;
use super::shared::{env, key, labels, namespaces, size};
use crate::api::canonical::canonical_text;
use crate::api::plugin::code::{PluginImage, Source};
use crate::api::plugin::descriptor as written;
use crate::api::plugin::{self as api, ConfigOverrides, Plugin, PluginSpec, PluginType};
use crate::api::values::Quantity;
use crate::config::config_schema::ConfigSchema;
use crate::config::input::{PluginInput, ProtocolSetting, SourceInput, WrapperInput};
use crate::domain::descriptor::{CostClass, Descriptor, PlannerHints};
use crate::domain::egress::EgressRule;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{ImagePlan, PluginLimits, Refusal};
use crate::domain::plugin::{Encoding, Phase, PluginKind, Role};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// The effect of a setting that the plugin needs and that is not implemented.
const IT_CANNOT_RUN: &str = "the plugin cannot run";
/// The default of `limits.maxInputSize` of wrappers that run in a stage of a pipeline, in bytes.
const STAGE_WRAPPER_INPUT: u64 = 64 << 10;
/// The default of `pool.concurrency` of plugins that are not middleware.
const TYPED_CONCURRENCY: u32 = 16;

pub fn plugin(object: &Plugin, place: ManifestSource<'_>) -> (PluginInput, Vec<Problem>) {
    let spec = &object.spec;
    let key = key(&object.metadata);
    let mut findings = Findings::new(ObjectId::new(Kind::Plugin, key.clone()));
    let refusing = refusing(spec, &mut findings)
        .or_else(|| unmountable(spec, place, &mut findings))
        .or_else(|| reaching_in(spec, place, &mut findings));
    let (filter, pool) = (spec.filter.clone().unwrap_or_default(), spec.pool.clone().unwrap_or_default());
    let input = PluginInput {
        key,
        labels: labels(&object.metadata),
        kind: kind(spec.r#type).unwrap_or_default(),
        descriptor: descriptor(spec),
        enabled: spec.enabled.unwrap_or(true),
        role: spec.role.map(role).unwrap_or_default(),
        phases: spec.phases.as_ref().map(|phases| phases.iter().copied().map(phase).collect()),
        order: i64::from(spec.order.unwrap_or(0)),
        protocol: protocol(spec.protocol),
        source: source(spec),
        wrapper: wrapper(spec),
        sha256: spec.sha256.clone(),
        filter_upstreams: filter.upstreams.unwrap_or_default(),
        filter_tools: filter.tools.unwrap_or_default(),
        timeout_ms: spec.timeout_ms,
        config: spec.config.as_ref().map(canonical_text),
        config_schema: spec.config_schema.as_ref().map(|it| ConfigSchema::of(&Value::Object(it.0.clone())).into()),
        env: env(spec.env.as_ref(), "spec.env"),
        egress: egress(spec, place),
        reuse: spec.reuse.unwrap_or(false),
        encoding: encoding(spec.encoding),
        concurrency: pool.concurrency.unwrap_or(concurrency(spec)),
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

/// Reports a type that is not implemented. Returns it as the reason why the plugin cannot run.
fn refusing(spec: &PluginSpec, findings: &mut Findings) -> Option<Refusal> {
    let typed = kind(spec.r#type).is_none();
    findings.refuse(typed, "spec.type", IT_CANNOT_RUN)
}

/// Reports a source that only a cluster can mount, and returns it as the reason why the plugin cannot run.
fn unmountable(spec: &PluginSpec, place: ManifestSource<'_>, findings: &mut Findings) -> Option<Refusal> {
    let ManifestSource::File { .. } = place else { return None };
    spec.source.image.as_ref()?;
    let (reason, field) = (Reason::ClusterOnly, "spec.source.image");
    let message = "only the pods of a cluster mount images: put the files below the plugin folder and use source.path";
    findings.wrong(reason, field, message);
    Some(Refusal { reason, message: format!("{field}: {message}") })
}

/// Reports an address of the gateway's own machine in `egress`, and returns it as the reason why the plugin cannot run.
/// In a cluster that machine is the gateway's pod, whose admin API answers connections over loopback: it shows the plan
/// and the records of every namespace.
fn reaching_in(spec: &PluginSpec, place: ManifestSource<'_>, findings: &mut Findings) -> Option<Refusal> {
    let ManifestSource::Cluster { .. } = place else { return None };
    let entry = spec.egress.iter().flatten().find(|entry| is_of_own_machine(entry))?;
    let (reason, field) = (Reason::InvalidConfig, "spec.egress");
    let message =
        format!("{entry} is an address of the gateway's own pod, which no plugin can reach: name another host");
    findings.wrong(reason, field, &message);
    Some(Refusal { reason, message: format!("{field}: {message}") })
}

/// Returns the hosts that the plugin may connect to. In a cluster, addresses of the gateway's own machine are left out, so
/// that an older form which has them does not keep its rights, and runs no longer.
fn egress(spec: &PluginSpec, place: ManifestSource<'_>) -> Vec<String> {
    let in_cluster = matches!(place, ManifestSource::Cluster { .. });
    let may = |entry: &&String| !(in_cluster && is_of_own_machine(entry));
    spec.egress.iter().flatten().filter(may).cloned().collect()
}

fn is_of_own_machine(entry: &str) -> bool {
    EgressRule::parse(entry).is_ok_and(|rule| is_own_machine(rule.host()))
}

/// Whether a host is an address at which a machine reaches itself: loopback, or no address at all.
fn is_own_machine(host: &str) -> bool {
    let address = host.parse::<IpAddr>().map(|address| address.to_canonical());
    address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
}

/// Returns how the object describes its plugin.
fn descriptor(spec: &PluginSpec) -> Descriptor {
    let Some(written) = spec.descriptor.clone() else { return Descriptor::default() };
    let hints = |hints: written::PlannerHints| PlannerHints {
        expected_latency_ms: hints.expected_latency_ms,
        expected_llm_calls: hints.expected_llm_calls,
        relative_cost: hints.relative_cost,
        supported_acts: hints.supported_acts,
        topic_tags: hints.topic_tags,
        preferred_depth: hints.preferred_depth,
        fallback_role: hints.fallback_role,
        confidence_when_matched: hints.confidence_when_matched,
    };
    let cost = |cost| match cost {
        written::CostClass::Cheap => CostClass::Cheap,
        written::CostClass::Moderate => CostClass::Moderate,
        written::CostClass::Expensive => CostClass::Expensive,
    };
    Descriptor {
        id: None,
        r#type: None,
        name: written.display_name,
        version: written.version,
        description: written.description,
        cost_class: written.cost_class.map(cost),
        uses_llm: written.uses_llm,
        model_roles: written.model_roles,
        max_llm_calls: written.max_llm_calls,
        tags: written.tags,
        planner_hints: written.planner_hints.map(hints),
        provides: written.provides,
        accepts: written.accepts,
        timeout_ms: None,
    }
}

/// Returns how many calls a worker has at a time. Plugins of pipelines wait for tools, models and users most of their time.
fn concurrency(spec: &PluginSpec) -> u32 {
    match kind(spec.r#type).unwrap_or_default() {
        PluginKind::Middleware => 1,
        _ if spec.wrapper.is_some() => 1,
        _ => TYPED_CONCURRENCY,
    }
}

/// Returns the type of the plugin; `None` if this version does not implement it.
fn kind(written: Option<PluginType>) -> Option<PluginKind> {
    match written.unwrap_or(PluginType::Middleware) {
        PluginType::Middleware => Some(PluginKind::Middleware),
        PluginType::Phase => Some(PluginKind::Phase),
        PluginType::PromptProvider => Some(PluginKind::PromptProvider),
        PluginType::ToolProvider => Some(PluginKind::ToolProvider),
        PluginType::PipelineCustomizer => Some(PluginKind::PipelineCustomizer),
        PluginType::OutputType => Some(PluginKind::OutputType),
        PluginType::SdPlugin => Some(PluginKind::SdPlugin),
        PluginType::KbPlugin => Some(PluginKind::KbPlugin),
        PluginType::GsPlugin => Some(PluginKind::GsPlugin),
        PluginType::ValPlugin => Some(PluginKind::ValPlugin),
        PluginType::MrpPlanPlugin => Some(PluginKind::MrpPlanPlugin),
        PluginType::IntentClassifier | PluginType::QaHandler | PluginType::UpdateHandler => None,
    }
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

fn wrapper(spec: &PluginSpec) -> Option<WrapperInput> {
    let written = spec.wrapper.as_ref()?;
    Some(WrapperInput {
        interpreter: program(spec).is_none().then(|| written.command.clone()),
        args: written.args.clone().unwrap_or_default(),
        protocol_version: written.protocol_version.clone(),
    })
}

/// Returns the path of the file that is the plugin's program; `None` if it has none, or an interpreter runs its code. A command
/// with `/` starts at the folder of the code, and a bare one is the name of its file.
fn program(spec: &PluginSpec) -> Option<String> {
    let command = &spec.wrapper.as_ref()?.command;
    let path = match &spec.source {
        Source { path: Some(path), .. } => path,
        Source { image: Some(image), .. } => image.path.as_ref().unwrap_or(command),
        _ => return None,
    };
    match path.rsplit_once('/') {
        _ if command.contains('/') && spec.source.image.is_some() => Some(command.clone()),
        Some((folder, _)) if command.contains('/') => Some(format!("{folder}/{command}")),
        None if command.contains('/') => Some(command.clone()),
        Some((_, file)) => (file == command).then(|| path.clone()),
        None => (path == command).then(|| path.clone()),
    }
}

fn source(spec: &PluginSpec) -> SourceInput {
    match (source_of(&spec.source), program(spec)) {
        (SourceInput::Path(_), Some(path)) => SourceInput::Path(path),
        (SourceInput::Image { image, .. }, Some(path)) => SourceInput::Image { image, path },
        (source, _) => source,
    }
}

fn source_of(source: &Source) -> SourceInput {
    match source {
        Source { inline: Some(text), .. } => SourceInput::Inline(text.clone()),
        Source { config_map_key_ref: Some(reference), .. } => {
            SourceInput::ConfigMap { name: reference.name.clone(), key: reference.key.clone() }
        }
        Source { image: Some(image), .. } => image_source(image),
        // Validation makes sure that one of them is given.
        Source { path, .. } => SourceInput::Path(path.clone().unwrap_or_default()),
    }
}

fn image_source(written: &PluginImage) -> SourceInput {
    let pull_secrets = written.pull_secrets.iter().flatten().map(|secret| secret.name.clone()).collect();
    let image = ImagePlan {
        reference: written.reference.clone(),
        pull_policy: written.pull_policy.map(|policy| format!("{policy:?}")),
        pull_secrets,
    };
    SourceInput::Image { image, path: written.path.clone().unwrap_or_else(|| "index.mjs".to_owned()) }
}

fn limits(spec: &PluginSpec) -> PluginLimits {
    let defaults = PluginLimits::default();
    let written = spec.limits.clone().unwrap_or_default();
    let is_stage_wrapper = spec.wrapper.is_some() && kind(spec.r#type).is_some_and(PluginKind::is_stage);
    let max_input = if is_stage_wrapper { STAGE_WRAPPER_INPUT } else { defaults.max_input };
    PluginLimits {
        max_input: size(written.max_input_size.as_ref()).unwrap_or(max_input),
        max_output: size(written.max_output_size.as_ref()).unwrap_or(defaults.max_output),
        max_stderr: written.max_stderr_size.as_ref().and_then(Quantity::value).unwrap_or(defaults.max_stderr),
        memory: size(written.memory.as_ref()).unwrap_or(defaults.memory),
        store: size(written.store_size.as_ref()).unwrap_or(defaults.store),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    /// Why a plugin with this entry in its `egress` cannot run, the fields with errors, and whether the entry is left.
    fn told(egress: &str, place: ManifestSource<'_>) -> (Option<Reason>, Vec<String>, bool) {
        let spec = json!({"source": {"inline": "x"}, "egress": ["a.example:1", egress]});
        let object = json!({"metadata": {"name": "x", "namespace": "ns"}, "spec": spec});
        let (input, problems) = plugin(&serde_json::from_value(object).unwrap(), place);
        let errors = problems.into_iter().filter(Problem::is_error).map(|problem| problem.field);
        assert!(input.egress.contains(&"a.example:1".to_owned()));
        (input.refusing.map(|refusal| refusal.reason), errors.collect(), input.egress.iter().any(|host| host == egress))
    }

    #[test]
    fn a_plugin_in_a_cluster_cannot_reach_the_gateways_own_pod() {
        let cluster = ManifestSource::Cluster { domain: "cluster.local" };
        let file = ManifestSource::File { folder: Path::new("/m"), plugin_dir: Path::new("/p") };
        for egress in ["127.0.0.1:9090", "127.9.9.9:1", "0.0.0.0:9090", "::1:9090", "::ffff:127.0.0.1:9090", ":::9090"]
        {
            assert_eq!(
                told(egress, cluster),
                (Some(Reason::InvalidConfig), vec!["spec.egress".into()], false),
                "{egress}"
            );
            assert_eq!(told(egress, file), (None, Vec::new(), true), "{egress}: a machine of one's own");
        }
        for egress in ["10.0.0.5:9090", "localhost:9090", "*:9090"] {
            assert_eq!(told(egress, cluster), (None, Vec::new(), true), "{egress}");
        }
    }

    #[test]
    fn only_a_cluster_mounts_the_image_of_a_plugin() {
        let image = json!({"reference": "r/i:1", "pullPolicy": "Always", "pullSecrets": [{"name": "s"}]});
        let object = json!({"metadata": {"name": "x", "namespace": "ns"}, "spec": {"source": {"image": image}}});
        let object = serde_json::from_value(object).unwrap();
        let file = ManifestSource::File { folder: Path::new("/m"), plugin_dir: Path::new("/p") };
        let (input, problems) = plugin(&object, file);
        assert_eq!((problems.len(), problems[0].field.as_str()), (1, "spec.source.image"));
        assert_eq!(input.refusing.map(|refusal| refusal.reason), Some(Reason::ClusterOnly));
        let (input, problems) = plugin(&object, ManifestSource::Cluster { domain: "cluster.local" });
        assert!(problems.is_empty() && input.refusing.is_none(), "{problems:?}");
        let (pull_policy, pull_secrets) = (Some("Always".to_owned()), vec!["s".to_owned()]);
        let image = ImagePlan { reference: "r/i:1".into(), pull_policy, pull_secrets };
        assert_eq!(input.source, SourceInput::Image { image, path: "index.mjs".into() });
    }

    #[test]
    fn the_program_of_a_wrapper_is_a_file_of_its_source_or_an_interpreter() {
        let image = |path: &str| json!({"image": {"reference": "r", "path": path}});
        for (source, command, file) in [
            (json!({"inline": "x"}), "python3", None),
            (json!({"configMapKeyRef": {"name": "c", "key": "guard.py"}}), "guard.py", None),
            (json!({"path": "guards/guard.py"}), "python3", None),
            (json!({"path": "guards/guard"}), "guard", Some("guards/guard")),
            (json!({"path": "guard"}), "guard", Some("guard")),
            (json!({"path": "guards/guard.json"}), "bin/guard", Some("guards/bin/guard")),
            (json!({"path": "guard.json"}), "bin/guard", Some("bin/guard")),
            (image("app/guard"), "guard", Some("app/guard")),
            (image("app/guard.py"), "python3", None),
            (image("app/guard"), "bin/guard", Some("bin/guard")),
            (json!({"image": {"reference": "r"}}), "guard", Some("guard")),
        ] {
            let spec = json!({"source": source, "wrapper": {"command": command}});
            let object = json!({"metadata": {"name": "x", "namespace": "ns"}, "spec": spec});
            let (input, problems) =
                plugin(&serde_json::from_value(object).unwrap(), ManifestSource::Cluster { domain: "c" });
            assert!(problems.is_empty(), "{problems:?}");
            let wrapper = input.wrapper.unwrap();
            assert_eq!(wrapper.interpreter.as_deref(), Some(command).filter(|_| file.is_none()), "{source} {command}");
            let path = match &input.source {
                SourceInput::Path(path) | SourceInput::Image { path, .. } => Some(path.as_str()),
                _ => None,
            };
            assert!(file.is_none() || path == file, "{source} {command}: {path:?}");
        }
    }
}
