//! Turns a document of one of Hawsepipe's kinds into the compiler's input. For an invalid document, the input is the
//! part that still takes effect, if any.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::place::ManifestSource;
use super::{chain, gateway, invalid_chain, not_served, pipeline, plugin, section, upstream};
use crate::api::check;
use crate::config::input::{
    ChainInput, GatewayInput, InvalidObject, Labels, PipelineInput, PluginInput, SectionInput, UpstreamInput,
};
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// An object in the form that the compiler reads.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "the others are moved out of it at once")]
pub enum Lowered {
    /// An MCPGateway that passed its check.
    Gateway(GatewayInput),
    /// An MCPUpstream that passed its check.
    Upstream(UpstreamInput),
    /// A Plugin that passed its check.
    Plugin(PluginInput),
    /// A PluginChain that passed its check.
    Chain(ChainInput),
    /// A ToolPipeline that passed its check.
    Pipeline(PipelineInput),
    /// A SectionBinding that passed its check.
    Section(SectionInput),
    /// An object of a kind that is accepted but has no effect in this version.
    NotServed,
}

/// Returns whether an invalid object asks to be switched off (`true`) or on (`false`), even if other fields are
/// invalid. Returns `None` if the object asks for neither. Plugins are never considered switched off, because a
/// mistaken edit could otherwise disable a Guard.
fn is_off(kind: Kind, document: &Value) -> Option<bool> {
    match kind {
        Kind::MCPUpstream | Kind::ToolPipeline => document.pointer("/spec/enabled")?.as_bool().map(|enabled| !enabled),
        Kind::MCPGateway => document.pointer("/spec/stopped")?.as_bool(),
        _ => None,
    }
}

/// Returns the labels of an object; `None` if they cannot be read.
fn labels(document: &Value) -> Option<Labels> {
    match document.pointer("/metadata/labels") {
        None | Some(Value::Null) => Some(Labels::new()),
        Some(labels) => Labels::deserialize(labels).ok(),
    }
}

/// Checks and lowers an object of one of Hawsepipe's kinds. `previous` is the object's last accepted form; rules about
/// changes compare the object with it. For a valid object, the Problems are about fields that are null or that cannot
/// be served; for an invalid object, they include the faults that make it invalid.
pub fn document(
    id: &ObjectId,
    document: &Value,
    previous: Option<&Value>,
    place: ManifestSource<'_>,
) -> (Result<Lowered, InvalidObject>, Vec<Problem>) {
    let mut problems = check::check(id, document, previous);
    let document = &*check::without_nulls(id, document);
    let is_broken = problems.iter().any(Problem::is_error);
    let lowered = if is_broken { Err(Vec::new()) } else { lower(id, document, place) };
    match lowered {
        Ok((lowered, more)) => {
            problems.extend(more);
            (Ok(lowered), problems)
        }
        Err(more) => {
            problems.extend(more);
            let is_chain = id.kind == Kind::PluginChain;
            let chain = is_chain.then(|| invalid_chain(&id.key, document, &problems)).flatten();
            let (labels, off) = (labels(document), is_off(id.kind, document));
            (Err(InvalidObject { id: id.clone(), chain, labels, off }), problems)
        }
    }
}

/// Lowers an object that passed its check.
///
/// # Errors
/// Returns Problems about values that do not fit into the Rust types of their fields, such as a negative size.
fn lower(id: &ObjectId, document: &Value, place: ManifestSource<'_>) -> Result<(Lowered, Vec<Problem>), Vec<Problem>> {
    Ok(match id.kind {
        Kind::MCPGateway => typed(id, document, |object| gateway(&object, place), Lowered::Gateway)?,
        Kind::MCPUpstream => typed(id, document, |object| upstream(&object, place), Lowered::Upstream)?,
        Kind::Plugin => typed(id, document, |object| plugin(&object, place), Lowered::Plugin)?,
        Kind::PluginChain => typed(id, document, |object| chain(&object), Lowered::Chain)?,
        Kind::ToolPipeline => typed(id, document, |object| pipeline(&object), Lowered::Pipeline)?,
        Kind::SectionBinding => typed(id, document, |object| (section(&object), Vec::new()), Lowered::Section)?,
        _ => (Lowered::NotServed, vec![not_served(id)]),
    })
}

fn typed<T: DeserializeOwned, I>(
    id: &ObjectId,
    document: &Value,
    lower: impl FnOnce(T) -> (I, Vec<Problem>),
    wrap: impl FnOnce(I) -> Lowered,
) -> Result<(Lowered, Vec<Problem>), Vec<Problem>> {
    let typed = T::deserialize(document).map_err(|error| {
        vec![Problem::error(Reason::InvalidObject, id.clone(), "", format!("cannot be read: {error}"))]
    })?;
    let (input, problems) = lower(typed);
    Ok((wrap(input), problems))
}
