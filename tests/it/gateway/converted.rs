//! Configuration of other forms: document 001's `plugins`, and the servers of MCP clients.

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, hawsepipe};
use super::http::Http;
use super::parts::tools_of;
use crate::fixtures::{checkout, fixture, node_module};

/// Document 001, "YAML Configuration", as it is published.
const YAML: &str = "\
plugins:
  # Global plugin settings
  pluginDir: ./plugins              # Directory containing .js plugin files
  nodeExecutable: node               # Path to Node.js binary

  # Concurrency & Performance
  maxConcurrentExecutions: 10        # Global semaphore limit
  poolSizePerPlugin: 5               # Warm processes per plugin
  defaultTimeoutMs: 30000            # 30s default timeout

  # Server-specific plugin assignments
  servers:
    context7:
      response:                      # Response phase plugins
        - name: curation-plugin
          order: 1
          enabled: true
          timeoutMs: 45000           # Override default timeout

    filesystem:
      request:                       # Request phase plugins
        - name: security-plugin
          order: 1
          enabled: true
      response:
        - name: path-normalizer
          order: 1
          enabled: true
";
/// Document 001, "JSON Configuration".
const JSON: &str = r#"{
  "plugins": {
    "pluginDir": "./plugins",
    "nodeExecutable": "node",
    "maxConcurrentExecutions": 10,
    "poolSizePerPlugin": 5,
    "defaultTimeoutMs": 30000,
    "servers": {
      "context7": {
        "response": [
          {
            "name": "curation-plugin",
            "order": 1,
            "enabled": true,
            "timeoutMs": 45000
          }
        ]
      }
    }
  }
}
"#;
/// What no published example is: a script of contract 1.0 that changes paths.
const NORMALIZER: &str = "process.stdin.setEncoding('utf8'); let all = '';
process.stdin.on('data', (chunk) => { all += chunk; }).on('end', () => {
  const { rawContent } = JSON.parse(all);
  console.log(JSON.stringify({ text: rawContent.replaceAll('/tmp/', '~/'), continue: true }));
});";

/// The two servers that the document names, as a client of MCP has them.
fn servers() -> String {
    let server = |arguments: Value| json!({"command": "node", "args": arguments});
    let everything = server(json!([node_module("@modelcontextprotocol/server-everything/dist/index.js"), "stdio"]));
    json!({"mcpServers": {"context7": everything, "filesystem": everything}}).to_string()
}

/// A folder with the document's three plugins, of which one fails because no key is set.
fn folder() -> Folder {
    let folder = Folder::new();
    for plugin in ["curation-plugin.js", "security-plugin.js", "package.json"] {
        std::fs::copy(fixture("contract-1.0").join(plugin), folder.path().join("plugins").join(plugin)).unwrap();
    }
    folder.write("plugins/path-normalizer.js", NORMALIZER);
    folder
}

/// What the tool `echo` of a server answers to a message.
async fn echo(gateway: &Gateway, server: &str, message: &str) -> Value {
    let answer =
        Http::new().call(&gateway.url(), &format!("{server}__echo"), &json!({"message": message}), &json!({})).await;
    answer["result"]["content"][0]["text"].clone()
}

/// The outcomes of the same calls through a gateway.
async fn outcomes(folder: &Folder) -> Vec<Value> {
    let gateway = Gateway::start(folder);
    tools_of(&gateway, &["context7", "filesystem"]).await;
    let mut outcomes = Vec::new();
    for (server, message) in [("context7", "/tmp/a"), ("filesystem", "/tmp/a"), ("filesystem", "the password")] {
        outcomes.push(echo(&gateway, server, message).await);
    }
    outcomes
}

/// What `hawsepipe convert` prints for a file of the folder.
fn converted(folder: &Folder, file: &str) -> String {
    let done = hawsepipe().arg("convert").arg(folder.path().join(file)).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

#[tokio::test]
async fn the_published_configuration_runs_unchanged_and_converted() {
    let original = folder();
    original.write("config.yaml", YAML);
    original.write("mcp.json", &servers());
    let outcomes_of_original = outcomes(&original).await;
    let said: Vec<_> = outcomes_of_original.iter().map(|text| text.as_str().unwrap_or_default()).collect();
    assert_eq!(said[..2], ["Echo: /tmp/a", "Echo: ~/a"]);
    assert!(said[2].contains("Security policy violation") || said[2].contains("BLOCKED"), "{said:?}");

    let after = folder();
    after.write("config.yaml", &converted(&original, "config.yaml"));
    after.write("servers.yaml", &converted(&original, "mcp.json"));
    assert_eq!(outcomes(&after).await, outcomes_of_original);
}

#[tokio::test]
async fn the_published_json_runs_unchanged() {
    let folder = folder();
    folder.write("config.json", JSON);
    folder.write("mcp.json", &servers());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["context7", "filesystem"]).await;
    // The curation plugin fails without a limit of tokens, so the content stays.
    assert_eq!(echo(&gateway, "context7", "hello").await, "Echo: hello");
    let executions = super::outcomes::seen::list(&gateway, "executions").await;
    assert!(executions.iter().any(|ran| ran["plugin"].to_string().contains("curation-plugin")), "{executions:?}");
}

