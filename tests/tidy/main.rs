//! The layers, sizes and texts of this repository, checked by reading its files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod circles;
mod conditions;
mod engine;
mod lines;
mod links;
mod monitoring;
mod rights;
mod rows;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The most lines of a file.
const MAX_LINES: usize = 400;

/// What a folder below `src` may not name, and the rule.
const LAYERS: [(&[&str], &[&str], &str); 13] = [
    (
        &["controller"],
        &[
            "crate::source",
            "crate::node",
            "crate::upstream",
            "crate::store",
            "crate::identity",
            "crate::model",
            "crate::engine",
            "crate::web",
            "crate::cli",
            "axum",
        ],
        "the operator calls no MCP server and runs no plugin",
    ),
    (&["engine"], &["axum", "hyper", "http::"], "the use cases know no HTTP"),
    (
        &["api"],
        &[
            "crate::controller",
            "crate::transport",
            "crate::source",
            "crate::node",
            "crate::upstream",
            "crate::store",
            "crate::identity",
            "crate::model",
            "crate::engine",
            "crate::web",
            "crate::cli",
            "crate::telemetry",
        ],
        "the types of the API know only what they are lowered into",
    ),
    (
        &["domain", "config"],
        &[
            "tokio",
            "kube::",
            "axum",
            "hyper",
            "std::fs",
            "std::process",
            "std::net",
            "std::env",
            "SystemTime",
            "Instant",
            "Uuid",
        ],
        "the pure layers do no IO, and know no runtime, no clock and no chance",
    ),
    (
        &["domain", "config"],
        &[
            "crate::api",
            "crate::source",
            "crate::node",
            "crate::upstream",
            "crate::store",
            "crate::identity",
            "crate::model",
            "crate::engine",
            "crate::web",
            "crate::cli",
            "crate::telemetry",
            "crate::transport",
        ],
        "the pure layers know no other",
    ),
    (&["domain"], &["crate::config"], "the domain knows no compiler"),
    (
        &["source", "node", "upstream", "store", "identity", "model"],
        &[
            "crate::source",
            "crate::node",
            "crate::upstream",
            "crate::store",
            "crate::identity",
            "crate::model",
            "crate::engine",
            "crate::web",
            "crate::cli",
        ],
        "adapters know neither one another nor what uses them",
    ),
    (
        &["web"],
        &[
            "crate::source",
            "crate::node",
            "crate::upstream",
            "crate::store",
            "crate::identity",
            "crate::model",
            "crate::cli",
        ],
        "the web reaches adapters only through the engine",
    ),
    (
        &["engine"],
        &[
            "crate::source",
            "crate::node",
            "crate::upstream",
            "crate::store",
            "crate::identity",
            "crate::model",
            "crate::web",
            "crate::cli",
        ],
        "the engine knows its ports, not who implements them",
    ),
    (
        &["transport", "bridge"],
        &[
            "crate::api",
            "crate::config",
            "crate::controller",
            "crate::source",
            "crate::node",
            "crate::upstream",
            "crate::store",
            "crate::identity",
            "crate::model",
            "crate::engine",
            "crate::web",
            "crate::cli",
            "crate::telemetry",
        ],
        "the bridge is also a small program of its own, which has only the domain and the transports",
    ),
    (&["transport"], &["crate::bridge"], "transports know nothing that uses them"),
    (
        &[
            "api",
            "config",
            "controller",
            "domain",
            "engine",
            "identity",
            "model",
            "node",
            "source",
            "store",
            "telemetry",
            "upstream",
            "web",
        ],
        &["crate::bridge"],
        "only the command line starts the bridge",
    ),
    (
        &["config", "domain", "engine", "identity", "model", "node", "store", "telemetry", "upstream", "web"],
        &["crate::api"],
        "types of the API are lowered at once",
    ),
];

/// Texts that no file may hold, each in two halves so that this one does not.
const FOREIGN: [(&str, &str, &str); 6] = [
    ("/wo", "rk/", "a path of one machine"),
    ("/tmp/", "wt", "a path of one machine"),
    ("registry.npm", "js.org", "the address of a package registry"),
    ("index.crates", ".io", "the address of a package registry"),
    ("pypi.org/", "simple", "the address of a package registry"),
    ("proxy.go", "lang.org", "the address of a package registry"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file that git tracks, or would, below the repository's root, and its text.
fn files() -> Vec<(String, String)> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).unwrap();
    let read = |name: &str| {
        let bytes = std::fs::read(root().join(PathBuf::from(name))).ok()?;
        Some((name.to_owned(), String::from_utf8_lossy(&bytes).into_owned()))
    };
    let files: Vec<_> = names.lines().filter_map(read).collect();
    assert!(files.len() > 100, "too few files to be all of them: {}", files.len());
    files
}

fn rust() -> impl Iterator<Item = (String, String)> {
    files().into_iter().filter(|(name, _)| name.ends_with(".rs"))
}

