//! Compiles plugins: which ones are accepted, and which older forms are kept for the others.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;

use super::code_warnings::warn;
use super::descriptors::{describe, describe_without_code};
use super::entry_config::merge_config;
use super::lost_exports::Lost;
use super::plugin_code::{IMAGE, JudgedCode, WantedCode, file_name, find_code, source_field};
use super::{Faults, FieldFault, bounds, id, is_invalid, takes, values, wrappers};
use crate::config::config_schema::{ConfigChecks, ConfigFault};
use crate::config::input::{Inputs, PluginInput, SourceInput};
use crate::domain::digest::sha256_hex;
use crate::domain::egress::EgressRule;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{ChainPlan, EntryPlan, GatewayPlan, ImagePlan, NamedValue, Plan, PluginPlan, WrapperPlan};
use crate::domain::plugin::{Phase, PluginKind, Protocol};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::sandbox::is_kept_from_plugins;

/// The least memory with which Node.js loads any code, in bytes.
const MIN_MEMORY: u64 = 4 << 20;

/// The compiled plugins.
#[derive(Default)]
pub(super) struct Plugins<'a> {
    /// Plugins that can run, each in its last accepted form.
    pub(super) accepted: BTreeMap<ObjectKey, PluginPlan>,
    /// The inputs of all plugins that are not invalid, for settings that the plan does not contain.
    pub(super) inputs: BTreeMap<&'a ObjectKey, &'a PluginInput>,
    /// Code by its digest, including the code of the previous plan.
    pub(super) code: BTreeMap<String, String>,
    /// Why plugins that have no earlier form are not accepted, as it is told to those who use them.
    pub(super) refused: BTreeMap<&'a ObjectKey, String>,
    /// Plugins that have no earlier form, and whose code is being parsed for the first time.
    pub(super) parsing: BTreeSet<&'a ObjectKey>,
    /// Plugins whose new code exports less than their running form. Each has that form, and the exports that are lost.
    lost: Vec<(&'a PluginInput, PluginPlan, Lost)>,
}

impl Plugins<'_> {
    /// Whether `entry` is enabled. If the entry can run, its plugin must be enabled too.
    pub(super) fn enable(&self, entry: &EntryPlan) -> bool {
        let switched_on = || self.accepted.get(&entry.plugin).is_none_or(|plugin| plugin.enabled);
        entry.enabled && (entry.unavailable.is_some() || switched_on())
    }

    /// Keeps the last form of each plugin whose code no longer exports something that `chains` run. Returns whether
    /// there is such a plugin.
    pub(super) fn keep_exports(&mut self, chains: &[ChainPlan], problems: &mut Vec<Problem>) -> bool {
        let mut any = false;
        for (input, kept, lost) in std::mem::take(&mut self.lost) {
            let Some((reason, field, message)) = lost.fault(&input.key, chains, source_field(input)) else { continue };
            let message = still_runs(message, &kept);
            problems.push(Problem::error(reason, id(Kind::Plugin, &input.key), field, message));
            self.accepted.insert(input.key.clone(), kept);
            any = true;
        }
        any
    }
}

/// Adds to the message about a rejected form whether the kept form still runs or is switched off.
pub(super) fn still_runs(message: String, kept: &PluginPlan) -> String {
    match kept.enabled {
        true => format!(
            "{message}. Not loaded; the code accepted before (revision {:.8}) still runs on its calls",
            kept.digest
        ),
        false => format!("{message}. Not loaded; it is switched off"),
    }
}

/// Returns the exports that `kept` has and the new form `plan` does not have. Returns `None` for code that only the
/// gateway's pod can read, because the pod checks it.
fn lost(input: &PluginInput, kept: &PluginPlan, plan: &PluginPlan) -> Option<Lost> {
    let is_open = kept.path.is_some() || plan.path.is_some();
    let written = (input.protocol.written().is_some(), input.phases.is_some());
    Lost::between(kept, plan, written.0, written.1).filter(|_| !is_open)
}

