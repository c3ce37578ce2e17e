//! The code of plugins: where it is found, whether it parses, what it serves.

use std::path::Path;

use super::{Fault, id, values};
use crate::config::input::{Inputs, PluginInput, ProtocolSetting, SourceInput};
use crate::domain::ids::Kind;
use crate::domain::plugin::{Phase, Protocol};
use crate::domain::ports::CodeFacts;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Code found for a plugin.
pub struct Code<'a> {
    /// Its text.
    pub text: &'a str,
    /// The name that it goes by; its ending tells ESM from CommonJS.
    pub file_name: String,
    /// The folder whose other files it may import.
    pub(super) folder: Option<&'a Path>,
    /// Digest of those files.
    pub(super) siblings: &'a str,
}

/// The code of a plugin, where it can be had.
pub fn plugin_code<'a>(inputs: &'a Inputs, plugin: &'a PluginInput) -> Option<Code<'a>> {
    find_code(inputs, plugin).ok()
}

fn source_field(input: &PluginInput) -> &'static str {
    match input.source {
        SourceInput::Inline(_) => "spec.source.inline",
        SourceInput::ConfigMap { .. } => "spec.source.configMapKeyRef",
        SourceInput::Path(_) => "spec.source.path",
        SourceInput::NotBuilt => "spec.source",
    }
}

/// # Errors
/// Where it cannot be had.
pub(super) fn find_code<'a>(inputs: &'a Inputs, input: &'a PluginInput) -> Result<Code<'a>, Fault> {
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

/// Checks that the code is the one that the manifest names, where it names one.
pub(super) fn check_digest(input: &PluginInput, digest: &str) -> Result<(), Fault> {
    match input.sha256.as_ref().filter(|wanted| *wanted != digest) {
        Some(wanted) => {
            let message =
                format!("the code's SHA-256 is {digest}, not {wanted:.12}...: put the right one, or the right code");
            Err((Reason::DigestMismatch, "spec.sha256".into(), message))
        }
        None => Ok(()),
    }
}

/// Checks that the code parses.
pub(super) fn check_syntax(input: &PluginInput, facts: &CodeFacts) -> Result<(), Fault> {
    let Some(error) = &facts.error else { return Ok(()) };
    let place = if error.line > 0 { format!("line {}, column {}: ", error.line, error.column) } else { String::new() };
    Err((Reason::SyntaxError, source_field(input).into(), format!("{place}{}", error.message)))
}

/// `.js` becomes what it is, so that no `package.json` and no version of Node decides.
pub(super) fn loaded_name(file_name: &str, facts: &CodeFacts) -> String {
    match file_name.strip_suffix(".js") {
        Some(stem) => format!("{stem}.{}", if facts.is_module { "mjs" } else { "cjs" }),
        None => file_name.to_owned(),
    }
}

/// How a worker speaks with it, `Auto` resolved.
pub(super) fn protocol(input: &PluginInput, facts: &CodeFacts) -> Result<Protocol, Fault> {
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

/// The phases that it serves: those written, or all that its code can.
pub(super) fn phases(input: &PluginInput, protocol: Protocol, facts: &CodeFacts) -> Result<Vec<Phase>, Fault> {
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

/// Warns of environment variables that the code reads and is not given.
pub(super) fn warn_of_missing_variables(input: &PluginInput, facts: &CodeFacts, problems: &mut Vec<Problem>) {
    for name in &facts.reads_env {
        if input.env.iter().any(|e| e.name == *name) {
            continue;
        }
        let message =
            format!("its code reads process.env.{name}, which it is not given: add `- name: {name}` to spec.env");
        problems.push(Problem::warning(Reason::InvalidConfig, id(Kind::Plugin, &input.key), "spec.env", message));
    }
}
