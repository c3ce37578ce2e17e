//! Invocations of tools through the admin API, and the commands about them (document 003, ToolInvocationRequest).

use std::time::Instant;

use hyper::Method;
use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::parts::{chain, everything, object, plugin, tools_of, until};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// The admin API of a gateway.
pub struct Admin(Http, String);

impl Admin {
    pub fn of(gateway: &Gateway) -> Self {
        Self(Http::new(), format!("http://{}/api/v1", gateway.admin()))
    }

    pub async fn get(&self, path: &str) -> Value {
        self.0.get(&format!("{}/{path}", self.1)).await.json()
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let answer = self.0.send(Method::POST, &format!("{}/{path}", self.1), &JSON, body.to_string()).await;
        (answer.status, answer.json())
    }

    /// Creates an invocation, and returns it once it has ended.
    pub async fn invoke(&self, body: Value) -> Value {
        let (status, created) = self.post("invocations", body).await;
        assert_eq!(status, 201, "{created}");
        self.get(&format!("invocations/{}?wait=20", created["id"].as_str().unwrap())).await
    }
}

/// Two servers of the same tools; calls of the first one end after a second, and a Guard is on both.
pub fn manifests() -> String {
    let deny = "export default ({ rawContent }) => rawContent.includes('forbidden')
        ? { text: 'this is forbidden', continue: false, error: 'forbidden' } : { text: rawContent, continue: true };";
    let limited = "limits: {perSession: {concurrentCalls: 2}}";
    object("MCPGateway", "main", &format!("authentication: {{anonymous: {{}}}}, {limited}"))
        + &everything("everything").replace("spec: {", "spec: {timeouts: {callMs: 1000}, ")
        + &everything("second")
        + &plugin("deny", deny, "role: Guard")
        + &chain("deny", "Request", &["everything", "second"], &["deny"])
}

#[tokio::test]
async fn an_invocation_is_a_call_with_its_limits_chains_and_record() {
    let folder = Folder::with(&manifests());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "second"]).await;
    let admin = Admin::of(&gateway);
    let block = json!({"toolName": "echo", "parameters": {"message": "hi"}, "source": "user-codeblock",
        "documentPath": "notes.md", "sectionLine": 3});
    let done = admin.invoke(block).await;
    assert_eq!((&done["status"], &done["serverId"]), (&json!("success"), &json!("everything")), "{done}");
    assert_eq!(
        (&done["source"], &done["documentPath"], &done["sectionLine"]),
        (&json!("user-codeblock"), &json!("notes.md"), &json!(3))
    );
    assert_eq!((&done["retryAttempt"], &done["maxRetries"]), (&json!(0), &json!(2)));
    let result = &done["result"];
    assert_eq!((&result["content"], &result["contentType"]), (&json!("Echo: hi"), &json!("text")), "{done}");
    assert!(result["executionDuration"].as_f64().unwrap() > 0.0 && result["displayFormat"] == "inline", "{done}");
    let at = |name: &str| done[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(at("submittedAt") <= at("startedAt") && at("startedAt") <= at("completedAt"), "{done}");
    let call = admin.get(&format!("calls?request={}", done["id"].as_str().unwrap())).await["items"][0].clone();
    assert_eq!((&call["tool"], &call["principal"], &call["outcome"]), (&json!("echo"), &json!("local"), &json!("ok")));
    assert_eq!(call["entries"][0]["outcome"], "ran", "the chain of the upstream runs: {call}");

    for (server, parameters, tool, status, said) in [
        ("second", json!({"message": "forbidden"}), "echo", "error", "this is forbidden"),
        ("second", json!({"message": 1}), "echo", "error", "do not fit the input schema"),
        ("second", json!({}), "no-such-tool", "error", "no-such-tool"),
        ("everything", json!({"duration": 30, "steps": 1}), "trigger-long-running-operation", "timeout", "callMs"),
    ] {
        let done = admin.invoke(json!({"serverId": server, "toolName": tool, "parameters": parameters})).await;
        assert_eq!(done["status"], status, "{done}");
        assert!(done["error"]["message"].as_str().unwrap().contains(said) && done["result"].is_null(), "{done}");
    }
    let public = admin.invoke(json!({"toolName": "second__echo", "parameters": {"message": "hi"}})).await;
    assert_eq!((&public["serverId"], &public["toolName"]), (&json!("second"), &json!("echo")), "{public}");
    let unknown = admin.post("invocations", json!({"serverId": "secnod", "toolName": "echo"})).await;
    assert!(
        unknown.0 == 404 && unknown.1["error"]["message"].as_str().unwrap().contains("did you mean second?"),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn an_invocation_can_be_cancelled_and_limits_of_a_session_hold() {
    let folder = Folder::with(&manifests());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "second"]).await;
    let admin = Admin::of(&gateway);
    let long = json!({"serverId": "second", "toolName": "trigger-long-running-operation", "parameters": {"duration": 25, "steps": 1}});
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(admin.post("invocations", long.clone()).await.1["id"].as_str().unwrap().to_owned());
    }
    for id in &ids {
        let executes = async || admin.get(&format!("invocations/{id}")).await["status"] == "executing";
        until("both execute", executes).await;
    }
    let refused = admin.invoke(json!({"toolName": "echo", "parameters": {"message": "hi"}})).await;
    assert_eq!(refused["error"]["data"]["reason"], "SessionConcurrentCalls", "{refused}");
    let began = Instant::now();
    for id in &ids {
        let (status, cancelled) = admin.post(&format!("invocations/{id}/cancel"), json!({})).await;
        assert_eq!((status, &cancelled["status"]), (200, &json!("cancelled")), "{cancelled}");
        let again = admin.post(&format!("invocations/{id}/cancel"), json!({})).await.1;
        assert_eq!(again["completedAt"], cancelled["completedAt"]);
    }
    assert!(began.elapsed().as_secs() < 10);
    let recorded = admin.get(&format!("calls?request={}", ids[0])).await["items"][0]["outcome"].clone();
    assert_eq!(recorded, "cancelled");
    let after = admin.invoke(json!({"toolName": "echo", "parameters": {"message": "hi"}})).await;
    assert_eq!(after["status"], "success", "{after}");
    let page = admin.get("invocations?limit=3").await;
    assert_eq!(page["items"].as_array().unwrap().len(), 3);
    let rest = admin.get(&format!("invocations?cursor={}", page["next"].as_str().unwrap())).await;
    assert_eq!(rest["items"][0]["id"], ids[0].as_str(), "{rest}");
}

