//! The page `docs/sections.md`: its manifests, its place and its commands do what it says.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{SERVERS, visible};
use crate::fixtures::{checkout, fixture, program};
use crate::gateway::harness::{Folder, Gateway};
use crate::gateway::parts::{process, tools_of};

/// The code block of a language in the page.
fn block(page: &str, language: &str) -> String {
    let after = page.split_once(&format!("```{language}\n")).unwrap().1;
    after.split_once("```").unwrap().0.to_owned()
}

#[tokio::test]
async fn the_page_on_sections_is_as_it_says() {
    let page = std::fs::read_to_string(checkout().join("docs/sections.md")).unwrap();
    let folder = Folder::new();
    folder.write("also.txt", r#"["query"]"#);
    let (script, also) = (fixture("servers/raw.mjs"), folder.path().join("also.txt"));
    let arguments = [script.to_str().unwrap(), "--stdio", "--also", also.to_str().unwrap()];
    let servers: String = SERVERS.iter().map(|name| process(name, Path::new("node"), &arguments)).collect();
    folder.write("manifests.yaml", &(servers + "---\n" + &block(&page, "yaml")));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &SERVERS).await;

    let meta: Value = serde_json::from_str(&block(&page, "json")).unwrap();
    assert_eq!(visible(&gateway, &meta["hawsepipe.dev/section"]).await, ["kubernetes"]);
    let checks =
        json!({"document": "runbooks/incident.md", "headings": [{"text": "Deploy", "level": 2}], "block": "db-checks"});
    assert_eq!(visible(&gateway, &checks).await, ["postgres"]);
    assert_eq!(visible(&gateway, &json!({"document": "x/scratch.md", "line": 40})).await, ["search"]);

    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", Path::new(&program()).parent().unwrap().display());
    let commands = Command::new("bash")
        .args(["-e", "-c", &block(&page, "sh")])
        .envs([("PATH", path), ("HAWSEPIPE_ADMIN", gateway.admin())])
        .output()
        .unwrap();
    let said = String::from_utf8([commands.stdout, commands.stderr].concat()).unwrap();
    assert!(commands.status.success(), "{said}");
    for words in [
        "runbooks/a.md# Runbook## Deploy:17: visible is kubernetes\n",
        "clients do not get it: it comes from a section that SectionBinding default/deploy-notes",
        "kubernetes__query",
        "\"type\": \"function\"",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
