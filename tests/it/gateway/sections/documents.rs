//! Code blocks of documents, and other invocations, are calls from their section.

use serde_json::{Value, json};

use super::{SERVERS, binding, call, servers};
use crate::gateway::harness::{Folder, Gateway, hawsepipe, run};
use crate::gateway::invocations::{Admin, err, out};
use crate::gateway::parts::tools_of;

const RUNBOOK: &str = "# Runbook

```postgres
tool: args
```

## Deploy

```kubernetes
tool: args
```

```postgres
tool: args
```

### Deeper

```search
tool: args
```

^db-checks
";

/// The text of a refused call.
fn text(answer: &Value) -> String {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// A gateway with four bindings, and a document.
async fn started(folder: &Folder) -> Gateway {
    std::fs::create_dir(folder.path().join("runbooks")).unwrap();
    let deploy = "heading: {text: Deploy, level: 2}, inheritToChildren: true";
    let manifests = servers(folder)
        + &binding("deploy", "runbooks/**/*.md", deploy, "kubernetes")
        + &binding("checks", "runbooks/**/*.md", "block: {id: db-checks}", "postgres")
        + &binding("lines", "runbooks/lines.md", "range: {startLine: 10, endLine: 20}", "search")
        + &binding("gone", "runbooks/lines.md", "range: {startLine: 30, endLine: 40}", "nobody");
    folder.write("manifests.yaml", &manifests);
    folder.write("runbooks/ops.md", RUNBOOK);
    let gateway = Gateway::start(folder);
    tools_of(&gateway, &SERVERS).await;
    gateway
}

#[tokio::test]
async fn a_code_block_calls_only_what_its_section_is_bound_to() {
    let folder = Folder::new();
    let gateway = started(&folder).await;
    let address = gateway.admin();
    let command = |arguments: &[&str]| {
        let all = [arguments, &["--admin", &address]].concat();
        hawsepipe().current_dir(folder.path()).args(all).output().unwrap()
    };
    let ran = command(&["run-doc", "./runbooks/ops.md", "-o", "json"]);
    assert!(err(&ran).contains("2 of 4 calls failed"), "{}", err(&ran));
    let ran: Value = serde_json::from_str(&out(&ran)).unwrap();
    let statuses: Vec<_> = ran["items"].as_array().unwrap().iter().map(|item| item["status"].clone()).collect();
    assert_eq!(statuses, ["success", "success", "error", "error"], "{ran}");
    for (index, server, headings, block) in
        [(2, "postgres", json!([["Runbook", 1], ["Deploy", 2]]), None), (3, "search", json!([]), Some("db-checks"))]
    {
        let path: Vec<_> = headings.as_array().unwrap().iter().map(|h| json!({"text": h[0], "level": h[1]})).collect();
        let place = json!({"document": "runbooks/ops.md", "headings": path, "block": block});
        let refused = text(&call(&gateway, server, &place).await);
        assert!(refused.contains("it comes from a section that SectionBinding default/"), "{refused}");
        assert_eq!(ran["items"][index]["error"]["message"], refused);
    }
    let block = command(&["call", "--codeblock", "runbooks/ops.md:13"]);
    assert!(!block.status.success() && err(&block).contains("SectionBinding default/deploy"), "{}", err(&block));
    assert!(command(&["call", "--codeblock", "runbooks/ops.md:9"]).status.success());
    let calls = std::fs::read_to_string(folder.path().join("search.log")).unwrap();
    assert!(!calls.contains("\"tools/call\""), "the refused call was not sent: {calls}");
    without_a_server(&Admin::of(&gateway)).await;
    are_in_the_status(&gateway);
}

/// The status lists the bindings.
fn are_in_the_status(gateway: &Gateway) {
    let status = run(&["status", "--admin", &gateway.admin()]);
    let rows: Vec<Vec<_>> =
        out(&status).lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
    for (name, row) in [
        ("default/deploy", "Ready runbooks/**/*.md ## Deploy default/kubernetes"),
        ("default/lines", "Ready runbooks/lines.md 10-20 default/search"),
        (
            "default/gone",
            "UpstreamNotFound runbooks/lines.md 30-40 default/nobody there is no MCPUpstream default/nobody",
        ),
    ] {
        let found = rows.iter().find(|row| row.first().is_some_and(|first| first == name));
        assert_eq!(found.map(|found| found[1..].join(" ")).as_deref(), Some(row), "{}", out(&status));
    }
}

/// A tool without a server is that of the upstream that the place is bound to.
async fn without_a_server(admin: &Admin) {
    for (tool, line, server, status) in [
        ("args", 10, json!("search"), "success"),
        ("args", 21, json!("kubernetes"), "success"),
        ("search__args", 15, json!("search"), "success"),
        ("kubernetes__args", 15, json!("kubernetes"), "error"),
        ("args", 30, json!("kubernetes"), "error"),
    ] {
        let new = json!({"toolName": tool, "documentPath": "runbooks/lines.md", "sectionLine": line});
        let done = admin.invoke(new).await;
        assert_eq!((&done["serverId"], &done["status"]), (&server, &json!(status)), "{tool} {line}: {done}");
    }
    let (status, refused) =
        admin.post("invocations", json!({"toolName": "args", "documentPath": "a.md", "sectionLine": 0})).await;
    assert_eq!((status, &refused["error"]["reason"]), (400, &json!("InvalidSection")), "{refused}");
}
