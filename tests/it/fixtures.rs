//! Where the real parts are. `make setup` puts them there.

use std::path::{Path, PathBuf};

/// Where `servers/leaky.mjs` can put a secret in an answer; `error` is a JSON-RPC error.
pub const LEAKS: [&str; 16] = [
    "text",
    "mirror",
    "wrapped",
    "structured",
    "name",
    "meta",
    "block-meta",
    "annotations",
    "unknown",
    "blocks",
    "failed",
    "error",
    "array",
    "scalar",
    "nulls",
    "escaped",
];
/// One more, with a key twice: readers differ in what it says.
pub const DOUBLED: &str = "doubled";

/// The checkout.
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Names the built program where it lies somewhere else than it was built.
pub const PROGRAM: &str = "HAWSEPIPE_TEST_PROGRAM";

/// The built program.
pub fn program() -> PathBuf {
    std::env::var_os(PROGRAM).map_or_else(|| env!("CARGO_BIN_EXE_hawsepipe").into(), PathBuf::from)
}

/// A file of the packages that `tests/fixtures/package.json` names.
pub fn node_module(path: &str) -> PathBuf {
    existing(checkout().join("tests/fixtures/node_modules").join(path))
}

/// A Python with the packages of `tests/fixtures/requirements.txt`.
pub fn python() -> PathBuf {
    let named = std::env::var_os("HAWSEPIPE_TEST_PYTHON").map(PathBuf::from);
    existing(named.unwrap_or_else(|| checkout().join(".cache/venv/bin/python")))
}

/// A file of `tests/fixtures`.
pub fn fixture(path: &str) -> PathBuf {
    existing(checkout().join("tests/fixtures").join(path))
}

/// A program that `make setup` has built of a Go module in `tests/fixtures`.
pub fn go_program(name: &str) -> PathBuf {
    existing(checkout().join(".cache").join(name))
}

fn existing(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "{} is not there: run `make setup`", path.display());
    path
}
