//! Parses the names of objects on the command line.

use crate::domain::ids::{Kind, ObjectId, ObjectKey};

/// Parses `[KIND/]NAMESPACE/NAME`. Kinds have the spellings that kubectl accepts: singular, plural or short name.
///
/// # Errors
/// If `text` does not have this form. The message describes the expected form.
pub fn object(text: &str) -> Result<ObjectId, String> {
    let parts: Vec<_> = text.split('/').collect();
    let (kind, namespace, name) = match parts[..] {
        [namespace, name] => (Kind::MCPUpstream, namespace, name),
        [word, namespace, name] => (kind(word)?, namespace, name),
        _ => return Err("give it as [KIND/]NAMESPACE/NAME, such as finance/ledger or plugin/finance/redact".into()),
    };
    Ok(ObjectId::new(kind, checked(namespace, name)?))
}

/// Parses `NAMESPACE/NAME`.
///
/// # Errors
/// If `text` does not have this form. The message describes the expected form.
pub fn key(text: &str) -> Result<ObjectKey, String> {
    let (namespace, name) = text.split_once('/').ok_or("give it as NAMESPACE/NAME, such as mcp/shared")?;
    checked(namespace, name)
}

fn kind(word: &str) -> Result<Kind, String> {
    match word.to_ascii_lowercase().as_str() {
        "mcpupstream" | "mcpupstreams" | "mcpup" => Ok(Kind::MCPUpstream),
        "plugin" | "plugins" | "plug" => Ok(Kind::Plugin),
        _ => Err(format!("no Secrets are granted for a {word:?}: KIND is mcpupstream or plugin")),
    }
}

/// Checks a namespace and a name, which become parts of the Role's name.
fn checked(namespace: &str, name: &str) -> Result<ObjectKey, String> {
    let of_a_name = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    match [namespace, name].into_iter().find(|word| word.is_empty() || !word.bytes().all(of_a_name)) {
        Some(word) => Err(format!("{word:?} is not a name: lower-case letters, digits and -")),
        None => Ok(ObjectKey::new(namespace, name)),
    }
}
