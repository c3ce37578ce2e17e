//! The code of plugins: where it is, whether it parses, and which phases it supports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::exports::{exports_called, not_called, not_typed};
use super::{FieldFault, values};
use crate::config::input::{Files, Inputs, PluginInput, ProtocolSetting, SourceInput, Unread, code_key};
use crate::domain::code_file::is_typescript;
use crate::domain::digest::sha256_hex;
use crate::domain::plugin::{Phase, PluginKind, Protocol};
use crate::domain::ports::CodeFacts;
use crate::domain::reason::Reason;

/// Manifest field that contains the code itself.
const INLINE: &str = "spec.source.inline";
/// Manifest field that names a file of the plugin folder.
pub(super) const PATH: &str = "spec.source.path";
/// Manifest field that names an image.
pub(super) const IMAGE: &str = "spec.source.image";

/// The code of a plugin.
pub struct FoundCode<'a> {
    /// Text of the code.
    pub text: &'a str,
    /// File name of the code. Its extension determines the module system; for `.js`, the syntax of the code does.
    pub file_name: String,
    /// Folder whose other files the code can import; `None` if the code is not a file.
    pub(super) folder: Option<&'a Path>,
    /// Digest of the other files in `folder` that the code can import; empty if there is no folder.
    pub(super) siblings: &'a str,
    /// Text of the file `plugin.json` in `folder`.
    pub(super) descriptor: Option<&'a str>,
}

/// Returns the code of a plugin, or `None` if it is not available.
pub fn plugin_code<'a>(inputs: &'a Inputs, plugin: &'a PluginInput) -> Option<FoundCode<'a>> {
    find_code(inputs, plugin).ok()
}

/// Returns the code in a file of the plugin folder.
///
/// # Errors
/// If the file is not available.
pub fn file_code<'a>(files: &'a Files, path: &str) -> Result<FoundCode<'a>, Unread> {
    match files.get(path) {
        Some(Ok(file)) => Ok(FoundCode {
            text: &file.text,
            file_name: file_name(path).to_owned(),
            folder: Some(&file.folder),
            siblings: &file.siblings,
            descriptor: file.descriptor.as_deref(),
        }),
        Some(Err(error)) => Err(error.clone()),
        None => Err(Unread::new(Reason::FileNotFound, format!("{path} was not read"))),
    }
}

/// Returns the last component of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the manifest field that gives the location of the code.
pub(super) fn source_field(input: &PluginInput) -> &'static str {
    match input.source {
        SourceInput::Inline(_) => INLINE,
        SourceInput::ConfigMap { .. } => "spec.source.configMapKeyRef",
        SourceInput::Path(_) => PATH,
        SourceInput::Image { .. } => IMAGE,
    }
}

/// Finds the code of a plugin.
///
/// # Errors
/// If the code is not available.
pub(super) fn find_code<'a>(inputs: &'a Inputs, input: &'a PluginInput) -> Result<FoundCode<'a>, FieldFault> {
    let field = source_field(input).to_owned();
    match &input.source {
        SourceInput::Inline(text) => {
            let file_name = if input.wrapper.is_some() { "plugin" } else { "index.js" }.to_owned();
            Ok(FoundCode { text, file_name, folder: None, siblings: "", descriptor: None })
        }
        SourceInput::ConfigMap { name, key } => {
            let text = values::config_map(inputs, &input.key.namespace, name, key).map_err(|(r, m)| (r, field, m))?;
            Ok(FoundCode { text, file_name: key.clone(), folder: None, siblings: "", descriptor: None })
        }
        SourceInput::Path(path) => file_code(&inputs.files, path).map_err(|why| (why.reason, field, why.message)),
        SourceInput::Image { .. } => Err((Reason::FileNotFound, field, "only pods have the image".into())),
    }
}

