//! Each stage of a call is needed: without it, a case fails that has its name.

use super::checks::{long, while_checks_wait};
use super::questions::{ASKS, capable, on_questions};
use super::rules::FILES;
use super::*;
use crate::config::input::SectionInput;
use crate::domain::audit::AuditMode;
use crate::domain::method::Method;
use crate::domain::plan::{
    AuthorizationPlan, Plan, Refusal, RulePlan, SectionHeading, SectionPart, SectionPlan, ToolOverride,
};
use crate::domain::rpc::INVALID_PARAMS;
use crate::domain::task::{OpenTask, TaskFacts};
use crate::engine::CompletionRequest;
use crate::engine::calls::completion::complete;
use crate::engine::calls::stages::LEFT_OUT;

const SOURCE: &str = include_str!("../calls/stages.rs");

/// Stages of an item whose results the next ones need: the list does not compile without one.
const NEEDED: [&str; 6] = ["route", "request_chains", "client_answers", "send_in_rounds", "recheck", "release"];
/// The same of a request about a task.
const NEEDED_BY_TASK: [&str; 4] = ["route_task", "send_about_task", "recheck_task", "task_answer"];
/// The same of a completion or a subscription.
const NEEDED_BESIDE: [&str; 2] = ["admit_beside", "route_beside"];
/// The stages of a request about a task that can only end it. All but the last but one have the cases of calls.
const OF_TASK: [&str; 6] = ["admit", "admit_target", "refusal", "guards_can_run", "task_input", "audit_begin"];
/// The stages of a completion or a subscription that can only end it. `rechecks.rs` and `items.rs` test that nothing is answered of
/// an item that a chain checks.
const OF_BESIDE: [&str; 2] = ["admit_beside_target", "upstream_refusal"];
/// Functions that the lists call and that are no stages.
const OTHERS: [&str; 8] =
    ["snapshot", "routed", "begin_traces", "checked_members", "new", "clone", "wait_for_task", "map_err"];

/// The maximum size of the future of a call. Each call in flight has one.
const MAX_FUTURE: usize = 5 << 10;

/// A call that one stage refuses.
struct Case {
    stage: &'static str,
    /// The configuration and the plan that the stage refuses.
    inputs: fn(&mut Inputs),
    plan: fn(&mut Plan),
    arguments: &'static str,
    meta: &'static str,
    /// A part of what the client gets.
    says: &'static str,
}

const CASE: Case = Case { stage: "", inputs: |_| {}, plan: |_| {}, arguments: "{}", meta: "{}", says: "" };

fn deny(inputs: &mut Inputs, when: &str) {
    let rule = RulePlan { name: "r".into(), denies: true, when: when.into(), message: None, scopes: Vec::new() };
    let rules = AuthorizationPlan { allows_by_default: true, rules: vec![rule] };
    inputs.gateway.as_mut().unwrap().plan.authorization = Some(rules);
}

/// Binds all documents to another upstream.
fn bind_to_other(inputs: &mut Inputs) {
    inputs.upstreams.push(crate::config::compile::tests::upstream("other"));
    let plan = SectionPlan {
        key: ObjectKey::new("default", "section"),
        glob: "**".into(),
        part: SectionPart::Heading(SectionHeading { text: "Up".into(), level: None }),
        inherits: true,
        upstream: ObjectKey::new("default", "other"),
        refusing: None,
    };
    inputs.sections.push(SectionInput { labels: BTreeMap::new(), gateways: Vec::new(), plan });
}

