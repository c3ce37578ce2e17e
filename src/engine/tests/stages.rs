//! Each stage of a call is needed: without it, a case fails that has its name.

use super::checks::{long, while_checks_wait};
use super::questions::{ASKS, capable};
use super::*;
use crate::config::input::SectionInput;
use crate::domain::audit::AuditMode;
use crate::domain::plan::{
    AuthorizationPlan, Plan, Refusal, RulePlan, SectionHeading, SectionPart, SectionPlan, ToolOverride,
};
use crate::domain::rpc::INVALID_PARAMS;
use crate::engine::calls::stages::LEFT_OUT;

const SOURCE: &str = include_str!("../calls/stages.rs");

/// Stages whose results the next ones need: the list does not compile without one.
const NEEDED: [&str; 6] = ["route", "request_chains", "client_answers", "send_in_rounds", "recheck", "release"];

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
    let mut inputs = bare();
    (case.inputs)(&mut inputs);
    if case.stage == "questions" {
        scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "same")]);
    }
    let engine = engine(Server::default());
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

#[test]
fn each_stage_has_a_case_or_is_needed_by_the_next() {
    let body = SOURCE.split("async fn item(").nth(1).unwrap().split("\n    }\n").next().unwrap();
    let place = SOURCE.split("async fn stages(").nth(1).unwrap().split("async fn item(").next().unwrap();
    let names = |text: &str, before: &str| -> Vec<String> {
        let ends = |rest: &str| rest.split('(').next().unwrap().to_owned();
        text.split(before).skip(1).map(ends).collect()
    };
    let optional: Vec<_> = [names(place, "stage!(self."), names(body, "stage!(self.")].concat();
    assert_eq!(optional, cases().iter().map(|case| case.stage).collect::<Vec<_>>());
    let needed: Vec<_> = names(body, "self.").into_iter().filter(|name| !optional.contains(name)).collect();
    assert_eq!(needed, NEEDED);
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