/// What is needed to judge a plugin's code: the manifest's requirements, the field to report, and which code is still
/// being parsed.
pub(super) struct WantedCode<'a> {
    /// Manifest field that contains or names the code.
    pub(super) field: &'static str,
    /// Digest that the code must have, in hexadecimal; `None` accepts any code.
    pub(super) sha256: Option<&'a str>,
    /// Protocol that the manifest requests.
    pub(super) protocol: ProtocolSetting,
    /// Type of the plugin.
    pub(super) kind: PluginKind,
    /// Whether a worker runs the script repeatedly.
    pub(super) reuse: bool,
    /// Phases that the code must support; `None` accepts every combination.
    pub(super) phases: Option<&'a [Phase]>,
    /// Keys of code that is being parsed for the first time.
    pub(super) parsing: &'a BTreeSet<String>,
}

/// What a plan records about a plugin's code.
pub(super) struct JudgedCode {
    /// SHA-256 digest of the text, in hexadecimal; empty if only the gateway can read the code.
    pub(super) digest: String,
    /// File name under which workers load the code.
    pub(super) file_name: String,
    /// Protocol of the code.
    pub(super) protocol: Protocol,
    /// Phases that the code serves.
    pub(super) phases: Vec<Phase>,
}

/// Checks that code meets the manifest's requirements, using the facts that parsing found.
///
/// # Errors
/// If the code has another digest than the manifest requires, has not been parsed, does not parse, or does not export
/// what the manifest requires; and if the manifest asks for `reuse` of an ES module.
pub(super) fn judge<'f>(
    wanted: &WantedCode<'_>,
    code: &FoundCode<'_>,
    facts: &'f BTreeMap<String, CodeFacts>,
) -> Result<(JudgedCode, &'f CodeFacts), FieldFault> {
    let digest = sha256_hex(code.text.as_bytes());
    wanted.check_digest(&digest)?;
    let key = code_key(&digest, &code.file_name);
    let facts = facts.get(&key).ok_or_else(|| wanted.not_parsed(&key))?;
    wanted.check_syntax(facts, &code.file_name)?;
    let (protocol, phases) = match wanted.kind {
        PluginKind::Middleware => {
            let protocol = wanted.protocol(facts)?;
            (protocol, wanted.phases(protocol, facts)?)
        }
        typed => {
            wanted.check_typed(typed, facts)?;
            (Protocol::Module, Vec::new())
        }
    };
    let file_name = loaded_name(&code.file_name, facts);
    wanted.check_reuse(&file_name)?;
    Ok((JudgedCode { digest, file_name, protocol, phases }, facts))
}

/// Replaces the extension `.js` by `.mjs` or `.cjs`, and `.ts` by `.mts`, so that neither a `package.json` nor the version
/// of Node.js decides how the code is loaded.
fn loaded_name(file_name: &str, facts: &CodeFacts) -> String {
    match file_name.rsplit_once('.') {
        Some((stem, "js")) => format!("{stem}.{}", if facts.is_module { "mjs" } else { "cjs" }),
        Some((stem, "ts")) => format!("{stem}.mts"),
        _ => file_name.to_owned(),
    }
}

