//! Dashboards and alerts: they name only metrics and labels that there are, and nothing is stale or undocumented.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::root;

/// Labels that a scrape adds.
const OF_SCRAPE: [&str; 3] = ["namespace", "pod", "instance"];

/// The most bytes of a picture: pages show five of them.
const MAX_PICTURE: usize = 60 << 10;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of a folder whose names end so, each as name and text.
fn folder(path: &str, end: &str) -> Vec<(String, String)> {
    let names = std::fs::read_dir(root().join(path)).unwrap().map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<_> = names.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(end)).collect();
    assert!(!names.is_empty(), "{path} has no *{end}");
    names.into_iter().map(|name| (format!("{path}/{name}"), read(&format!("{path}/{name}")))).collect()
}

/// The labels of every metric in the reference, by the names of its series.
fn series() -> BTreeMap<String, BTreeSet<String>> {
    let mut series = BTreeMap::new();
    for line in read("docs/reference/metrics.md").lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').to_owned();
        let mut labels: BTreeSet<String> = cells[3].split(", ").map(str::to_owned).collect();
        labels.extend(OF_SCRAPE.map(str::to_owned));
        if cells[2] == "histogram" {
            series.extend(["count", "sum"].map(|end| (format!("{name}_{end}"), labels.clone())));
            labels.insert("le".to_owned());
            series.insert(format!("{name}_bucket"), labels);
        } else {
            series.insert(name, labels);
        }
    }
    series
}

/// The selectors of an expression: each series and the text between its braces, which may be missing.
fn selectors(expression: &str) -> Vec<(String, String)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for start in ["hawsepipe_", "process_", "gen_ai_client_"] {
        for (at, _) in expression.match_indices(start) {
            if expression[..at].ends_with(is_name) {
                continue;
            }
            let rest = &expression[at..];
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            let braces = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            found.push((name.to_owned(), braces.map_or_else(String::new, |(inner, _)| inner.to_owned())));
        }
    }
    found
}

/// What an expression names that the reference does not have.
fn unknown(expression: &str) -> Vec<String> {
    let series = series();
    let found = selectors(expression);
    assert!(!found.is_empty(), "no metric in {expression}");
    let mut unknown = Vec::new();
    let mut known: BTreeSet<String> = OF_SCRAPE.map(str::to_owned).into();
    for (name, labels) in &found {
        let Some(has) = series.get(name) else {
            unknown.push(name.clone());
            continue;
        };
        known.extend(has.iter().cloned());
        let named = labels.split(", ").filter_map(|label| label.split(['=', '!']).next()).filter(|l| !l.is_empty());
        unknown.extend(named.filter(|label| !has.contains(*label)).map(|label| format!("{name}{{{label}}}")));
    }
    // What `label_replace` makes.
    known.extend(expression.contains("label_replace").then(|| "gateway".to_owned()));
    for (_, by) in expression.match_indices(" by (").map(|(at, word)| expression[at..].split_at(word.len())) {
        let by = by.split(')').next().unwrap().split(", ");
        unknown.extend(by.filter(|label| !known.contains(*label)).map(|label| format!("by ({label})")));
    }
    unknown
}

/// The expression of each query of a dashboard, and how its panel is called.
fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let of_panel = |panel: &Value| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().unwrap().clone();
        targets.into_iter().map(move |target| (title.clone(), target["expr"].as_str().unwrap().to_owned()))
    };
    panels.flat_map(of_panel).collect()
}

#[test]
fn dashboards_are_what_their_script_writes_and_ask_for_metrics_that_there_are() {
    let script = root().join("charts/hawsepipe/dashboards/generate.mjs");
    let checked = Command::new("node").arg(script).arg("--check").output().expect("node runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let mut faults = Vec::new();
    let mut uids = BTreeSet::new();
    for (file, text) in folder("charts/hawsepipe/dashboards", ".json") {
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        assert!(uids.insert(dashboard["uid"].as_str().unwrap().to_owned()), "{file}: its uid is that of another");
        let queries = queries(&dashboard);
        assert!(queries.len() > 5, "{file}: too few queries to be all of them");
        for (title, expression) in queries {
            faults.extend(unknown(&expression).into_iter().map(|what| format!("{file}: {title}: no {what}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_panel_is_drawn_from_its_queries() {
    let page = read("docs/dashboards.md");
    let marks = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;")];
    let escaped = |text: &str| marks.iter().fold(text.to_owned(), |text, (mark, name)| text.replace(mark, name));
    let mut faults = Vec::new();
    for (file, text) in folder("charts/hawsepipe/dashboards", ".json") {
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        let name = file.rsplit('/').next().unwrap().trim_end_matches(".json");
        let title = dashboard["title"].as_str().unwrap().rsplit("/ ").next().unwrap();
        let shown = page.contains(&format!("\n## {title}\n")) && page.contains(&format!("](dashboards/{name}.svg)"));
        faults.extend((!shown).then(|| format!("docs/dashboards.md does not show {file}")));
        let picture = root().join(format!("docs/dashboards/{name}.svg"));
        let picture = std::fs::read_to_string(picture).unwrap_or_default();
        faults.extend((picture.len() > MAX_PICTURE).then(|| format!("the picture of {file} is too large")));
        for (title, expression) in queries(&dashboard) {
            if !picture.contains(&format!("<title>{}</title>", escaped(&title))) {
                faults.push(format!("{file}: {title} is not drawn: run `make panels`"));
            } else if !picture.contains(&escaped(&expression)) {
                faults.push(format!("{file}: {title} is drawn from other queries: run `make panels`"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_alert_asks_for_metrics_that_there_are_and_has_a_test_and_a_section() {
    let operations = read("docs/operations.md");
    let mut faults = Vec::new();
    for (file, text) in folder("charts/hawsepipe/alerts", ".yaml") {
        let rules: Value = serde_saphyr::from_str(&text).unwrap();
        let tests = read(&format!("tests/alerts/{}", file.rsplit('/').next().unwrap()));
        for rule in rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap()) {
            let name = rule["alert"].as_str().unwrap();
            let mut fault = |what: &str| faults.push(format!("{file}: {name}: {what}"));
            unknown(rule["expr"].as_str().unwrap()).iter().for_each(|what| fault(&format!("no {what}")));
            if !operations.contains(&format!("\n### {name}\n")) {
                fault("has no section in docs/operations.md");
            }
            let runbook = format!("docs/operations.md#{}", name.to_lowercase());
            if rule["annotations"]["runbook"].as_str() != Some(runbook.as_str()) {
                fault("its runbook is not its section");
            }
            if !tests.contains(&format!("\n  - alertname: {name}\n")) {
                fault("has no test in tests/alerts");
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