fn report(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

/// A line, numbered from 1, and what is wrong there.
type Fault = (usize, String);

/// Reports the faults that `find` adds for the name and the text of each file.
fn check(rule: &str, files: impl IntoIterator<Item = (String, String)>, find: impl Fn(&str, &str, &mut Vec<Fault>)) {
    let mut found = Vec::new();
    for (name, text) in files {
        let mut faults = Vec::new();
        find(&name, &text, &mut faults);
        found.extend(faults.into_iter().map(|(number, what)| format!("{name}:{number}: {what}")));
    }
    report(rule, &found);
}

/// Lines of code, numbered from 1, without comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.map(|(number, line)| (number, line.split("//").next().unwrap_or_default()))
}

/// Whether `line` names `word` as a path or a name of its own, not as the end of another name.
fn names(line: &str, word: &str) -> bool {
    let of_a_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let begins = !line[..at].ends_with(of_a_name);
        begins && (word.ends_with(':') || !line[at + word.len()..].starts_with(of_a_name))
    })
}

#[test]
fn layers_know_only_what_they_may() {
    check("a layer names what it may not", rust(), |name, text, faults| {
        let Some(layer) = name.strip_prefix("src/").and_then(|rest| rest.split(['/', '.']).next()) else { return };
        let own = format!("crate::{layer}");
        for (_, forbidden, rule) in LAYERS.iter().filter(|(layers, ..)| layers.contains(&layer)) {
            for (number, line) in code(text) {
                let named = forbidden.iter().find(|word| **word != own && names(line, word));
                faults.extend(named.map(|word| (number, format!("names {word}: {rule}"))));
            }
        }
    });
}

#[test]
fn files_are_short() {
    check("a file is too long", rust(), |_, text, faults| {
        let lines = text.lines().count();
        if lines > MAX_LINES {
            faults.push((MAX_LINES, format!("has {lines} lines, {MAX_LINES} are allowed")));
        }
    });
}

#[test]
fn files_say_what_lives_there() {
    check("a file does not say what lives there", rust(), |_, text, faults| {
        if !text.starts_with("//!") {
            faults.push((1, "does not begin with //!".to_owned()));
        }
    });
}

#[test]
fn nothing_names_a_machine_or_a_registry() {
    check("a text is foreign to the repository", files(), |_, text, faults| {
        for (index, line) in text.lines().enumerate() {
            let foreign = FOREIGN.iter().find(|(first, second, _)| line.contains(&format!("{first}{second}")));
            faults.extend(foreign.map(|(_, _, what)| (index + 1, (*what).to_owned())));
        }
    });
}

/// `{:.9?}` of a text looks as if it cut the text, and does not.
#[test]
fn no_format_cuts_a_debug_form() {
    check("a precision before `?` has no effect on texts; use Quoted", rust(), |name, text, faults| {
        for (number, line) in code(text).filter(|_| name.starts_with("src/")) {
            let formats =
                line.match_indices(":.").map(|(at, _)| line[at + 2..].trim_start_matches(char::is_alphanumeric));
            faults.extend(formats.filter(|rest| rest.starts_with("?}")).map(|_| (number, "cuts nothing".to_owned())));
        }
    });
}

/// A file that compares bytes with a quote and with a backslash searches for the ends of strings.
#[test]
fn nothing_but_the_tokenizer_walks_raw_json() {
    check("a file walks raw JSON: use domain/tokens.rs", rust(), |file, text, faults| {
        let is_walking = file.starts_with("src/") && [r#"b'"'"#, r"b'\\'"].iter().all(|byte| text.contains(byte));
        if is_walking && file != "src/domain/tokens.rs" {
            faults.push((1, "reads quotes and backslashes".to_owned()));
        }
    });
}

#[test]
fn files_do_not_use_each_other_in_circles() {
    // Each crate, and how many uses there are at least if all of them are read.
    let crates = [("src/lib.rs", 1000), ("benches/gateway/main.rs", 50)];
    let mut found = Vec::new();
    for (file, least) in crates {
        let uses = circles::Crate::read(&root().join(file)).uses();
        assert!(uses.values().map(std::collections::BTreeMap::len).sum::<usize>() > least, "too few uses of {file}");
        let of = |file: &Path| file.strip_prefix(root()).unwrap_or(file).to_path_buf();
        let say = |circle: &Vec<PathBuf>| {
            let within = |from: &PathBuf| {
                let to = uses[from].iter().filter(|(file, _)| circle.contains(file));
                to.map(|(file, name)| format!("{} uses {} ({name})", of(from).display(), of(file).display()))
                    .collect::<Vec<_>>()
            };
            circle.iter().flat_map(within).collect::<Vec<_>>().join("\n  ")
        };
        found.extend(circles::circles(&uses).iter().map(say));
    }
    report("files use each other in a circle", &found);
}
