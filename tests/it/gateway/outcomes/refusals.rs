//! What cannot run fails closed: refused before anything is sent, in both phases, unless the entry says otherwise.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway};
use super::super::http::Http;
use super::super::manifests::{chain, gateway, plugin, raw_server, yaml};
use super::acts::{MODULE, plugins};
use super::seen::{Seen, labels, metrics};

/// An entry that cannot run, by phase, place and written policy.
struct Case {
    why: Why,
    phase: &'static str,
    place: usize,
    policy: Option<&'static str>,
}

/// A plugin that cannot run, and the word for it.
#[derive(Clone, Copy)]
struct Why {
    plugin: &'static str,
    reason: &'static str,
    /// Its role is Transform and it was accepted, so it is one that may be passed by.
    may_pass: bool,
}

const fn why(plugin: &'static str, reason: &'static str) -> Why {
    Why { plugin, reason, may_pass: false }
}

const WHY: &[Why] = &[
    why("missing", "PluginNotFound"),
    why("syntax", "PluginNotAccepted"),
    why("digest", "PluginNotAccepted"),
    why("foreign", "RefNotPermitted"),
    why("half", "WrongPhase"),
    why("dies", "NotLoaded"),
    why("dies-once", "NotLoaded"),
    Why { plugin: "dies-transform", reason: "NotLoaded", may_pass: true },
];

/// Plugins that cannot run. All but the last of them are Transforms by what they say.
fn unable() -> Vec<Value> {
    let guard = json!({"role": "Guard"});
    let mut foreign = plugin("foreign", MODULE, &json!({}));
    foreign["metadata"]["namespace"] = json!("elsewhere");
    let half = |name: &str, export: &str| {
        plugin(
            name,
            &format!("export const {export} = ({{ rawContent: text }}) => ({{ text, continue: true }});"),
            &json!({}),
        )
    };
    vec![
        plugin("syntax", "export default (", &json!({})),
        plugin("digest", MODULE, &json!({"sha256": "0".repeat(64)})),
        foreign,
        half("half-request", "onResponse"),
        half("half-response", "onRequest"),
        plugin("dies", "throw new Error('at once'); export default () => {};", &guard),
        plugin("dies-once", "const end = Date.now() + 300; while (Date.now() < end); process.exit(4);", &guard),
        plugin("dies-transform", "throw new Error('at once, too'); export default () => {};", &json!({})),
    ]
}

impl Case {
    fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for why in WHY {
            for phase in ["Request", "Response"] {
                for policy in [None, Some("Fail"), Some("LastGood"), Some("Ignore")] {
                    cases.extend((0..3).map(|place| Self { why: *why, phase, place, policy }));
                }
            }
        }
        cases
    }

    fn name(&self) -> String {
        let policy = self.policy.unwrap_or("none").to_lowercase();
        format!(
            "{}-{policy}-{}-{}",
            self.why.plugin,
            self.phase.to_lowercase(),
            ["first", "middle", "last"][self.place]
        )
    }

    fn plugin(&self) -> String {
        match self.why.plugin {
            "half" => format!("half-{}", self.phase.to_lowercase()),
            other => other.to_owned(),
        }
    }

    fn plugin_key(&self) -> String {
        let namespace = if self.why.plugin == "foreign" { "elsewhere" } else { "default" };
        format!("{namespace}/{}", self.plugin())
    }

    fn chain(&self) -> Value {
        let mut entry = json!({"name": self.plugin()});
        if self.why.plugin == "foreign" {
            entry["namespace"] = json!("elsewhere");
        }
        if let Some(policy) = self.policy {
            entry["failurePolicy"] = json!(policy);
        }
        let mut entries = vec![json!({"name": "one"}), json!({"name": "two"})];
        entries.insert(self.place, entry);
        chain(&self.name(), self.phase, &self.name(), &entries)
    }

    fn is_refused(&self) -> bool {
        match self.policy {
            None => !self.why.may_pass,
            Some(policy) => policy == "Fail",
        }
    }

    /// What the entries of the chain are recorded as.
    fn outcomes(&self) -> Value {
        let others = if self.is_refused() { "skipped(stopped)" } else { "ran" };
        let mut outcomes = vec![json!(["default/one", others]), json!(["default/two", others])];
        outcomes.insert(self.place, json!([self.plugin_key(), format!("failed({})", self.why.reason)]));
        json!(outcomes)
    }

    /// What the client gets, without the trace.
    fn answer(&self) -> Value {
        if !self.is_refused() {
            return json!([null, {"m": "a+one+two"}, {}]);
        }
        let (plugin, reason) = (self.plugin_key(), self.why.reason);
        let text = format!("This call is refused: plugin {plugin} guards it and cannot run ({reason}).");
        let who = json!({"chain": format!("default/{}", self.name()), "plugin": plugin, "reason": reason});
        json!([true, text, {"hawsepipe.dev/refused": who}])
    }

    fn counted(&self) -> BTreeMap<String, u64> {
        let (phase, mut counted) = (self.phase.to_lowercase(), BTreeMap::new());
        let others = if self.is_refused() { "skipped stopped" } else { "success " };
        for other in ["default/one", "default/two"] {
            counted.insert(format!("{other} {phase} enforce {others}"), 1);
        }
        counted.insert(format!("{} {phase} enforce failed {}", self.plugin_key(), self.why.reason), 1);
        counted
    }
}