impl WantedCode<'_> {
    /// Checks that the code has the digest that the manifest names, if any.
    pub(super) fn check_digest(&self, digest: &str) -> Result<(), FieldFault> {
        match self.sha256.filter(|wanted| *wanted != digest) {
            Some(wanted) => {
                let message = format!(
                    "the code's SHA-256 is {digest}, not {wanted:.12}...: put the right one, or the right code"
                );
                Err((Reason::DigestMismatch, "spec.sha256".into(), message))
            }
            None => Ok(()),
        }
    }

    /// Returns the fault to report for code without facts: either the code is still being parsed, or the parser could
    /// not run or did not finish.
    fn not_parsed(&self, key: &str) -> FieldFault {
        if self.parsing.contains(key) {
            return (Reason::Pending, self.field.into(), "the code is being parsed".into());
        }
        let message = "the parser could not be asked yet, or did not get through the code in time: this is tried again";
        (Reason::Unreadable, self.field.into(), message.into())
    }

    /// Checks that the code parses. Unless the code is inline, the position of an error has the form
    /// `file:line:column`, because terminals turn it into a link.
    fn check_syntax(&self, facts: &CodeFacts, file_name: &str) -> Result<(), FieldFault> {
        let Some(error) = &facts.error else { return Ok(()) };
        let place = match (error.line, error.column) {
            (0, _) => String::new(),
            (line, column) if self.field == INLINE => format!("line {line}, column {column}: "),
            (line, column) => format!("{file_name}:{line}:{column}: "),
        };
        Err((Reason::SyntaxError, self.field.into(), format!("{place}{}", error.message)))
    }

    /// Checks that a script with `reuse` is CommonJS, because a process evaluates an ES module only once.
    fn check_reuse(&self, file_name: &str) -> Result<(), FieldFault> {
        if !self.reuse || !(file_name.ends_with(".mjs") || is_typescript(file_name)) {
            return Ok(());
        }
        let message = "reuse runs CommonJS, and this is an ES module: use require in the place of import and of await at \
                       top level, or export a function and write protocol: Module";
        Err((Reason::InvalidConfig, "spec.reuse".into(), message.into()))
    }

    /// Checks that the code of a plugin that is no middleware exports what its type requires. A factory or an object can
    /// have the functions too, which only shows when the code runs.
    fn check_typed(&self, kind: PluginKind, facts: &CodeFacts) -> Result<(), FieldFault> {
        if matches!(self.protocol, ProtocolSetting::Once | ProtocolSetting::Lines) {
            let message = format!("type {} needs protocol Module", kind.as_str());
            return Err((Reason::InvalidConfig, "spec.protocol".into(), message));
        }
        let exports = |name: &str| facts.exports.iter().any(|export| export == name);
        if ["default", "createPlugin", "*"].into_iter().any(exports) {
            return Ok(());
        }
        match kind.required_exports().iter().find(|names| !names.iter().any(|name| exports(name))) {
            Some(missing) => Err((Reason::UnsupportedExports, self.field.into(), not_typed(facts, missing, kind))),
            None => Ok(()),
        }
    }

    /// Returns the protocol of the code. For `Auto`, the exports decide: CommonJS and code that exports nothing can be
    /// scripts.
    fn protocol(&self, facts: &CodeFacts) -> Result<Protocol, FieldFault> {
        match self.protocol {
            ProtocolSetting::Once => Ok(Protocol::Once),
            ProtocolSetting::Lines => Ok(Protocol::Lines),
            ProtocolSetting::Module | ProtocolSetting::Auto if exports_called(facts) => Ok(Protocol::Module),
            // Nobody writes `export` in a script, because nothing reads what a script exports.
            ProtocolSetting::Auto if facts.is_module && !facts.exports.is_empty() => {
                Err((Reason::UnsupportedExports, self.field.into(), not_called(facts)))
            }
            ProtocolSetting::Auto => Ok(Protocol::Once),
            ProtocolSetting::Module => Err((Reason::UnsupportedExports, "spec.protocol".into(), not_called(facts))),
        }
    }

    /// Returns the phases that the plugin serves: those in the manifest, or all that its code supports.
    fn phases(&self, protocol: Protocol, facts: &CodeFacts) -> Result<Vec<Phase>, FieldFault> {
        let exports = |name: &str| facts.exports.iter().any(|e| e == name);
        let serves = |phase: Phase| {
            protocol != Protocol::Module
                || exports("default")
                || exports(if phase == Phase::Request { "onRequest" } else { "onResponse" })
        };
        let both = [Phase::Request, Phase::Response];
        let Some(written) = self.phases else {
            return Ok(both.into_iter().filter(|p| serves(*p)).collect());
        };
        match written.iter().find(|phase| !serves(**phase)) {
            Some(phase) => {
                let message =
                    format!("its code exports nothing for phase {phase:?}: export default or take the phase out");
                Err((Reason::UnsupportedExports, "spec.phases".into(), message))
            }
            None => Ok(both.into_iter().filter(|p| written.contains(p)).collect()),
        }
    }
}
