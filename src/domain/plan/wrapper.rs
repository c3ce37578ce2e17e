//! Plugins that are programs of any language.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The argument that stands for the path of the plugin's code.
pub const ENTRY: &str = "{entry}";
/// The beginning of the text of a program. Its SHA-256 in hex follows.
const PROGRAM: &str = "program sha256:";

/// How the program of a plugin is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrapperPlan {
    /// The program that runs the plugin's code; `None` if the code is the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<InterpreterPlan>,
    /// The arguments of the program. [`ENTRY`] in them is replaced by the path of the code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

/// A program that runs the code of plugins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterpreterPlan {
    /// The name by which plugins refer to it.
    pub name: String,
    /// The program: an absolute path, or a name that is looked up in PATH.
    pub path: PathBuf,
    /// Absolute paths that the program can read, in addition to its own libraries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_paths: Vec<PathBuf>,
}

/// Returns the text that stands for a program in the code of a plan. A program can be too large for a plan, so that the gateway
/// copies its file.
pub fn program_text(sha256: &str) -> String {
    format!("{PROGRAM}{sha256}\n")
}

/// Returns the SHA-256 of the program that this text stands for, in hex; `None` if the text is code.
pub fn program_digest(text: &str) -> Option<&str> {
    text.strip_prefix(PROGRAM).map(str::trim_end).filter(|digest| digest.len() == 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stands_for_a_program_or_is_code() {
        let digest = "0".repeat(64);
        assert_eq!(program_digest(&program_text(&digest)), Some(&*digest));
        for code in ["", "import sys\n", "program sha256:12\n"] {
            assert_eq!(program_digest(code), None, "{code}");
        }
    }
}
