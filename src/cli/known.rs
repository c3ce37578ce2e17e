//! Errors about names that a gateway does not have, with suggestions.

use anyhow::bail;
use serde_json::Value;

use super::admin::list;
use super::args::AdminArgs;
use super::output::text;
use crate::config::nearest;

/// If a plugin filter (NAME or NAMESPACE/NAME) found nothing, checks that the gateway has such a plugin.
///
/// # Errors
/// If the gateway has no such plugin. The error suggests the most similar plugin, or lists all plugins if there are at
/// most 20.
pub async fn check_plugin(admin: &AdminArgs, wanted: Option<&str>, found: &[Value]) -> anyhow::Result<()> {
    check(admin, "Plugin", "/api/v1/plugins", "plugin", wanted.filter(|_| found.is_empty())).await
}

/// If an upstream filter found nothing, checks that the gateway has such an upstream.
///
/// # Errors
/// If the gateway has no such upstream. The error suggests the most similar upstream, or lists all upstreams if there
/// are at most 20.
pub async fn check_upstream(admin: &AdminArgs, wanted: Option<&str>, found: &[Value]) -> anyhow::Result<()> {
    check(admin, "upstream", "/api/v1/upstreams", "name", wanted.filter(|_| found.is_empty())).await
}

/// If a pipeline filter (NAME or NAMESPACE/NAME) found nothing, checks that the gateway has such a pipeline.
///
/// # Errors
/// If the gateway has no such pipeline. The error suggests the most similar one, or lists all if there are at most 20.
pub async fn check_pipeline(admin: &AdminArgs, wanted: Option<&str>, found: &[Value]) -> anyhow::Result<()> {
    check(admin, "pipeline", "/api/v1/pipelines", "pipeline", wanted.filter(|_| found.is_empty())).await
}

/// If a tool filter (the server's own name) found nothing, checks that the gateway has such a tool.
///
/// # Errors
/// If the gateway has no such tool. The error suggests the most similar tool, or lists all tools if there are at most
/// 20.
pub async fn check_tool(admin: &AdminArgs, wanted: Option<&str>, found: &[Value]) -> anyhow::Result<()> {
    let wanted = wanted.filter(|_| found.is_empty());
    if let Some(listed) = wanted {
        let tools = list(admin, "/api/v1/tools", &[], usize::MAX).await?;
        if let Some(tool) = tools.iter().find(|tool| tool["name"] == *listed && tool["upstreamName"] != *listed) {
            bail!("a tool is given by its server's own name: {}", text(&tool["upstreamName"]));
        }
    }
    check(admin, "tool", "/api/v1/tools", "upstreamName", wanted).await
}

async fn check(admin: &AdminArgs, what: &str, path: &str, member: &str, wanted: Option<&str>) -> anyhow::Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let names: Vec<_> = list(admin, path, &[], usize::MAX).await?.iter().map(|item| text(&item[member])).collect();
    let bare = |name: &str| name.rsplit('/').next().map(str::to_owned);
    if names.iter().any(|name| name == wanted || bare(name).as_deref() == Some(wanted)) {
        return Ok(());
    }
    bail!("the gateway has no {what} {wanted:?}{}", hint(wanted, &names))
}

/// Returns a hint to append to an error about an unknown name; see [`nearest::hint`]. `wanted` is NAME or NAMESPACE/NAME.
pub fn hint(wanted: &str, names: &[String]) -> String {
    let is_bare = !wanted.contains('/');
    let shown = names.iter().map(|name| match name.rsplit_once('/') {
        Some((_, bare)) if is_bare => bare,
        _ => name,
    });
    nearest::hint(wanted, &shown.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn a_slip_is_told_from_another_name() {
        let names = ["default/redact".to_owned(), "team/shout".to_owned()];
        assert_eq!(hint("redcat", &names), "; did you mean redact?");
        assert_eq!(hint("team/shuot", &names), "; did you mean team/shout?");
        assert_eq!(hint("other", &names), "; there are: redact, shout");
    }
}
