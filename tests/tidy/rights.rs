//! `docs/security.md` has every right of the operator to write, and no others.

use std::collections::{BTreeMap, BTreeSet};

use super::root;

/// The verbs of each resource, such as `httproutes` or `serviceaccounts/token`; `status` stands for that of every kind.
type Rights = BTreeMap<String, BTreeSet<String>>;

const READS: [&str; 3] = ["get", "list", "watch"];

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The rows of the first table after `start`, without its head, each as its cells.
fn rows(text: &str, start: &str) -> Vec<Vec<String>> {
    let table = text.split(start).nth(1).unwrap_or_else(|| panic!("there is no {start:?}"));
    let lines = table.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    lines.skip(2).map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// The words between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What the operator's table says, of which `docs/reference/rights.md` is written.
fn table() -> Rights {
    let mut rights = Rights::new();
    for row in rows(&read("docs/reference/rights.md"), "# Rights of the operator\n") {
        let resource = code(&row[1]).next().unwrap();
        let (name, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let plural = name.split('.').next().unwrap();
        let resource = match subresource {
            "" => plural.to_owned(),
            "status" => subresource.to_owned(),
            other => format!("{plural}/{other}"),
        };
        let verbs = row[2].split(", ").filter(|verb| !READS.contains(verb)).map(str::to_owned);
        rights.entry(resource).or_default().extend(verbs);
    }
    rights
}

/// What the page says. In each part of a first cell, the verbs come before the resources.
fn page() -> Rights {
    let mut rights = Rights::new();
    for row in rows(&read("docs/security.md"), "\n## Rights of the operator\n") {
        for part in row[1].split("; ") {
            let words = part.split('`').next().unwrap().split([' ', ',']);
            let verbs: Vec<_> = words.filter(|word| ["create", "patch", "update", "delete"].contains(word)).collect();
            for resource in code(part) {
                rights.entry(resource.to_owned()).or_default().extend(verbs.iter().map(|verb| (*verb).to_owned()));
            }
        }
    }
    rights
}

#[test]
fn the_page_on_security_has_every_right_to_write() {
    let (mut table, page) = (table(), page());
    assert!(table.len() > 20, "too few resources to be all of them: {table:?}");
    // Hawsepipe's own kinds, which are only read, are not named one by one.
    table.retain(|resource, verbs| !verbs.is_empty() || page.contains_key(resource));
    assert_eq!(page, table);
}
