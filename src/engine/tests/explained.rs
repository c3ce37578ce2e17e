//! Tests of what `explain` says of items that clients do not get, and of calls that do not go to a server.

use super::*;
use crate::domain::item::Item;
use crate::domain::method::Method;
use crate::domain::pin;
use crate::domain::plan::{PinningPlan, ToolDiscovery, ToolOverride, UpstreamPlan};
use crate::engine::views::explain::{Explanation, explain_plan};

const READ: &str = r#"{"name":"read","inputSchema":{"type":"object"}}"#;
const TOOLS: &str =
    r#"[{"name":"read","inputSchema":{"type":"object"}},{"name":"evil","inputSchema":{"type":"object"}}]"#;

async fn started(inputs: &Inputs) -> Gateway {
    let engine = start_with(inputs, Server::with(TOOLS)).await;
    until(|| engine.catalogues.catalogue(&ObjectKey::new("default", "up")).is_some()).await;
    engine
}

/// Inputs whose upstream is changed in this way.
fn changed(change: impl FnOnce(&mut UpstreamPlan)) -> Inputs {
    let mut inputs = bare();
    change(&mut inputs.upstreams[0].plan);
    inputs
}

async fn explained(engine: &Gateway, name: &str) -> Explanation {
    engine.views.explain(name, Method::CallTool, None).await.unwrap()
}

