//! Documents of each form, and their objects.

use serde_json::{Value, json};

use super::{Converted, Variable, Workspace, convert, is_convertible};

fn made(document: &Value) -> Converted {
    assert!(is_convertible(document), "{document}");
    made_with(document, Some(|name| (name == "SET").then(|| "set".to_owned())))
}

fn made_with(document: &Value, variable: Option<Variable>) -> Converted {
    convert(document, Workspace { path: "/open".to_owned(), is_start: true, variable }, &|folder| match folder {
        "./plugins" => {
            Some(["curation-plugin.js", "idle.mjs", "notes.txt", "security-plugin.mjs"].map(str::to_owned).to_vec())
        }
        _ => None,
    })
}

/// The spec of an object.
fn spec(converted: &Converted, kind: &str, name: &str) -> Value {
    let is = |document: &Value| document["kind"] == kind && document["metadata"]["name"] == name;
    let found = converted.objects.iter().find(|made| is(&made.document));
    found.map_or(Value::Null, |made| made.document["spec"].clone())
}

fn left_out(converted: &Converted) -> Vec<&str> {
    converted.left_out.iter().map(|left| left.field.as_str()).collect()
}

/// Document 001, "JSON Configuration", with a request chain and document 000's spellings.
#[test]
fn plugins() {
    let converted = made(&json!({"plugins": {
        "pluginDir": "./plugins", "nodeExecutable": "node", "max_concurrent_executions": 10, "poolSizePerPlugin": 5,
        "servers": {
            "context7": {"response": [{"name": "curation-plugin", "order": 1, "enabled": true, "timeoutMs": 45000}]},
            "File System": {"request": [{"name": "security-plugin", "role": "Guard", "env": ["KEY"]}]},
        },
        "server_assignments": {"notes": ["gone"]},
    }}));
    let entries = json!([{"name": "curation-plugin", "order": 1, "enabled": true, "timeoutMs": 45000}]);
    let chain = json!({"phase": "Response", "upstreams": {"names": ["context7"]}, "entries": entries});
    assert_eq!(spec(&converted, "PluginChain", "context7-response"), chain);
    assert_eq!(
        spec(&converted, "Plugin", "security-plugin"),
        json!({"role": "Guard", "source": {"path": "security-plugin.mjs"},
            "env": [{"name": "KEY", "valueFrom": {"environment": "KEY"}}]})
    );
    assert_eq!(spec(&converted, "Plugin", "idle"), json!({"source": {"path": "idle.mjs"}}));
    assert_eq!(spec(&converted, "Plugin", "gone")["source"]["path"], "gone.js");
    for name in ["notes-request", "notes-response"] {
        assert_eq!(spec(&converted, "PluginChain", name)["entries"], json!([{"name": "gone", "order": 0}]));
    }
    assert_eq!(spec(&converted, "MCPGateway", "main")["plugins"]["maxConcurrentExecutions"], 10);
    assert!(left_out(&converted).is_empty());
    assert!(!spec(&converted, "PluginChain", "file-system-request").is_null());
}

