//! Plugins: their code, what it serves, whether it is accepted.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{Fault, id, is_invalid, takes, values};
use crate::config::input::{Inputs, PluginInput, ProtocolSetting, SourceInput, code_key};
use crate::domain::digest::sha256_hex;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{EntryPlan, Plan, PluginPlan};
use crate::domain::plugin::{Phase, Protocol};
use crate::domain::ports::CodeFacts;
use crate::domain::problem::Problem;
use crate::domain::raw::RawObject;
use crate::domain::reason::Reason;

/// What came of the plugins.
#[derive(Default)]
pub(super) struct Plugins<'a> {
    /// Those that run, in the form that was accepted last.
    pub(super) accepted: BTreeMap<ObjectKey, PluginPlan>,
    /// Those that are there, with what only the objects say.
    pub(super) inputs: BTreeMap<&'a ObjectKey, &'a PluginInput>,
    /// Texts by digest, those of the previous plan among them.
    pub(super) code: BTreeMap<String, String>,
}

impl Plugins<'_> {
    /// Whether an entry is switched on: by its chain, and by its plugin where that can run.
    pub(super) fn enable(&self, entry: &EntryPlan) -> bool {
        let switched_on = || self.accepted.get(&entry.plugin).is_none_or(|plugin| plugin.enabled);
        entry.enabled && (entry.unavailable.is_some() || switched_on())
    }
}

/// Code found for a plugin.
pub struct Code<'a> {
    /// Its text.
    pub text: &'a str,
    /// The name that it goes by; its ending tells ESM from CommonJS.
    pub file_name: String,
    /// The folder whose other files it may import.
    folder: Option<&'a std::path::Path>,
    /// Digest of those files.
    siblings: &'a str,
}

/// The code of a plugin, where it can be had.
pub fn plugin_code<'a>(inputs: &'a Inputs, plugin: &'a PluginInput) -> Option<Code<'a>> {
    find_code(inputs, plugin).ok()
}

pub(super) fn compile<'a>(inputs: &'a Inputs, previous: Option<&Plan>, problems: &mut Vec<Problem>) -> Plugins<'a> {
    let mut plugins = Plugins { code: previous.map(|p| p.code.clone()).unwrap_or_default(), ..Plugins::default() };
    for input in &inputs.plugins {
        plugins.inputs.insert(&input.key, input);
        let object = id(Kind::Plugin, &input.key);
        match accept(inputs, input, problems) {
            Ok((plan, text)) => {
                plugins.code.insert(plan.digest.clone(), text.to_owned());
                plugins.accepted.insert(input.key.clone(), plan);
            }
            Err((reason, field, mut message)) => {
                if let Some(kept) = previous.and_then(|p| p.plugin(&input.key)) {
                    message.push_str(&format!(". Not loaded; revision {:.8} still runs", kept.digest));
                    plugins.accepted.insert(input.key.clone(), kept.clone());
                }
                problems.push(Problem::error(reason, object, field, message));
            }
        }
    }
    let kept = previous.iter().flat_map(|plan| &plan.plugins);
    for plugin in kept.filter(|p| is_invalid(inputs, Kind::Plugin, &p.key)) {
        plugins.accepted.entry(plugin.key.clone()).or_insert_with(|| plugin.clone());
    }
    plugins
}

fn accept<'a>(
    inputs: &'a Inputs,
    input: &'a PluginInput,
    problems: &mut Vec<Problem>,
) -> Result<(PluginPlan, &'a str), Fault> {
    if let Some(refusal) = &input.refusing {
        return Err((refusal.reason, "spec".into(), refusal.message.clone()));
    }
    let code = find_code(inputs, input)?;
    let digest = sha256_hex(code.text.as_bytes());
    if let Some(wanted) = input.sha256.as_ref().filter(|wanted| **wanted != digest) {
        let message =
            format!("the code's SHA-256 is {digest}, not {wanted:.12}...: put the right one, or the right code");
        return Err((Reason::DigestMismatch, "spec.sha256".into(), message));
    }
    let unknown = CodeFacts::default();
    let facts = inputs.facts.get(&code_key(&digest, &code.file_name)).unwrap_or(&unknown);
    if let Some(error) = &facts.error {
        let place =
            if error.line > 0 { format!("line {}, column {}: ", error.line, error.column) } else { String::new() };
        return Err((Reason::SyntaxError, source_field(input).into(), format!("{place}{}", error.message)));
    }
    let protocol = protocol(input, facts)?;
    let phases = phases(input, protocol, facts)?;
    check_config(input, input.config.as_deref())
        .map_err(|message| (Reason::InvalidConfig, "spec.config".to_owned(), message))?;
    let filters = [("spec.filter.upstreams", &input.filter_upstreams), ("spec.filter.tools", &input.filter_tools)];
    if let Some((field, message)) = filters.into_iter().find_map(|(field, globs)| values::bad_glob(field, globs)) {
        return Err((Reason::InvalidPattern, field, message));
    }
    let object = id(Kind::Plugin, &input.key);
    let env = values::resolve(inputs, &object, &input.env, problems)?;
    warn_of_missing_variables(input, facts, problems);
    let plan = PluginPlan {
        key: input.key.clone(),
        id: sha256_hex(input.key.to_string().as_bytes())[..8].to_owned(),
        digest,
        file_name: loaded_name(&code.file_name, facts),
        folder: code.folder.map(Into::into),
        siblings: code.siblings.to_owned(),
        role: input.role,
        phases,
        protocol,
        enabled: input.enabled,
        order: input.order,
        filter_upstreams: input.filter_upstreams.clone(),
        filter_tools: input.filter_tools.clone(),
        timeout_ms: input.timeout_ms,
        config: input.config.clone(),
        env,
        pool_size: input.pool_size,
        limits: input.limits.clone(),
    };
    Ok((plan, code.text))
}

