//! What rules decide of a call, and of an item in a list.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::authorize::{AccessRequest, CallContent, ClientValues, Decision, RequestValues, Rules};
use super::condition_values::ItemNames;
use crate::config::expr::evaluations;
use crate::domain::identity::{Identity, IdentityMethod};
use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind};
use crate::domain::plan::{AuthorizationPlan, RulePlan};
use crate::domain::raw::to_raw;

/// Rules such as `Allow x == 1`, each with the name of its place.
fn rules(allows_by_default: bool, rules: &[&str]) -> Rules {
    let rule = |(at, text): (usize, &&str)| {
        let (effect, when) = text.split_once(' ').unwrap();
        let (denies, when) = (effect == "Deny", when.to_owned());
        RulePlan { name: at.to_string(), denies, when, message: None, scopes: Vec::new() }
    };
    let rules = rules.iter().enumerate().map(rule).collect();
    Rules::new(&AuthorizationPlan { allows_by_default, rules })
}

fn ann(groups: impl IntoIterator<Item = String>) -> Identity {
    let mut identity = Identity::new(IdentityMethod::Jwt, "issuer", "ann".to_owned()).unwrap();
    identity.groups.extend(groups);
    identity
}

fn item(kind: ItemKind, name: &str) -> Item {
    Item::parse(kind, &to_raw(&json!({kind.name_member(): name, "inputSchema": {"type": "object"}}))).unwrap()
}

/// Asks about an item of the upstream `up`.
fn ask<T>(
    (identity, item, call): (&Identity, &Item, Option<&str>),
    client: &Arc<ClientValues>,
    question: impl FnOnce(&AccessRequest<'_>) -> T,
) -> T {
    let (upstream, labels) = (ObjectKey::new("default", "up"), BTreeMap::new());
    question(&AccessRequest {
        identity,
        session: "",
        item,
        names: ItemNames::new(item.kind, Cow::Borrowed(&item.name), &item.name, "up"),
        upstream: &upstream,
        labels: &labels,
        method: item.kind.used_by(),
        call: call.map(|content| CallContent { content, user_query: "", max_tokens: 0 }),
        values: RequestValues::of(client),
    })
}

fn lists(rules: &Rules, identity: &Identity, item: &Item) -> bool {
    ask((identity, item, None), &Arc::default(), |request| rules.list(request))
}

fn decision(rules: &Rules, identity: &Identity, item: &Item, content: &str) -> &'static str {
    ask((identity, item, Some(content)), &Arc::default(), |request| match rules.decide(request) {
        Decision::Allowed(_) => "allowed",
        Decision::Unscoped(_) => "unscoped",
        Decision::Denied(_) => "denied",
        Decision::Unknown => "unknown",
    })
}

