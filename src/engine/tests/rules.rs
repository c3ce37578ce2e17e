//! What the rules of a gateway hide: clients cannot tell it from what is not there, and lists are decided once.

use super::items::ask_at;
use super::*;
use crate::config::compile::tests::{key, upstream};
use crate::config::expr::evaluations;
use crate::config::input::SectionInput;
use crate::domain::identity::IdentityMethod;
use crate::domain::method::Method;
use crate::domain::plan::{AuthorizationPlan, RulePlan, SectionHeading, SectionPart, SectionPlan};
use crate::engine::calls::completion::complete;
use crate::engine::views::asked_access::AskedCall;
use crate::engine::{CompletionRequest, Mailbox, SubscribeRequest};

/// Gives the gateway rules such as `Allow x == 1`.
fn put_rules(inputs: &mut Inputs, allows_by_default: bool, rules: &[&str]) {
    let rule = |text: &&str| {
        let (effect, when) = text.split_once(' ').unwrap();
        let message = Some(format!("{effect} {when}"));
        RulePlan { name: "rule".into(), denies: effect == "Deny", when: when.into(), message, scopes: Vec::new() }
    };
    let rules = rules.iter().map(rule).collect();
    inputs.gateway.as_mut().unwrap().plan.authorization = Some(AuthorizationPlan { allows_by_default, rules });
}

/// Two upstreams, of which the section `Up` shows one. Each has what some clients may use, and what nobody may.
async fn two() -> Gateway {
    let mut inputs = bare();
    inputs.upstreams.push(upstream("other"));
    let rules = [
        r#"Allow tool.upstreamName in ["read", "denied", "greet", "file:///a"]"#,
        r#"Allow tool.upstreamName == "no" && call.arguments.n == 1"#,
        r#"Deny tool.upstreamName == "denied""#,
    ];
    put_rules(&mut inputs, false, &rules);
    let plan = SectionPlan {
        key: key("section"),
        glob: "**".into(),
        part: SectionPart::Heading(SectionHeading { text: "Up".into(), level: None }),
        inherits: true,
        upstream: key("up"),
        refusing: None,
    };
    inputs.sections.push(SectionInput { labels: BTreeMap::new(), gateways: Vec::new(), plan });
    let mut items: Vec<Value> = ["read", "hidden", "denied"]
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
        .into_iter()
        .chain(["greet", "hiding"].map(|name| json!({"name": name, "arguments": []})))
        .chain(["file:///a", "file:///hidden"].map(|uri| json!({"uri": uri, "name": "a"})))
        .collect();
    let mut with_template = |template: &str| {
        items.push(json!({"uriTemplate": template, "name": "rows"}));
        let text = json!(items).to_string();
        items.pop();
        text
    };
    let server = Server::with(with_template("db:///{table}"));
    server.own.lock().unwrap().insert("other".into(), with_template("db:///{row}"));
    start_with(&inputs, server).await
}

/// Asks for an item, in a section or outside. Returns the text of the answer.
async fn answer(
    engine: &Gateway,
    endpoint: Endpoint<'_>,
    (kind, name): (ItemKind, &str),
    section: Option<&str>,
) -> String {
    let client = Client::new(engine, caller(Era::Modern));
    let headings = section.map(|text| json!([{"text": text, "level": 1}]));
    let meta = headings.map(|headings| json!({"hawsepipe.dev/section": {"document": "a.md", "headings": headings}}));
    let meta = meta.map(|meta| raw(&meta.to_string()));
    let request = CallRequest { endpoint, meta: meta.as_deref(), ..client.request(kind, name) };
    said(engine.calls.call(request).await).to_string()
}

#[tokio::test]
async fn what_no_rule_allows_cannot_be_told_from_what_is_not_there() {
    let engine = two().await;
    let (all, up, other) = (Endpoint::All, Endpoint::One("up"), Endpoint::One("other"));
    for (endpoint, kind, hidden, missing) in [
        (all, ItemKind::Tool, "up__hidden", "up__absent"),
        (all, ItemKind::Tool, "other__hidden", "other__absent"),
        (up, ItemKind::Tool, "hidden", "absent"),
        (other, ItemKind::Tool, "hidden", "absent"),
        (all, ItemKind::Prompt, "up__hiding", "up__absent"),
        (all, ItemKind::Prompt, "other__hiding", "other__absent"),
        (all, ItemKind::Resource, "file:///hidden", "file:///absent"),
        (up, ItemKind::Resource, "file:///hidden", "note:absent"),
        (other, ItemKind::Resource, "file:///hidden", "note:absent"),
        (all, ItemKind::Resource, "db:///hidden", "note:absent"),
    ] {
        for section in [None, Some("Up"), Some("Else")] {
            let found = answer(&engine, endpoint, (kind, hidden), section).await;
            let reason = last_call(&engine).reason;
            let expected = answer(&engine, endpoint, (kind, missing), section).await;
            assert_eq!(found, expected.replace(missing, hidden), "{hidden} in {section:?}");
            assert!(found.contains(&format!("Unknown {kind}: {hidden}")), "{found}");
            let is_listed = !hidden.starts_with("db:");
            assert!(!is_listed || reason.as_deref() == Some("NotAuthorized"), "{hidden} in {section:?}: {reason:?}");
        }
        let alike = answer(&engine, endpoint, (kind, &format!("{hidden}s")), None).await;
        assert!(!alike.contains("did you mean"), "{alike}");
    }
    assert!(sent(&engine).is_empty());
}