#[test]
fn no_guard_is_left_out() {
    let wrong = |plugins: Value, servers: Value| {
        let converted = made(&json!({"plugins": plugins, "mcpServers": servers}));
        converted.wrong.iter().map(|wrong| wrong.field.clone()).collect::<Vec<_>>().join(" ")
    };
    let guard = json!({"name": "security-plugin", "role": "Guard"});
    for (plugins, field) in [
        (json!([guard]), "plugins"),
        (json!({"servers": [guard]}), "plugins.servers"),
        (json!({"servers": {"a": [guard]}}), "plugins.servers.a"),
        (json!({"servers": {"a": {"request": guard}}}), "plugins.servers.a.request"),
        (json!({"servers": {"a": {"request": ["security-plugin"]}}}), "plugins.servers.a.request[0]"),
        (json!({"servers": {"A b": {"request": [guard]}, "a_b": {"request": [guard]}}}), "plugins.servers.a_b.request"),
        (json!({"serverAssignments": ["security-plugin"]}), "plugins.serverAssignments"),
        (json!({"serverAssignments": {"a": [guard]}}), "plugins.serverAssignments.a"),
        (
            json!({"servers": {"a": {"response": [guard]}}, "serverAssignments": {"a": ["idle"]}}),
            "plugins.serverAssignments.a",
        ),
        (json!({"serverAssignments": {"a": ["x_y", "x-y"]}}), "plugins.serverAssignments.a"),
        (json!({"servers": {"a": {"responses": [guard]}}}), "plugins.servers.a.responses"),
        (
            json!({"servers": {"a": {"request": [{"name": "idle", "Role": "Guard"}]}}}),
            "plugins.servers.a.request[0].Role",
        ),
        (json!({"servers": {"*": {"request": [guard]}}}), "plugins.servers.*"),
        (json!({"serverAssignment": {"a": ["security-plugin"]}}), "plugins.serverAssignment"),
        (json!({"servers": {"a": {"request": []}, "b": null}, "serverAssignments": {"c": []}}), ""),
    ] {
        assert_eq!(wrong(plugins, json!({})), field);
    }
    let unread = json!({"servers": {"a": {"request": [{"name": "idle", "env": "KEY"}]}}});
    assert_eq!(wrong(unread, json!({})), "plugins.servers.a.request[0].env");
    let servers =
        json!({"A b": {"command": "x", "disabled": "true"}, "a_b": {"command": "x", "args": "y", "env": ["K=s3cret"]}});
    let wrong_fields = "mcpServers.A b.disabled mcpServers.a_b.args mcpServers.a_b.env mcpServers.a_b";
    assert_eq!(wrong(json!({}), servers), wrong_fields);
}

#[test]
fn the_role_guard_counts() {
    let guard = json!({"name": "security-plugin", "role": "Guard"});
    let other_case = made(&json!({"Plugins": {"servers": {"a": {"request": [guard]}}}, "mcpServers": {}}));
    assert_eq!(other_case.wrong[0].field, "Plugins");
    let transform = json!({"name": "security-plugin", "role": "Transform"});
    for entries in [json!([guard, transform]), json!([transform, guard])] {
        let converted = made(&json!({"plugins": {"servers": {"a": {"request": entries}}}}));
        assert_eq!(spec(&converted, "Plugin", "security-plugin")["role"], "Guard");
    }
}

#[test]
fn servers_of_clients() {
    let converted = made(&json!({
        "mcpServers": {
            "Brave Search": {"command": "npx", "args": ["-y", "x"], "env": {"A": "1", "B": "${env:B}", "C": "x${D}"}},
            "remote": {"url": "https://mcp.example/mcp", "headers": {"X": "1", "Authorization": "Bearer ${T}"}},
            "old": {"type": "sse", "url": "https://mcp.example/sse", "disabled": true, "disabledTools": ["rm"]},
            "none": {"port": 1},
        },
        "servers": {"code": {"type": "stdio", "command": "${workspaceFolder}/x", "env": {"K": "${input:my-key}"}}},
        "inputs": [{"id": "my-key"}],
    }));
    assert_eq!(
        spec(&converted, "MCPUpstream", "brave-search"),
        json!({"process": {"command": "npx", "args": ["-y", "x"], "cwd": "/open",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"environment": "B"}},
                {"name": "C", "valueFrom": {"environment": "x${D}"}}]}})
    );
    let authorization = json!({"name": "Authorization", "valueFrom": {"environment": "Bearer ${T}"}});
    let headers = json!([authorization, {"name": "X", "value": "1"}]);
    let external = json!({"url": "https://mcp.example/mcp", "headers": headers});
    assert_eq!(spec(&converted, "MCPUpstream", "remote"), json!({"external": external}));
    let external = json!({"url": "https://mcp.example/sse", "transport": "SSE"});
    assert_eq!(
        spec(&converted, "MCPUpstream", "old"),
        json!({"external": external, "enabled": false, "tools": {"exclude": ["rm"]}})
    );
    let env = json!([{"name": "K", "valueFrom": {"environment": "MY_KEY"}}]);
    assert_eq!(
        spec(&converted, "MCPUpstream", "code"),
        json!({"process": {"command": "/open/x", "cwd": "/open", "env": env}})
    );
    assert_eq!(left_out(&converted), ["mcpServers.none", "servers.code.env.K", "inputs"]);
}

