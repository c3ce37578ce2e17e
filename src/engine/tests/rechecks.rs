//! Tests of calls that wait while the gateway is stopped, a rule denies them, or a Guard comes into force.

use super::questions::{Asked, capable};
use super::*;
use crate::domain::identity::IdentityMethod;
use crate::domain::method::Method;
use crate::domain::plan::{AuthorizationPlan, RetryPlan, RetryWhen, RulePlan};
use crate::domain::ports::Answering;
use crate::domain::question::Question;
use crate::engine::CompletionRequest;
use crate::engine::calls::completion::complete;

/// Where a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// A request chain runs.
    Chain,
    /// The server has the call.
    Server,
    /// The client is asked during the call.
    Question,
    /// The gateway pauses before it sends the call again.
    Retry,
}

/// What comes into force meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    Stop,
    StopInPlan,
    Deny,
    GuardOnRequest,
    GuardOnRequestForOthers,
    GuardOnResponse,
    /// The Guard that was there is edited.
    Edit,
    /// Another upstream is edited.
    Elsewhere,
    RefusingChain,
}

const WAITS: [Wait; 4] = [Wait::Chain, Wait::Server, Wait::Question, Wait::Retry];

/// A client that answers a question once it may, with another identity if it has one.
#[derive(Default)]
struct Slow {
    go: Notify,
    asked: AtomicBool,
    identity: Mutex<Option<Arc<Identity>>>,
    answered: AtomicBool,
}

impl ToClient for Slow {
    fn progress(&self, _: Box<RawValue>) {}

    fn latest_identity(&self) -> Option<Arc<Identity>> {
        let identity = self.identity.lock().unwrap().clone();
        identity.filter(|_| self.answered.load(Ordering::Relaxed))
    }

