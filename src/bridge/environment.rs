//! The environment that the server inherits, whose values may be secrets.

use std::ffi::OsString;

use crate::domain::secret::{Mask, SecretText};

/// Variables whose values are no secrets but occur in messages: folders, names and versions.
const PLAIN: [&str; 16] = [
    "HOME",
    "HOSTNAME",
    "LANG",
    "LOGNAME",
    "NODE_ENV",
    "NODE_VERSION",
    "OLDPWD",
    "PATH",
    "PWD",
    "PYTHON_VERSION",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "YARN_VERSION",
];
/// The beginning of variables that the cluster sets in each container.
const OF_CLUSTER: &str = "KUBERNETES_";

/// Returns a mask of the values of all variables that are not known to be plain. The bridge cannot tell which of them come
/// from Secrets.
pub(super) fn mask(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Mask {
    let is_plain = |name: &str| PLAIN.contains(&name) || name.starts_with(OF_CLUSTER);
    let values = variables.into_iter().filter(|(name, _)| !is_plain(&name.to_string_lossy()));
    let values: Vec<_> = values.map(|(_, value)| SecretText::new(value.to_string_lossy())).collect();
    Mask::of(&values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hidden_unless_their_variable_is_plain() {
        let variables = [("API_KEY", "swordfish"), ("HOME", "/home/node"), ("KUBERNETES_PORT", "tcp://10.0.0.1:443")];
        let mask = mask(variables.map(|(name, value)| (name.into(), value.into())));
        let said = "swordfish in /home/node at tcp://10.0.0.1:443";
        assert_eq!(mask.masked(said), "[secret] in /home/node at tcp://10.0.0.1:443");
    }
}