pub(super) fn compile<'a>(
    inputs: &'a Inputs,
    previous: Option<&Plan>,
    gateway: &GatewayPlan,
    checks: &mut ConfigChecks<'_>,
    problems: &mut Vec<Problem>,
) -> Plugins<'a> {
    let mut plugins = Plugins { code: previous.map(|p| p.code.clone()).unwrap_or_default(), ..Plugins::default() };
    let before = inputs.not_loaded.values().filter_map(|lost| lost.before.as_deref());
    plugins.code.extend(before.map(|(plan, code)| (plan.digest.clone(), code.clone())));
    for input in &inputs.plugins {
        plugins.inputs.insert(&input.key, input);
        let object = id(Kind::Plugin, &input.key);
        let kept = previous.and_then(|previous| stand_in(inputs, previous, gateway, input));
        let accepted = accept(inputs, gateway, input, checks, problems);
        match accepted
            .and_then(|accepted| if kept.is_some() { loadable(inputs, input, accepted) } else { Ok(accepted) })
        {
            Ok((plan, text)) => {
                if let Some((kept, lost)) = kept.and_then(|kept| lost(input, &kept, &plan).map(|lost| (kept, lost))) {
                    plugins.lost.push((input, kept, lost));
                }
                plugins.code.extend(text.map(|text| (plan.digest.clone(), text.to_owned())));
                plugins.accepted.insert(input.key.clone(), plan);
            }
            Err((reason, field, mut message)) => {
                // A part that is not implemented was already reported at its field.
                let is_reported = kept.is_none() && input.refusing.is_some();
                if let Some(kept) = kept {
                    message = still_runs(message, &kept);
                    plugins.accepted.insert(input.key.clone(), kept);
                } else if reason == Reason::Pending {
                    plugins.parsing.insert(&input.key);
                } else {
                    plugins.refused.insert(&input.key, format!("{field}: {message} ({reason})"));
                }
                if !is_reported {
                    problems.push(Problem::error(reason, object, field, message));
                }
            }
        }
    }
    if let Some(previous) = previous {
        keep_invalid(inputs, previous, gateway, &mut plugins);
    }
    plugins
}

/// Keeps the last forms of plugins that are invalid now.
fn keep_invalid(inputs: &Inputs, previous: &Plan, gateway: &GatewayPlan, plugins: &mut Plugins<'_>) {
    for plugin in previous.plugins.iter().filter(|plugin| is_invalid(inputs, Kind::Plugin, &plugin.key)) {
        let kept = last_form(inputs, previous, &plugin.key).unwrap_or(plugin);
        if gateway.runtime.allows(kept) {
            plugins.accepted.entry(plugin.key.clone()).or_insert_with(|| kept.clone());
        }
    }
}

/// Returns the older form that is kept in place of `input`. Two changes take effect nevertheless, because they are
/// intended: `enabled`, and the removal of rights. A form with a right or a wrapper that was removed is kept only if the plugin
/// is switched off.
fn stand_in(inputs: &Inputs, previous: &Plan, gateway: &GatewayPlan, input: &PluginInput) -> Option<PluginPlan> {
    let last = last_form(inputs, previous, &input.key)?;
    let rights = values::rights(&input.key.namespace, &input.env);
    let may_run = last.keeps_its_rights(&input.egress, &rights) && gateway.runtime.allows(last);
    (may_run || !input.enabled).then(|| PluginPlan { enabled: input.enabled, ..last.clone() })
}

/// Returns the form of a plugin to keep if the written one is not accepted: the form in the previous plan or, if a
/// gateway could not load that form, the one before it.
fn last_form<'a>(inputs: &'a Inputs, previous: &'a Plan, key: &ObjectKey) -> Option<&'a PluginPlan> {
    let last = previous.plugin(key)?;
    match inputs.not_loaded.get(key).filter(|lost| lost.form == last.form()) {
        Some(lost) => lost.before.as_deref().map(|(plan, _)| plan),
        None => Some(last),
    }
}

/// Returns `accepted`, or a fault if a gateway could not load this form.
fn loadable<T>(inputs: &Inputs, input: &PluginInput, accepted: (PluginPlan, T)) -> Result<(PluginPlan, T), FieldFault> {
    match inputs.not_loaded.get(&input.key).filter(|lost| lost.form == accepted.0.form()) {
        Some(lost) => Err((Reason::NotLoaded, source_field(input).to_owned(), lost.message.clone())),
        None => Ok(accepted),
    }
}

/// Returns the plugin as written and its code, or what is wrong with the plugin. The code is `None` if only the gateway
/// can read it.
fn accept<'a>(
    inputs: &'a Inputs,
    gateway: &GatewayPlan,
    input: &'a PluginInput,
    checks: &mut ConfigChecks<'_>,
    problems: &mut Vec<Problem>,
) -> Result<(PluginPlan, Option<&'a str>), FieldFault> {
    let object = id(Kind::Plugin, &input.key);
    let mut faults = Faults::default();
    check_settings(input, checks, &mut faults);
    let env = faults.take(values::resolve(inputs, &object, &input.env, problems)).unwrap_or_default();
    let wrapper = wrappers::compile(input, gateway);
    let made =
        wrapper.and_then(|wrapper| accept_code(inputs, (input, wrapper), env, problems)).and_then(|(plan, text)| {
            bounds::check(inputs, &object, &plan)?;
            Ok((plan, text))
        });
    faults.finish(made, &object, problems)
}

