//! Plugins that are programs of any language: which ones a gateway allows, and the interpreters that run them.

use std::collections::BTreeMap;

use super::FieldFault;
use super::plugin_code::{self, FoundCode, JudgedCode, WantedCode, file_name};
use crate::config::input::{PluginInput, ProtocolSetting, WrapperInput};
use crate::domain::digest::sha256_hex;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{GatewayPlan, WrapperPlan, program_digest};
use crate::domain::plugin::{Encoding, Phase, Protocol};
use crate::domain::ports::CodeFacts;
use crate::domain::reason::Reason;

/// The manifest field of a wrapper.
const WRAPPER: &str = "spec.wrapper";
/// The manifest field of its program.
const COMMAND: &str = "spec.wrapper.command";
/// The versions of the contract, all of which mean the same.
const VERSIONS: [&str; 2] = ["1", "1.0"];

/// Returns all settings of a plugin that a wrapper cannot have.
pub(super) fn faults(input: &PluginInput) -> Vec<FieldFault> {
    let Some(wrapper) = &input.wrapper else { return Vec::new() };
    let version = wrapper.protocol_version.as_deref().filter(|version| !VERSIONS.contains(version));
    let fault = |reason, field: &str, message: String| (reason, field.to_owned(), message);
    let faults = [
        (!input.kind.can_be_wrapper()).then(|| {
            let message = format!("type {} needs callbacks, which a wrapper does not have", input.kind.as_str());
            fault(Reason::InvalidDescriptor, WRAPPER, message)
        }),
        version.map(|version| {
            let message = format!("{version} is no version of the contract: write \"1.0\"");
            fault(Reason::InvalidDescriptor, "spec.wrapper.protocolVersion", message)
        }),
        (input.protocol == ProtocolSetting::Module).then(|| {
            let message = "a wrapper exports no functions: write Once or Lines".to_owned();
            fault(Reason::InvalidConfig, "spec.protocol", message)
        }),
        input.reuse.then(|| {
            let message = "only JavaScript runs again in one process: write protocol: Lines".to_owned();
            fault(Reason::InvalidConfig, "spec.reuse", message)
        }),
        (input.kind.is_stage() && input.encoding == Encoding::MessagePack).then(|| {
            let message = format!("type {} speaks JSON: leave the field out", input.kind.as_str());
            fault(Reason::InvalidConfig, "spec.encoding", message)
        }),
        (!input.egress.is_empty())
            .then(|| fault(Reason::InvalidConfig, "spec.egress", "a wrapper has no network; use a Module".to_owned())),
    ];
    faults.into_iter().flatten().collect()
}

/// Returns how the gateway starts the program of a plugin; `None` if its code is JavaScript.
///
/// # Errors
/// If the gateway does not allow the wrapper, or has no such interpreter.
pub(super) fn compile(input: &PluginInput, gateway: &GatewayPlan) -> Result<Option<WrapperPlan>, FieldFault> {
    let Some(WrapperInput { interpreter, args, .. }) = &input.wrapper else { return Ok(None) };
    if !gateway.runtime.allowed_wrappers.contains(&input.key) {
        return Err((Reason::WrapperNotAllowed, WRAPPER.to_owned(), not_allowed(&input.key, &gateway.key)));
    }
    let interpreter = interpreter.as_ref().map(|name| {
        let known = gateway.runtime.interpreters.iter().find(|known| known.name == *name);
        known.cloned().ok_or_else(|| {
            let message = format!(
                "{name} is neither the file of the source nor one of spec.plugins.interpreters of gateway {}",
                gateway.key
            );
            (Reason::InvalidDescriptor, COMMAND.to_owned(), message)
        })
    });
    Ok(Some(WrapperPlan { interpreter: interpreter.transpose()?, args: args.clone() }))
}

fn not_allowed(plugin: &ObjectKey, gateway: &ObjectKey) -> String {
    let name = if plugin.namespace == gateway.namespace { plugin.name.clone() } else { plugin.to_string() };
    format!("wrapper {name} is not in spec.plugins.allowedWrappers of gateway {gateway}")
}

/// Checks that code meets the manifest's requirements. Returns the facts that parsing found too, if the code is JavaScript.
///
/// # Errors
/// As [`plugin_code::judge`], or if the code of a wrapper is not what its command needs.
pub(super) fn judge<'f>(
    wanted: &WantedCode<'_>,
    wrapper: Option<&WrapperPlan>,
    code: &FoundCode<'_>,
    facts: &'f BTreeMap<String, CodeFacts>,
) -> Result<(JudgedCode, Option<&'f CodeFacts>), FieldFault> {
    match wrapper {
        Some(wrapper) => Ok((judge_program(wanted, wrapper, code)?, None)),
        None => plugin_code::judge(wanted, code, facts).map(|(judged, facts)| (judged, Some(facts))),
    }
}

/// Checks that the code of a wrapper is what its command needs: a program, or the text of an interpreter.
///
/// # Errors
/// If it is not, or it has another digest than the manifest requires.
fn judge_program(
    wanted: &WantedCode<'_>,
    wrapper: &WrapperPlan,
    code: &FoundCode<'_>,
) -> Result<JudgedCode, FieldFault> {
    let (digest, program) = (sha256_hex(code.text.as_bytes()), program_digest(code.text));
    wanted.check_digest(program.unwrap_or(&digest))?;
    let file = file_name(&code.file_name);
    let fault = match (&wrapper.interpreter, program) {
        (None, None) if code.text.starts_with("#!") => {
            Some(format!("{file} begins with #!: write its interpreter as command and the file in args"))
        }
        (None, None) => Some(format!("{file} is not a program for Linux (ELF)")),
        (Some(interpreter), Some(_)) => {
            Some(format!("{file} is a program, which {} cannot run: write its name as command", interpreter.name))
        }
        _ => None,
    };
    if let Some(message) = fault {
        return Err((Reason::InvalidDescriptor, COMMAND.to_owned(), message));
    }
    let protocol = if wanted.protocol == ProtocolSetting::Lines { Protocol::Lines } else { Protocol::Once };
    let phases: &[Phase] = if wanted.kind.is_middleware() { &[Phase::Request, Phase::Response] } else { &[] };
    let phases = phases.iter().copied();
    let phases = phases.filter(|phase| wanted.phases.is_none_or(|written| written.contains(phase)));
    Ok(JudgedCode { digest, file_name: code.file_name.clone(), protocol, phases: phases.collect() })
}
