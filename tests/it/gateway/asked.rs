//! What servers ask of clients in the middle of a call: sampling, elicitation, roots.

use std::fs::read_to_string;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Response};
use serde_json::{Value, json};

use super::harness::{Folder, Gateway, SOON, run};
use super::http::{Answer, Http, Session, call_headers};
use super::parts::{ECHO_MODULE, SDKS, asking_http, chain, external, interview_http, object, plugin, tools_of};
use crate::upstream::Running;

pub(super) const ANSWERS: &str = r#"{
    "sampling": {"role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "m"},
    "elicitation": {"action": "accept", "content": {"name": "Ada"}},
    "roots": {"roots": [{"uri": "file:///work", "name": "work"}]}
}"#;

pub(super) struct Asking {
    folder: Folder,
    pub(super) gateway: Gateway,
    _server: Running,
}

impl Asking {
    pub(super) async fn start(manifests: &str) -> Self {
        let folder = Folder::new();
        let (server, url) = asking_http(&folder.path().join("capabilities.log"));
        folder.write("manifests.yaml", &(external("asking", &url) + manifests));
        let gateway = Gateway::start(&folder);
        tools_of(&gateway, &["asking"]).await;
        Self { folder, gateway, _server: server }
    }

    /// What a client of the SDK gets of a tool, as text.
    fn sdk(&self, tool: &str, arguments: &str, answers: &str) -> (String, bool) {
        let legacy = SDKS[3];
        let tool = format!("asking__{tool}");
        let lines = legacy.run(&self.gateway.url(), &["call", &tool, arguments, "--answers", answers], "");
        let result = &lines[0]["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{lines:?}"));
        (text.to_owned(), result["isError"] == true)
    }

    fn capabilities(&self) -> Vec<Value> {
        let log = read_to_string(self.folder.path().join("capabilities.log")).unwrap();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[tokio::test]
async fn a_client_answers_what_the_server_of_its_call_asks() {
    let asking = Asking::start("").await;
    let answers: Value = serde_json::from_str(ANSWERS).unwrap();
    for (tool, capability) in [("sample", "sampling"), ("elicit", "elicitation"), ("roots", "roots")] {
        for arguments in ["{}", r#"{"apart":true}"#] {
            let (text, is_error) = asking.sdk(tool, arguments, ANSWERS);
            let answer: Value =
                serde_json::from_str(&text).unwrap_or_else(|e| panic!("{tool} {arguments}: {e} {text}"));
            assert!(!is_error && answer == answers[capability], "{tool} {arguments}: {text}");
        }
    }
    // The server knows what each client can do: the gateway's own connection can do nothing.
    let mut known = asking.capabilities();
    known.dedup();
    assert_eq!(known, [json!({}), json!({"elicitation": {"form": {}}, "roots": {}, "sampling": {}})]);
    let (text, is_error) = asking.sdk("sample", "{}", "{}");
    assert!(is_error && text.contains("offers no such method"), "{text}");
    let (text, is_error) = asking.sdk("sample", "{}", r#"{"roots": {"roots": []}}"#);
    assert!(is_error && text.contains("offers no such method"), "{text}");
}

#[tokio::test]
async fn what_a_guard_must_see_is_not_asked_past_it() {
    let passes = plugin("passes", ECHO_MODULE, "protocol: Module, role: Guard");
    for phase in ["Request", "Response"] {
        let guarded = chain("guarded", phase, &["asking"], &["passes"]);
        let asking = Asking::start(&(passes.clone() + &guarded)).await;
        for arguments in ["{}", r#"{"apart":true}"#] {
            let (text, is_error) = asking.sdk("sample", arguments, ANSWERS);
            assert!(is_error && text.contains("-32601") && text.contains("Guard"), "{phase} {arguments}: {text}");
            assert!(text.contains("name sampling/createMessage in spec.methods"), "{phase} {arguments}: {text}");
        }
        // A server asks for roots without content of its own.
        let (text, is_error) = asking.sdk("roots", "{}", ANSWERS);
        assert!(!is_error && text.contains("file:///work"), "{phase}: {text}");
    }
}

/// Reads events until one is the question of the server, and gives it.
pub(super) async fn question(stream: &mut Response<Incoming>) -> Value {
    let read = async {
        let mut heard = String::new();
        loop {
            let frame = stream.body_mut().frame().await.expect("the stream ended").unwrap();
            heard.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
            let mut messages = heard.lines().filter_map(|line| line.strip_prefix("data: "));
            let asked = messages.find_map(|data| {
                serde_json::from_str::<Value>(data)
                    .ok()
                    .filter(|message| !message["params"].is_null() && !message["id"].is_null())
            });
            if let Some(asked) = asked {
                return asked;
            }
        }
    };
    tokio::time::timeout(SOON, read).await.unwrap()
}

/// Calls a tool that asks, answers, and returns what comes after the question. The server does not take the answer.
pub(super) async fn answered_in_vain(gateway: &Gateway, tool: &str) -> String {
    let session = Http::new().initialize_with(&gateway.url(), &json!({"elicitation": {}})).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}});
    let mut stream = session.http.open(Method::POST, &session.url, &session.headers(), call.to_string()).await;
    let id = question(&mut stream).await["id"].clone();
    assert_eq!(answer(&session, &id, "Ann").await, 202);
    let rest = tokio::time::timeout(SOON, stream.body_mut().collect()).await.expect("it waits on").unwrap();
    String::from_utf8(rest.to_bytes().to_vec()).unwrap()
}