/// Like [`accept`], for the source of the plugin alone.
fn accept_code<'a>(
    inputs: &'a Inputs,
    (input, wrapper): (&'a PluginInput, Option<WrapperPlan>),
    env: Vec<NamedValue>,
    problems: &mut Vec<Problem>,
) -> Result<(PluginPlan, Option<&'a str>), FieldFault> {
    if let Some(refusal) = &input.refusing {
        return Err((refusal.reason, "spec".into(), refusal.message.clone()));
    }
    match &input.source {
        SourceInput::Path(path) if inputs.files_elsewhere => {
            let mut plan = plan_of_path((input, wrapper), path.clone(), env);
            describe_without_code(&mut plan)?;
            return Ok((plan, None));
        }
        SourceInput::Image { image, path } => {
            let path = mounted(inputs, input, image, path)?;
            let mut plan = PluginPlan { image: Some(image.clone()), ..plan_of_path((input, wrapper), path, env) };
            describe_without_code(&mut plan)?;
            return Ok((plan, None));
        }
        _ => {}
    }
    let code = find_code(inputs, input)?;
    if let SourceInput::ConfigMap { .. } = input.source {
        bounds::check_code(code.text, source_field(input))?;
    }
    let wanted = WantedCode {
        field: source_field(input),
        sha256: input.sha256.as_deref(),
        protocol: input.protocol,
        kind: input.kind,
        reuse: input.reuse,
        phases: input.phases.as_deref(),
        parsing: &inputs.parsing,
    };
    let (judged, facts) = wrappers::judge(&wanted, wrapper.as_ref(), &code, &inputs.facts)?;
    let mut plan = plan(input, judged, env);
    if let Some(facts) = facts {
        warn(&wanted, &plan, facts, problems);
    }
    plan.wrapper = wrapper;
    plan.folder = code.folder.map(Into::into);
    code.siblings.clone_into(&mut plan.siblings);
    describe(&mut plan, &code, facts)?;
    Ok((plan, Some(code.text)))
}

/// Returns the path of a file of an image in the gateway's pods. Only plugins of the gateway's own namespace can have an
/// image: pods pull images with Secrets of that namespace only, and do not start while an image cannot be pulled.
fn mounted(inputs: &Inputs, input: &PluginInput, image: &ImagePlan, path: &str) -> Result<String, FieldFault> {
    if inputs.no_pods {
        let message = "the operator makes no pods, which would mount the image: start it with --gateway-image, or use \
                       another source";
        return Err((Reason::FileNotFound, IMAGE.into(), message.into()));
    }
    let gateway = inputs.gateway.as_ref().map(|gateway| &gateway.plan.key);
    match gateway.filter(|gateway| gateway.namespace != input.key.namespace) {
        Some(gateway) => {
            let message = format!(
                "gateway {gateway} mounts images for plugins of its own namespace only: create the Plugin in {}, or use \
                 another source",
                gateway.namespace
            );
            Err((Reason::InvalidConfig, IMAGE.into(), message))
        }
        None => Ok(image.folder().join(path).to_string_lossy().into_owned()),
    }
}

/// Plans a plugin whose code is only in the gateway's pod. The settings that depend on the code are provisional.
fn plan_of_path(
    (input, wrapper): (&PluginInput, Option<WrapperPlan>),
    path: String,
    env: Vec<NamedValue>,
) -> PluginPlan {
    let wanted_protocol = input.protocol.written();
    let open = JudgedCode {
        digest: String::new(),
        file_name: file_name(&path).to_owned(),
        protocol: wanted_protocol.unwrap_or(Protocol::Module),
        phases: match (input.kind, &input.phases) {
            (PluginKind::Middleware, None) => vec![Phase::Request, Phase::Response],
            (PluginKind::Middleware, Some(phases)) => phases.clone(),
            _ => Vec::new(),
        },
    };
    let (sha256, wanted_phases) = (input.sha256.clone(), input.phases.clone());
    PluginPlan { path: Some(path), sha256, wanted_protocol, wanted_phases, wrapper, ..plan(input, open, env) }
}

