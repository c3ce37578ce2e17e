//! What `hawsepipe auth check` and `explain --as` say of random calls is what a gateway does.

use serde_json::Map;

use super::*;
use crate::domain::identity::IdentityMethod;
use crate::domain::method::Method;
use crate::domain::plan::{AuthorizationPlan, PrefixMode, RulePlan};
use crate::domain::record::CallOutcome;
use crate::engine::views::asked_access::AskedCall;
use crate::engine::views::explain::explain_plan;

const CONDITIONS: [&str; 18] = [
    r#"identity.subject == "ann""#,
    r#""staff" in identity.groups"#,
    r#"identity.issuer == "https://a.example""#,
    r#"identity.method == "apiKey""#,
    r#"identity.claims.tenant == "x""#,
    r#"tool.name == "up__read""#,
    r#"tool.name == "read""#,
    r#"tool.upstreamName == "read""#,
    "tool.annotations.readOnlyHint",
    "tool.annotations.destructiveHint",
    "call.arguments.n == 1.0",
    "has(call.arguments.n)",
    r#"call.name.startsWith("up__")"#,
    r#"upstream.name == "up""#,
    r#"upstream.labels.team == "a""#,
    r#"call.userQuery == """#,
    "call.maxTokens == 0",
    r#"call.session == """#,
];

/// Random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn condition(&mut self) -> String {
        let (one, other) = (self.of(&CONDITIONS), self.of(&CONDITIONS));
        match self.below(5) {
            0 => format!("!({one})"),
            1 => format!("({one}) && ({other})"),
            2 => format!("({one}) || ({other})"),
            _ => one.to_owned(),
        }
    }

    fn rules(&mut self) -> AuthorizationPlan {
        let rules = (0..1 + self.below(6)).map(|at| {
            let denies = self.below(3) == 0;
            let scopes = if !denies && self.below(4) == 0 { vec!["s".to_owned()] } else { Vec::new() };
            RulePlan { name: format!("r{at}"), denies, when: self.condition(), scopes, message: None }
        });
        let rules = rules.collect();
        AuthorizationPlan { allows_by_default: self.below(4) == 0, rules }
    }

    fn identity(&mut self) -> Identity {
        let (method, issuer) = self.of(&[
            (IdentityMethod::Jwt, "https://a.example"),
            (IdentityMethod::Jwt, "https://b.example"),
            (IdentityMethod::ApiKey, ""),
        ]);
        let mut identity = Identity::new(method, issuer, self.of(&["ann", "bob"]).to_owned()).unwrap();
        identity.groups = self.of(&[&["staff"][..], &[]]).iter().map(|it| (*it).to_owned()).collect();
        identity.scopes = self.of(&[&["s"][..], &[]]).iter().map(|it| (*it).to_owned()).collect();
        if self.below(2) == 0 {
            identity.claims = Map::from_iter([("tenant".to_owned(), json!("x"))]);
        }
        identity
    }
}

#[tokio::test]
async fn what_is_checked_beforehand_is_what_the_gateway_decides() {
    let mut random = Random(0x5eed_0049);
    let (mut counts, mut decided_early) = ([0, 0], 0);
    for case in 0..200 {
        let mut plan = compile(&bare(), None).0;
        plan.gateway.prefix = random.of(&[PrefixMode::Always, PrefixMode::Never, PrefixMode::OnConflict]);
        plan.gateway.authorization = Some(random.rules());
        let annotations = random.of(&["{}", r#"{"readOnlyHint":true}"#, r#"{"destructiveHint":false}"#]);
        let tool = format!(r#"[{{"name":"read","inputSchema":{{"type":"object"}},"annotations":{annotations}}}]"#);
        let engine = engine(Server::with(tool));
        engine.applier.apply(plan.clone(), Vec::new(), &NoSecrets).await;
        let identity = Arc::new(random.identity());
        let arguments = random.of(&["{}", r#"{"n":1}"#, r#"{"n":"x"}"#, r#"{"m":[1]}"#]);
        let case = format!("case {case}: {:?} {arguments} {annotations} {identity:?}", plan.gateway.authorization);

        let explain = |call: &AskedCall| {
            let asked = Some(call.by(&identity));
            explain_plan(plan.clone(), &[], &NoSecrets, "up/read", Method::CallTool, asked).unwrap()
        };
        let call = AskedCall::read(Some(arguments.to_owned()), Some(annotations)).unwrap();
        let said = explain(&call);
        let access = said.access.unwrap();

        let of_ann = Caller { identity: Arc::clone(&identity), ..caller(Era::Modern) };
        let _ = engine.lists.list_for(&of_ann, Endpoint::All, ItemKind::Tool, None, None).await;
        let client = Client::new(&engine, of_ann);
        let input = raw(arguments);
        engine.calls.call(CallRequest { input: Some(&input), ..client.request(ItemKind::Tool, &said.tool) }).await;
        let record = last_call(&engine);
        let is_allowed = record.outcome == CallOutcome::Ok;
        assert_eq!(access.allowed, Some(is_allowed), "{} but {record:?}, {case}", access.decision);
        counts[usize::from(is_allowed)] += 1;

        // The running gateway says the same, of the annotations that its server lists.
        let listed = AskedCall::read(Some(arguments.to_owned()), None).unwrap();
        let running = engine.views.explain("up/read", Method::CallTool, Some(listed.by(&identity))).await.unwrap();
        assert_eq!(running.access.unwrap().decision, access.decision, "{case}");
        // What is decided without the call holds for each call.
        let early = explain(&AskedCall::read(None, Some(annotations)).unwrap()).access.unwrap();
        if let Some(early) = early.allowed {
            assert_eq!(early, is_allowed, "{case}");
            decided_early += 1;
        }
    }
    assert!(counts.iter().all(|count| *count > 30) && decided_early > 50, "{counts:?}, {decided_early} decided early");
}

#[test]
fn a_decision_that_depends_on_the_name_of_the_tool_is_not_decided() {
    let mut inputs = bare();
    let mut other = inputs.upstreams[0].clone();
    other.plan.key.name = "other".into();
    inputs.upstreams.push(other);
    let mut plan = compile(&inputs, None).0;
    plan.gateway.prefix = PrefixMode::OnConflict;
    let rule =
        |when: &str| RulePlan { name: "r".into(), denies: false, when: when.into(), scopes: Vec::new(), message: None };
    let explained = |when: &str| {
        let mut plan = plan.clone();
        plan.gateway.authorization = Some(AuthorizationPlan { allows_by_default: false, rules: vec![rule(when)] });
        let call = AskedCall::read(Some("{}".to_owned()), None).unwrap();
        let anonymous = Identity::anonymous();
        explain_plan(plan, &[], &NoSecrets, "up/read", Method::CallTool, Some(call.by(&anonymous)))
            .unwrap()
            .access
            .unwrap()
    };
    let open = explained(r#"tool.name == "read""#);
    assert!(open.allowed.is_none() && open.decision.contains("as up__read: unknown"), "{}", open.decision);
    assert_eq!(explained(r#"tool.upstreamName == "read""#).allowed, Some(true));
}