#[test]
fn references_are_kept_where_the_gateway_reads_them_and_replaced_elsewhere() {
    let wrong = |converted: &Converted| {
        converted.wrong.iter().map(|wrong| format!("{}: {}", wrong.field, wrong.reason)).collect::<Vec<_>>().join("; ")
    };
    let all = |text: &str| {
        json!({"mcpServers": {
            "p": {"command": text, "args": ["a", text], "cwd": text, "env": {"E": text}},
            "u": {"url": format!("https://h/{text}"), "headers": {"H": format!("Bearer {text}")}},
        }})
    };
    for (text, value, kept) in [
        ("${SET}", "set", "SET"),
        ("${env:SET}", "set", "SET"),
        ("${input:set}", "set", "SET"),
        ("x${SET:-no}y${env:UNSET:-}", "xsety", "x${SET:-no}y${UNSET:-}"),
        ("${workspaceFolder}/${UNSET:-b}", "/open/b", "/open/${UNSET:-b}"),
    ] {
        let converted = made(&all(text));
        assert_eq!(wrong(&converted), "", "{text}");
        let env = json!([{"name": "E", "valueFrom": {"environment": kept}}]);
        let process = json!({"process": {"command": value, "args": ["a", value], "cwd": value, "env": env}});
        assert_eq!(spec(&converted, "MCPUpstream", "p"), process, "{text}");
        let kept = if kept == "SET" { "${SET}" } else { kept };
        let headers = json!([{"name": "H", "valueFrom": {"environment": format!("Bearer {kept}")}}]);
        let external = json!({"external": {"url": format!("https://h/{value}"), "headers": headers}});
        assert_eq!(spec(&converted, "MCPUpstream", "u"), external, "{text}");
    }
    let unset = wrong(&made(&all("x${UNSET}")));
    let field = |field: &str| format!("mcpServers.{field}: the environment variable UNSET is not set");
    assert_eq!(unset, ["p.command", "p.args[1]", "p.cwd", "u.url"].map(field).join("; "));
    let unclear = wrong(&made(&all("${a b}")));
    assert_eq!(unclear.matches("${a b} is no reference to a variable").count(), 6, "{unclear}");
    let printed = wrong(&made_with(&all("${SET}"), None));
    assert_eq!(printed.matches("a manifest has no references to variables here").count(), 4, "{printed}");
    assert!(!printed.contains("env") && !printed.contains("headers"), "{printed}");
    let off = made(&json!({"mcpServers": {"p": {"command": "${UNSET}", "disabled": true}}}));
    assert_eq!((wrong(&off), left_out(&off), off.objects.len()), (String::new(), vec!["mcpServers.p"], 0));
}

