//! How plugins are described: by the object, and by the file `plugin.json` beside the code. What the code says itself is known only
//! when it is loaded.

use super::FieldFault;
use super::plugin_code::FoundCode;
use crate::domain::descriptor::{Descriptor, DescriptorFault};
use crate::domain::plan::PluginPlan;
use crate::domain::ports::CodeFacts;
use crate::domain::reason::Reason;

/// The file that describes a plugin.
const FILE: &str = "plugin.json";

/// Adds to a plugin what the file beside its code says of it. Its descriptor is that of the object. `facts` are those of
/// JavaScript. For middleware, which needs no descriptor, a file that is not about it has no effect.
///
/// # Errors
/// If the file is no descriptor or is about another plugin, or if a member is wrong or is missing.
pub(super) fn describe(
    plugin: &mut PluginPlan,
    code: &FoundCode<'_>,
    facts: Option<&CodeFacts>,
) -> Result<(), FieldFault> {
    let of_file = |why| (Reason::InvalidDescriptor, FILE.to_owned(), why);
    let file = code.descriptor.map_or_else(|| Ok(Descriptor::default()), Descriptor::parse);
    let named = file.and_then(|file| file.names(&plugin.key.name, plugin.kind).map(|()| file));
    match named {
        // Several plugins that run in chains can be in one folder, and at most one of them is described.
        Ok(file) if plugin.kind.is_middleware() && (file.id.is_none() && file.name.is_none()) => {}
        Ok(file) => plugin.descriptor = std::mem::take(&mut plugin.descriptor).over(file),
        Err(_) if plugin.kind.is_middleware() => {}
        Err(why) => return Err(of_file(why)),
    }
    plugin.timeout_ms = plugin.timeout_ms.or(plugin.descriptor.valid_timeout());
    put_version(plugin);
    check(plugin, !facts.is_some_and(describes_itself))
}

/// Checks what the object says of a plugin whose code is elsewhere.
///
/// # Errors
/// If a member is wrong.
pub(super) fn describe_without_code(plugin: &mut PluginPlan) -> Result<(), FieldFault> {
    put_version(plugin);
    check(plugin, false)
}

/// Sets the version that `initialize` gets. Middleware has none, so that a new version does not start its workers anew.
fn put_version(plugin: &mut PluginPlan) {
    plugin.version = plugin.descriptor.version.clone().filter(|_| !plugin.kind.is_middleware());
}

/// With `is_whole`, the code says nothing more.
fn check(plugin: &PluginPlan, is_whole: bool) -> Result<(), FieldFault> {
    let faults = plugin.descriptor.faults(plugin.kind, plugin.wrapper.is_some(), is_whole);
    match faults.into_iter().next() {
        Some(DescriptorFault { field, message }) => Err((Reason::InvalidDescriptor, format!("spec.{field}"), message)),
        None => Ok(()),
    }
}

/// Whether code can have a function `getDescriptor`: a factory or an object only shows it when the code runs.
fn describes_itself(facts: &CodeFacts) -> bool {
    facts.exports.iter().any(|name| ["getDescriptor", "default", "createPlugin", "*"].contains(&name.as_str()))
}