fn source_field(input: &PluginInput) -> &'static str {
    match input.source {
        SourceInput::Inline(_) => "spec.source.inline",
        SourceInput::ConfigMap { .. } => "spec.source.configMapKeyRef",
        SourceInput::Path(_) => "spec.source.path",
        SourceInput::NotBuilt => "spec.source",
    }
}

fn find_code<'a>(inputs: &'a Inputs, input: &'a PluginInput) -> Result<Code<'a>, Fault> {
    let field = source_field(input).to_owned();
    match &input.source {
        SourceInput::Inline(text) => Ok(Code { text, file_name: "index.js".into(), folder: None, siblings: "" }),
        SourceInput::ConfigMap { name, key } => {
            let text = values::config_map(inputs, &input.key.namespace, name, key).map_err(|(r, m)| (r, field, m))?;
            Ok(Code { text, file_name: key.clone(), folder: None, siblings: "" })
        }
        SourceInput::Path(path) => match inputs.files.get(path) {
            Some(Ok(file)) => {
                let file_name = path.rsplit('/').next().unwrap_or(path).to_owned();
                Ok(Code { text: &file.text, file_name, folder: Some(&file.folder), siblings: &file.siblings })
            }
            Some(Err(error)) => Err((Reason::FileNotFound, field, error.clone())),
            None => Err((Reason::FileNotFound, field, format!("{path} was not read"))),
        },
        SourceInput::NotBuilt => Err((Reason::NotImplemented, field, "this source is not built".into())),
    }
}

/// `.js` becomes what it is, so that no `package.json` and no version of Node decides.
fn loaded_name(file_name: &str, facts: &CodeFacts) -> String {
    match file_name.strip_suffix(".js") {
        Some(stem) => format!("{stem}.{}", if facts.is_module { "mjs" } else { "cjs" }),
        None => file_name.to_owned(),
    }
}

fn protocol(input: &PluginInput, facts: &CodeFacts) -> Result<Protocol, Fault> {
    let exports_any = facts.exports.iter().any(|e| matches!(e.as_str(), "default" | "onRequest" | "onResponse"));
    match input.protocol {
        ProtocolSetting::Once => Ok(Protocol::Once),
        ProtocolSetting::Module | ProtocolSetting::Auto if exports_any => Ok(Protocol::Module),
        ProtocolSetting::Auto => Ok(Protocol::Once),
        ProtocolSetting::Module => {
            let message =
                "a Module exports default, onRequest or onResponse; this exports none of them: export one, or \
                           write protocol: Once"
                    .to_owned();
            Err((Reason::UnsupportedExports, "spec.protocol".into(), message))
        }
    }
}

fn phases(input: &PluginInput, protocol: Protocol, facts: &CodeFacts) -> Result<Vec<Phase>, Fault> {
    let exports = |name: &str| facts.exports.iter().any(|e| e == name);
    let serves = |phase: Phase| {
        protocol == Protocol::Once
            || exports("default")
            || exports(if phase == Phase::Request { "onRequest" } else { "onResponse" })
    };
    let both = [Phase::Request, Phase::Response];
    let Some(written) = &input.phases else {
        return Ok(both.into_iter().filter(|p| serves(*p)).collect());
    };
    match written.iter().find(|phase| !serves(**phase)) {
        Some(phase) => {
            let message = format!("its code exports nothing for phase {phase:?}: export default or take the phase out");
            Err((Reason::UnsupportedExports, "spec.phases".into(), message))
        }
        None => Ok(both.into_iter().filter(|p| written.contains(p)).collect()),
    }
}

/// Checks a configuration against the plugin's own schema.
pub(super) fn check_config(input: &PluginInput, config: Option<&RawValue>) -> Result<(), String> {
    let Some(schema) = &input.config_schema else { return Ok(()) };
    let validator = jsonschema::validator_for(schema).map_err(|e| format!("configSchema is no JSON Schema: {e}"))?;
    let config = config.map_or("{}", RawValue::get);
    let value = serde_json::from_str(config).map_err(|e| format!("it is no JSON: {e}"))?;
    validator
        .validate(&value)
        .map_err(|e| format!("it does not fit configSchema at {:?}: {e}", e.instance_path().to_string()))
}

/// A plugin's configuration with an entry's keys on top: top-level keys replace, nothing below them is merged.
pub fn merge_config(own: Option<&RawValue>, entry: Option<&RawValue>) -> Option<Box<RawValue>> {
    let (Some(own_raw), Some(entry_raw)) = (own, entry) else {
        return entry.or(own).map(RawValue::to_owned);
    };
    let (Ok(mut merged), Ok(top)) = (RawObject::parse(own_raw.get()), RawObject::parse(entry_raw.get())) else {
        return Some(entry_raw.to_owned());
    };
    for (key, value) in top.iter() {
        merged.set(key, value.to_owned());
    }
    Some(merged.to_raw())
}

fn warn_of_missing_variables(input: &PluginInput, facts: &CodeFacts, problems: &mut Vec<Problem>) {
    for name in &facts.reads_env {
        if input.env.iter().any(|e| e.name == *name) {
            continue;
        }
        let message =
            format!("its code reads process.env.{name}, which it is not given: add `- name: {name}` to spec.env");
        problems.push(Problem::warning(Reason::InvalidConfig, id(Kind::Plugin, &input.key), "spec.env", message));
    }
}

/// Whether a chain of `namespace` may name the plugin.
pub(super) fn permitted(inputs: &Inputs, plugin: &PluginInput, namespace: &str) -> bool {
    takes::shared(plugin.share_with.as_ref(), &plugin.key.namespace, namespace, inputs)
}
