//! Upstreams: names, routing order, and which ones refuse calls.

use super::*;
use crate::domain::plan::{ExchangePlan, JwtPlan, OAuthPlan, Revoked};
use crate::domain::reason::Reason;

fn served(plan: &Plan) -> Vec<String> {
    plan.upstreams.iter().map(|u| u.key.to_string()).collect()
}

fn two() -> Inputs {
    let mut inputs = folder();
    gateway(&mut inputs).upstreams.namespaces = Namespaces::All;
    inputs.upstreams.push(UpstreamInput { share_with: Some(Namespaces::All), ..upstream("team/up") });
    inputs
}

const CONFLICT: &str = "NameConflict MCPUpstream team/up metadata.name";

#[test]
fn the_older_keeps_its_name() {
    let mut inputs = two();
    assert_eq!(served(&check(&inputs, None, &[CONFLICT])), ["default/up"]);
    inputs.upstreams.swap(0, 1);
    let other = "NameConflict MCPUpstream default/up metadata.name";
    assert_eq!(served(&check(&inputs, None, &[other])), ["team/up"]);
}

#[test]
fn an_edit_that_is_not_valid_loses_no_name_and_no_place() {
    let mut inputs = two();
    inputs.upstreams.push(upstream("last"));
    let first = check(&inputs, None, &[CONFLICT]);
    assert_eq!(served(&first), ["default/up", "default/last"]);
    inputs.upstreams.remove(0);
    inputs.invalid.push(invalid(Kind::MCPUpstream, "up"));
    assert_eq!(served(&check(&inputs, Some(&first), &[CONFLICT])), ["default/up", "default/last"]);
}

#[test]
fn one_that_is_not_valid_is_let_go_with_its_namespace() {
    let mut inputs = two();
    inputs.upstreams.remove(0);
    let first = accepted(&inputs);
    inputs.upstreams.clear();
    inputs.invalid.push(invalid(Kind::MCPUpstream, "team/up"));
    assert_eq!(served(&check(&inputs, Some(&first), &[])), ["team/up"]);
    gateway(&mut inputs).upstreams.namespaces = Namespaces::Same;
    let plan = check(&inputs, Some(&first), &["?NoUpstreams PluginChain default/checks spec.upstreams"]);
    assert!(served(&plan).is_empty());
}

#[test]
fn one_that_was_never_accepted_refuses_its_calls() {
    let mut inputs = folder();
    inputs.upstreams[0].plan.exclude = vec!["[".into()];
    let expected = ["InvalidPattern MCPUpstream default/up spec.tools.exclude[0]"];
    let plan = check(&inputs, None, &expected);
    assert!(plan.upstreams[0].refusing.is_some() && plan.upstreams[0].exclude.is_empty());
    inputs.upstreams[0].plan.exclude.clear();
    assert!(check(&inputs, Some(&plan), &[]).upstreams[0].refusing.is_none());
}

#[test]
fn one_bad_object_removes_no_other() {
    let mut inputs = folder();
    inputs.upstreams.push(upstream("bad"));
    inputs.upstreams[1].plan.include = vec!["[".into()];
    add_plugin(&mut inputs, "bad", |p| p.sha256 = Some("0".repeat(64)));
    inputs.chains.push(ChainInput { exclude: vec!["[".into()], ..chain("bad", &["bad"]) });
    let (plan, problems) = compile(&inputs, None);
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert_eq!(served(&plan), ["default/up", "default/bad"]);
    assert_eq!(runs(&plan, "checks"), ["guard Fail", "shape LastGood"]);
}

#[test]
fn what_switches_off_works_whatever_else_is_wrong() {
    let mut inputs = folder();
    let first = accepted(&inputs);
    inputs.upstreams[0].plan.enabled = false;
    inputs.upstreams[0].plan.include = vec!["[".into()];
    let wrong = ["InvalidPattern MCPUpstream default/up spec.tools.include[0]"];
    let plan = check(&inputs, Some(&first), &wrong);
    assert!(!plan.upstreams[0].enabled && plan.upstreams[0].refusing.is_none());
    inputs.upstreams[0].plan.enabled = true;
    let again = check(&inputs, Some(&plan), &wrong);
    assert!(again.upstreams[0].enabled, "it is switched on again while it is wrong");
    inputs.upstreams.clear();
    inputs.gateway = None;
    let mut says = |off, before: &Plan| {
        inputs.invalid = [(Kind::MCPUpstream, "up"), (Kind::MCPGateway, "gw")]
            .map(|(kind, name)| InvalidObject { off, ..invalid(kind, name) })
            .into();
        check(&inputs, Some(before), &[])
    };
    let is_off = |plan: &Plan| (!plan.upstreams[0].enabled, plan.gateway.stopped);
    let off = says(Some(true), &first);
    assert_eq!(is_off(&off), (true, true));
    let unsaid = says(None, &off);
    assert_eq!(is_off(&unsaid), (true, true), "what says nothing of it leaves it as it was");
    assert_eq!(is_off(&says(Some(false), &unsaid)), (false, false), "it is switched on while it is wrong");
    assert_eq!(is_off(&says(None, &first)), (false, false));
}