#[tokio::test]
async fn a_section_refuses_what_the_rules_allow_and_nothing_else() {
    let engine = two().await;
    let ask = async |name: &str, section| answer(&engine, Endpoint::All, (ItemKind::Tool, name), section).await;
    assert!(ask("other__read", Some("Up")).await.contains("OutsideSection"));
    assert_eq!((last_call(&engine).upstream.as_str(), last_call(&engine).tool.as_str()), ("other", "read"));
    assert!(
        !ask("other__read", None).await.contains("refused") && !ask("up__read", Some("Up")).await.contains("isError")
    );
    for section in [None, Some("Up")] {
        let denied = ask("other__denied", section).await;
        assert!(denied.contains("hawsepipe.dev/denied") && !denied.contains("OutsideSection"), "{denied}");
    }
    assert_eq!(sent(&engine), ["other/read -", "up/read -"]);
}

#[tokio::test]
async fn no_upstream_is_named_of_which_the_client_may_see_nothing() {
    let engine = two().await;
    let ambiguous = answer(&engine, Endpoint::All, (ItemKind::Resource, "db:///x"), None).await;
    assert!(!ambiguous.contains("other"), "{ambiguous}");
    let mut inputs = bare();
    inputs.gateway.as_mut().unwrap().plan.limits.list_timeout_ms = 50;
    put_rules(&mut inputs, false, &["Allow upstream.name == 'none'"]);
    let server = Server::default();
    let down = || Err(UpstreamError::Start("nocmd".into()));
    server.probes.lock().unwrap().extend([down(), down()]);
    let engine = start_with(&inputs, server).await;
    let unknown = ask_at(&engine, Endpoint::All, Era::Modern, ItemKind::Resource, r#"{"uri":"note:a"}"#).await;
    assert_eq!(unknown["message"], "Unknown resource: note:a (some upstreams are down)");
}

/// Forms of the URI of one file.
const SECRETS: [&str; 6] = [
    "file:///pub/secret",
    "FILE:///pub/secret",
    "file://localhost/pub/secret",
    "file:///pub/%73ecret",
    "file:///pub/x/../secret",
    "file:///pub/x%2F..%2fsecret",
];
pub(super) const FILES: &str =
    r#"[{"name":"read","inputSchema":{"type":"object"}},{"uriTemplate":"file:///{+path}","name":"files"}]"#;

async fn reads(engine: &Gateway, uri: &str) -> Value {
    let params = json!({"uri": uri}).to_string();
    ask_at(engine, Endpoint::One("up"), Era::Modern, ItemKind::Resource, &params).await
}

#[tokio::test]
async fn rules_see_the_normal_form_of_a_uri_and_the_server_what_was_sent() {
    let mut inputs = bare();
    put_rules(&mut inputs, true, &["Deny tool.name.startsWith('file:///pub/secret')"]);
    let engine = start_with(&inputs, Server::with(FILES)).await;
    engine.server.subscribes.store(true, Ordering::Relaxed);
    let (client, mailbox) = (caller(Era::Modern), Arc::<Mailbox>::default());
    let endpoint = Endpoint::One("up");
    let reservation = engine.budget().reservation(Category::Answer);
    for uri in SECRETS {
        let denied = reads(&engine, uri).await;
        assert_eq!(denied["data"]["hawsepipe.dev/denied"]["rule"], "rule", "{uri}: {denied}");
        let subscribing = SubscribeRequest { endpoint, caller: &client, uri, mailbox: &mailbox, within: None };
        assert!(engine.calls.subscribe(subscribing).await.is_err(), "{uri}");
        let argument = json!({"name": "path", "value": ""});
        let params = raw(&json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": argument}).to_string());
        let (params, meta) = (Some(&*params), None);
        let completed = said(
            complete(
                &engine.calls,
                CompletionRequest { endpoint, caller: &client, params, meta, reservation: &reservation },
            )
            .await,
        );
        assert_eq!(completed["code"], -32602, "{uri}: {completed}");
        let asked = AskedCall::default();
        let access = Some(asked.by(&client.identity));
        let explained = engine.views.explain(&format!("up/{uri}"), Method::ReadResource, access).await.unwrap();
        assert_eq!(explained.access.unwrap().allowed, Some(false), "{uri}");
    }
    assert!(sent(&engine).is_empty());
    for uri in ["FILE:///pub/%6Fpen", "file:///pub/secre", "file://localhost/pub/secret/../x"] {
        reads(&engine, uri).await;
        assert_eq!(sent(&engine).last(), Some(&format!("up/{uri} {{}}")));
        let subscribing = SubscribeRequest { endpoint, caller: &client, uri, mailbox: &mailbox, within: None };
        assert!(engine.calls.subscribe(subscribing).await.is_ok(), "{uri}");
    }
}

#[tokio::test]
async fn a_guard_is_on_a_call_if_either_form_of_its_uri_selects_it() {
    let names = ["tool.name", "tool.upstreamName", "call.name"];
    for (at, when) in names.into_iter().enumerate() {
        let mut inputs = bare();
        let chain = scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "deny no")]);
        chain.methods = vec![Method::ReadResource];
        // Of the second, only what was sent selects the Guard in the last form.
        let otherwise = if at == 1 { " || tool.name == 'FILE:///else'" } else { "" };
        chain.entries[0].when = Some(format!("{when} == 'file:///pub/secret'{otherwise}"));
        let engine = start_with(&inputs, Server::with(FILES)).await;
        for uri in SECRETS {
            assert_eq!(reads(&engine, uri).await["data"]["hawsepipe.dev/denied"]["error"], "no", "{when} {uri}");
        }
        assert!(sent(&engine).is_empty());
        reads(&engine, "FILE:///else").await;
        assert_eq!(sent(&engine).len(), usize::from(at != 1));
    }
}

