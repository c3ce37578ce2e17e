//! `docs/operations.md` has every condition and every reason that a status can have, and no others.

use std::collections::BTreeSet;

use super::{names, rust};

/// Where conditions get their reasons. Reasons of refusals that a gateway passes on are in the last three.
const SOURCES: [&str; 5] = [
    "src/controller/status/",
    "src/controller/apply/fault.rs",
    "src/controller/compiled.rs",
    "src/config/compile/audit.rs",
    "src/config/compile/gateway.rs",
];
/// The reason of everything that is `Unknown`, which has no row of its own.
const ANY: &str = "Pending";

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// The code of the files below `path`, without tests.
fn code(path: &str) -> String {
    let of_it = rust().filter(|(name, _)| name.starts_with(path) && !name.contains("/tests"));
    let text: String =
        of_it.map(|(_, text)| text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned()).collect();
    assert!(!text.is_empty(), "there is no {path}");
    text
}

/// The names of the closed list.
fn reasons() -> BTreeSet<String> {
    let code = code("src/domain/reason.rs");
    let names = code.lines().filter_map(|line| line.trim().strip_suffix(',')).filter(|name| is_word(name));
    names.map(str::to_owned).collect()
}

/// The words between quotation marks.
fn literals(code: &str) -> impl Iterator<Item = &str> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2)).filter(|word| is_word(word))
}

fn types() -> BTreeSet<String> {
    let types: BTreeSet<_> = literals(&code("src/controller/condition_type.rs")).map(str::to_owned).collect();
    assert!(types.len() >= 10, "too few conditions to be all of them: {types:?}");
    types
}

#[test]
fn each_condition_and_each_reason_is_explained() {
    let page = std::fs::read_to_string(super::root().join("docs/operations.md")).unwrap();
    let section = page.split("\n## Conditions\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let explained: BTreeSet<_> =
        section.lines().filter_map(|line| line.strip_prefix("### ").map(str::to_owned)).collect();
    assert_eq!(explained, types(), "a section for each condition");

    let known = reasons();
    assert!(known.len() > 50, "too few reasons to be all of them: {known:?}");
    let code: String = SOURCES.map(code).concat();
    let named = known.iter().filter(|reason| code.lines().any(|line| names(line, reason)));
    let own = literals(&code).filter(|word| !types().contains(*word)).map(str::to_owned);
    let used: BTreeSet<_> = named.cloned().chain(own).filter(|word| word != ANY).collect();
    let first = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let told: BTreeSet<_> = first.map(|(word, _)| word.to_owned()).collect();
    let missing: Vec<_> = used.difference(&told).collect();
    let unknown: Vec<_> = told.difference(&used).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not explained: {missing:?}; explained, and not there: {unknown:?}"
    );
}

/// The reasons that a function of a file names.
fn named_by(path: &str, function: &str) -> BTreeSet<String> {
    let code = code(path);
    let body = code.split(&format!("fn {function}(")).nth(1).unwrap_or_else(|| panic!("{path} has no {function}"));
    // A method ends with the first indented brace, a function with the first one that is not.
    let body = body.split(if body.starts_with('&') { "\n    }\n" } else { "\n}\n" }).next().unwrap();
    reasons().into_iter().filter(|reason| names(body, reason) && reason != ANY).collect()
}

/// The reasons in the table of a condition.
fn table_of(condition: &str) -> BTreeSet<String> {
    let page = std::fs::read_to_string(super::root().join("docs/operations.md")).unwrap();
    let section = page.split(&format!("\n### {condition}\n")).nth(1).unwrap().split("\n##").next().unwrap().to_owned();
    let first = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    first.map(|(word, _)| word.to_owned()).collect()
}

/// The kinds by their letters in the tables, and the files that find Problems of their objects.
const KINDS: [(&str, &[&str]); 6] = [
    ("G", &["compile/gateway.rs", "compile/access.rs", "lower/gateway.rs", "lower/access.rs"]),
    ("U", &["compile/upstreams.rs", "lower/upstream.rs", "lower/tools.rs", "lower/managed.rs"]),
    (
        "P",
        &["compile/plugins.rs", "compile/plugin_code.rs", "compile/exports.rs", "compile/images.rs", "lower/plugin.rs"],
    ),
    ("C", &["compile/chains.rs", "compile/resolve.rs", "lower/chain.rs"]),
    ("S", &["compile/sections.rs", "lower/section.rs"]),
    ("T", &["compile/pipelines.rs", "lower/pipeline.rs"]),
];

#[test]
fn each_reason_has_every_kind_whose_objects_can_have_it() {
    let page = std::fs::read_to_string(super::root().join("docs/operations.md")).unwrap();
    let section = page.split("\n## Conditions\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ")).collect::<Vec<_>>();
    for (kind, files) in KINDS {
        let of =
            |file: &&str| code(&format!("src/{}{file}", if file.starts_with("lower") { "api/" } else { "config/" }));
        let code: String = files.iter().map(of).collect();
        let found: BTreeSet<_> = reasons().into_iter().filter(|reason| names(&code, reason)).collect();
        assert!(!found.is_empty(), "{kind}: no reason is found in {files:?}");
        for reason in found {
            let mut of_it = rows.iter().filter(|(word, _)| *word == reason).peekable();
            let has_kind = |(_, rest): &(&str, &str)| {
                let kinds = rest.split(" |").next().unwrap_or_default();
                kinds == "all" || kinds.split(", ").any(|known| known == kind)
            };
            assert!(of_it.peek().is_none() || of_it.any(has_kind), "the rows of {reason} lack the kind {kind}");
        }
    }
}

#[test]
fn each_dashboard_is_listed() {
    let page = std::fs::read_to_string(super::root().join("docs/operations.md")).unwrap();
    let files = std::fs::read_dir(super::root().join("charts/hawsepipe/dashboards")).unwrap();
    let files: Vec<_> = files.filter_map(|file| file.ok()?.file_name().into_string().ok()).collect();
    let mut boards = files.iter().filter(|name| name.ends_with(".json")).peekable();
    assert!(boards.peek().is_some());
    boards.for_each(|name| assert!(page.contains(&format!("| `{name}` |")), "{name} is not listed"));
}

#[test]
fn each_reason_is_in_the_table_of_its_condition() {
    const CONDITIONS: &str = "src/controller/status/conditions.rs";
    assert_eq!(table_of("Accepted"), named_by(CONDITIONS, "is_of_itself"));
    assert_eq!(table_of("ResolvedRefs"), named_by(CONDITIONS, "is_of_references"));
    let (told, faults) = (table_of("Programmed"), named_by("src/controller/apply/fault.rs", "reason"));
    assert!(faults.len() > 3, "too few reasons to be all of them: {faults:?}");
    let missing: Vec<_> = faults.difference(&told).collect();
    assert!(missing.is_empty(), "the table of Programmed does not have {missing:?}");
}
