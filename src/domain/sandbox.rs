//! The sandbox of plugins: how much it matters, and what a kernel cannot enforce of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How much the sandbox matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SandboxMode {
    /// A plugin runs in the whole of it or not at all.
    Required,
    /// As much of it as the kernel can enforce.
    BestEffort,
}

/// A property that takes a kernel which can enforce it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SandboxProperty {
    /// A plugin reads its own folder and what Node.js is made of, and runs no other program (Landlock).
    Files,
    /// A plugin opens no socket, starts no process, signals nobody and writes nowhere (seccomp).
    SystemCalls,
}

impl SandboxProperty {
    /// What plugins may do where it is not enforced.
    fn without(self) -> &'static str {
        match self {
            Self::Files => "plugins can read every file that the gateway's user can",
            Self::SystemCalls => "plugins can open sockets, start processes and write files as the gateway's user can",
        }
    }
}

/// A property that a kernel cannot enforce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLack {
    /// Which one.
    pub property: SandboxProperty,
    /// Why not, for people.
    pub cause: String,
}

impl fmt::Display for SandboxLack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}): {}", self.property, self.cause, self.property.without())
    }
}

/// How it stands with the sandbox of a gateway process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxState {
    /// Whether a plugin runs only where nothing is lacking.
    pub required: bool,
    /// What the kernel cannot enforce.
    pub lacks: Vec<SandboxLack>,
}

impl SandboxState {
    /// Why no plugin runs, if so.
    pub fn refusal(&self) -> Option<String> {
        (self.required && !self.lacks.is_empty()).then(|| {
            format!(
                "the sandbox is required, and the kernel does not enforce {}; plugins.sandbox: BestEffort runs them \
                 without",
                self.lacking()
            )
        })
    }

    /// What is lacking, for people.
    pub fn lacking(&self) -> String {
        self.lacks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// Whether a plugin must not have a variable: it would control how Node.js or its libraries start, before any code of
/// the plugin runs.
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
