//! Tool calls of documents and of models' answers that commands run.

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::invocations::{Admin, err, manifests, out, text_of};
use super::parts::tools_of;

const RUNBOOK: &str = "# Runbook

```everything
tool: echo
message: hi
```

Between.

```everything
tool: get-structured-content
location: Chicago
```

```second
tool: get-tiny-image
```

```everything
tool: trigger-long-running-operation
duration: 30
steps: 1
```

```second
tool: echo
message: 1
```

The end.
";

#[tokio::test]
async fn a_runbook_runs_to_its_end_and_keeps_its_results() {
    let folder = Folder::with(&manifests());
    folder.write("runbook.markdown", RUNBOOK);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "second"]).await;
    let (admin, file) = (gateway.admin(), folder.path().join("runbook.markdown"));
    let path = file.to_str().unwrap().to_owned();
    let shown = run(&["run-doc", &path, "--admin", &admin]);
    let text = out(&shown);
    assert_eq!(shown.status.code(), Some(1), "{text}{}", err(&shown));
    assert!(err(&shown).contains("2 of 5 calls failed"), "{}", err(&shown));
    for said in [
        ":3 everything/echo: success, ",
        "\nEcho: hi\n",
        ":10 everything/get-structured-content: success, ",
        "\n  \"temperature\": ",
        ":15 second/get-tiny-image: success, ",
        "\n[image/png, ",
        ":19 everything/trigger-long-running-operation: timeout\n",
        ":25 second/echo: error\n",
        "do not fit the input schema",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let places: Vec<_> = [":3 ", ":10 ", ":15 ", ":19 ", ":25 "].iter().map(|line| text.find(line).unwrap()).collect();
    assert!(places.is_sorted() && std::fs::read_to_string(&file).unwrap() == RUNBOOK, "{text}");

    let json = run(&["run-doc", &path, "--admin", &admin, "--write", "-o", "json"]);
    let json: Value = serde_json::from_str(&out(&json)).unwrap();
    let items = json["items"].as_array().unwrap();
    let told: Vec<_> =
        items.iter().map(|item| (text_of(&item["status"]), text_of(&item["result"]["contentType"]))).collect();
    assert_eq!(told, [("success", "text"), ("success", "json"), ("success", "image"), ("timeout", ""), ("error", "")]);
    let written = std::fs::read_to_string(&file).unwrap();
    for said in ["```text\nEcho: hi\n```", "```json\n{", "[image/png, ", "```text\ntimeout: ", "```text\nerror: "] {
        assert_eq!(written.matches(said).count(), 1, "{said}: {written}");
    }
    assert_eq!(written.matches("<!-- hawsepipe:result -->").count(), 5);
    assert!(written.contains("\nBetween.\n") && written.ends_with("\nThe end.\n"), "{written}");
    let again = run(&["run-doc", &path, "--admin", &admin, "--write"]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&file).unwrap().matches("hawsepipe:result").count(), 10);
}

#[tokio::test]
async fn calls_that_a_model_wrote_are_run() {
    let folder = Folder::with(&manifests());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "second"]).await;
    let function = json!({"name": "second__echo", "arguments": "{\"message\": \"one\"}"});
    let answer = json!({"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]});
    folder.write("answer.json", &answer.to_string());
    folder.write("answer.md", "Now:\n```json\n{\"tool\": \"echo\", \"arguments\": {\"message\": \"two\"}}\n```\n");
    folder.write("none.md", "<tool_call>echo</tool_call>");
    let call = |name: &str| {
        let file = folder.path().join(name).to_str().unwrap().to_owned();
        run(&["call", "--from-text", &file, "--admin", &gateway.admin()])
    };
    let (first, second, none) = (call("answer.json"), call("answer.md"), call("none.md"));
    assert!(out(&first).contains("second/echo: success") && out(&first).contains("Echo: one"), "{first:?}");
    assert!(out(&second).contains("everything/echo: success") && out(&second).contains("Echo: two"), "{second:?}");
    assert!(err(&none).contains("Found: <tool_call> tags") && none.status.code() == Some(1), "{none:?}");
    let sources = Admin::of(&gateway).get("invocations").await;
    assert!(sources["items"].as_array().unwrap().iter().all(|item| item["source"] == "ai-autonomous"), "{sources}");
}