pub(super) async fn answer(session: &Session, id: &Value, name: &str) -> u16 {
    let result = json!({"action": "accept", "content": {"name": name}});
    session.send(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()).await.status
}

#[tokio::test]
async fn a_question_is_answered_by_its_own_session_alone() {
    let asking = Asking::start("").await;
    let (http, url) = (Http::new(), asking.gateway.url());
    let capabilities = json!({"elicitation": {}});
    let mut calls = Vec::new();
    for _ in 0..2 {
        let session = http.initialize_with(&url, &capabilities).await;
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "asking__elicit", "arguments": {}}});
        let headers = session.headers();
        let mut stream = http.open(Method::POST, &url, &headers, Bytes::from(call.to_string())).await;
        let id = question(&mut stream).await["id"].clone();
        calls.push((session.clone(), stream, id));
    }
    let [(first, first_stream, first_id), (second, second_stream, second_id)] = &mut calls[..] else { panic!() };
    assert_ne!(first_id, second_id);
    // Answers of the wrong session and to no question are taken and go nowhere.
    assert_eq!(answer(first, second_id, "Eve").await, 202);
    assert_eq!(answer(second, &json!(1), "Eve").await, 202);
    assert_eq!(answer(second, second_id, "Bob").await, 202);
    assert_eq!(answer(first, first_id, "Ann").await, 202);
    for (stream, name) in [(first_stream, "Ann"), (second_stream, "Bob")] {
        let body = tokio::time::timeout(SOON, stream.body_mut().collect()).await.unwrap().unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body);
        assert!(body.contains(name) && !body.contains("Eve"), "{body}");
    }
}

/// A gateway on the server that asks in its results, and what the TypeScript SDKs of both eras get of it.
async fn interviewed(manifests: &str) -> Vec<Value> {
    let (_server, url) = interview_http();
    let folder = Folder::with(&(external("up", &url) + manifests));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    let ask = |sdk: usize| {
        let command = ["call", "up__interview", "{}", "--answers", ANSWERS];
        SDKS[sdk].run(&gateway.url(), &command, "").remove(0)["result"].clone()
    };
    vec![ask(2), ask(3)]
}

#[tokio::test]
async fn the_command_says_what_it_cannot_answer() {
    let (_server, url) = interview_http();
    let folder = Folder::with(&external("up", &url));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up"]).await;
    for (format, is_shown) in [("text", false), ("json", true)] {
        let asked = run(&["call", "up__interview", "{}", "--url", &gateway.url(), "-o", format]);
        let (out, err) = (String::from_utf8_lossy(&asked.stdout), String::from_utf8_lossy(&asked.stderr));
        assert_eq!((asked.status.code(), out.contains("\"inputRequests\"")), (Some(3), is_shown), "{out}{err}");
        assert!(err.starts_with("Error: the server asks for input"), "{err}");
        assert!(err.contains("\n  elicitation/create: Who are you?\n"), "{err}");
    }
    let done = run(&["call", "up__interview", r#"{"asks": false}"#, "--url", &gateway.url()]);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test]
async fn what_a_result_asks_for_is_given_by_clients_of_both_eras() {
    for result in interviewed("").await {
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
        let said: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert_eq!(said["who"], json!({"name": "Ada"}), "{said}");
        assert_eq!(said["folders"]["roots"][0]["uri"], "file:///work", "{said}");
        assert_eq!(said["sentence"]["content"]["text"], "forty-two", "{said}");
    }
}

#[tokio::test]
async fn what_a_result_asks_for_is_not_asked_past_a_guard() {
    let passes = plugin("passes", ECHO_MODULE, "protocol: Module, role: Guard");
    for phase in ["Request", "Response"] {
        for result in interviewed(&(passes.clone() + &chain("guarded", phase, &["up"], &["passes"]))).await {
            assert_eq!(result["isError"], true, "{phase}: {result}");
            assert_eq!(result["_meta"]["hawsepipe.dev/refused"]["reason"], "GuardedInput", "{phase}: {result}");
        }
    }
}

#[tokio::test]
async fn a_client_without_a_session_answers_what_a_server_with_sessions_asks() {
    let asking = Asking::start("").await;
    let answers: Value = serde_json::from_str(ANSWERS).unwrap();
    for (tool, capability) in [("sample", "sampling"), ("elicit", "elicitation"), ("roots", "roots")] {
        let name = format!("asking__{tool}");
        let lines = SDKS[2].run(&asking.gateway.url(), &["call", &name, "{}", "--answers", ANSWERS], "");
        let text = lines[0]["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{lines:?}"));
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), answers[capability], "{tool}: {text}");
    }
}

