//! The programs on the SDK for Rust.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use super::checkout;

/// The programs of `tests/conformance/rmcp`, built beside the gateway's own.
pub fn fixture_program() -> PathBuf {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let target = Path::new(env!("CARGO_BIN_EXE_hawsepipe")).ancestors().nth(2).unwrap().join("conformance");
        let manifest = checkout().join("tests/conformance/rmcp/Cargo.toml");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--quiet", "--manifest-path"])
            .arg(manifest)
            .arg("--target-dir")
            .arg(&target)
            // For the test program alone (`.ci/timed`).
            .env_remove("RUSTC_BOOTSTRAP")
            .status();
        assert!(built.unwrap().success(), "the programs on the SDK for Rust cannot be built");
        target.join("debug/hawsepipe-conformance")
    });
    BUILT.clone()
}