#[test]
fn servers_in_the_form_of_another_client_are_named() {
    let server = json!({"command": "x"});
    for (document, field) in [
        (json!({"context_servers": {"a": {"source": "custom", "command": "x"}}}), "context_servers"),
        (json!({"mcp_servers": {"a": server}}), "mcp_servers"),
        (json!({"mcp": {"a": {"type": "local", "command": ["x"]}}}), "mcp"),
        (json!({"mcpServers": [{"name": "a", "command": "x"}]}), "mcpServers"),
        (json!({"servers": [{"name": "a", "url": "https://h/"}]}), "servers"),
        (json!({"mcp": {"servers": [server]}, "mcpServers": {"b": server}}), "mcp.servers"),
    ] {
        let converted = made(&document);
        let wrong = &converted.wrong[0];
        assert_eq!((&*wrong.field, converted.objects.len()), (field, 0), "{document}");
        assert!(wrong.reason.contains(r#"write "mcpServers": {"NAME": {"#), "{}", wrong.reason);
    }
}

/// Document 003, PluginSettings.
#[test]
fn settings() {
    let binding = |more: Value| {
        let mut all = json!({"serverId": "id-1", "inheritToChildren": true});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let converted = made(&json!({
        "mcpServers": [
            {"id": "id-1", "name": "Weather", "transport": "stdio", "deploymentType": "managed", "enabled": false,
                "failureCount": 2, "dockerConfig": {"image": "weather:1", "containerName": "w", "ports": {"http": 1}},
                "sectionBindings": [
                    binding(json!({"sectionType": "heading", "headingText": "## Tools"})),
                    binding(json!({"sectionType": "block", "blockId": "^a"})),
                    binding(json!({"sectionType": "range", "startLine": 1, "endLine": 4})),
                    {"serverId": "id-9", "blockId": "a"},
                ]},
            {"id": "id-2", "name": "far", "transport": "sse", "deploymentType": "external", "enabled": true,
                "sseConfig": {"url": "https://mcp.example/sse"}, "sectionBindings": []},
        ],
        "mcpGlobalTimeout": 1000, "mcpSessionLimit": -1,
    }));
    let managed = json!({"image": "weather:1", "containerName": "w", "ports": [{"name": "http", "port": 1}], "transport": "Stdio"});
    assert_eq!(spec(&converted, "MCPUpstream", "weather"), json!({"managed": managed, "enabled": false}));
    let external = json!({"url": "https://mcp.example/sse", "transport": "SSE"});
    assert_eq!(spec(&converted, "MCPUpstream", "far"), json!({"external": external, "enabled": true}));
    let limits = json!({"callTimeoutMs": 1000, "perSession": {"totalCalls": -1}});
    assert_eq!(spec(&converted, "MCPGateway", "main")["limits"], limits);
    for (name, part, value) in [
        ("weather-1", "heading", json!({"text": "Tools", "level": 2})),
        ("weather-2", "block", json!({"id": "a"})),
        ("weather-3", "range", json!({"startLine": 1, "endLine": 4})),
    ] {
        let binding = spec(&converted, "SectionBinding", name);
        assert_eq!((&binding[part], &binding["inheritToChildren"]), (&value, &json!(true)));
        assert_eq!((&binding["upstream"]["name"], &binding["document"]["glob"]), (&json!("weather"), &json!("**")));
    }
    assert_eq!(left_out(&converted), ["mcpServers[0].failureCount"]);
    assert_eq!(converted.wrong.len(), 1);
    assert_eq!(converted.wrong[0].field, "mcpServers[0].sectionBindings[3]");
}

#[test]
fn a_plugin_folder_that_is_not_there_is_an_error() {
    let converted = made(&json!({"plugins": {"pluginDir": "./plugin"}}));
    assert_eq!(converted.wrong[0].field, "plugins.pluginDir");
    assert!(converted.wrong[0].reason.contains("./plugin"), "{:?}", converted.wrong);
    assert!(made(&json!({"plugins": {}})).wrong.is_empty());
}

#[test]
fn a_server_of_settings_has_its_id_as_a_label() {
    let server = |id: &str| json!({"id": id, "name": "far", "transport": "sse", "sseConfig": {"url": "https://x"}});
    for (id, label) in [("4b1c-9", json!("4b1c-9")), ("no label", Value::Null), ("", Value::Null)] {
        let converted = made(&json!({"mcpServers": [server(id)]}));
        assert_eq!(converted.objects[0].document["metadata"]["labels"]["hawsepipe.dev/server-id"], label, "{id}");
    }
}

#[test]
fn settings_that_contradict_themselves_are_errors() {
    let (docker, sse) = (json!({"image": "i", "containerName": "c"}), json!({"url": "https://x"}));
    for server in [
        json!({"transport": "stdio", "sseConfig": sse}),
        json!({"transport": "stdio", "deploymentType": "external", "sseConfig": sse}),
        json!({"transport": "ws", "deploymentType": "external", "sseConfig": sse}),
        json!({"transport": 1, "sseConfig": sse}),
        json!({"transport": "sse", "deploymentType": "external"}),
        json!({"transport": "sse", "deploymentType": "external", "sseConfig": {}}),
        json!({"transport": "stdio", "deploymentType": "managed"}),
        json!({"deploymentType": "managed", "sseConfig": sse}),
        json!({"transport": "sse", "dockerConfig": docker, "sseConfig": sse}),
        json!({}),
    ] {
        let mut named = server.clone();
        named["name"] = json!("a");
        let converted = made(&json!({"mcpServers": [named]}));
        assert!(converted.objects.is_empty(), "{server}");
        let wrong: Vec<_> = converted.wrong.iter().map(|wrong| (&*wrong.field, &*wrong.reason)).collect();
        assert!(
            matches!(&wrong[..], [("mcpServers[0]", reason)] if reason.contains("dockerConfig")),
            "{server}: {wrong:?}"
        );
    }
    for binding in [
        json!({"sectionType": "heading", "blockId": "b"}),
        json!({"sectionType": "page", "blockId": "b"}),
        json!({"blockId": "b", "headingText": "T"}),
        json!({"sectionType": "range", "headingText": "T", "startLine": 1}),
        json!({"sectionType": "block"}),
    ] {
        let mut bound = binding.clone();
        bound["serverId"] = json!("1");
        let server = json!({"id": "1", "name": "a", "dockerConfig": docker, "sectionBindings": [bound]});
        let converted = made(&json!({"mcpServers": [server]}));
        assert_eq!(converted.objects.len(), 1, "{binding}");
        assert!(converted.wrong[0].reason.contains("sectionType heading with headingText"), "{:?}", converted.wrong);
    }
    let server = json!({"name": "a", "sseConfig": {"url": "https://x", "headers": {}}});
    assert_eq!(left_out(&made(&json!({"mcpServers": [server]}))), ["mcpServers[0].sseConfig.headers"]);
}

#[test]
fn servers_over_websocket_are_errors_unless_they_are_disabled() {
    for server in [
        json!({"url": "ws://x/mcp"}),
        json!({"url": "WSS://x/mcp", "type": "http"}),
        json!({"url": "https://x/mcp", "type": "ws"}),
        json!({"serverUrl": "https://x/mcp", "transport": "WebSocket"}),
    ] {
        for form in ["mcpServers", "servers"] {
            let converted = made(&json!({form: {"a": server}}));
            let wrong: Vec<_> = converted.wrong.iter().map(|wrong| (&*wrong.field, &*wrong.reason)).collect();
            let field = format!("{form}.a.url");
            assert!(matches!(wrong[..], [(at, why)] if at == field && why.contains("http://")), "{server}: {wrong:?}");
            assert!(converted.objects.is_empty(), "one error is enough");
        }
        let mut disabled = server.clone();
        disabled["disabled"] = json!(true);
        let converted = made(&json!({"mcpServers": {"a": disabled}}));
        assert!(converted.wrong.is_empty() && converted.objects.is_empty(), "{:?}", converted.wrong);
        assert_eq!(left_out(&converted), ["mcpServers.a"]);
    }
    let wsl = made(&json!({"mcpServers": {"a": {"url": "https://ws.example", "type": "streamable-http"}}}));
    assert!(wsl.wrong.is_empty() && wsl.objects.len() == 1);
}

#[test]
fn other_documents_are_not_converted() {
    for other in [
        json!({"apiVersion": "v1", "kind": "Secret", "mcpServers": {}}),
        json!({"compilerOptions": {"plugins": []}, "plugins": [{"name": "x"}]}),
        json!({"servers": [1]}),
        json!([1]),
    ] {
        assert!(!is_convertible(&other), "{other}");
    }
}
