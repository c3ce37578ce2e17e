//! Lists, searches and calls of both eras agree with a naive evaluation of random rules: ten clients, twenty tools.
//! `HAWSEPIPE_TEST_CASES` is the number of rule sets, and `HAWSEPIPE_TEST_SEED` repeats one run.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::Method;
use serde_json::{Value, json};

use super::issuer::{KeyServer, SigningKey};
use super::{Http, JSON, ask};
use crate::gateway::harness::{Folder, Gateway};
use crate::gateway::manifests::{object, yaml};

const CLIENTS: usize = 10;
const TOOLS: usize = 20;

/// Has the tools t00 to t19; the even ones only read, and every third can destroy data.
const SERVER: &str = r#"
import { createInterface } from "node:readline";
const tools = Array.from({ length: 20 }, (_, n) => ({
  name: `t${String(n).padStart(2, "0")}`, inputSchema: { type: "object" },
  annotations: { readOnlyHint: n % 2 === 0, destructiveHint: n % 3 === 0 },
}));
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const serverInfo = { name: "s", version: "1" };
  const result = {
    initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo },
    "tools/list": { tools },
    "tools/call": { content: [{ type: "text", text: "done" }] },
  }[method] ?? {};
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\n");
});"#;

/// Random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

#[derive(Debug)]
enum Condition {
    Group(usize),
    Subject(usize),
    ReadOnly,
    Destructive,
    Digit(usize),
    /// Reads the argument `open`.
    Open,
    /// Reads an argument that no call has, and fails.
    Missing,
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

use Condition::{And, Destructive, Digit, Group, Missing, Not, Open, Or, ReadOnly, Subject};

impl Condition {
    fn any(random: &mut Random, depth: usize) -> Self {
        let inner = |random: &mut Random| Box::new(Self::any(random, depth + 1));
        match random.below(if depth > 1 { 6 } else { 10 }) {
            0 => Group(random.below(3)),
            1 => Subject(random.below(CLIENTS)),
            2 => ReadOnly,
            3 => Destructive,
            4 => Digit(random.below(10)),
            5 => Open,
            6 => Not(inner(random)),
            7 => And(inner(random), inner(random)),
            8 => Or(inner(random), inner(random)),
            // Within others, CEL can do without the value of a condition that fails.
            _ if depth == 0 => Missing,
            _ => ReadOnly,
        }
    }