#[test]
fn a_gateway_that_was_never_accepted_is_stopped_where_it_says_so() {
    let mut inputs = folder();
    inputs.gateway = None;
    inputs.invalid.push(InvalidObject { off: Some(true), ..invalid(Kind::MCPGateway, "gw") });
    let gateway = compile(&inputs, None).0.gateway;
    assert!(gateway.stopped && gateway.refusing.is_some());
}

#[test]
fn a_managed_one_is_reached_where_its_server_is_and_a_contradiction_changes_nothing() {
    let mut inputs = folder();
    let managed = ManagedInput { port: 1, path: "/mcp".into(), fault: None };
    inputs.upstreams[0].managed = Some(managed.clone());
    inputs.upstreams[0].plan.transport = TransportPlan::None;
    let key = inputs.upstreams[0].plan.key.clone();
    let taken = || Err((Reason::NameTaken, "it is somebody else's".to_owned()));
    inputs.managed.insert(key.clone(), taken());
    let told = ["NameTaken MCPUpstream default/up spec.managed"];
    let plan = check(&inputs, None, &told);
    assert_eq!(plan.upstreams[0].refusing.as_ref().map(|refusal| refusal.reason), Some(Reason::NameTaken));
    assert_eq!(plan.upstreams[0].transport, TransportPlan::None, "nothing is sent there");

    inputs.managed.insert(key.clone(), Ok("http://up-mcp.default.svc:1/mcp".to_owned()));
    let plan = accepted(&inputs);
    let url = |plan: &Plan| match &plan.upstreams[0].transport {
        TransportPlan::External { url, .. } => url.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(url(&plan), "http://up-mcp.default.svc:1/mcp");
    let mut lost = inputs.clone();
    lost.managed.insert(key.clone(), taken());
    let refused = check(&lost, Some(&plan), &told);
    assert_eq!(refused.upstreams[0].transport, TransportPlan::None, "the earlier form would be called there, too");
    lost.managed.insert(key.clone(), Err((Reason::Pending, "it is not known yet".to_owned())));
    let told = ["Pending MCPUpstream default/up spec.managed"];
    assert_eq!(url(&check(&lost, Some(&plan), &told)), "http://up-mcp.default.svc:1/mcp");
    assert_eq!(check(&lost, None, &told).upstreams[0].transport, TransportPlan::None, "there is no form yet");
    assert_eq!(check(&lost, Some(&refused), &told).upstreams, refused.upstreams, "what was refused stays so");
    let mut large = lost.clone();
    large.upstreams[0].plan.labels.insert("x".to_owned(), "x".repeat(1 << 20));
    check(&large, None, &["TooLarge MCPUpstream default/up spec"]);

    let fault = Some(("spec.managed.command".to_owned(), "it is missing".to_owned()));
    inputs.upstreams[0].managed = Some(ManagedInput { fault, ..managed });
    inputs.managed.insert(key, Ok("http://up-mcp.default.svc:2/mcp".to_owned()));
    let told = ["InvalidConfig MCPUpstream default/up spec.managed.command"];
    assert_eq!(url(&check(&inputs, Some(&plan), &told)), "http://up-mcp.default.svc:1/mcp");
    assert_eq!(check(&inputs, None, &told).upstreams[0].transport, TransportPlan::None);
}

#[test]
fn nothing_is_sent_to_somebody_elses_server_whatever_else_is_wrong_and_in_whatever_revision() {
    let mut inputs = folder();
    inputs.upstreams[0].plan.transport = TransportPlan::None;
    let fault = Some(("spec.managed.command".to_owned(), "it is missing".to_owned()));
    let managed = |fault| Some(ManagedInput { port: 1, path: "/mcp".into(), fault });
    inputs.upstreams[0].managed = managed(None);
    let key = inputs.upstreams[0].plan.key.clone();
    inputs.managed.insert(key.clone(), Ok("http://up-mcp.default.svc:1/mcp".to_owned()));
    let plan = accepted(&inputs);
    inputs.upstreams[0].managed = managed(fault);
    inputs.managed.insert(key.clone(), Err((Reason::NameTaken, "it is somebody else's".to_owned())));
    let refused = |plan: &Plan| plan.upstreams[0].refusing.as_ref().map(|refusal| refusal.reason);
    let told = ["NameTaken MCPUpstream default/up spec.managed"];
    assert_eq!(refused(&check(&inputs, Some(&plan), &told)), Some(Reason::NameTaken));
    let mut external = inputs.clone();
    external.upstreams[0].managed = None;
    check(&external, Some(&plan), &[]);
    inputs.upstreams.clear();
    inputs.invalid.push(invalid(Kind::MCPUpstream, "up"));
    let kept = compile(&inputs, Some(&plan)).0;
    assert_eq!((refused(&kept), &kept.upstreams[0].transport), (Some(Reason::NameTaken), &TransportPlan::None));
    assert_eq!(restrictions(&inputs, &plan).revoked, [Revoked::Upstream(key.clone())]);
    assert_eq!(restrictions(&inputs, &kept).revoked, [], "it refuses already, and says why");
    // A new leader does not know yet who has the name, and of an invalid object it may never learn it.
    for address in [Some(Err((Reason::Pending, "it was not looked at yet".to_owned()))), None] {
        match address {
            Some(pending) => inputs.managed.insert(key.clone(), pending),
            None => inputs.managed.remove(&key),
        };
        inputs.revoked.clear();
        assert_eq!(restrictions(&inputs, &plan).revoked, [], "nobody has been told that it is taken");
        inputs.revoked.insert(key.clone());
        assert_eq!(restrictions(&inputs, &plan).revoked, [Revoked::Upstream(key.clone())]);
    }
    inputs.managed.insert(key, Ok("http://up-mcp.default.svc:1/mcp".to_owned()));
    assert_eq!(restrictions(&inputs, &plan).revoked, [], "it is ours again");
}

/// Returns an upstream for which tokens of users are exchanged, at this issuer or else at a token endpoint.
fn exchanging(name: &str, issuer: Option<&str>) -> UpstreamInput {
    let mut exchanging = upstream(name);
    let oauth = OAuthPlan {
        issuer: issuer.map(str::to_owned),
        token_url: issuer.is_none().then(|| "https://elsewhere.test/token".to_owned()),
        client_id: "gateway".to_owned(),
        scopes: Vec::new(),
        resource: String::new(),
        exchange: Some(ExchangePlan { audience: None }),
    };
    let TransportPlan::External { url, headers, tls, .. } = TransportPlan::at("http://127.0.0.1:1/mcp") else {
        panic!()
    };
    exchanging.plan.transport = TransportPlan::External { url, headers, tls, oauth: Some(Box::new(oauth)) };
    exchanging
}

#[test]
fn tokens_of_users_go_to_no_issuer_that_another_namespace_chooses() {
    let mut inputs = folder();
    let login = "https://login.test";
    gateway(&mut inputs).plan.authentication.jwt = vec![JwtPlan {
        issuer: login.to_owned(),
        audiences: vec!["a".to_owned()],
        algorithms: vec!["ES256".to_owned()],
        jwks_uri: None,
        jwks_ref: None,
        jwks: None,
        refresh_seconds: 1,
        subject_claim: "sub".to_owned(),
        groups_claim: "groups".to_owned(),
        skew_seconds: 0,
    }];
    gateway(&mut inputs).upstreams.namespaces = Namespaces::All;
    let names = ["default/own", "team/ours", "team/theirs", "team/anywhere"];
    let issuers = [None, Some(login), Some("https://other.test"), None];
    inputs.upstreams = names.into_iter().zip(issuers).map(|(name, issuer)| exchanging(name, issuer)).collect();
    inputs.upstreams.iter_mut().for_each(|upstream| upstream.share_with = Some(Namespaces::All));
    let told = ["theirs", "anywhere"]
        .map(|name| format!("RefNotPermitted MCPUpstream team/{name} spec.external.oauth.tokenExchange"));
    let plan = check(&inputs, None, &told.each_ref().map(String::as_str));
    let refuses = |name: &str| plan.upstream(name).is_some_and(|plan| plan.refusing.is_some());
    assert_eq!(["own", "ours", "theirs", "anywhere"].map(refuses), [false, false, true, true]);
    assert_eq!(plan.upstream("theirs").unwrap().transport, TransportPlan::None);
}