/// The standard output.
pub fn out(output: &std::process::Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The standard error.
pub fn err(output: &std::process::Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const DOCUMENT: &str = "# Notes

```everything
tool: echo
message: hi
```

```js
run()
```

- an image
  ```second
  tool: get-tiny-image
  ```
";

#[tokio::test]
async fn a_code_block_of_a_document_calls_its_tool() {
    let folder = Folder::with(&manifests());
    folder.write("notes.markdown", DOCUMENT);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "second"]).await;
    let (admin, notes) = (gateway.admin(), folder.path().join("notes.markdown").to_str().unwrap().to_owned());
    let call = |place: &str, more: &[&str]| {
        let codeblock = ["call", "--codeblock", place, "--admin", &admin];
        run(&[&codeblock, more].concat())
    };
    let echoed = call(&format!("{notes}:4"), &[]);
    assert_eq!((out(&echoed), echoed.status.code()), ("Echo: hi\n".to_owned(), Some(0)), "{}", err(&echoed));
    let several = call(&notes, &[]);
    assert!(
        err(&several).contains("2 code blocks") && err(&several).contains("notes.markdown:13"),
        "{}",
        err(&several)
    );
    let none = call(&format!("{notes}:9"), &[]);
    assert!(err(&none).contains("line 9") && none.status.code() == Some(1), "{}", err(&none));
    let image = call(&format!("{notes}:13"), &[]);
    assert!(out(&image).contains("[image/png, ") && out(&image).contains("--save FILE"), "{}", out(&image));
    let file = folder.path().join("logo.png").to_str().unwrap().to_owned();
    let saved = call(&format!("{notes}:13"), &["--save", &file]);
    assert!(out(&saved).contains("logo.png]"), "{}", out(&saved));
    assert!(std::fs::read(&file).unwrap().starts_with(b"\x89PNG"));

    let listed = out(&run(&["invocations", "--admin", &admin, "-o", "json"]));
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let oldest = listed["items"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&oldest["source"], &oldest["sectionLine"]), (&json!("user-codeblock"), &json!(3)), "{oldest}");
    assert_eq!(oldest["documentPath"], notes.as_str());
    let id = oldest["id"].as_str().unwrap();
    let got = run(&["invocations", "get", id, "--admin", &admin]);
    assert_eq!(out(&got), "Echo: hi\n", "{}", err(&got));
    let cancelled = run(&["invocations", "cancel", id, "--admin", &admin, "-o", "json"]);
    assert!(out(&cancelled).contains("\"success\""), "what has ended stays: {}", out(&cancelled));
    let table = out(&run(&["invocations", "--admin", &admin, "-o", "wide"]));
    assert!(table.contains("notes.markdown:3") && table.contains(id) && table.contains("image"), "{table}");
    let missing = run(&["invocations", "get", "none", "--admin", &admin]);
    assert!(err(&missing).contains("there is no invocation none"), "{}", err(&missing));
}

/// The text of a value, if it is one.
pub fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