/// `isError`, the content and `_meta` without the trace, and the entries of the trace.
fn read(answer: &Value) -> (Value, Value) {
    let result = &answer["result"];
    let mut meta = result["_meta"].clone();
    let trace = meta.as_object_mut().and_then(|meta| meta.remove("hawsepipe.dev/trace"));
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let content = serde_json::from_str(text).unwrap_or(json!(text));
    let entries = trace.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
    let outcomes = entries.iter().map(|e| json!([e["plugin"], e["outcome"]])).collect();
    (json!([result["isError"], content, meta]), outcomes)
}

/// A chain for each case, and two that were never valid.
fn objects(cases: &[Case]) -> Vec<Value> {
    let mut objects = vec![gateway(&json!({"plugins": {"queueTimeoutMs": 30_000}}))];
    objects.extend(plugins());
    objects.extend(unable());
    objects.extend(cases.iter().map(Case::chain));
    objects.push(chain("bad-when", "Response", "bad-when", &[json!({"name": "one", "when": "((("})]));
    let mut unknown = chain("bad-object", "Request", "bad-object", &[json!({"name": "one"})]);
    unknown["spec"]["phases"] = json!(["Request"]);
    objects.push(unknown);
    objects
}

#[tokio::test]
async fn what_cannot_run_refuses_before_anything_is_sent() {
    let cases = Case::all();
    let folder = Folder::new();
    let mut names: Vec<_> = cases.iter().map(Case::name).collect();
    names.extend(["bad-when".to_owned(), "bad-object".to_owned()]);
    folder.write("tools.txt", &json!(names).to_string());
    let (log, tools) = (folder.path().join("received.txt"), folder.path().join("tools.txt"));
    let mut objects = objects(&cases);
    objects.push(raw_server("up", &["--log", log.to_str().unwrap(), "--also", tools.to_str().unwrap()]));
    folder.write("manifests.yaml", &yaml(&objects));

    let running = Gateway::start(&folder);
    let (http, url) = (Http::new(), running.url());
    let trace = json!({"hawsepipe.dev/trace": true});
    let call = |name: String| {
        let (http, url, trace) = (http.clone(), url.clone(), trace.clone());
        async move { http.call(&url, &format!("up__{name}"), &json!({"m": "a"}), &trace).await }
    };
    let answers: Vec<_> = stream::iter(cases)
        .map(|case| {
            let answer = call(case.name());
            async move { (case, answer.await) }
        })
        .buffer_unordered(8)
        .collect()
        .await;
    // A chain of which no form was ever accepted refuses all that it selects.
    for (name, reason) in [("bad-when", "InvalidExpression"), ("bad-object", "InvalidObject")] {
        let (answer, _) = read(&call(name.to_owned()).await);
        let refused = json!({"hawsepipe.dev/refused": {"chain": format!("default/{name}"), "reason": reason}});
        assert_eq!((&answer[0], &answer[2]), (&json!(true), &refused), "{answer}");
    }

    let (seen, metrics) = (Seen::of(&running, &log).await, metrics(&running).await);
    assert!(!seen.reached.contains("bad-when") && !seen.reached.contains("bad-object"));
    let wrong: Vec<_> = answers.iter().flat_map(|(case, answer)| differences(case, answer, &seen, &metrics)).collect();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Where what happened differs from what is expected.
fn differences(case: &Case, answer: &Value, seen: &Seen, metrics: &str) -> Vec<String> {
    let (name, (content, outcomes)) = (case.name(), read(answer));
    let recorded = &seen.calls[&name][0];
    let outcome = if case.is_refused() { "refused" } else { "ok" };
    let counted = seen.counted.get(&format!("default/{name}")).cloned().unwrap_or_default();
    let fails_open = is_set(metrics, "hawsepipe_chain_fails_open", &name);
    let softened = case.policy.is_some_and(|policy| policy != "Fail") && !case.why.may_pass;
    let compared = [
        ("the answer", content, case.answer()),
        ("the trace", outcomes, case.outcomes()),
        ("the call's outcome", recorded["outcome"].clone(), json!(outcome)),
        ("the count", json!(counted), json!(case.counted())),
        ("reaching the upstream", json!(seen.reached.contains(&name)), json!(!case.is_refused())),
        ("failing open", json!(fails_open), json!(softened)),
    ];
    let wrong = compared.into_iter().filter(|(_, got, want)| got != want);
    wrong.map(|(what, got, want)| format!("{name}: {what} is {got}, not {want}")).collect()
}

/// Whether a gauge of chains is 1 for this one.
fn is_set(metrics: &str, gauge: &str, chain: &str) -> bool {
    let chain = format!("default/{chain}");
    let lines = metrics.lines().filter(|line| line.starts_with(&format!("{gauge}{{")) && line.ends_with(" 1"));
    lines.into_iter().any(|line| labels(line).get("chain") == Some(&chain.as_str()))
}
