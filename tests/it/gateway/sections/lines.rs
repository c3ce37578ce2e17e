//! For every line of a document with ten bindings, lists, calls and explanations agree.

use serde_json::{Value, json};

use super::{SERVERS, admin, binding, call, place, problems, servers, visible};
use crate::gateway::harness::{Folder, Gateway, run};
use crate::gateway::parts::tools_of;

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

/// Ten bindings: headings with and without a level, blocks, ranges, inheritance, and globs.
fn bindings() -> String {
    let inherits = ", inheritToChildren: true";
    let heading = |text: &str, level: &str, more: &str| format!("heading: {{text: {text}{level}}}{more}");
    let range = |start: u32, end: u32| format!("range: {{startLine: {start}, endLine: {end}}}");
    [
        binding("deploy", "runbooks/*.md", &heading("Deploy", ", level: 2", inherits), "kubernetes"),
        binding("database", "runbooks/*.md", &heading("Database", "", ""), "postgres"),
        binding("checks", RUNBOOK, "block: {id: db-checks}", "postgres"),
        binding("lines", "**/ops.md", &range(12, 14), "search"),
        binding("fewer-lines", "**/ops.md", &range(13, 14), "kubernetes"),
        binding("notes", "runbooks/**", &heading("Notes", "", ""), "search"),
        binding("deeper-notes", "runbooks/**", &heading("Notes", ", level: 3", ""), "postgres"),
        binding("elsewhere", "other/*.md", &heading("Runbook", "", inherits), "search"),
        binding("rollback", "runbooks/*.md", &heading("Rollback", "", inherits), "kubernetes"),
        binding("own-rollback", RUNBOOK, &heading("Rollback", "", ""), "postgres"),
    ]
    .concat()
}

/// The place of each line of the document, as a client derives it.
fn places() -> Vec<Value> {
    let mut path: Vec<(&str, u32)> = Vec::new();
    let lines = LINES.iter().enumerate().map(|(index, (line, _))| {
        if let Some((marks, text)) = line.split_once(' ').filter(|(marks, _)| marks.starts_with('#')) {
            let level = u32::try_from(marks.len()).unwrap();
            path.retain(|(_, above)| *above < level);
            path.push((text, level));
        }
        let mut section = place(RUNBOOK, &path);
        section["line"] = json!(index + 1);
        section["block"] = line.split_once('^').map_or(Value::Null, |(_, id)| json!(id));
        section
    });
    lines.collect()
}

#[tokio::test]
async fn for_every_line_of_a_document_list_call_and_explain_agree() {
    let folder = Folder::new();
    folder.write("manifests.yaml", &(servers(&folder) + &bindings()));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &SERVERS).await;
    assert_eq!(problems(&gateway).await, []);
    for (section, (line, expected)) in places().iter().zip(LINES) {
        let said = format!("{section}: {line}");
        assert_eq!(visible(&gateway, section).await, expected, "{said}");
        let explained = admin(&gateway, "explain", section).await;
        assert_eq!(explained["upstreams"], json!(expected), "{said}: {explained}");
        let context = admin(&gateway, "tools", section).await;
        let ids: Vec<_> = expected.iter().map(|name| format!("default/{name}")).collect();
        assert_eq!(context["enabledServers"], json!(ids), "{said}");
        for server in SERVERS {
            let answer = call(&gateway, server, section).await;
            assert_eq!(answer["result"]["isError"] != true, expected.contains(&server), "{said}: {answer}");
        }
    }
    let text = |arguments: &[&str]| {
        let done = run(&[arguments, &["--admin", &gateway.admin()]].concat());
        String::from_utf8([done.stdout, done.stderr].concat()).unwrap()
    };
    let at = "runbooks/ops.md# Runbook## Deploy### Database^db-checks:6";
    let explained = text(&["explain", "--section", at]);
    let rows: Vec<Vec<_>> = explained.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(explained.starts_with(&format!("{at}: visible is postgres\n")), "{explained}");
    assert_eq!(rows[2], ["default/checks", RUNBOOK, "^db-checks", "default/postgres", "yes"], "{explained}");
    assert_eq!(rows[4], ["default/deploy", "runbooks/*.md", "##", "Deploy", "default/kubernetes", "no"], "{explained}");
    let hidden = text(&["explain", "search__args", "--section", at]);
    assert!(
        hidden.contains("clients do not get it: it comes from a section that SectionBinding default/checks"),
        "{hidden}"
    );
    let of_files = text(&["explain", "search/args", "--section", at, "-f", folder.path().to_str().unwrap()]);
    assert!(of_files.contains("SectionBinding default/checks"), "{of_files}");
    let wrong = text(&["explain", "--section", "a.md####### Seven"]);
    assert!(wrong.contains("section.headings[0].level must be"), "{wrong}");
}
