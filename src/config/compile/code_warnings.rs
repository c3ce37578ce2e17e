//! Warnings about plugin code that is accepted, but does not do what its author probably meant.

use super::exports::nearly_called;
use super::id;
use super::plugin_code::WantedCode;
use crate::config::input::ProtocolSetting;
use crate::domain::ids::Kind;
use crate::domain::plan::PluginPlan;
use crate::domain::plugin::Protocol;
use crate::domain::ports::CodeFacts;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Warns about environment variables that the code reads but `spec.env` does not list, and about CommonJS that runs as a
/// script although the name of an export is only misspelt.
pub(super) fn warn(wanted: &WantedCode<'_>, plugin: &PluginPlan, facts: &CodeFacts, problems: &mut Vec<Problem>) {
    let mut warn = |reason, field, message| {
        problems.push(Problem::warning(reason, id(Kind::Plugin, &plugin.key), field, message));
    };
    for name in facts.reads_env.iter().filter(|name| plugin.env.iter().all(|e| e.name != **name)) {
        let message =
            format!("its code reads process.env.{name}, which it is not given: add `- name: {name}` to spec.env");
        warn(Reason::InvalidConfig, "spec.env", message);
    }
    if wanted.protocol == ProtocolSetting::Auto
        && plugin.protocol == Protocol::Once
        && let Some(message) = nearly_called(facts)
    {
        warn(Reason::UnsupportedExports, wanted.field, message);
    }
}
