//! For every line of a document with ten bindings, lists, calls and explanations agree.

use serde_json::json;

use super::runbook::{BINDINGS, SERVERS, places};
use super::{admin, binding, call, problems, servers, visible};
use crate::gateway::harness::{Folder, Gateway, run};
use crate::gateway::parts::tools_of;

#[tokio::test]
async fn for_every_line_of_a_document_list_call_and_explain_agree() {
    let folder = Folder::new();
    let bindings: String =
        BINDINGS.iter().map(|(name, glob, part, upstream)| binding(name, glob, part, upstream)).collect();
    folder.write("manifests.yaml", &(servers(&folder) + &bindings));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &SERVERS).await;
    assert_eq!(problems(&gateway).await, []);
    for (section, expected) in &places() {
        let said = section.to_string();
        assert_eq!(visible(&gateway, section).await, *expected, "{said}");
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
    assert_eq!(rows[2], ["default/checks", "runbooks/ops.md", "^db-checks", "default/postgres", "yes"], "{explained}");
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