/// A case for each stage that can only end the call, in their order.
#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    let in_section = r#"{"hawsepipe.dev/section":{"document":"a.md","headings":[{"text":"Up","level":1}]}}"#;
    vec![
        Case { stage: "place", meta: r#"{"hawsepipe.dev/section":{"document":7}}"#, says: "InvalidSection", ..CASE },
        Case {
            stage: "admit",
            plan: |plan| plan.gateway.limits.concurrent_calls = 0,
            says: r#""ConcurrentCalls""#,
            ..CASE
        },
        Case {
            stage: "received_rules",
            inputs: |inputs| deny(inputs, "tool.name == 'up__read'"),
            says: r#""rule":"r""#,
            ..CASE
        },
        Case { stage: "section", inputs: bind_to_other, meta: in_section, says: "hawsepipe.dev/refused", ..CASE },
        Case {
            stage: "admit_target",
            plan: |plan| plan.upstreams[0].concurrent_calls = Some(0),
            says: "UpstreamConcurrentCalls",
            ..CASE
        },
        Case {
            stage: "refusal",
            plan: |plan| {
                let refusing = Some(Refusal { reason: Reason::SecretNotFound, message: "no".into() });
                let change = ToolOverride { name: "read".into(), refusing, ..ToolOverride::default() };
                plan.upstreams[0].overrides.push(change);
            },
            says: "SecretNotFound",
            ..CASE
        },
        Case {
            stage: "unique_keys",
            inputs: |inputs| {
                scripts(inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
            },
            arguments: r#"{"n":1,"n":2}"#,
            says: "twice",
            ..CASE
        },
        Case { stage: "mirrored_headers", says: "another header", ..CASE },
        Case {
            stage: "guards_can_run",
            inputs: |inputs| {
                scripts(inputs, "c", Phase::Response, &[(Role::Guard, "absent")]);
            },
            says: "NotLoaded",
            ..CASE
        },
        Case {
            stage: "gate_again",
            inputs: |inputs| {
                scripts(inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
            },
            says: "Stopped",
            ..CASE
        },
        Case {
            stage: "changed_rules",
            inputs: |inputs| {
                scripts(inputs, "c", Phase::Request, &[(Role::Transform, r#"put {"n":7}"#)]);
                deny(inputs, "call.arguments.n == 7");
            },
            arguments: r#"{"n":1}"#,
            says: r#""rule":"r""#,
            ..CASE
        },
        Case {
            stage: "audit_begin",
            plan: |plan| plan.gateway.audit = AuditMode::Required,
            says: "AuditUnavailable",
            ..CASE
        },
        Case { stage: "questions", says: "GuardedInput", ..CASE },
    ]
}

async fn gateway(case: &Case) -> (Gateway, Inputs) {
    gateway_with(case, Server::default()).await
}

async fn gateway_with(case: &Case, server: Server) -> (Gateway, Inputs) {
    let mut inputs = bare();
    (case.inputs)(&mut inputs);
    if case.stage == "questions" {
        scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
    }
    let engine = engine(server);
    let (mut plan, problems) = compile(&inputs, None);
    (case.plan)(&mut plan);
    engine.applier.apply(plan, problems, &NoSecrets).await;
    let _ = engine.list(Endpoint::All, ItemKind::Tool, None, None).await;
    (engine, inputs)
}

async fn reply(engine: &Gateway, case: &Case, arguments: &str) -> String {
    let (caller, heard) = (capable(Era::Modern), Heard::default());
    let (arguments, meta) = (raw(arguments), raw(case.meta));
    let reservation = engine.budget().reservation(Category::Answer);
    let differs = |_: &_| Err(RpcError::new(INVALID_PARAMS, "another header"));
    let request = CallRequest {
        input: Some(&arguments),
        meta: Some(&meta),
        check_mirrored: (case.stage == "mirrored_headers").then_some(&differs as _),
        ..request(&caller, &heard, &reservation, ItemKind::Tool, "up__read")
    };
    said(engine.calls.call(request).await).to_string()
}

/// Sends a client's answer to a question of a task of the tool.
async fn reply_about_task(engine: &Gateway) -> String {
    let (caller, heard) = (capable(Era::Modern), Heard::default());
    let reservation = engine.budget().reservation(Category::Answer);
    let facts = TaskFacts { upstream: "up".into(), tool: "read".into(), id: "t".into() };
    let task = OpenTask { method: Method::UpdateTask, id: "t".into(), facts, responses: Some(raw("{}")) };
    let request =
        CallRequest { task: TaskUse::Of(&task), ..request(&caller, &heard, &reservation, ItemKind::Tool, "up__read") };
    said(engine.calls.call(request).await).to_string()
}

/// Asks for completions of an argument of a prompt.
async fn completed(engine: &Gateway) -> String {
    let caller = capable(Era::Modern);
    let reservation = engine.budget().reservation(Category::Answer);
    let params = raw(r#"{"ref":{"type":"ref/resource","uri":"file:///a"},"argument":{"name":"path","value":""}}"#);
    let request = CompletionRequest {
        endpoint: Endpoint::One("up"),
        caller: &caller,
        params: Some(&params),
        meta: None,
        reservation: &reservation,
    };
    said(complete(&engine.calls, request).await).to_string()
}

/// Whether the call of the case ends at its stage: the client gets the words, and nothing happens that the stage comes before.
fn holds(case: &Case) -> bool {
    if case.stage == "gate_again" {
        return no_plugin_runs_after_a_stop(case);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (engine, _) = gateway(case).await;
        if case.stage == "questions" {
            *engine.server.era.lock().unwrap() = Era::Modern;
            *engine.server.answers.lock().unwrap() = Ok(Answer::Result(raw(ASKS)));
        }
        let reply = reply(&engine, case, case.arguments).await;
        reply.contains(case.says) && (case.stage == "questions" || sent(&engine).is_empty())
    })
}

fn no_plugin_runs_after_a_stop(case: &Case) -> bool {
    let (outcome, ended) = std::sync::mpsc::channel();
    while_checks_wait(async |held| {
        let (engine, mut inputs) = gateway(case).await;
        let arguments = long();
        let waits = reply(&engine, case, &arguments);
        let stops = async {
            until(|| engine.gate.calls.in_flight() == 1).await;
            inputs.gateway.as_mut().unwrap().plan.stopped = true;
            apply(&engine, &inputs).await;
            drop(held);
        };
        let (reply, ()) = tokio::join!(waits, stops);
        let has_run = !engine.plugins.ran.lock().unwrap().is_empty();
        outcome.send(reply.contains(case.says) && !has_run).unwrap();
    });
    ended.recv().unwrap()
}

#[test]
fn without_a_stage_its_case_fails() {
    for case in cases() {
        LEFT_OUT.set("");
        assert!(holds(&case), "{} with all stages", case.stage);
        LEFT_OUT.set(case.stage);
        assert!(!holds(&case), "{} is left out", case.stage);
    }
    LEFT_OUT.set("");
}

/// The functions that this function of the list calls, in their order.
fn called(function: &str) -> Vec<String> {
    let body = SOURCE.split(&format!("async fn {function}(")).nth(1).unwrap().split("\n    }\n").next().unwrap();
    let body = body.split_once("{\n").unwrap().1;
    let code: String = body.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let calls = code.match_indices('(').map(|(at, _)| &code[..at]);
    let names =
        calls.map(|before| before.rsplit(|sign: char| !(sign.is_alphanumeric() || sign == '_')).next().unwrap());
    names
        .filter(|name| name.starts_with(|first: char| first.is_ascii_lowercase()) && !OTHERS.contains(name))
        .map(str::to_owned)
        .collect()
}

/// Compares the stages of a list with those that have cases and those that later ones need.
fn has_stages(function: &str, optional: &[&str], needed: &[&str]) {
    let (of_cases, rest): (Vec<_>, Vec<_>) =
        called(function).into_iter().partition(|name| optional.contains(&name.as_str()));
    assert_eq!((of_cases, rest), (owned(optional), owned(needed)), "{function}");
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn each_stage_has_a_case_or_is_needed_by_the_next() {
    let cases: Vec<_> = cases().iter().map(|case| case.stage).collect();
    has_stages("item", &cases[1..], &NEEDED);
    has_stages("task", &OF_TASK, &NEEDED_BY_TASK);
    has_stages("beside", &OF_BESIDE, &NEEDED_BESIDE);
    assert!(called("stages").starts_with(&owned(&cases[..1])));
}

#[test]
fn without_a_stage_of_a_request_about_a_task_its_case_fails() {
    let asks = Case {
        stage: "task_input",
        inputs: |inputs| _ = on_questions(inputs, "c", Phase::Request, &[(Role::Guard, "same")]),
        says: "GuardedInput",
        ..CASE
    };
    let all = cases().into_iter().filter(|case| OF_TASK.contains(&case.stage)).chain([asks]);
    for case in all {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ends = |left_out| {
            LEFT_OUT.set(left_out);
            runtime.block_on(async {
                let (engine, _) = gateway(&case).await;
                let reply = reply_about_task(&engine).await;
                reply.contains(case.says) && sent(&engine).is_empty()
            })
        };
        assert!(ends(""), "{} with all stages", case.stage);
        assert!(!ends(case.stage), "{} is left out", case.stage);
    }
    LEFT_OUT.set("");
}

#[test]
fn without_a_stage_of_a_completion_its_case_fails() {
    let target = Case {
        stage: "admit_beside_target",
        plan: |plan| plan.upstreams[0].concurrent_calls = Some(0),
        says: "UpstreamConcurrentCalls",
        ..CASE
    };
    let refusal = Case {
        stage: "upstream_refusal",
        plan: |plan| {
            plan.upstreams[0].refusing = Some(Refusal { reason: Reason::SecretNotFound, message: "no".into() })
        },
        says: "SecretNotFound",
        ..CASE
    };
    for case in [target, refusal] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ends = |left_out| {
            LEFT_OUT.set(left_out);
            runtime.block_on(async {
                completed(&gateway_with(&case, Server::with(FILES)).await.0).await.contains(case.says)
            })
        };
        assert!(ends(""), "{} with all stages", case.stage);
        assert!(!ends(case.stage), "{} is left out", case.stage);
    }
    LEFT_OUT.set("");
}

#[tokio::test]
async fn a_call_needs_little_room_while_it_waits() {
    let engine = start(&bare()).await;
    let (caller, heard) = (caller(Era::Legacy), Heard::default());
    let reservation = engine.budget().reservation(Category::Answer);
    let call = engine.calls.call(request(&caller, &heard, &reservation, ItemKind::Tool, "up__read"));
    let bytes = size_of_val(&call);
    assert!(bytes <= MAX_FUTURE, "the future of a call has {bytes} bytes, {MAX_FUTURE} are allowed");
}
