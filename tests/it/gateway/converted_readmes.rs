//! Configuration of MCP clients as the READMEs of published servers have it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, hawsepipe};
use super::http::Http;
use super::outcomes::seen::list;
use super::parts::tools_of;
use crate::fixtures::{node_module, python};

/// README of npm's `@modelcontextprotocol/server-everything` 2026.8.31, "Usage with Claude Desktop".
const EVERYTHING: &str = r#"{
  "mcpServers": {
    "everything": {
      "command": "npx",
      "args": [
        "-y",
        "@modelcontextprotocol/server-everything"
      ]
    }
  }
}"#;
/// README of npm's `@modelcontextprotocol/server-filesystem` 2026.8.31, "NPX".
const FILESYSTEM: &str = r#"{
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": [
        "-y",
        "@modelcontextprotocol/server-filesystem",
        "/Users/username/Desktop",
        "/path/to/other/allowed/dir"
      ]
    }
  }
}"#;
/// README of npm's `@modelcontextprotocol/server-memory` 2026.8.31, "NPX with custom setting".
const MEMORY: &str = r#"{
  "mcpServers": {
    "memory": {
      "command": "npx",
      "args": [
        "-y",
        "@modelcontextprotocol/server-memory"
      ],
      "env": {
        "MEMORY_FILE_PATH": "/path/to/custom/memory.jsonl"
      }
    }
  }
}"#;
/// README of npm's `@modelcontextprotocol/server-sequential-thinking` 2026.8.31, "VS Code Installation Instructions".
const THINKING: &str = r#"{
  "servers": {
    "sequential-thinking": {
      "command": "npx",
      "args": [
        "-y",
        "@modelcontextprotocol/server-sequential-thinking"
      ]
    }
  }
}"#;
/// README of PyPI's `mcp-server-time` 2026.10.19, "Using pip installation".
const TIME: &str = r#"{
  "mcpServers": {
    "time": {
      "command": "python",
      "args": ["-m", "mcp_server_time"]
    }
  }
}"#;
const SERVERS: [&str; 5] = ["everything", "filesystem", "memory", "sequential-thinking", "time"];

/// The examples, in one file each. Only the paths, which each README asks its reader to replace, are other ones.
fn original() -> Folder {
    let folder = Folder::new();
    let path = folder.path().to_str().unwrap();
    // `npx` takes packages from here, and fetches none.
    std::os::unix::fs::symlink(node_module(""), folder.path().join("node_modules")).unwrap();
    for (example, server) in [EVERYTHING, FILESYSTEM, MEMORY, THINKING, TIME].into_iter().zip(SERVERS) {
        let here = example
            .replace("/Users/username/Desktop", path)
            .replace("/path/to/other/allowed/dir", path)
            .replace("/path/to/custom", path);
        folder.write(&format!("{server}.json"), &here);
    }
    folder
}

/// The same, in the form that `hawsepipe convert` prints.
fn converted() -> Folder {
    let folder = original();
    for server in SERVERS {
        let file = folder.path().join(format!("{server}.json"));
        let done = hawsepipe().arg("convert").arg(&file).output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
        std::fs::remove_file(file).unwrap();
        folder.write(&format!("{server}.yaml"), &String::from_utf8(done.stdout).unwrap());
    }
    folder
}

/// The names of all tools, and an answer of the server with a setting in its environment.
async fn tools_and_memory(folder: &Folder) -> (BTreeSet<String>, Value) {
    let path = format!("{}:{}", python().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let gateway = Gateway::start_in(folder, &[], &[("PATH", &path)]);
    tools_of(&gateway, &SERVERS).await;
    let http = Http::new();
    let entity = json!({"entities": [{"name": "anchor", "entityType": "part", "observations": []}]});
    http.call(&gateway.url(), "memory__create_entities", &entity, &json!({})).await;
    let answer = http.call(&gateway.url(), "memory__read_graph", &json!({}), &json!({})).await;
    let names = list(&gateway, "tools").await.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    (names, answer["result"]["content"].clone())
}

#[tokio::test]
async fn examples_from_five_readmes_run_unchanged_and_converted() {
    let folder = original();
    let (tools, graph) = tools_and_memory(&folder).await;
    for server in SERVERS {
        assert!(tools.iter().any(|tool| tool.starts_with(&format!("{server}__"))), "{server}: {tools:?}");
    }
    assert!(graph.to_string().contains("anchor"), "{graph}");
    assert!(folder.path().join("memory.jsonl").exists());
    assert_eq!(tools_and_memory(&converted()).await, (tools, graph));
}
