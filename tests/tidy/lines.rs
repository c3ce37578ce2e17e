//! How much production code there is: the lines of `src` that are in no test module.

use std::io::Write;

use super::rust;

/// Files that only tests contain.
fn is_of_tests(name: &str) -> bool {
    name.contains("/tests/") || ["/tests.rs", "/fixture.rs"].iter().any(|end| name.ends_with(end))
}

/// Returns the lines of a file up to its test module.
fn production(text: &str) -> usize {
    text.find("#[cfg(test)]\nmod ").map_or(text, |at| &text[..at]).lines().count()
}

#[test]
fn production_code_is_counted() {
    let files = rust().filter(|(name, _)| name.starts_with("src/") && !is_of_tests(name));
    let lines: usize = files.map(|(_, text)| production(&text)).sum();
    assert!(lines > 50_000, "too few lines to be all of them: {lines}");
    // Not the macro, whose output is only shown of tests that fail.
    writeln!(std::io::stdout(), "lines of production code: {lines}").unwrap();
}

#[test]
fn test_modules_are_not_counted() {
    assert_eq!(production("//! A.\n\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), 4);
    assert_eq!(production("#[cfg(test)]\nuse a;\nfn a() {}\n"), 3);
}