#[tokio::test]
async fn a_list_is_decided_once_for_clients_of_which_the_rules_read_the_same() {
    let texts: Vec<_> = (0..60)
        .map(|at| format!("Allow identity.groups.exists(g, g == 'group-{at}') && tool.upstreamName == 'tool-{at}'"))
        .collect();
    let mut inputs = bare();
    put_rules(&mut inputs, false, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let tools: Vec<_> =
        (0..301).map(|at| json!({"name": format!("tool-{at}"), "inputSchema": {"type": "object"}})).collect();
    let engine = start_with(&inputs, Server::with(json!(tools).to_string())).await;
    let client = |subject: &str, groups: usize| {
        let mut identity = Identity::new(IdentityMethod::Jwt, "issuer", subject.to_owned()).unwrap();
        identity.groups.extend((58..58 + groups).map(|at| format!("group-{at}")));
        Caller { identity: Arc::new(identity), ..caller(Era::Modern) }
    };
    // Returns the tools of a client, and how many parts of conditions were evaluated.
    let list = async |client: &Caller| {
        let before = evaluations();
        engine.in_force.snapshot().permitted(client, ItemKind::Tool);
        let evaluated = evaluations() - before;
        let page = engine.lists.list_for(client, Endpoint::All, ItemKind::Tool, None, None).await.unwrap();
        let tools: Vec<Value> = serde_json::from_str(page.items.get()).unwrap();
        let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        (names.join(" "), evaluated)
    };
    let (ann, eve) = (client("ann", 700), client("eve", 700));
    assert_eq!(list(&ann).await, ("up__tool-58 up__tool-59".to_owned(), 60 + 301 + 300));
    for again in [&ann, &eve] {
        assert_eq!(list(again).await, ("up__tool-58 up__tool-59".to_owned(), 0));
    }
    assert_eq!(list(&client("ann", 1)).await, ("up__tool-58".to_owned(), 60 + 301));
    assert_eq!(list(&ann).await.1, 0);
    // What a list, the announcement or a search has decided is known to the others.
    let new = client("new", 2);
    let listed = engine.lists.list_for(&new, Endpoint::All, ItemKind::Tool, None, None).await.unwrap();
    assert!(listed.items.get().contains("tool-59") && list(&new).await.1 == 0);
    let other = client("other", 3);
    engine.lists.announcement(Endpoint::All, &other.identity).await;
    assert_eq!(list(&other).await.1, 0);
    put_rules(&mut inputs, true, &["Deny tool.upstreamName != 'tool-7'"]);
    apply(&engine, &inputs).await;
    assert_eq!(list(&ann).await, ("up__tool-7".to_owned(), 301));
}