#[test]
fn all_documents_of_a_file_are_converted() {
    let folder = Folder::with(
        "mcpServers: {a: {command: x}}\n---\nplugins: {servers: {a: {request: [{name: p, role: Guard}]}}}\n---\n{apiVersion: v1, \
         kind: Secret, metadata: {name: s}}\n",
    );
    let manifests = converted(&folder, "manifests.yaml");
    for kind in ["MCPUpstream", "PluginChain", "Plugin", "Secret"] {
        assert!(manifests.contains(&format!("kind: {kind}\n")), "{manifests}");
    }
}

#[test]
fn a_file_with_a_part_that_cannot_be_converted_does_not_run() {
    let folder = Folder::with("mcpServers: {a: {command: x}}\nplugins: {servers: [{name: p}]}");
    for command in ["convert", "validate", "run"] {
        let mut started = hawsepipe();
        started.arg(command).args((command == "run").then_some("-f")).arg(folder.path());
        let done = started.output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(!done.status.success() && said.contains("plugins.servers: it is no mapping"), "{command}: {said}");
    }
}

#[tokio::test]
async fn variables_of_the_environment_reach_servers_and_unset_ones_are_named() {
    let everything = node_module("@modelcontextprotocol/server-everything/dist/index.js");
    let file = format!(
        r#"{{
  // As VS Code has it.
  "servers": {{
    "up": {{
      "command": "${{HAWSEPIPE_IT_NODE:-node}}", "args": [{everything:?}, "${{HAWSEPIPE_IT_TRANSPORT}}"],
      "env": {{"GREETING": "Bearer ${{env:HAWSEPIPE_IT_TOKEN}}", "PLAIN": "${{HAWSEPIPE_IT_TOKEN}}"}}, /* the last */
    }},
  }},
}}"#
    );
    let folder = Folder::new();
    folder.write("mcp.json", &file);
    let path = folder.path().join("mcp.json");
    let with = |command: &str, variables: &[(&str, &str)]| {
        let done = hawsepipe().arg(command).arg(&path).envs(variables.iter().copied()).output().unwrap();
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        (done.status.success(), said)
    };
    let (is_valid, said) = with("validate", &[]);
    let unset = "servers.up.args[1]: the environment variable HAWSEPIPE_IT_TRANSPORT is not set";
    assert!(!is_valid && said.contains(unset) && said.contains("mcp.json:5:"), "{said}");
    let (is_converted, said) = with("convert", &[("HAWSEPIPE_IT_TRANSPORT", "stdio")]);
    assert!(!is_converted && said.contains("a manifest has no references to variables here"), "{said}");

    let variables = [("HAWSEPIPE_IT_TRANSPORT", "stdio"), ("HAWSEPIPE_IT_TOKEN", "canary-7")];
    let gateway = Gateway::start_in(&folder, &[], &variables[..]);
    tools_of(&gateway, &["up"]).await;
    let answer = Http::new().call(&gateway.url(), "up__get-env", &json!({}), &json!({})).await;
    let env: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&env["GREETING"], &env["PLAIN"]), (&json!("Bearer canary-7"), &json!("canary-7")));
    let plan = Http::new().get(&format!("http://{}/api/v1/plan", gateway.admin())).await.body;
    assert!(!plan.contains("canary-7") && !gateway.log().concat().contains("canary-7"));

    let folder =
        Folder::with("mcpServers: {up: {url: 'http://127.0.0.1:9/mcp', headers: {A: 'Bearer ${HAWSEPIPE_IT_NONE}'}}}");
    let gateway = Gateway::start(&folder);
    let problems =
        Http::new().get(&format!("http://{}/api/v1/plan", gateway.admin())).await.json()["problems"].to_string();
    assert!(problems.contains("the gateway's environment variable HAWSEPIPE_IT_NONE"), "{problems}");
}

#[test]
fn servers_in_the_form_of_another_client_are_refused_by_name() {
    let folder = Folder::with("context_servers: {a: {command: x}}");
    for command in ["convert", "validate"] {
        let done = hawsepipe().arg(command).arg(folder.path()).output().unwrap();
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        assert!(!done.status.success() && said.contains("context_servers: the servers of Zed"), "{command}: {said}");
    }
}

#[test]
fn what_has_no_place_is_named() {
    let folder = Folder::with("mcpServers: {a: {command: x, envFile: .env, odd: 1}}");
    let done = hawsepipe().arg("validate").arg(folder.path()).output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    for words in
        ["mcpServers.a.envFile: files with variables are not read", "mcpServers.a.odd: not a field of this form"]
    {
        assert!(said.contains(words), "{said}");
    }
    assert!(said.contains("manifests.yaml:1:"), "{said}");
    let folder = Folder::with("a: 1");
    let done = hawsepipe().arg("convert").arg(folder.path()).output().unwrap();
    assert!(
        !done.status.success() && String::from_utf8_lossy(&done.stderr).contains("it has none of `plugins`"),
        "{done:?}"
    );
}

#[test]
fn the_examples_of_the_documentation_are_converted_whole() {
    let docs = std::fs::read_to_string(checkout().join("docs/configuration.md")).unwrap();
    let mut blocks = 0;
    for (language, ending) in [("```json\n", "json"), ("```yaml\n", "yaml")] {
        for block in docs.split(language).skip(1) {
            let folder = Folder::new();
            let file = format!("config.{ending}");
            folder.write(&file, block.split("```").next().unwrap());
            let done = hawsepipe().arg("convert").arg(folder.path().join(&file)).output().unwrap();
            assert!(done.status.success() && done.stderr.is_empty() && !done.stdout.is_empty(), "{done:?}");
            blocks += 1;
        }
    }
    assert_eq!(blocks, 2);
}
