//! The first hour of an author: the first chain of the README, and the plugins and tests of `hawsepipe plugin new`.

use std::process::{Command, Output};

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::parts::{everything, tools_of, until};
use crate::fixtures::{checkout, node_module};

/// A folder in which `npx` finds the packages of the tests, and fetches none.
fn with_packages() -> (Folder, String) {
    let folder = Folder::new();
    std::os::unix::fs::symlink(node_module(""), folder.path().join("node_modules")).unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

/// The exit code of the program, and all that it said.
fn ran(arguments: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } = run(arguments);
    (status.code().unwrap(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

async fn call(gateway: &Gateway, tool: &str, arguments: Value) -> Value {
    Http::new().call(&gateway.url(), tool, &arguments, &json!({})).await["result"].clone()
}

#[tokio::test]
async fn each_kind_of_plugin_is_written_with_a_chain_and_a_test_that_can_fail() {
    let (folder, path) = with_packages();
    for kind in ["guard", "transform", "observer"] {
        let (exit, text) = ran(&["plugin", "new", &format!("my-{kind}"), "--type", kind, "--dir", &path]);
        let next = ["validate", "plugin test", "run -f"].map(|command| format!("  hawsepipe {command} {path}\n"));
        assert!(exit == 0 && next.iter().all(|line| text.contains(line)), "{text}");
    }
    let (exit, text) = ran(&["validate", &path]);
    assert!(exit == 0 && text.contains("0 errors, 0 warnings in 7 objects"), "{text}");
    let (exit, text) = ran(&["plugin", "test", &path]);
    assert!(exit == 0 && text.contains("pass 5\n") && text.contains("fail 0\n"), "{text}");

    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything"]).await;
    let answer = call(&gateway, "everything__echo", json!({"message": "one\n\n\n\ntwo"})).await;
    assert_eq!(answer["content"][0]["text"], "Echo: one\n\ntwo", "{answer}");
    let answer = call(&gateway, "everything__echo", json!({"message": "It is confidential."})).await;
    assert!(answer["isError"] == true && answer["content"][0]["text"].as_str().unwrap().starts_with("[BLOCKED]"));
    let of_observer = ["calls", "--plugin", "my-observer", "-o", "json", "--admin", &gateway.admin()];
    until("the record has the note of the observer", async || ran(&of_observer).1.contains(r#""characters":"#)).await;

    folder.write(
        "plugins/my-guard.mjs",
        "export const onRequest = ({ rawContent }) => ({ text: rawContent, continue: true });",
    );
    let (exit, text) = ran(&["plugin", "test", &format!("{path}/plugins/my-guard.test.mjs")]);
    assert!(exit == 1 && text.contains("pass 1\n") && text.contains("fail 1\n"), "{text}");
}

#[test]
fn a_folder_without_a_test_is_an_error() {
    let (_folder, path) = with_packages();
    let (exit, text) = ran(&["plugin", "test", &path]);
    assert!(exit == 1 && text.contains(&format!("there is no test in {path}: ")), "{text}");
    let (exit, text) = ran(&["plugin", "test", &format!("{path}/none")]);
    assert!(exit == 1 && text.contains(&format!("cannot read {path}/none")), "{text}");
}

#[tokio::test]
async fn the_first_chain_of_the_readme_leaves_the_json_of_other_tools() {
    let (folder, path) = with_packages();
    let readme = std::fs::read_to_string(checkout().join("README.md")).unwrap();
    let script = readme.split_once("```sh\nmkdir -p demo/plugins\n").unwrap().1;
    let script = script.split_once("hawsepipe run -f demo\n").unwrap().0.replace("demo/", &format!("{path}/"));
    assert!(Command::new("sh").arg("-c").arg(script).status().unwrap().success());
    folder.write("second.yaml", &everything("second"));
    let (exit, text) = ran(&["validate", &path]);
    assert!(exit == 0 && text.contains("0 errors, 0 warnings"), "{text}");
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "second"]).await;
    for (server, expected) in [("everything", "ECHO: HELLO"), ("second", "Echo: hello")] {
        let answer = call(&gateway, &format!("{server}__echo"), json!({"message": "hello"})).await;
        assert_eq!(answer["content"][0]["text"], expected, "{answer}");
        let tool = format!("{server}__get-structured-content");
        let answer = call(&gateway, &tool, json!({"location": "New York"})).await;
        let text: Value = serde_json::from_str(answer["content"][0]["text"].as_str().unwrap()).unwrap();
        assert!(text == answer["structuredContent"] && text["temperature"].is_number(), "{answer}");
    }
}
