//! The OpenAPI document of the admin API: answers of a running gateway are as it says.

use hyper::Method;
use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::invocations::{Admin, manifests};
use super::parts::{object, plugin, tools_of};

/// The document, with schemas that allow no other members than those that they name.
struct Document(Value);

impl Document {
    async fn of(gateway: &Gateway) -> Self {
        let mut document = Admin::of(gateway).get("openapi.json").await;
        close(&mut document["components"]["schemas"]);
        Self(document)
    }

    /// The schema of the answer of an operation.
    fn schema(&self, path: &str, method: &str, status: &str) -> Value {
        let response = &self.0["paths"][path][method]["responses"][status];
        let schema = &response["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path} has no answer {status}: {response}");
        let mut schema = schema.clone();
        schema["components"] = self.0["components"].clone();
        schema
    }

    fn faults(&self, path: &str, method: &str, status: &str, answer: &Value) -> Vec<String> {
        let validator = jsonschema::draft202012::new(&self.schema(path, method, status)).unwrap();
        validator.iter_errors(answer).map(|fault| format!("{}: {fault}", fault.instance_path())).collect()
    }

    fn check(&self, path: &str, method: &str, status: &str, answer: &Value) {
        let faults = self.faults(path, method, status, answer);
        assert!(faults.is_empty(), "{method} {path}: {faults:#?}: {answer:#}");
    }
}

/// Adds to each schema of an object that it has no other members.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(close);
            if members.get("properties").is_some_and(Value::is_object) && members.get("type").is_some() {
                members.insert("unevaluatedProperties".to_owned(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// A step that stores a value.
const STEP: &str = "export async function execute(_, ctx) {
  await ctx.store.set('done', true);
  return { output: { done: true } };
}";

/// Manifests with an object of each kind that answers have.
fn objects() -> String {
    let binding = "document: {glob: '*.md'}, block: {id: b}, upstream: {name: second}";
    let agents = "startAgent: main, agents: [{name: main, type: custom, plugin: {name: step}}]";
    let pipeline = format!("tool: {{name: piped, description: A test.}}, declared: {{{agents}}}");
    manifests()
        + &plugin("step", STEP, "type: phase")
        + &object("ToolPipeline", "piped", &pipeline)
        + &object("SectionBinding", "b", binding)
        + &object("SectionBinding", "gone", &binding.replace("second", "x"))
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one gateway answers all of it")]
async fn answers_of_the_admin_api_are_as_its_openapi_document_says() {
    let folder = Folder::with(&objects());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["everything", "second", "piped"]).await;
    let (document, admin) = (Document::of(&gateway).await, Admin::of(&gateway));
    let session = Http::new().initialize(&gateway.url()).await;
    session.call_raw(1, "second__echo", r#"{"message": "hi"}"#).await;
    session.call_raw(2, "second__echo", r#"{"message": "forbidden"}"#).await;
    let echo = |message: Value| json!({"toolName": "echo", "parameters": {"message": message}, "documentPath": "a.md"});
    session.call_raw(3, "piped", r#"{"prompt": "x"}"#).await;
    let (status, created) = admin.post("invocations", echo(json!("hi"))).await;
    assert_eq!(status, 201);
    document.check("/api/v1/invocations", "post", "201", &created);
    let failed = admin.invoke(echo(json!(1))).await;
    document.check("/api/v1/invocations/{id}", "get", "200", &failed);
    let mut checked = 0;
    let paths = document.0["paths"].as_object().unwrap().iter();
    for (path, _) in
        paths.filter(|(path, it)| it["get"].is_object() && path.starts_with("/api/v1/") && !path.contains(['{', '.']))
    {
        for query in queries(path) {
            let answer = admin.get(&format!("{}{query}", path.strip_prefix("/api/v1/").unwrap())).await;
            let is_list = answer["items"].is_array();
            assert!(
                !is_list
                    || !answer["items"].as_array().unwrap().is_empty()
                    || ["/api/v1/workers", "/api/v1/refusals"].contains(&&**path),
                "{path}"
            );
            document.check(path, "get", "200", &answer);
            checked += 1;
        }
    }
    assert_eq!(checked, 20);
    changes(&document, &admin, failed["id"].as_str().unwrap()).await;
    let (_, error) = admin.post("calls/no-such-call/cancel", json!({})).await;
    document.check("/api/v1/calls/{id}/cancel", "post", "default", &error);

    let calls = admin.get("calls").await;
    for change in [("outcome", json!("perhaps")), ("other", json!(1)), ("startedAt", Value::Null)] {
        let mut wrong = calls.clone();
        wrong["items"][0][change.0] = change.1;
        assert_eq!(document.faults("/api/v1/calls", "get", "200", &wrong).len(), 1, "{}", change.0);
    }
}

/// The queries with which a path is asked.
fn queries(path: &str) -> &'static [&'static str] {
    match path {
        "/api/v1/explain" => &["?tool=second__echo", "?section=a.md%5Eb"],
        "/api/v1/store" => &["?plugin=default/step"],
        "/api/v1/tools" => &["", "?section=a.md%5Eb"],
        _ => &[""],
    }
}

async fn changes(document: &Document, admin: &Admin, id: &str) {
    let sessions = admin.get("sessions").await;
    let session = sessions["items"][0]["id"].as_str().unwrap();
    for (path, real) in [
        ("/api/v1/invocations/{id}/cancel", format!("invocations/{id}/cancel")),
        ("/api/v1/stop", "stop".to_owned()),
        ("/api/v1/resume", "resume".to_owned()),
        ("/api/v1/sessions/{id}/stop", format!("sessions/{session}/stop")),
        ("/api/v1/sessions/{id}/resume", format!("sessions/{session}/resume")),
    ] {
        let (status, answer) = admin.post(&real, json!({})).await;
        assert_eq!(status, 200, "{answer}");
        document.check(path, "post", "200", &answer);
    }
}

#[tokio::test]
async fn every_route_and_every_parameter_is_in_the_document() {
    let folder = Folder::with(&objects());
    let gateway = Gateway::start(&folder);
    let document = Admin::of(&gateway).get("openapi.json").await;
    let http = Http::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in ["get", "post"] {
            let url = format!("http://{}{}", gateway.admin(), path.replace("{id}", "x"));
            let verb = if method == "get" { Method::GET } else { Method::POST };
            let status = http.send(verb, &url, &[("content-type", "application/json")], "{}").await.status;
            assert_eq!(status != 405, operations[method].is_object(), "{method} {path}: {status}");
        }
    }
    let names = |path: &str| {
        let parameters = document["paths"][path]["get"]["parameters"].as_array().unwrap();
        parameters.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for name in ["limit", "cursor", "plugin", "outcome", "since"] {
        assert!(names("/api/v1/calls").iter().any(|known| known == name), "{name}");
    }
    assert_eq!(names("/api/v1/invocations/{id}"), ["id", "wait"]);
    let body =
        &document["paths"]["/api/v1/invocations"]["post"]["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!((&body["required"], &body["additionalProperties"]), (&json!(["toolName"]), &json!(false)), "{body}");
}