fn plan(input: &PluginInput, judged: JudgedCode, env: Vec<NamedValue>) -> PluginPlan {
    PluginPlan {
        key: input.key.clone(),
        kind: input.kind,
        version: None,
        descriptor: input.descriptor.clone(),
        id: sha256_hex(input.key.to_string().as_bytes())[..8].to_owned(),
        digest: judged.digest,
        path: None,
        image: None,
        sha256: None,
        wanted_protocol: None,
        wanted_phases: None,
        file_name: judged.file_name,
        folder: None,
        siblings: String::new(),
        role: input.role,
        phases: judged.phases,
        protocol: judged.protocol,
        wrapper: None,
        reuse: input.reuse,
        encoding: input.encoding,
        enabled: input.enabled,
        order: input.order,
        filter_upstreams: input.filter_upstreams.clone(),
        filter_tools: input.filter_tools.clone(),
        timeout_ms: input.timeout_ms,
        config: input.config.clone(),
        env,
        egress: input.egress.clone(),
        concurrency: input.concurrency,
        pool_size: input.pool_size,
        max_executions: input.max_executions,
        max_lifetime_seconds: input.max_lifetime_seconds,
        limits: input.limits.clone(),
    }
}

fn check_settings(input: &PluginInput, checks: &mut ConfigChecks<'_>, faults: &mut Faults) {
    faults.0.extend(wrappers::faults(input));
    if input.limits.memory < MIN_MEMORY {
        let message = format!(
            "no worker can start with {} bytes: give it {}Mi or more (default: 256Mi)",
            input.limits.memory,
            MIN_MEMORY >> 20
        );
        faults.0.push((Reason::InvalidConfig, "spec.limits.memory".to_owned(), message));
    }
    for (place, _) in input.env.iter().enumerate().filter(|(_, variable)| is_kept_from_plugins(&variable.name)) {
        let message = "it would steer how Node.js starts, before any code of the plugin runs: take it out";
        faults.0.push((Reason::InvalidConfig, format!("spec.env[{place}].name"), message.into()));
    }
    let config = check_config(input, input.config.as_deref(), &input.key.namespace, checks);
    faults.take(config.map_err(|fault| match fault {
        ConfigFault::Schema(message) => (Reason::InvalidConfig, "spec.configSchema".to_owned(), message),
        ConfigFault::Config(message) => (Reason::InvalidConfig, "spec.config".to_owned(), message),
    }));
    let egress = input.egress.iter().filter_map(|entry| EgressRule::parse(entry).err());
    faults.0.extend(egress.map(|message| (Reason::InvalidPattern, "spec.egress".to_owned(), message)));
    faults.0.extend(values::bad_globs("spec.filter.upstreams", &input.filter_upstreams));
    faults.0.extend(values::bad_globs("spec.filter.tools", &input.filter_tools));
}

/// Checks that a configuration matches the plugin's `configSchema`, for an object of `namespace`. Without a schema, every
/// configuration matches; a configuration that is absent counts as `{}`.
///
/// # Errors
/// If the configuration does not match, with the path of the value, or if the schema cannot be used.
pub(super) fn check_config(
    input: &PluginInput,
    config: Option<&RawValue>,
    namespace: &str,
    checks: &mut ConfigChecks<'_>,
) -> Result<(), ConfigFault> {
    let Some(schema) = &input.config_schema else { return Ok(()) };
    // What the plugins of another namespace cost takes nothing from one's own.
    let whose = match input.key.namespace == namespace {
        true => namespace.to_owned(),
        false => format!("{namespace} with plugins of {}", input.key.namespace),
    };
    checks.check(&whose, schema, config.map_or("{}", RawValue::get))
}

/// Checks that the configuration of an entry, merged with the plugin's own, matches the plugin's `configSchema`.
///
/// # Errors
/// As of [`check_config`], as a message about the entry's configuration.
pub fn check_entry_config(
    input: &PluginInput,
    entry: Option<&RawValue>,
    namespace: &str,
    checks: &mut ConfigChecks<'_>,
) -> Result<(), String> {
    let config = merge_config(input.config.as_deref(), entry);
    check_config(input, config.as_deref(), namespace, checks).map_err(|fault| match fault {
        ConfigFault::Schema(message) => {
            format!("it cannot be checked against configSchema of {}: {message}", input.key)
        }
        ConfigFault::Config(message) => message,
    })
}

/// Checks that a plugin permits `user` to run it and, if `configures` is true, to change its configuration.
pub(super) fn permit(inputs: &Inputs, plugin: &PluginInput, user: &ObjectKey, configures: bool) -> Result<(), String> {
    let (key, namespace) = (&plugin.key, &user.namespace);
    if !takes::shared(plugin.share_with.as_ref(), &key.namespace, namespace, inputs) {
        return Err(format!("{key} is not shared with {namespace} (its spec.shareWith)"));
    }
    if configures && key.namespace != *namespace && !plugin.config_overrides {
        let why = "does not let other namespaces change its config (its spec.shareWith.configOverrides)";
        return Err(format!("{key} {why}"));
    }
    Ok(())
}
