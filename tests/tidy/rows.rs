//! `tests/it/gateway/pipelines/rows/list.txt` names a test for each row of document 002, and has each function of its folder.

use std::collections::{BTreeMap, BTreeSet};

use super::{report, root, rust};

/// The folder of the tests that the list names.
const FOLDER: &str = "tests/it/gateway/pipelines";

/// The name of a row as the names of functions have it: `get_tools` of `ToolProvider.get_tools`, `agent_type` of `AgentType`.
fn plain(row: &str) -> String {
    let mut plain = String::new();
    for letter in row.rsplit('.').next().unwrap_or(row).chars() {
        if letter.is_ascii_uppercase() && !plain.is_empty() {
            plain.push('_');
        }
        plain.push(letter.to_ascii_lowercase());
    }
    plain
}

/// Whether the text of a file has a test of this name, or a function that a test there calls.
fn runs(text: &str, function: &str) -> bool {
    let is_test = |prefix: &str| text.contains(&format!("test]\n{prefix}fn {function}("));
    is_test("") || is_test("async ") || text.contains(&format!("\n    {function}("))
}

#[test]
fn each_row_of_document_002_has_a_test_that_is_named_after_it() {
    let list = std::fs::read_to_string(root().join(FOLDER).join("rows/list.txt")).unwrap();
    let rows: BTreeMap<_, _> = list.lines().map(|line| line.split_once(": ").expect("ROW: TEST")).collect();
    assert!(rows.len() > 40 && rows.len() == list.lines().count(), "a row is missing, or there twice");
    let files: BTreeMap<_, _> = rust().filter(|(name, _)| name.starts_with(FOLDER)).collect();
    let mut found = Vec::new();
    for (row, test) in &rows {
        let (modules, function) = test.rsplit_once("::").expect("MODULES::FUNCTION");
        let file = format!("{FOLDER}/{}.rs", modules.replace("::", "/"));
        if !function.contains(&plain(row)) {
            found.push(format!("{row}: {test} is not named after it"));
        }
        if !files.get(&file).is_some_and(|text| runs(text, function)) {
            found.push(format!("{row}: no test of {file} is or calls {function}"));
        }
    }
    let listed: BTreeSet<_> = rows.values().map(|test| test.rsplit("::").next().unwrap()).collect();
    let of_rows = files.iter().filter(|(name, _)| name.starts_with(&format!("{FOLDER}/rows/")));
    for (file, text) in of_rows {
        let called = text.lines().filter_map(|line| line.strip_prefix("    ")?.strip_suffix(").await;"));
        let called = called.filter_map(|call| call.split_once('(')).map(|(function, _)| function);
        let tests = text.split("#[test]\nfn ").skip(1).filter_map(|rest| rest.split('(').next());
        let rows = called.filter(|name| text.contains(&format!("\nasync fn {name}("))).chain(tests);
        found.extend(
            rows.filter(|row| !listed.contains(row)).map(|row| format!("{file}: {row} is in no row of the list")),
        );
    }
    report("the rows of document 002 differ from their tests", &found);
}
