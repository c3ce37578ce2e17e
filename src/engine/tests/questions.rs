//! What servers ask of clients, and what they say of tasks: nothing of it passes a Guard unseen.

use super::items::items;
use super::*;
use crate::domain::method::Method;
use crate::domain::ports::Answering;
use crate::domain::question::Question;
use crate::domain::task::{OpenTask, TaskFacts};
use crate::engine::{SubscribeRequest, Subscription};

/// A client that answers what it is asked, and keeps it.
#[derive(Default)]
pub(super) struct Asked(Mutex<Vec<String>>);

impl ToClient for Asked {
    fn progress(&self, params: Box<RawValue>) {
        self.0.lock().unwrap().push(params.get().to_owned());
    }

    fn ask(&self, question: Question) -> Answering<'_> {
        let params = question.params.as_deref().map_or("-", RawValue::get);
        self.0.lock().unwrap().push(format!("{} {params}", question.method));
        let answer = raw(r#"{"action":"accept","roots":[]}"#);
        Box::pin(async move { Answer::Result(answer) })
    }
}

impl Asked {
    pub(super) fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

pub(super) fn capable(era: Era) -> Caller {
    let declared = raw(r#"{"elicitation":{},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
    Caller { capabilities: ClientCapabilities::read(Some(&declared)), ..caller(era) }
}

/// Sends a call of `up__read`, its repetition, or a request about a task that it began.
pub(super) async fn send(engine: &Gateway, era: Era, round: InputRound, task: TaskUse<'_>, client: &Asked) -> Value {
    send_as(engine, &capable(era), round, task, client).await
}

pub(super) async fn send_as(
    engine: &Gateway,
    caller: &Caller,
    round: InputRound,
    task: TaskUse<'_>,
    client: &Asked,
) -> Value {
    let (arguments, meta) = (raw("{}"), raw(r#"{"hawsepipe.dev/trace":true}"#));
    let request = CallRequest {
        endpoint: Endpoint::All,
        caller,
        id: None,
        rpc_id: None,
        name: "up__read",
        kind: ItemKind::Tool,
        input: Some(&arguments),
        meta: Some(&meta),
        round,
        wants_progress: true,
        log_level: None,
        client,
        reservation: &engine.budget().reservation(Category::Answer),
        check_mirrored: None,
        within: None,
        task,
    };
    match engine.calls.call(request).await {
        Reply::Result(result) | Reply::UpstreamError(result) => serde_json::from_str(result.get()).unwrap(),
        Reply::Error(error) => json!(error),
    }
}

pub(super) async fn ask(engine: &Gateway, era: Era) -> Value {
    send(engine, era, InputRound::default(), TaskUse::None, &Asked::default()).await
}

/// Starts a gateway whose server speaks `era` and answers like this.
pub(super) async fn answering(inputs: &Inputs, era: Era, answer: Answer) -> Gateway {
    let server = Server { era: Mutex::new(era), ..Server::default() };
    *server.answers.lock().unwrap() = Ok(answer);
    start_with(inputs, server).await
}

/// Adds a chain on `elicitation/create`.
pub(super) fn on_questions<'a>(
    inputs: &'a mut Inputs,
    name: &str,
    phase: Phase,
    entries: &[(Role, &str)],
) -> &'a mut ChainInput {
    let chain = scripts(inputs, name, phase, entries);
    chain.methods = vec![Method::Elicit];
    chain
}

pub(super) const ASKS: &str = r#"{"resultType":"input_required","more":"SECRET","requestState":"SECRET","inputRequests":{
    "SECRET":{"method":"elicitation/create","params":{"message":"m","_meta":{"a":"SECRET"}}},
    "r":{"method":"roots/list","params":{"x":"SECRET","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"SECRET"}}}}}}"#;

#[tokio::test]
async fn what_surrounds_a_question_in_a_result_does_not_pass_a_guard() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
    on_questions(&mut inputs, "q", Phase::Request, &[(Role::Guard, "same")]);
    let engine = answering(&inputs, Era::Modern, Answer::Result(raw(ASKS))).await;
    let asked = ask(&engine, Era::Modern).await;
    assert!(!asked.to_string().contains("SECRET"), "{asked}");
    let requests = &asked["inputRequests"];
    assert_eq!(requests["input-1"], json!({"method": "elicitation/create", "params": {"message": "m"}}), "{asked}");
    assert_eq!(requests["input-2"], json!({"method": "roots/list"}), "{asked}");
}

#[tokio::test]
async fn the_meta_of_a_question_does_not_pass_a_guard_that_is_on_questions_alone() {
    for (role, policy) in [(Role::Guard, None), (Role::Transform, Some(FailurePolicy::Fail))] {
        for phase in [Phase::Request, Phase::Response] {
            let mut inputs = bare();
            on_questions(&mut inputs, "q", phase, &[(role, "same")]).entries[0].failure_policy = policy;
            let engine = answering(&inputs, Era::Modern, Answer::Result(raw(ASKS))).await;
            let asked = ask(&engine, Era::Modern).await["inputRequests"]["input-1"].clone();
            assert_eq!(asked["params"], json!({"message": "m"}), "{role:?} {phase:?}");
        }
    }
    let mut inputs = bare();
    on_questions(&mut inputs, "q", Phase::Request, &[(Role::Transform, "same")]);
    let engine = answering(&inputs, Era::Modern, Answer::Result(raw(ASKS))).await;
    let asked = ask(&engine, Era::Modern).await["inputRequests"]["SECRET"].clone();
    assert_eq!(asked["params"]["_meta"], json!({"a": "SECRET"}), "nothing has to check it");
}

#[tokio::test]
async fn roots_are_asked_for_without_words_of_the_server_during_a_guarded_call() {
    let words = r#"{"x":"SECRET","_meta":{"y":"SECRET"}}"#;
    for (role, heard) in [(Role::Guard, "roots/list -".to_owned()), (Role::Observe, format!("roots/list {words}"))] {
        let mut inputs = bare();
        scripts(&mut inputs, "c", Phase::Response, &[(role, "same")]);
        let engine = start(&inputs).await;
        *engine.server.asks.lock().unwrap() = Some(Question { method: Method::ListRoots, params: Some(raw(words)) });
        let client = Asked::default();
        send(&engine, Era::Legacy, InputRound::default(), TaskUse::None, &client).await;
        assert_eq!(client.heard().last(), Some(&heard));
    }
}

#[tokio::test]
async fn an_answer_is_not_taken_once_a_chain_refuses_it() {
    for phase in [Phase::Request, Phase::Response] {
        let mut inputs = bare();
        on_questions(&mut inputs, "q", Phase::Request, &[(Role::Guard, "same")]);
        let engine = answering(&inputs, Era::Modern, Answer::Result(raw(ASKS))).await;
        let state = ask(&engine, Era::Modern).await["requestState"].to_string();
        on_questions(&mut inputs, "broken", phase, &[(Role::Guard, "same")]).entries[0].when = Some("(".into());
        apply(&engine, &inputs).await;
        let round = InputRound { responses: Some(raw(r#"{"input-1":{"action":"accept"}}"#)), state: Some(raw(&state)) };
        let refused = send(&engine, Era::Modern, round, TaskUse::None, &Asked::default()).await;
        let detail = &refused["_meta"]["hawsepipe.dev/refused"];
        assert_eq!(detail["chain"], "default/broken", "{phase:?}: {refused}");
        assert_eq!(sent(&engine).len(), 1, "{phase:?}: the answer is not sent");
    }
}

#[tokio::test]
async fn servers_that_ask_during_a_call_and_clients_that_are_asked_by_a_result_are_told_what_did_not_pass() {
    for (phase, code, to_server, to_client) in [
        (Phase::Request, "deny no", "denied the question", "not this"),
        (Phase::Request, "fail", "guards the question failed", "The server's question could not be passed on: "),
        (
            Phase::Response,
            "deny no",
            "guards the client's answer did not let it pass",
            "did not let it pass (PluginError)",
        ),
        (Phase::Response, "fail", "guards the client's answer failed", "The client's answer to the server's question"),
    ] {
        let mut inputs = bare();
        on_questions(&mut inputs, "q", phase, &[(Role::Guard, code)]);
        let engine = start(&inputs).await;
        *engine.server.asks.lock().unwrap() = Some(Question { method: Method::Elicit, params: Some(raw("{}")) });
        ask(&engine, Era::Legacy).await;
        let told = format!("{phase:?} {code}: {:?}", engine.server.told_answer.lock().unwrap());
        assert!(told.contains(to_server), "{told}");
        let engine = answering(&inputs, Era::Modern, Answer::Result(raw(ASKS))).await;
        let ended = ask(&engine, Era::Legacy).await;
        assert!(ended["content"][0]["text"].as_str().unwrap().contains(to_client), "{phase:?} {code}: {ended}");
    }
}

#[tokio::test]
async fn the_record_names_the_entry_for_which_a_question_is_not_asked() {
    let mut inputs = bare();
    on_questions(&mut inputs, "q", Phase::Request, &[(Role::Guard, "same")]);
    on_questions(&mut inputs, "a", Phase::Response, &[(Role::Guard, "absent")]);
    let engine = answering(&inputs, Era::Modern, Answer::Result(raw(ASKS))).await;
    let refused = ask(&engine, Era::Modern).await;
    assert_eq!(refused["_meta"]["hawsepipe.dev/refused"]["plugin"], "default/a0", "{refused}");
    let told = |entry: &Value| format!("{} {}", entry["plugin"].as_str().unwrap(), entry["outcome"].as_str().unwrap());
    let trace: Vec<_> = refused["_meta"]["hawsepipe.dev/trace"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(trace, ["default/q0 skipped(stopped)", "default/a0 failed(NotLoaded)"]);
}

#[tokio::test]
async fn questions_of_results_count_against_the_budget() {
    let large = ASKS.replace("\"message\":\"m\"", &format!("\"message\":\"{}\"", "m".repeat(600 << 10)));
    let budget = Arc::new(ByteBudget::new(1 << 20));
    let mut inputs = bare();
    on_questions(&mut inputs, "q", Phase::Request, &[(Role::Guard, "same")]);
    for era in [Era::Modern, Era::Legacy] {
        let engine = engine_within(Server::default(), Arc::clone(&budget));
        *engine.server.era.lock().unwrap() = Era::Modern;
        *engine.server.answers.lock().unwrap() = Ok(Answer::Result(raw(&large)));
        apply(&engine, &inputs).await;
        let _ = engine.list(Endpoint::All, ItemKind::Tool, None, None).await;
        let refused = ask(&engine, era).await;
        assert_eq!(refused["data"]["reason"], "NoRoom", "{era:?}");
    }
    assert_eq!(budget.held(Category::Answer), 0);
}

/// An error that asks the user to open a URL.
const OPENS: &str = r#"{"code":-32042,"message":"open it","data":{"more":"SECRET","elicitations":[
    {"mode":"url","message":"SECRET","url":"https://evil.example","elicitationId":"1"}]}}"#;

#[tokio::test]
async fn an_error_does_not_ask_past_a_guard() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
    let opens = || Answer::Error(raw(OPENS));
    let engine = answering(&inputs, Era::Legacy, opens()).await;
    let refused = ask(&engine, Era::Legacy).await;
    assert_eq!(refused["_meta"]["hawsepipe.dev/refused"]["reason"], "GuardedInput", "{refused}");

    let put = r#"put {"mode":"url","message":"seen","url":"https://good.example","elicitationId":"1"}"#;
    on_questions(&mut inputs, "q", Phase::Request, &[(Role::Guard, put)]);
    let engine = answering(&inputs, Era::Legacy, opens()).await;
    let asked = ask(&engine, Era::Legacy).await;
    assert_eq!(asked["data"]["elicitations"][0]["url"], "https://good.example", "{asked}");
    assert!(asked["code"] == -32042 && !asked.to_string().contains("SECRET"), "{asked}");

    for denied in [r#"{"code":-32042,"message":"m"}"#, r#"{"code":-32042.0,"message":"m","data":{"elicitations":{}}}"#]
    {
        let engine = answering(&inputs, Era::Legacy, Answer::Error(raw(denied))).await;
        assert_eq!(ask(&engine, Era::Legacy).await["data"]["reason"], "ProtocolError", "{denied}");
    }

    // A Guard on the response sees the whole error.
    let mut inputs = bare();
    let put = r#"put {"code":-32042,"message":"seen","data":{"elicitations":[]}}"#;
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Guard, put)]);
    let engine = answering(&inputs, Era::Legacy, opens()).await;
    assert_eq!(ask(&engine, Era::Legacy).await["message"], "seen");
    let engine = answering(&bare(), Era::Legacy, opens()).await;
    assert_eq!(ask(&engine, Era::Legacy).await, serde_json::from_str::<Value>(OPENS).unwrap());
}

#[tokio::test]
async fn what_stands_beside_a_task_does_not_pass_plugins_on_its_result() {
    let task = r#"{"resultType":"task","taskId":"t","status":"working","ttlMs":1,"statusMessage":"SAID","x":"SECRET","_meta":{"x":"SECRET"}}"#;
    for (role, policy, shows) in [
        (Role::Guard, None, [false, false]),
        (Role::Transform, Some(FailurePolicy::Fail), [false, false]),
        (Role::Transform, None, [false, true]),
        (Role::Observe, None, [true, true]),
    ] {
        let mut inputs = bare();
        scripts(&mut inputs, "c", Phase::Response, &[(role, "same")]).entries[0].failure_policy = policy;
        let engine = answering(&inputs, Era::Modern, Answer::Result(raw(task))).await;
        let begun = ask(&engine, Era::Modern).await;
        let begun = ["SECRET", "SAID"].map(|said| begun.to_string().contains(said));
        assert_eq!(begun, shows, "{role:?} {policy:?}");
        let open = open_task(Method::GetTask);
        let state = send(&engine, Era::Modern, InputRound::default(), TaskUse::Of(&open), &Asked::default()).await;
        let shown = ["SECRET", "SAID"].map(|said| state.to_string().contains(said));
        assert_eq!(shown, shows, "{role:?} {policy:?}: {state}");
    }
}

fn open_task(method: Method) -> OpenTask {
    let facts = TaskFacts { upstream: "up".into(), tool: "read".into(), id: "t".into() };
    OpenTask { method, id: "sealed".into(), facts, responses: None }
}

#[tokio::test]
async fn what_a_guarded_task_asks_and_reports_names_the_task_alone() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Response, &[(Role::Guard, "same")]);
    on_questions(&mut inputs, "q", Phase::Request, &[(Role::Guard, "same")]);
    let engine = start(&inputs).await;
    let meta = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t","x":"SECRET"},"y":"SECRET"}"#;
    *engine.server.asks.lock().unwrap() =
        Some(Question { method: Method::Elicit, params: Some(raw(&format!(r#"{{"message":"m",{meta}}}"#))) });
    *engine.server.reports.lock().unwrap() = format!(r#"{{"progress":1,"message":"SECRET",{meta}}}"#);
    let (open, client) = (open_task(Method::TaskResult), Asked::default());
    send(&engine, Era::Legacy, InputRound::default(), TaskUse::Of(&open), &client).await;
    let note = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"sealed"}}"#;
    let expected = [format!(r#"{{"progress":1,{note}}}"#), format!(r#"elicitation/create {{"message":"m",{note}}}"#)];
    assert_eq!(client.heard(), expected);
    // A call that is about no task has no such note.
    send(&engine, Era::Legacy, InputRound::default(), TaskUse::None, &client).await;
    assert_eq!(client.heard(), [r#"{"progress":1}"#, r#"elicitation/create {"message":"m"}"#]);
}

#[tokio::test]
async fn the_result_of_a_task_asks_nothing_past_a_guard() {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
    let asks = |text: &str| Answer::Result(raw(text));
    for (era, method, answer) in [
        (Era::Legacy, Method::TaskResult, asks(ASKS)),
        (Era::Legacy, Method::TaskResult, Answer::Error(raw(OPENS))),
        (Era::Modern, Method::GetTask, asks(&format!(r#"{{"taskId":"t","status":"completed","result":{ASKS}}}"#))),
        (Era::Modern, Method::GetTask, asks(&format!(r#"{{"taskId":"t","status":"failed","error":{OPENS}}}"#))),
    ] {
        let engine = answering(&inputs, era, answer).await;
        let open = open_task(method);
        let answer = send(&engine, era, InputRound::default(), TaskUse::Of(&open), &Asked::default()).await;
        assert!(answer.to_string().contains("GuardedInput") && !answer.to_string().contains("SECRET"), "{answer}");
    }
}

#[tokio::test]
async fn what_a_server_says_when_it_refuses_a_subscription_does_not_pass_a_guard() {
    let error = r#"{"code":-32602,"message":"SECRET","data":{"x":"SECRET"}}"#;
    for (role, told) in [(Role::Guard, false), (Role::Observe, true)] {
        let mut inputs = bare();
        scripts(&mut inputs, "c", Phase::Response, &[(role, "same")]).methods = vec![Method::ReadResource];
        let engine = items(&inputs, "{}").await;
        *engine.server.refuses.lock().unwrap() = Some(error.to_owned());
        let (caller, mailbox) = (caller(Era::Legacy), Arc::default());
        let request =
            |uri| SubscribeRequest { endpoint: Endpoint::All, caller: &caller, uri, mailbox: &mailbox, within: None };
        let said = refusal(engine.calls.subscribe(request("file:///a")).await);
        assert!(said.contains("SECRET") == told && said.contains("-32602"), "{role:?}: {said}");
        let said = refusal(engine.calls.subscribe(request("db:///SECRET")).await);
        assert_eq!(said.contains("GuardedInput"), !told, "{role:?}: {said}");
    }
}

fn refusal(subscribed: Result<Subscription, Reply>) -> String {
    match subscribed {
        Err(Reply::UpstreamError(error)) => error.get().to_owned(),
        Err(Reply::Error(error)) => json!(error).to_string(),
        _ => panic!("it is not refused"),
    }
}

#[tokio::test]
async fn polls_of_a_task_are_no_calls_of_the_session() {
    let mut inputs = bare();
    inputs.gateway.as_mut().unwrap().plan.limits.session_total_calls = Some(1);
    let state = r#"{"taskId":"t","status":"working"}"#;
    let engine = answering(&inputs, Era::Modern, Answer::Result(raw(state))).await;
    let caller = capable(Era::Legacy);
    call_as(&engine, &caller, "{}", None, &Heard::default()).await;
    let open = open_task(Method::GetTask);
    for _ in 0..3 {
        let polled = send_as(&engine, &caller, InputRound::default(), TaskUse::Of(&open), &Asked::default()).await;
        assert_eq!(polled["taskId"], "sealed", "{polled}");
    }
    assert!(call_as(&engine, &caller, "{}", None, &Heard::default()).await.contains("SessionTotalCalls"));
}

#[tokio::test]
async fn the_id_of_a_task_opens_whatever_its_server_calls_it_or_the_call_fails() {
    for (id, opens) in [("a".repeat(1024), true), ("\u{1}".repeat(1000), false), ("a".repeat(1025), false)] {
        let task = json!({"resultType": "task", "taskId": id, "status": "working"}).to_string();
        let engine = answering(&bare(), Era::Modern, Answer::Result(raw(&task))).await;
        let begun = ask(&engine, Era::Modern).await;
        if !opens {
            assert_eq!(begun["data"]["reason"], "ProtocolError", "{begun}");
            assert!(begun["message"].as_str().unwrap().contains("the id of its task"), "{begun}");
            continue;
        }
        let sealed = begun["taskId"].as_str().unwrap();
        assert_eq!(engine.gate.open_task(&capable(Era::Modern), &Endpoint::All, sealed).unwrap().id, id);
    }
}

#[tokio::test]
async fn the_task_of_an_anonymous_client_is_of_its_session() {
    let task = r#"{"task":{"taskId":"t","status":"working"}}"#;
    let engine = answering(&bare(), Era::Legacy, Answer::Result(raw(task))).await;
    let of = |session: &str| Caller { session: session.into(), ..capable(Era::Legacy) };
    let (caller, wanted) = (of("one"), raw("{}"));
    let begun = send_as(&engine, &caller, InputRound::default(), TaskUse::Begins(&wanted), &Asked::default()).await;
    let sealed = begun["task"]["taskId"].as_str().unwrap();
    assert_eq!(engine.gate.open_task(&of("one"), &Endpoint::All, sealed).unwrap().id, "t");
    assert!(engine.gate.open_task(&of("two"), &Endpoint::All, sealed).is_none());
}