    fn cel(&self) -> String {
        match self {
            Group(n) => format!(r#""g{n}" in identity.groups"#),
            Subject(n) => format!(r#"identity.subject == "u{n}""#),
            ReadOnly => "tool.annotations.readOnlyHint".to_owned(),
            Destructive => "tool.annotations.destructiveHint".to_owned(),
            Digit(n) => format!(r#"tool.upstreamName.endsWith("{n}")"#),
            Open => "call.arguments.open == true".to_owned(),
            Missing => "call.arguments.missing == true".to_owned(),
            Not(inner) => format!("!({})", inner.cel()),
            And(one, other) => format!("({}) && ({})", one.cel(), other.cel()),
            Or(one, other) => format!("({}) || ({})", one.cel(), other.cel()),
        }
    }

    /// `None` if it fails.
    fn holds(&self, client: usize, tool: usize, open: bool) -> Option<bool> {
        let of = |inner: &Self| inner.holds(client, tool, open);
        Some(match self {
            Group(n) => client >> n & 1 == 1,
            Subject(n) => client == *n,
            ReadOnly => tool.is_multiple_of(2),
            Destructive => tool.is_multiple_of(3),
            Digit(n) => tool % 10 == *n,
            Open => open,
            Missing => return None,
            Not(inner) => !of(inner)?,
            And(one, other) => of(one)? && of(other)?,
            Or(one, other) => of(one)? || of(other)?,
        })
    }

    /// All that the condition can come to if the arguments of the call are not known; `None` if it can fail.
    fn results(&self, client: usize, tool: usize) -> BTreeSet<Option<bool>> {
        let pairs = |one: &Self, other: &Self| {
            let others = other.results(client, tool);
            let with = |one| others.iter().map(move |other| (one, *other)).collect::<Vec<_>>();
            one.results(client, tool).into_iter().flat_map(with).collect::<Vec<_>>()
        };
        // An operand that decides does so also beside one that fails.
        let both = |pair| match pair {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (one, other) => one.and(other),
        };
        match self {
            Open | Missing => [None, Some(false), Some(true)].into(),
            Not(inner) => inner.results(client, tool).into_iter().map(|result| result.map(|holds| !holds)).collect(),
            And(one, other) => pairs(one, other).into_iter().map(both).collect(),
            Or(one, other) => {
                let not = |result: Option<bool>| result.map(|holds| !holds);
                pairs(one, other).into_iter().map(|(one, other)| not(both((not(one), not(other))))).collect()
            }
            decided => [decided.holds(client, tool, false)].into(),
        }
    }

    fn reads_arguments(&self) -> bool {
        match self {
            Open | Missing => true,
            Not(inner) => inner.reads_arguments(),
            And(one, other) | Or(one, other) => one.reads_arguments() || other.reads_arguments(),
            _ => false,
        }
    }
}

#[derive(Debug)]
struct Rule {
    denies: bool,
    scope: Option<usize>,
    when: Condition,
}

#[derive(Debug)]
struct Rules {
    allows_by_default: bool,
    rules: Vec<Rule>,
}

/// The scopes of a client.
fn has_scope(client: usize, scope: usize) -> bool {
    client.is_multiple_of(scope + 2)
}

impl Rules {
    fn any(random: &mut Random) -> Self {
        let rule = |random: &mut Random| {
            let denies = random.below(3) == 0;
            let scope = (!denies && random.below(4) == 0).then(|| random.below(2));
            Rule { denies, scope, when: Condition::any(random, 0) }
        };
        let rules = (0..1 + random.below(8)).map(|_| rule(random)).collect();
        Self { allows_by_default: random.below(5) == 0, rules }
    }

    fn manifest(&self) -> Value {
        let rule = |(at, rule): (usize, &Rule)| {
            let effect = if rule.denies { "Deny" } else { "Allow" };
            let mut written = json!({"name": format!("r{at}"), "effect": effect, "when": rule.when.cel()});
            if let Some(scope) = rule.scope {
                written["scopes"] = json!([format!("s{scope}")]);
            }
            written
        };
        let rules: Vec<_> = self.rules.iter().enumerate().map(rule).collect();
        json!({"default": if self.allows_by_default { "Allow" } else { "Deny" }, "rules": rules})
    }

    fn allowing(&self, client: usize) -> impl Iterator<Item = &Rule> {
        let is_held = move |scope: Option<usize>| scope.is_none_or(|scope| has_scope(client, scope));
        self.rules.iter().filter(move |rule| !rule.denies && is_held(rule.scope))
    }

    fn lists(&self, client: usize, tool: usize) -> bool {
        let can = |rule: &Rule, result| rule.when.results(client, tool).contains(&Some(result));
        let could = |rule: &Rule| can(rule, true);
        let denies = |rule: &Rule| rule.denies && !can(rule, false);
        (self.allows_by_default || self.allowing(client).any(could)) && !self.rules.iter().any(denies)
    }

    fn calls(&self, client: usize, tool: usize, open: bool) -> bool {
        let holds = |rule: &Rule| rule.when.holds(client, tool, open);
        let allowed = self.allows_by_default || self.allowing(client).any(|rule| holds(rule) == Some(true));
        allowed && !self.rules.iter().any(|rule| rule.denies && holds(rule) != Some(false))
    }

    fn read_arguments(&self) -> bool {
        self.rules.iter().any(|rule| rule.when.reads_arguments())
    }
}

/// The names of tools in an answer.
fn names(tools: &Value) -> BTreeSet<String> {
    let tools = tools.as_array().unwrap_or_else(|| panic!("no list: {tools}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().trim_start_matches("s__").to_owned()).collect()
}

fn name(tool: usize) -> String {
    format!("t{tool:02}")
}

/// A client of one era at the endpoint of the server.
struct Client<'g> {
    gateway: &'g Gateway,
    http: Http,
    bearer: String,
    session: Option<String>,
}

impl<'g> Client<'g> {
    async fn new(gateway: &'g Gateway, bearer: &str, is_legacy: bool) -> Self {
        let mut client = Self { gateway, http: Http::new(), bearer: bearer.to_owned(), session: None };
        if is_legacy {
            let info = json!({"name": "t", "version": "1"});
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
            let begin = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
            let headers: Vec<_> = JSON.into_iter().chain([("authorization", bearer)]).collect();
            let begun = client.http.send(Method::POST, &gateway.url_of("s"), &headers, begin).await;
            client.session = Some(begun.headers["mcp-session-id"].to_str().unwrap().to_owned());
        }
        client
    }

    /// The body of the answer.
    async fn ask(&self, method: &str, name: Option<&str>, arguments: &Value) -> String {
        let url = self.gateway.url_of("s");
        let Some(session) = &self.session else {
            return ask(&url, method, name, arguments, &[("authorization", &self.bearer)]).await.body;
        };
        let of_session =
            [("mcp-protocol-version", "2025-11-25"), ("mcp-session-id", session), ("authorization", &self.bearer)];
        let headers: Vec<_> = JSON.into_iter().chain(of_session).collect();
        let params = name.map_or_else(|| json!({}), |name| json!({"name": name, "arguments": arguments}));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        self.http.send(Method::POST, &url, &headers, body).await.body
    }

    async fn list(&self) -> BTreeSet<String> {
        let body = self.ask("tools/list", None, &json!({})).await;
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}"));
        names(&answer["result"]["tools"])
    }

    async fn is_called(&self, tool: usize, open: bool) -> bool {
        self.ask("tools/call", Some(&name(tool)), &json!({"open": open})).await.contains(r#""text":"done""#)
    }

    async fn search(&self) -> BTreeSet<String> {
        let query: Vec<_> = (0..TOOLS).map(name).collect();
        let arguments = json!({"query": query.join(" "), "limit": 50});
        let headers = [("authorization", &*self.bearer)];
        let found = ask(&self.gateway.url(), "tools/call", Some("search_tools"), &arguments, &headers).await;
        names(&found.json()["result"]["structuredContent"]["tools"])
    }
}

async fn check(case: &str, gateway: &Gateway, rules: &Rules, client: usize, bearer: &str) {
    let listed: BTreeSet<_> = (0..TOOLS).filter(|tool| rules.lists(client, *tool)).map(name).collect();
    for is_legacy in [false, true] {
        let asked = Client::new(gateway, bearer, is_legacy).await;
        let case = format!("{case}, client {client}, legacy: {is_legacy}: {rules:?}");
        assert_eq!(asked.list().await, listed, "{case}");
        if !is_legacy {
            assert_eq!(asked.search().await, listed, "{case}");
        }
        for (tool, open) in (0..TOOLS).flat_map(|tool| [(tool, false), (tool, true)]) {
            let is_called = asked.is_called(tool, open).await;
            assert_eq!(is_called, rules.calls(client, tool, open), "tool {tool}, open: {open}, {case}");
            let is_listed = listed.contains(&name(tool));
            assert!(is_listed || !is_called, "tool {tool} is called and not listed, {case}");
            assert!(is_called || !is_listed || rules.read_arguments(), "tool {tool} is listed only, {case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_searches_and_calls_agree_with_a_naive_evaluation_of_random_rules() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let now = || u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap_or(1);
    let seed = number("HAWSEPIPE_TEST_SEED").unwrap_or_else(now);
    let (mut random, key) = (Random(seed | 1), SigningKey::new("one"));
    let keys = KeyServer::start(&[&key]);
    for case in 0..number("HAWSEPIPE_TEST_CASES").unwrap_or(3) {
        let rules = Rules::any(&mut random);
        let folder = Folder::new();
        folder.write("server.mjs", SERVER);
        let process = json!({"command": "node", "args": [folder.path().join("server.mjs")]});
        let spec = json!({
            "authentication": keys.authentication(), "authorization": rules.manifest(),
            "upstreams": {"toolDiscovery": "Search"},
        });
        let server = object("MCPUpstream", "s", &json!({"process": process, "protocol": {"era": "Legacy"}}));
        folder.write("manifests.yaml", &yaml(&[object("MCPGateway", "main", &spec), server]));
        let gateway = Gateway::start(&folder);
        for client in 0..CLIENTS {
            let groups: Vec<_> = (0..3).filter(|n| client >> n & 1 == 1).map(|n| format!("g{n}")).collect();
            let scopes: Vec<_> = (0..2).filter(|n| has_scope(client, *n)).map(|n| format!("s{n}")).collect();
            let claims = json!({"sub": format!("u{client}"), "groups": groups, "scope": scopes.join(" ")});
            let bearer = format!("Bearer {}", key.token(&claims));
            check(&format!("seed {seed}, case {case}"), &gateway, &rules, client, &bearer).await;
        }
    }
}
