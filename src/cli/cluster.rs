//! Names of cluster objects on the command line.

use anyhow::bail;

use crate::domain::ids::ObjectKey;

/// Returns the key of the object that `text` names: NAME or NAMESPACE/NAME. Without a namespace in `text`, the object
/// is in `namespace`, the value of `--namespace`, or else in `default`, the namespace of the kubeconfig's context.
///
/// # Errors
/// If `text` and `--namespace` name different namespaces.
pub fn key(text: &str, namespace: Option<&str>, default: &str) -> anyhow::Result<ObjectKey> {
    match (text.split_once('/'), namespace) {
        (Some((written, _)), Some(other)) if written != other => {
            bail!("{text} is not in namespace {other}: give the namespace once")
        }
        (Some((written, name)), _) => Ok(ObjectKey::new(written, name)),
        (None, namespace) => Ok(ObjectKey::new(namespace.unwrap_or(default), text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_named_with_its_namespace_or_without() {
        let named = |text, namespace| key(text, namespace, "team").map(|key| key.to_string()).ok();
        assert_eq!(named("main", None).as_deref(), Some("team/main"));
        assert_eq!(named("main", Some("mcp")).as_deref(), Some("mcp/main"));
        assert_eq!(named("mcp/main", None).as_deref(), Some("mcp/main"));
        assert_eq!(named("mcp/main", Some("mcp")).as_deref(), Some("mcp/main"));
        assert_eq!(named("mcp/main", Some("other")), None);
    }
}