/// Calls a tool, and returns what the client is told.
async fn refused(engine: &Gateway, name: &str) -> String {
    let client = Client::new(engine, caller(Era::Legacy));
    said(engine.calls.call(client.request(ItemKind::Tool, name)).await)["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_tool_that_a_chain_over_lists_withholds_says_which_and_why() {
    let mut inputs = bare();
    let chain = scripts(&mut inputs, "f", Phase::Response, &[(Role::Guard, "deny poison")]);
    (chain.methods, chain.include) = (vec![Method::ListTools], vec!["evil".into()]);
    let engine = started(&inputs).await;
    until(|| !engine.in_force.snapshot().filters.jobs.iter().any(|job| job.is_new)).await;
    for name in ["up__evil", "up/evil"] {
        let why = explained(&engine, name).await.withheld.unwrap();
        assert!(why.contains("default/f0 of chain default/f denied") && why.contains("poison"), "{why}");
    }
    assert_eq!(explained(&engine, "up__read").await.withheld, None);
    assert_eq!(engine.views.explain("up__evil", Method::ListTools, None).await.unwrap().chains[0].entries.len(), 1);
    // Clients are told the same as of a tool that is not there.
    let withheld = refused(&engine, "up__evil").await;
    assert_eq!(last_call(&engine).reason.as_deref(), Some("Withheld"));
    let unknown = refused(&engine, "up__nothing").await;
    assert_eq!(last_call(&engine).reason.as_deref(), Some("UnknownTool"));
    assert_eq!(withheld, unknown.replace("nothing", "evil"));
    assert_eq!(unknown, "Unknown tool: up__nothing (no such tool of upstream up is offered now)");
}

#[tokio::test]
async fn a_tool_that_is_not_approved_says_what_has_to_be_approved() {
    let approved = Some(BTreeMap::from([("evil".to_owned(), "other".to_owned())]));
    let engine =
        started(&changed(|plan| plan.pinning = Some(PinningPlan { enforce: true, approved: approved.clone() }))).await;
    let digest = pin::digest(&Item::parse(ItemKind::Tool, &raw(READ)).unwrap());
    let why = explained(&engine, "up__read").await.withheld.unwrap();
    assert!(why.contains("is not approved") && why.contains(&digest), "{why}");
    apply(&engine, &changed(|plan| plan.pinning = Some(PinningPlan { enforce: false, approved }))).await;
    assert_eq!(explained(&engine, "up__read").await.withheld, None);
}

#[tokio::test]
async fn a_tool_that_its_upstream_leaves_out_says_which_field_does() {
    let hidden = ToolOverride { name: "evil".into(), hidden: true, ..ToolOverride::default() };
    let renamed = ToolOverride { name: "evil".into(), rename: Some("good".into()), ..ToolOverride::default() };
    let engine = started(&bare()).await;
    for (name, change, field) in [
        ("up__evil", changed(|plan| plan.include = vec!["read".into()]), "spec.tools.include"),
        ("up__evil", changed(|plan| plan.exclude = vec!["ev*".into()]), "spec.tools.exclude"),
        ("up/evil", changed(|plan| plan.overrides = vec![hidden]), "spec.tools.overrides[0].hidden"),
        ("up/read", changed(|plan| plan.enabled = false), "spec.enabled of MCPUpstream default/up is false"),
        (
            "up__good",
            changed(|plan| (plan.overrides, plan.exclude) = (vec![renamed], vec!["evil".into()])),
            "spec.tools.exclude",
        ),
    ] {
        apply(&engine, &change).await;
        let why = explained(&engine, name).await.withheld.unwrap();
        assert!(why.contains(field), "{why}");
    }
    assert!(engine.views.explain("up__nothing", Method::CallTool, None).await.is_err());
}

#[tokio::test]
async fn an_upstream_that_was_never_enabled_is_said_to_be_disabled() {
    let engine = start_with(&changed(|plan| plan.enabled = false), Server::with(TOOLS)).await;
    for name in ["up__read", "up/read"] {
        let why = explained(&engine, name).await.withheld.unwrap();
        assert!(why.contains("spec.enabled of MCPUpstream default/up is false"), "{why}");
    }
    for name in ["read", "other__read", "other/read"] {
        assert!(engine.views.explain(name, Method::CallTool, None).await.is_err(), "{name}");
    }
    assert!(refused(&engine, "up__read").await.starts_with("Unknown tool: up__read"));
}

#[tokio::test]
async fn a_call_that_does_not_go_to_a_server_is_explained() {
    let answer = ToolOverride { name: "read".into(), answer: Some("Use b.".into()), ..ToolOverride::default() };
    let mut inputs = changed(|plan| plan.overrides = vec![answer]);
    inputs.gateway.as_mut().unwrap().plan.tool_discovery = ToolDiscovery::Search;
    let engine = started(&inputs).await;
    let notes = explained(&engine, "up__read").await.notes.join("\n");
    assert!(notes.contains("nothing is sent to the server") && notes.contains("overrides[0].answer"), "{notes}");
    assert!(notes.contains("clients find it with search_tools"), "{notes}");
    for (own, does) in [("search_tools", "the gateway answers"), ("call_tool", "explain that tool")] {
        let explained = explained(&engine, own).await;
        assert!(explained.chains.is_empty() && explained.notes.join("").contains(does), "{explained:?}");
    }
    inputs.gateway.as_mut().unwrap().plan.tool_discovery = ToolDiscovery::default();
    apply(&engine, &inputs).await;
    assert!(engine.views.explain("search_tools", Method::CallTool, None).await.is_err());
}

#[test]
fn what_a_plan_alone_does_not_decide_is_said() {
    let mut inputs = changed(|plan| {
        plan.pinning = Some(PinningPlan { enforce: true, approved: None });
        plan.exclude = vec!["evil".into()];
    });
    inputs.gateway.as_mut().unwrap().plan.tool_discovery = ToolDiscovery::Search;
    scripts(&mut inputs, "f", Phase::Response, &[(Role::Guard, "same")]).methods = vec![Method::ListTools];
    let explain =
        |name: &str| explain_plan(compile(&inputs, None).0, &[], &NoSecrets, name, Method::CallTool, None).unwrap();
    let read = explain("up/read");
    let notes = read.notes.join("\n");
    assert!(notes.contains("spec.pinning") && notes.contains("chain default/f runs on its definition"), "{notes}");
    assert_eq!((read.withheld, explain("search_tools").chains.len()), (None, 0));
    assert!(explain("up/evil").withheld.unwrap().contains("spec.tools.exclude"));
}

#[tokio::test]
async fn a_renamed_tool_is_found_by_its_servers_own_name_too() {
    let renamed = ToolOverride { name: "read".into(), rename: Some("say".into()), ..ToolOverride::default() };
    let inputs = changed(|plan| plan.overrides = vec![renamed]);
    let engine = started(&inputs).await;
    for name in ["up__say", "up/say", "up/read"] {
        let live = explained(&engine, name).await;
        assert_eq!((&*live.tool, &*live.upstream_tool), ("up__say", "read"), "{name}");
        let read = explain_plan(compile(&inputs, None).0, &[], &NoSecrets, name, Method::CallTool, None).unwrap();
        assert_eq!((&*read.tool, &*read.upstream_tool), ("up__say", "read"), "{name}");
    }
    assert!(engine.views.explain("up/reed", Method::CallTool, None).await.is_err());
}
