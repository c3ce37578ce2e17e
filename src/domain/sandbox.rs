//! The sandbox of plugins: whether it is required, and what a kernel cannot enforce of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How much of the sandbox a plugin needs in order to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SandboxMode {
    /// A plugin runs in the complete sandbox or not at all.
    Required,
    /// A plugin runs in as much of the sandbox as the kernel can enforce.
    BestEffort,
}

/// A property of the sandbox. Enforcing it needs support from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum SandboxProperty {
    /// A plugin can read only its own folder and the files of Node.js, and can run no other program (Landlock).
    Files,
    /// A plugin cannot open sockets, start processes, signal other processes or write files (seccomp).
    SystemCalls,
}

impl SandboxProperty {
    /// Returns what plugins can do if the property is not enforced.
    fn without(self) -> &'static str {
        match self {
            Self::Files => "plugins can read every file that the gateway's user can",
            Self::SystemCalls => "plugins can open sockets, start processes and write files as the gateway's user can",
        }
    }
}

/// A property of the sandbox that the kernel cannot enforce, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub struct SandboxLack {
    /// The property that is not enforced.
    pub property: SandboxProperty,
    /// Why the kernel cannot enforce the property, as text for users.
    pub cause: String,
}

impl fmt::Display for SandboxLack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}): {}", self.property, self.cause, self.property.without())
    }
}

/// The state of the sandbox of a gateway process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxState {
    /// Whether plugins run only if the kernel enforces the complete sandbox.
    pub required: bool,
    /// The properties that the kernel cannot enforce.
    pub lacks: Vec<SandboxLack>,
}

impl SandboxState {
    /// Returns why no plugin can run; `None` if plugins can run.
    pub fn refusal(&self) -> Option<String> {
        (self.required && !self.lacks.is_empty()).then(|| {
            format!(
                "the sandbox is required, and the kernel does not enforce {}; plugins.sandbox: BestEffort runs them \
                 without",
                self.lacking()
            )
        })
    }

    /// Returns the properties that the kernel cannot enforce, as text for users.
    pub fn lacking(&self) -> String {
        self.lacks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// Whether plugins must not have the environment variable `name`, because it controls how Node.js or its libraries
/// start, before any code of the plugin runs.
pub fn is_kept_from_plugins(name: &str) -> bool {
    const NAMES: [&str; 5] = ["NODE_OPTIONS", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", "GLIBC_TUNABLES"];
    NAMES.contains(&name) || name.starts_with("LD_") || name.starts_with("DYLD_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_required_and_lacking_refuses() {
        let lack = SandboxLack { property: SandboxProperty::Files, cause: "no Landlock".into() };
        assert_eq!(SandboxState { required: true, lacks: Vec::new() }.refusal(), None);
        assert_eq!(SandboxState { required: false, lacks: vec![lack.clone()] }.refusal(), None);
        let message = SandboxState { required: true, lacks: vec![lack] }.refusal().unwrap();
        assert!(message.contains("Files (no Landlock): plugins can read"), "{message}");
    }
}