    fn ask(&self, _: Question) -> Answering<'_> {
        Box::pin(async {
            self.asked.store(true, Ordering::Relaxed);
            self.go.notified().await;
            self.answered.store(true, Ordering::Relaxed);
            Answer::Result(raw(r#"{"action":"accept"}"#))
        })
    }
}

/// Sets one rule, and the opposite as the default.
fn set_rule(inputs: &mut Inputs, denies: bool, when: &str) {
    let rule = RulePlan { name: "r".into(), denies, when: when.into(), message: None, scopes: Vec::new() };
    let rules = AuthorizationPlan { allows_by_default: denies, rules: vec![rule] };
    crate::config::compile::tests::gateway(inputs).plan.authorization = Some(rules);
}

/// Inputs of a gateway with a Guard in its request chain, whose call waits there if it is to.
fn inputs(wait: Wait) -> Inputs {
    let mut inputs = bare();
    let code = if wait == Wait::Chain { "wait" } else { "same" };
    scripts(&mut inputs, "old", Phase::Request, &[(Role::Guard, code)]);
    inputs.upstreams[0].plan.retry = RetryPlan { attempts: 1, backoff_ms: 100, when: RetryWhen::Always };
    inputs
}

fn change(inputs: &mut Inputs, change: Change) {
    match change {
        Change::Nothing | Change::Stop => {}
        Change::StopInPlan => crate::config::compile::tests::gateway(inputs).plan.stopped = true,
        Change::Deny => set_rule(inputs, true, "tool.name == 'up__read'"),
        Change::GuardOnRequest => {
            scripts(inputs, "new", Phase::Request, &[(Role::Guard, "same")]);
        }
        Change::GuardOnRequestForOthers => {
            scripts(inputs, "new", Phase::Request, &[(Role::Guard, "same")]).entries[0].when =
                Some("upstream.name == 'other'".into());
        }
        Change::GuardOnResponse => {
            scripts(inputs, "new", Phase::Response, &[(Role::Guard, "put clean")]);
        }
        Change::Edit => {
            inputs.plugins[0].source = SourceInput::Inline("put {\"n\":7}".into());
            know(inputs, "put {\"n\":7}", "index.js", &["default"]);
            inputs.chains[0].order = 7;
        }
        Change::Elsewhere => inputs.upstreams[0].plan.idle_timeout_ms = 7,
        Change::RefusingChain => {
            scripts(inputs, "new", Phase::Response, &[(Role::Guard, "same")]).entries[0].when = Some("no CEL (".into());
        }
    }
}

/// Lets a call wait while the change comes into force. Returns the gateway and the reply.
async fn changed_during(wait: Wait, changed: Change) -> (Gateway, Value) {
    let mut inputs = inputs(wait);
    let engine = start(&inputs).await;
    let client = Arc::new(Slow::default());
    match wait {
        Wait::Chain => {}
        Wait::Server => *engine.server.holds.lock().unwrap() = true,
        Wait::Question => {
            *engine.server.asks.lock().unwrap() = Some(Question { method: Method::ListRoots, params: None });
        }
        Wait::Retry => *engine.server.failures.lock().unwrap() = [UpstreamError::Lost("it ended".into())].into(),
    }
    let running = {
        let (engine, client) = (engine.clone(), Arc::clone(&client));
        tokio::spawn(async move {
            let (caller, arguments) = (capable(Era::Legacy), raw(r#"{"n":1}"#));
            let reservation = engine.budget().reservation(Category::Answer);
            let heard = Heard::default();
            let request = request(&caller, &heard, &reservation, ItemKind::Tool, "up__read");
            said(engine.calls.call(CallRequest { input: Some(&arguments), client: &*client, ..request }).await)
        })
    };
    match wait {
        Wait::Chain => until(|| !engine.plugins.ran.lock().unwrap().is_empty()).await,
        Wait::Server | Wait::Retry => until(|| sent(&engine).len() == 1).await,
        Wait::Question => until(|| client.asked.load(Ordering::Relaxed)).await,
    }
    change(&mut inputs, changed);
    apply(&engine, &inputs).await;
    if changed == Change::Stop {
        engine.gate.stop(false);
    }
    engine.plugins.go.notify_one();
    engine.server.go.notify_one();
    client.go.notify_one();
    let reply = tokio::time::timeout(Duration::from_secs(10), running).await.expect("the call ends").unwrap();
    (engine, reply)
}

/// Returns the reason of a reply that is none of the server's; the text of a result.
fn outcome(reply: &Value) -> String {
    let meta = &reply["_meta"];
    let reasons = [
        &meta["hawsepipe.dev/refused"]["reason"],
        &meta["hawsepipe.dev/failed"]["reason"],
        &meta["hawsepipe.dev/denied"]["rule"],
        &reply["data"]["reason"],
        &reply["content"][0]["text"],
    ];
    let found = reasons.into_iter().find_map(Value::as_str);
    found.map_or_else(|| reply.to_string(), str::to_owned)
}

#[tokio::test]
async fn a_call_that_has_waited_is_checked_against_the_newest_plan() {
    for wait in WAITS {
        let sends = if wait == Wait::Retry { 2 } else { 1 };
        let until_sent = if wait == Wait::Chain { 0 } else { 1 };
        for (changed, expected, sent_calls) in [
            (Change::Nothing, "hello", sends),
            // What was sent may answer; nothing more is sent.
            (Change::Stop, if wait == Wait::Server { "hello" } else { "Stopped" }, until_sent),
            (Change::StopInPlan, if wait == Wait::Server { "hello" } else { "Stopped" }, until_sent),
            (Change::Deny, "r", until_sent),
            (Change::GuardOnRequest, "FailsClosed", until_sent),
            (Change::GuardOnRequestForOthers, "hello", sends),
            (Change::GuardOnResponse, "clean", sends),
            (Change::Edit, "hello", sends),
            (Change::Elsewhere, "hello", sends),
            (Change::RefusingChain, "InvalidExpression", until_sent),
        ] {
            let (engine, reply) = changed_during(wait, changed).await;
            assert_eq!(
                (&*outcome(&reply), sent(&engine).len()),
                (expected, sent_calls),
                "{wait:?} {changed:?}: {reply}"
            );
            let was_told = engine.server.told_answer.lock().unwrap().is_some();
            assert_eq!(
                was_told,
                wait == Wait::Question && ["hello", "clean"].contains(&expected),
                "{wait:?} {changed:?}"
            );
        }
    }
}

/// An identity with these groups and scopes, proved by a token.
fn ann(groups: &[&str]) -> Arc<Identity> {
    let mut ann = Identity::new(IdentityMethod::Jwt, "https://issuer.example", "ann".into()).unwrap();
    ann.groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Arc::new(ann)
}

#[tokio::test]
async fn the_rules_read_the_identity_with_which_a_question_is_answered() {
    for (groups, expected) in [(None, "hello"), (Some(vec!["staff"]), "hello"), (Some(vec![]), "Unknown tool")] {
        let mut inputs = inputs(Wait::Question);
        set_rule(&mut inputs, false, "'staff' in identity.groups");
        let engine = start(&inputs).await;
        *engine.server.asks.lock().unwrap() = Some(Question { method: Method::ListRoots, params: None });
        let client = Slow { identity: Mutex::new(groups.map(|groups| ann(&groups))), ..Slow::default() };
        client.go.notify_one();
        let caller = Caller { identity: ann(&["staff"]), ..capable(Era::Legacy) };
        let (heard, reservation) = (Heard::default(), engine.budget().reservation(Category::Answer));
        let request = request(&caller, &heard, &reservation, ItemKind::Tool, "up__read");
        let reply = said(engine.calls.call(CallRequest { client: &client, ..request }).await);
        assert!(reply.to_string().contains(expected), "{reply}");
        let was_told = engine.server.told_answer.lock().unwrap().is_some();
        assert_eq!(was_told, expected == "hello", "{reply}");
    }
}

#[tokio::test]
async fn progress_has_no_text_once_a_guard_came_into_force_over_the_answer() {
    let mut inputs = bare();
    scripts(&mut inputs, "old", Phase::Request, &[(Role::Transform, "wait")]);
    let engine = start(&inputs).await;
    let running = engine.clone();
    let running = tokio::spawn(async move {
        let client = Asked::default();
        let reply = super::questions::send(&running, Era::Legacy, InputRound::default(), TaskUse::None, &client).await;
        (reply, client.heard())
    });
    until(|| !engine.plugins.ran.lock().unwrap().is_empty()).await;
    change(&mut inputs, Change::GuardOnResponse);
    apply(&engine, &inputs).await;
    engine.plugins.go.notify_one();
    let (reply, heard) = running.await.unwrap();
    assert_eq!((&*outcome(&reply), &*heard), ("clean", &[r#"{"progress":1,"total":2.0}"#.to_owned()][..]), "{reply}");
}

#[tokio::test]
async fn an_answer_that_a_new_guard_could_not_check_is_withheld() {
    const ASKS: &str = r#"{"resultType":"input_required","requestState":"s","inputRequests":{
        "a":{"method":"elicitation/create","params":{"message":"SECRET"}}}}"#;
    for is_over_questions in [false, true] {
        let mut inputs = bare();
        let server = Server { era: Mutex::new(Era::Modern), ..Server::default() };
        *server.answers.lock().unwrap() = Ok(Answer::Result(raw(ASKS)));
        *server.holds.lock().unwrap() = true;
        let engine = start_with(&inputs, server).await;
        let running = engine.clone();
        let running = tokio::spawn(async move { super::questions::ask(&running, Era::Modern).await });
        until(|| sent(&engine).len() == 1).await;
        if is_over_questions {
            scripts(&mut inputs, "new", Phase::Request, &[(Role::Guard, "same")]).methods = vec![Method::Elicit];
        } else {
            change(&mut inputs, Change::GuardOnResponse);
        }
        apply(&engine, &inputs).await;
        engine.server.go.notify_one();
        let reply = running.await.unwrap();
        assert_eq!(outcome(&reply), "FailsClosed", "{reply}");
        assert!(!reply.to_string().contains("SECRET"), "{reply}");
    }
}

#[tokio::test]
async fn an_entry_that_only_observed_and_is_a_guard_now_runs_on_the_answer() {
    let mut inputs = inputs(Wait::Server);
    scripts(&mut inputs, "new", Phase::Response, &[(Role::Observe, "put clean")]);
    let engine = start(&inputs).await;
    *engine.server.holds.lock().unwrap() = true;
    let running = engine.clone();
    let running = tokio::spawn(async move { call(&running, "{}").await["result"].clone() });
    until(|| sent(&engine).len() == 1).await;
    crate::config::compile::tests::plugin_of(&mut inputs, "new0").role = Role::Guard;
    apply(&engine, &inputs).await;
    engine.server.go.notify_one();
    let reply = running.await.unwrap();
    assert_eq!(outcome(&reply), "clean", "{reply}");
}

#[tokio::test]
async fn a_new_guard_does_not_run_on_an_answer_that_hides_something_from_it() {
    const DOUBLED: &str = r#"{"content":[{"type":"text","text":"SECRET","text":"hello"}]}"#;
    let mut inputs = bare();
    scripts(&mut inputs, "slow", Phase::Response, &[(Role::Transform, "wait")]);
    let server = Server::default();
    *server.answers.lock().unwrap() = Ok(Answer::Result(raw(DOUBLED)));
    let engine = start_with(&inputs, server).await;
    let running = engine.clone();
    let running = tokio::spawn(async move { call(&running, "{}").await });
    until(|| engine.plugins.ran.lock().unwrap().len() == 1).await;
    change(&mut inputs, Change::GuardOnResponse);
    apply(&engine, &inputs).await;
    engine.plugins.go.notify_one();
    let reply = running.await.unwrap().to_string();
    assert!(reply.contains("DuplicateKey") && !reply.contains("SECRET"), "{reply}");
}

#[tokio::test]
async fn a_rule_that_comes_during_a_pause_reads_what_is_sent() {
    let mut inputs = inputs(Wait::Retry);
    scripts(&mut inputs, "path", Phase::Request, &[(Role::Transform, r#"put {"n":7}"#)]);
    let server = Server::default();
    *server.failures.lock().unwrap() = [UpstreamError::Lost("it ended".into())].into();
    let engine = start_with(&inputs, server).await;
    let running = engine.clone();
    let running = tokio::spawn(async move { call(&running, r#"{"n":1}"#).await["result"].clone() });
    until(|| sent(&engine).len() == 1).await;
    set_rule(&mut inputs, true, "has(call.arguments.n) && call.arguments.n == 7");
    apply(&engine, &inputs).await;
    let reply = running.await.unwrap();
    assert_eq!((&*outcome(&reply), sent(&engine).len()), ("r", 1), "{reply}");
}

#[tokio::test]
async fn a_guard_or_a_rule_that_comes_while_the_response_chain_runs_counts_too() {
    for (changed, expected) in [(Change::GuardOnResponse, "clean"), (Change::Deny, "r"), (Change::Edit, "hello")] {
        let mut inputs = inputs(Wait::Server);
        scripts(&mut inputs, "slow", Phase::Response, &[(Role::Transform, "wait")]);
        let engine = start(&inputs).await;
        let running = engine.clone();
        let running = tokio::spawn(async move { call(&running, "{}").await["result"].clone() });
        until(|| engine.plugins.ran.lock().unwrap().len() == 2).await;
        change(&mut inputs, changed);
        apply(&engine, &inputs).await;
        engine.plugins.go.notify_one();
        let reply = running.await.unwrap();
        assert_eq!(outcome(&reply), expected, "{changed:?}: {reply}");
    }
}

#[tokio::test]
async fn a_completion_that_has_waited_is_checked_against_the_newest_plan() {
    const PROMPT: &str = r#"[{"name":"greet","arguments":[]}]"#;
    for (changed, expected) in [
        (Change::Nothing, "hello"),
        (Change::Elsewhere, "hello"),
        (Change::Deny, "Unknown prompt"),
        (Change::GuardOnResponse, "[]"),
    ] {
        let mut inputs = bare();
        let server = Server::default();
        *server.tools.lock().unwrap() = PROMPT.into();
        *server.holds.lock().unwrap() = true;
        let engine = start_with(&inputs, server).await;
        let running = engine.clone();
        let running = tokio::spawn(async move {
            let (caller, reservation) = (caller(Era::Legacy), running.budget().reservation(Category::Answer));
            let params = raw(r#"{"ref":{"type":"ref/prompt","name":"up__greet"},"argument":{"name":"a","value":"h"}}"#);
            let request = CompletionRequest {
                endpoint: Endpoint::All,
                caller: &caller,
                params: Some(&params),
                meta: None,
                reservation: &reservation,
            };
            format!("{:?}", complete(&running.calls, request).await)
        });
        until(|| sent(&engine).len() == 1).await;
        match changed {
            Change::Deny => set_rule(&mut inputs, true, "call.name == 'up__greet'"),
            Change::GuardOnResponse => {
                let chain = scripts(&mut inputs, "new", Phase::Response, &[(Role::Guard, "put clean")]);
                (chain.methods, chain.default_methods) = (vec![Method::GetPrompt], false);
            }
            _ => change(&mut inputs, changed),
        }
        apply(&engine, &inputs).await;
        engine.server.go.notify_one();
        let reply = running.await.unwrap();
        assert!(reply.contains(expected), "{changed:?}: {reply}");
        assert_eq!(reply.contains("hello"), expected == "hello", "{changed:?}: {reply}");
    }
}
