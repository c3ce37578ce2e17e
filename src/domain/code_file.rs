//! The files that can contain the code of a plugin.

use std::path::Path;

/// Whether the file can contain the code of a plugin, judged by its extension.
pub fn is_code(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ["js", "mjs", "cjs", "ts", "mts"].iter().any(|known| ending == *known))
}

/// Whether the file contains TypeScript, judged by its extension.
pub fn is_typescript(file_name: &str) -> bool {
    file_name.ends_with(".ts") || file_name.ends_with(".mts")
}
