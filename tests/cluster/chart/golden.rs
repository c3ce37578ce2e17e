//! Files that are written from the charts. `make charts` writes them anew.

use std::path::Path;

/// Holds a file against what it should be; with `UPDATE_GOLDEN=1` writes it.
pub fn golden(file: &Path, expected: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return std::fs::write(file, expected).unwrap();
    }
    let kept = std::fs::read_to_string(file).unwrap_or_default();
    assert!(kept == expected, "{} is stale: run `make charts`", file.display());
}
