//! Document 003's PluginSettings with bindings, and its AIToolContext.

use serde_json::{Value, json};

use super::{admin, ask, place};
use crate::gateway::harness::{Folder, Gateway, run};
use crate::gateway::parts::{modern_sse, tools_of};

#[tokio::test]
async fn settings_with_two_servers_and_three_bindings_run() {
    let ((_a, weather), (_b, far)) = (modern_sse(0), modern_sse(0));
    let server = |id: &str, name: &str, url: &str, bindings: Value| {
        json!({"id": id, "name": name, "transport": "sse", "deploymentType": "external", "enabled": true,
            "sseConfig": {"url": url}, "sectionBindings": bindings})
    };
    let bindings = json!([
        {"sectionType": "heading", "headingText": "## Tools", "serverId": "id-1", "inheritToChildren": true},
        {"sectionType": "block", "blockId": "^far", "serverId": "id-2", "inheritToChildren": false},
        {"sectionType": "range", "startLine": 1, "endLine": 4, "serverId": "id-2", "inheritToChildren": false},
    ]);
    let settings = json!({
        "mcpServers": [server("id-1", "Weather", &weather, bindings), server("id-2", "far", &far, json!([]))],
        "mcpGlobalTimeout": 30000, "mcpConcurrentLimit": 25, "mcpSessionLimit": -1,
    });
    let folder = Folder::new();
    folder.write("settings.json", &settings.to_string());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["weather", "far"]).await;
    let tools = place("vault/a.md", &[("A", 1), ("Tools", 2), ("Deep", 3)]);
    for (section, server) in [
        (tools.clone(), Some("default/weather")),
        (json!({"document": "a.md", "block": "far"}), Some("default/far")),
        (json!({"document": "a.md", "line": 4}), Some("default/far")),
        (json!({"document": "a.md", "line": 5}), None),
    ] {
        check(&gateway, &section, server).await;
    }
    check_commands(&gateway, &tools.to_string());
}

/// Checks the AIToolContext of a place against the list that clients see there.
async fn check(gateway: &Gateway, section: &Value, server: Option<&str>) {
    let context = admin(gateway, "tools", section).await;
    assert_eq!(context["sectionBinding"], json!(server), "{section}: {context}");
    let servers = server.map_or(vec!["default/weather", "default/far"], |server| vec![server]);
    assert_eq!(context["enabledServers"], json!(servers), "{section}");
    let listed = ask(&gateway.url(), "tools/list", &json!({}), section).await["result"]["tools"].clone();
    let (listed, offered) = (listed.as_array().unwrap(), context["tools"].as_array().unwrap());
    assert!(!offered.is_empty() && listed.len() == offered.len(), "{section}");
    for (tool, listed) in offered.iter().zip(listed) {
        let id = tool["serverId"].as_str().unwrap();
        assert!(servers.contains(&id) && id.ends_with(&format!("/{}", tool["serverName"].as_str().unwrap())));
        let name = format!("{}__{}", tool["serverName"].as_str().unwrap(), tool["toolName"].as_str().unwrap());
        assert_eq!((&listed["name"], &tool["name"]), (&json!(name), &json!(name)));
        assert_eq!(tool["inputSchema"], listed["inputSchema"]);
        assert_eq!(tool["description"], listed.get("description").cloned().unwrap_or(json!("")));
    }
}

/// Checks what `hawsepipe tools` prints for a place.
fn check_commands(gateway: &Gateway, section: &str) {
    let printed = run(&["tools", "--section", section, "--format", "openai", "--admin", &gateway.admin()]);
    let functions: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let function = &functions[0];
    assert_eq!(function["type"], "function", "{functions}");
    assert!(function["function"]["name"].as_str().unwrap().starts_with("weather__"), "{functions}");
    assert!(function["function"]["parameters"].is_object() && function["function"]["description"].is_string());
    assert!(!functions.to_string().contains("far__"), "{functions}");
    let table = run(&["tools", "--section", section, "--admin", &gateway.admin()]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.starts_with("NAME") && table.contains("weather__") && !table.contains("far__"), "{table}");
}
