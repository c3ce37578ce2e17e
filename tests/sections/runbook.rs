//! A document with ten bindings, and what is visible at each of its lines.

use serde_json::{Value, json};

/// The names of the servers.
pub const SERVERS: [&str; 3] = ["kubernetes", "postgres", "search"];

/// The name of the document, and its lines, each with what is visible there.
const RUNBOOK: &str = "runbooks/ops.md";
const LINES: [(&str, &[&str]); 20] = [
    ("# Runbook", &SERVERS),
    ("text", &SERVERS),
    ("## Deploy", &["kubernetes"]),
    ("text", &["kubernetes"]),
    ("### Database", &["postgres"]),
    ("text ^db-checks", &["postgres"]),
    ("#### Detail", &["kubernetes"]),
    ("text", &["kubernetes"]),
    ("## Notes", &["search"]),
    ("### Deep", &SERVERS),
    ("text", &SERVERS),
    ("text", &["search"]),
    ("text", &["kubernetes"]),
    ("text ^db-checks", &["postgres"]),
    ("## Notes", &["search"]),
    ("### Notes", &["postgres"]),
    ("## Rollback", &["postgres"]),
    ("#### Steps", &["kubernetes"]),
    ("# Deploy", &SERVERS),
    ("text", &SERVERS),
];

/// Ten bindings, each with its name, glob, part and upstream: headings with and without a level, blocks, ranges, inheritance,
/// and globs.
pub const BINDINGS: [(&str, &str, &str, &str); 10] = [
    ("deploy", "runbooks/*.md", "heading: {text: Deploy, level: 2}, inheritToChildren: true", "kubernetes"),
    ("database", "runbooks/*.md", "heading: {text: Database}", "postgres"),
    ("checks", RUNBOOK, "block: {id: db-checks}", "postgres"),
    ("lines", "**/ops.md", "range: {startLine: 12, endLine: 14}", "search"),
    ("fewer-lines", "**/ops.md", "range: {startLine: 13, endLine: 14}", "kubernetes"),
    ("notes", "runbooks/**", "heading: {text: Notes}", "search"),
    ("deeper-notes", "runbooks/**", "heading: {text: Notes, level: 3}", "postgres"),
    ("elsewhere", "other/*.md", "heading: {text: Runbook}, inheritToChildren: true", "search"),
    ("rollback", "runbooks/*.md", "heading: {text: Rollback}, inheritToChildren: true", "kubernetes"),
    ("own-rollback", RUNBOOK, "heading: {text: Rollback}", "postgres"),
];

/// The place of each line of the document, as a client derives it, and the servers that are visible there.
pub fn places() -> Vec<(Value, &'static [&'static str])> {
    let mut path: Vec<Value> = Vec::new();
    let lines = LINES.iter().enumerate().map(|(index, (line, expected))| {
        if let Some((marks, text)) = line.split_once(' ').filter(|(marks, _)| marks.starts_with('#')) {
            path.retain(|above| above["level"].as_u64().unwrap() < marks.len() as u64);
            path.push(json!({"text": text, "level": marks.len()}));
        }
        let block = line.split_once('^').map(|(_, id)| id);
        let section = json!({"document": RUNBOOK, "headings": path, "line": index + 1, "block": block});
        (section, *expected)
    });
    lines.collect()
}