#[test]
fn a_rule_that_reads_arguments_shows_a_tool_only_if_its_other_parts_may_hold() {
    let (ann, tool) = (ann(["staff".to_owned()]), item(ItemKind::Tool, "read"));
    for (rule, is_listed, of_call) in [
        ("Allow call.arguments.n == 1", true, "denied"),
        ("Allow call.arguments.n == 2", true, "allowed"),
        ("Allow tool.name == 'read' && call.arguments.n == 1", true, "denied"),
        ("Allow tool.name == 'other' && call.arguments.n == 2", false, "unknown"),
        ("Allow call.arguments.n == 2 && tool.name == 'other'", false, "unknown"),
        ("Allow 'bosses' in identity.groups && (call.arguments.n == 2 || call.userQuery == '')", false, "unknown"),
        ("Allow 'bosses' in identity.groups && call.arguments.n == 2 || tool.name == 'read'", true, "allowed"),
        ("Allow !(tool.name == 'read' || call.arguments.n == 1)", false, "unknown"),
        ("Allow tool._meta.missing == 1 && call.arguments.n == 2", false, "unknown"),
        ("Allow upstream.name == 'up' && call.maxTokens == 0", true, "allowed"),
    ] {
        let rules = rules(false, &[rule]);
        assert_eq!(lists(&rules, &ann, &tool), is_listed, "{rule}");
        assert_eq!(decision(&rules, &ann, &tool, r#"{"n": 2}"#), of_call, "{rule}");
    }
    for (rule, is_listed) in [
        ("Deny call.arguments.n == 1", true),
        ("Deny tool.name == 'read' || call.arguments.n == 1", false),
        ("Deny tool.name == 'read' && call.arguments.n == 1", true),
        ("Deny tool._meta.missing == 1 || call.arguments.n == 1", false),
        ("Deny tool._meta.missing == 1 && call.arguments.n == 1", true),
        ("Deny tool.name == 'other' && call.arguments.n == 1", true),
    ] {
        assert_eq!(lists(&rules(true, &[rule]), &ann, &tool), is_listed, "{rule}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of forms")]
fn a_rule_holds_for_each_form_of_a_uri() {
    const FORMS: [&str; 8] = [
        "file:///pub/secret",
        "FILE:///pub/secret",
        "file://localhost/pub/secret",
        "file:/pub/secret",
        "file:///pub/%73ecret",
        "file:///pub/x/../secret",
        "file:///pub/x/%2e%2e/secret",
        "file:///pub/x%2F..%2Fsecret",
    ];
    let ann = ann([]);
    let deny = ["call.name", "tool.name", "tool.upstreamName"].map(|of| format!("Deny {of} == 'file:///pub/secret'"));
    let deny = deny.map(|rule| rules(true, &[&rule]));
    let allow = rules(false, &["Allow call.name == 'file:///pub/secret'"]);
    let allow_below = rules(false, &["Allow tool.name.startsWith('file:///pub/')"]);
    for uri in FORMS {
        let resource = item(ItemKind::Resource, uri);
        for deny in &deny {
            assert_eq!(decision(deny, &ann, &resource, "{}"), "denied", "{uri}");
            assert!(!lists(deny, &ann, &resource), "{uri}");
        }
        // As sent, only the first is what the rule has.
        let expected = if uri == FORMS[0] { "allowed" } else { "unknown" };
        assert_eq!(decision(&allow, &ann, &resource, "{}"), expected, "{uri}");
    }
    for (uri, expected) in [
        ("file:///pub/a", "allowed"),
        ("file:///pub/x/../a", "allowed"),
        ("file:///pub/../etc/passwd", "unknown"),
        ("file:///pub/..%2fetc/passwd", "unknown"),
        ("file:///etc/../pub/a", "unknown"),
    ] {
        assert_eq!(decision(&allow_below, &ann, &item(ItemKind::Resource, uri), "{}"), expected, "{uri}");
    }
    let secret = rules(true, &["Deny tool.name == 'file:///pub/secret'"]);
    assert_eq!(decision(&secret, &ann, &item(ItemKind::Resource, "file:///pub/%2573ecret"), "{}"), "allowed");
    assert!(!lists(&rules(true, &["Deny tool.name == 'db:///{row}'"]), &ann, &item(ItemKind::Template, "DB:///{row}")));
    let app = rules(true, &["Deny tool.name == 'ui://up/clock/view'"]);
    assert_eq!(decision(&app, &ann, &item(ItemKind::Resource, "ui://clock/./view"), "{}"), "denied");
    // Names are no URIs.
    let prompt = rules(true, &["Deny tool.name == 'A:b'"]);
    assert_eq!(decision(&prompt, &ann, &item(ItemKind::Prompt, "A:b"), "{}"), "denied");
    assert_eq!(decision(&prompt, &ann, &item(ItemKind::Prompt, "a:b"), "{}"), "allowed");
}

#[test]
fn what_does_not_read_the_item_is_evaluated_once() {
    let texts: Vec<_> = (0..60)
        .map(|at| format!("Allow identity.groups.exists(g, g == 'group-{at}') && tool.name == 'tool-{at}'"))
        .collect();
    let rules = rules(false, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    // The client is in one group of the rules.
    let ann = ann((59..759).map(|at| format!("group-{at}")));
    let client = Arc::default();
    let tools: Vec<_> = (0..301).map(|at| item(ItemKind::Tool, &format!("tool-{at}"))).collect();
    let before = evaluations();
    let listed: Vec<_> =
        tools.iter().filter(|tool| ask((&ann, tool, None), &client, |request| rules.list(request))).collect();
    assert_eq!(listed.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["tool-59"]);
    let of_client = evaluations() - before;
    assert_eq!(of_client, 60 + 301, "each condition on groups once, and the other part of one rule for each tool");
    // Of a call, the parts that take long come last.
    let before = evaluations();
    assert_eq!(decision(&rules, &ann, &tools[59], "{}"), "allowed");
    assert_eq!(evaluations() - before, 60 + 1);
}

#[test]
fn clients_of_which_the_rules_read_the_same_have_one_digest() {
    let rules = rules(false, &["Allow 'staff' in identity.groups", "Allow has(identity.claims.tenant.name)"]);
    let digest = |change: &dyn Fn(&mut Identity)| {
        let mut client = ann(["staff".to_owned()]);
        change(&mut client);
        rules.digest_of(&client, "")
    };
    let same = digest(&|_| {});
    let claim = |name: &str, value: serde_json::Value| {
        digest(&|client| drop(client.claims.insert(name.to_owned(), value.clone())))
    };
    assert_eq!(digest(&|client| client.subject = "eve".to_owned()), same);
    assert_eq!(digest(&|client| client.scopes.push("a".to_owned())), same);
    assert_eq!(claim("exp", json!(1)), same);
    assert_ne!(digest(&|client| client.groups.push("more".to_owned())), same);
    let tenants = ["tenant"; 4].into_iter().zip([json!({}), json!({"name": 1}), json!("text"), json!(null)]);
    let mut found: Vec<_> = tenants.map(|(name, value)| claim(name, value)).chain([same]).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 5, "a text has no members, which is not the same as an object without this one");
    let scoped = RulePlan {
        name: "s".to_owned(),
        denies: false,
        when: "call.session == 'a'".to_owned(),
        message: None,
        scopes: vec!["read".to_owned()],
    };
    let scoped = Rules::new(&AuthorizationPlan { allows_by_default: false, rules: vec![scoped] });
    let mut client = ann([]);
    let without = ["a", "b"].map(|session| scoped.digest_of(&client, session));
    client.scopes.push("read".to_owned());
    assert!(without[0] != without[1] && !without.contains(&scoped.digest_of(&client, "a")));
}
