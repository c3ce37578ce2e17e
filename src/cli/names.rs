//! Names of objects of Kubernetes on the command line.

use anyhow::bail;

use crate::domain::ids::ObjectKey;

/// Parses the name of a namespace, an RFC 1123 label.
pub fn label(written: &str) -> Result<String, String> {
    match is_label(written) {
        true => Ok(written.to_owned()),
        false => Err(format!("{written:?} is not such a name: lower-case letters, digits and '-', at most 63")),
    }
}

/// Parses the name of an MCPGateway, whose definition has the same rule.
pub fn gateway(written: &str) -> Result<String, String> {
    letter_first(written, 48)
}

/// Parses the name of a Plugin, whose definition has the same rule.
pub fn plugin(written: &str) -> Result<String, String> {
    letter_first(written, 63)
}

fn letter_first(written: &str, most: usize) -> Result<String, String> {
    match is_label(written) && written.len() <= most && written.starts_with(|c: char| c.is_ascii_lowercase()) {
        true => Ok(written.to_owned()),
        false => Err(format!(
            "{written:?} is not such a name: lower-case letters, digits and '-', a letter first, at most {most}"
        )),
    }
}

/// Whether this is an RFC 1123 label.
pub fn is_label(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_bounded = name.len() <= 63 && name.starts_with(is_word) && name.ends_with(is_word);
    is_bounded && name.chars().all(|c| is_word(c) || c == '-')
}

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
    use clap::Parser;

    use super::*;
    use crate::cli::args::Args;

    #[test]
    fn a_gateway_whose_name_no_object_can_have_does_not_start() {
        let parsed = |name: &str, namespace: &str| {
            let arguments = ["hawsepipe", "gateway", "--name", name, "--namespace", namespace];
            Args::try_parse_from(arguments).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(parsed("main-1", "mcp"), Ok(()));
        let long = "m".repeat(49);
        let wrong =
            [("Main X", "mcp"), ("", "mcp"), ("main", "m.c"), ("main-", "mcp"), ("1main", "mcp"), (&long, "mcp")];
        for (name, namespace) in wrong {
            let error = parsed(name, namespace).unwrap_err();
            assert!(error.contains("is not such a name"), "{name} {namespace}: {error}");
        }
    }

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