/// A stateless `tools/call` of a client that can be asked for input, with more parameters.
pub(super) async fn call_with(http: &Http, url: &str, tool: &str, arguments: &Value, more: &Value) -> Answer {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}},
    });
    let mut params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let body = json!({"jsonrpc": "2.0", "id": "é", "method": "tools/call", "params": params});
    http.send(Method::POST, url, &call_headers(tool), body.to_string()).await
}

/// A Guard that takes out what it knows, and denies what is forbidden.
pub(super) const MASK: &str = "export default ({ rawContent }) => rawContent.includes('forbidden')
  ? { text: 'Not this.', continue: false, error: 'no' }
  : { text: ['secret', 'Who are you', 'Ada', 'forty-two'].reduce((text, word) => text.replaceAll(word, '***'), rawContent), continue: true };";

/// Guards on calls, which change nothing, on questions, which run this code, and on their answers.
pub(super) fn guarded(upstream: &str, code: &str) -> String {
    let mut manifests = plugin("mask", MASK, "role: Guard") + &plugin("questions", code, "role: Guard");
    manifests += &plugin("passes", ECHO_MODULE, "protocol: Module, role: Guard");
    for (phase, plugin) in [("Request", "questions"), ("Response", "mask")] {
        manifests += &chain(&format!("calls-{}", phase.to_lowercase()), phase, &[upstream], &["passes"]);
        let methods = "methods: [sampling/createMessage, elicitation/create]";
        let spec =
            format!("phase: {phase}, upstreams: {{names: [{upstream}]}}, {methods}, entries: [{{name: {plugin}}}]");
        manifests += &object("PluginChain", &format!("asks-{}", phase.to_lowercase()), &spec);
    }
    manifests
}

/// The entries of the last calls that ran on questions and answers, as `method phase outcome`.
async fn ran_on_questions(gateway: &Gateway) -> Vec<String> {
    let calls = Http::new().get(&format!("http://{}/api/v1/calls?limit=10", gateway.admin())).await.json();
    let entries =
        calls["items"].as_array().unwrap().iter().flat_map(|call| call["entries"].as_array().unwrap().clone());
    let asked = entries.filter(|entry| entry["method"] != "tools/call");
    let told = asked
        .map(|entry| [&entry["method"], &entry["phase"], &entry["outcome"]].map(|v| v.as_str().unwrap().to_owned()));
    told.map(|told| told.join(" ")).collect()
}

#[tokio::test]
async fn a_guard_that_sees_questions_lets_them_pass_from_a_server_with_sessions() {
    let asking = Asking::start(&guarded("asking", MASK)).await;
    let url = asking.gateway.url();
    for sdk in [SDKS[2], SDKS[3]] {
        for tool in ["sample", "elicit"] {
            let lines = sdk.run(&url, &["call", &format!("asking__{tool}"), "{}", "--answers", ANSWERS], "");
            let text = lines[0]["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{lines:?}"));
            let is_masked = text.contains("***") && !text.contains("forty-two") && !text.contains("Ada");
            assert!(is_masked, "{sdk:?} {tool}: {text}");
        }
    }
    let ran = ran_on_questions(&asking.gateway).await;
    for expected in ["sampling/createMessage Request ran", "elicitation/create Response ran"] {
        assert_eq!(ran.iter().filter(|entry| *entry == expected).count(), 2, "{ran:?}");
    }
    let metrics = Http::new().get(&format!("http://{}/metrics", asking.gateway.admin())).await.body;
    let counted = r#"chain="default/asks-request",method="sampling/createMessage""#;
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn clients_of_both_eras_see_questions_as_guards_left_them() {
    let asking = Asking::start(&guarded("asking", MASK)).await;
    let (http, url) = (Http::new(), asking.gateway.url());
    let session = http.initialize_with(&url, &json!({"sampling": {}})).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "asking__sample", "arguments": {}}});
    let mut stream = http.open(Method::POST, &url, &session.headers(), Bytes::from(call.to_string())).await;
    let asked = question(&mut stream).await;
    let seen = |params: &Value| params["messages"][0]["content"]["text"].clone();
    assert_eq!(seen(&asked["params"]), "a *** question", "{asked}");
    let asked = call_with(&http, &url, "asking__sample", &json!({}), &json!({})).await.json();
    assert_eq!(seen(&asked["result"]["inputRequests"]["input-1"]["params"]), "a *** question", "{asked}");
}

#[tokio::test]
async fn a_guard_that_sees_questions_lets_them_pass_from_a_server_that_asks_in_results() {
    for result in interviewed(&guarded("up", MASK)).await {
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
        let said: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert_eq!(said["who"], json!({"name": "***"}), "{said}");
        assert_eq!(said["folders"]["roots"][0]["uri"], "file:///work", "{said}");
        assert_eq!(said["sentence"]["content"]["text"], "***", "{said}");
    }
}

#[tokio::test]
async fn a_question_that_is_denied_or_whose_guard_fails_is_not_asked() {
    const DENIES: &str = "export default () => ({ text: 'Not this.', continue: false, error: 'no' });";
    const FAILS: &str = "export default () => { throw new Error('no'); };";
    for (code, key, told) in
        [(DENIES, "denied", "denied the question"), (FAILS, "failed", "guards the question failed")]
    {
        for result in interviewed(&guarded("up", code)).await {
            let detail = &result["_meta"][format!("hawsepipe.dev/{key}")];
            let end = (&result["isError"], &detail["chain"]);
            assert_eq!(end, (&json!(true), &json!("default/asks-request")), "{result}");
        }
        let asking = Asking::start(&guarded("asking", code)).await;
        let (text, is_error) = asking.sdk("elicit", "{}", ANSWERS);
        assert!(is_error && text.contains("-32000") && text.contains(told), "{text}");
    }
}

#[tokio::test]
async fn a_redactor_covers_every_form_that_a_call_brings() {
    const REDACT: &str =
        "export default ({ rawContent }) => ({ text: rawContent.replaceAll('s3cret', '***'), continue: true });";
    let redact = plugin("redact", REDACT, "role: Guard") + &chain("answers", "Response", &["asking"], &["redact"]);
    let methods = "methods: [elicitation/create], entries: [{name: redact}]";
    let questions = object("PluginChain", "questions", &format!("phase: Request, {methods}"));
    for (manifests, answered) in [(redact.clone(), false), (redact + &questions, true)] {
        let asking = Asking::start(&manifests).await;
        let (http, url) = (Http::new(), asking.gateway.url());
        let session = http.initialize_with(&url, &json!({"elicitation": {}})).await;
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "asking__forms", "arguments": {}, "_meta": {"progressToken": 1}}});
        let mut stream = http.open(Method::POST, &url, &session.headers(), Bytes::from(call.to_string())).await;
        let mut heard = String::new();
        if answered {
            let asked = question(&mut stream).await;
            heard.push_str(&asked.to_string());
            let seen = (&asked["params"]["message"], &asked["params"]["_meta"]);
            assert_eq!(seen, (&json!("***?"), &json!(null)), "{asked}");
            assert_eq!(answer(&session, &asked["id"], "Ann").await, 202);
        }
        let rest = tokio::time::timeout(SOON, stream.body_mut().collect()).await.unwrap().unwrap().to_bytes();
        heard.push_str(&String::from_utf8_lossy(&rest));
        let said = if answered { "*** accept" } else { "name elicitation/create in spec.methods" };
        assert!(heard.contains(said) && heard.contains("test:///***"), "{heard}");
        assert!(!heard.contains("s3cret"), "{heard}");
        assert_eq!(heard.matches("***").count() - usize::from(answered), 12, "{heard}");
        // A client of the modern era.
        let modern = call_with(&http, &url, "asking__forms", &json!({}), &json!({})).await.body;
        assert!(!modern.contains("s3cret") && modern.contains("***"), "{modern}");
    }
}
