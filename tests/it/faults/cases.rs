//! Every fault at every place of a chain of three, under every failure policy: plugins, chain, and what comes of it.

use serde_json::{Value, json};

use super::table::{FAULTS, Fault, LONG};
use crate::gateway::manifests::{chain, merge, plugin};

/// A Module that does wrong, and a script.
const MODULE: &str = include_str!("module.mjs");
const ONCE: &str = include_str!("once.cjs");
/// One that answers line by line.
const LINES: &str = include_str!("lines.cjs");
/// A script that ends before it has read anything, and one that closes its input and stays.
const GONE: &str = "process.exit(0);";
const UNREAD: &str = "require('fs').closeSync(0); setInterval(() => {}, 1000);";
/// The two other entries of each chain add their word.
const OTHERS: [&str; 2] = ["one", "two"];

/// Cases that run beside each other. Each lane has plugins of its own with one worker each, so that the call after a
/// fault is served by the worker that had it, or by its successor.
pub const LANES: usize = 3;

/// One fault at one place of a chain.
pub struct Case {
    pub fault: &'static Fault,
    pub lane: usize,
    place: usize,
    policy: &'static str,
    phase: &'static str,
}

/// Every case, in rounds that hold each fault once.
pub fn rounds() -> Vec<Vec<Case>> {
    let mut rounds = Vec::new();
    for (number, policy) in ["Fail", "LastGood", "Ignore"].into_iter().enumerate() {
        for place in 0..3 {
            let phase = ["Request", "Response"][(number + place) % 2];
            let cases = FAULTS.iter().enumerate();
            rounds.push(cases.map(|(n, fault)| Case { fault, lane: n % LANES, place, policy, phase }).collect());
        }
    }
    rounds
}

/// The plugins of all lanes.
pub fn plugins() -> Vec<Value> {
    let one = |name: &str, code: &str, more: &Value| {
        let mut spec = json!({"pool": {"size": 1}, "limits": {"maxOutputSize": "256Ki"}});
        merge(&mut spec, more);
        plugin(name, code, &spec)
    };
    let word = |word: &str| json!({"config": {"act": "change", "word": word}});
    let mut plugins = vec![one("gone", GONE, &json!({})), one("unread", UNREAD, &json!({}))];
    for lane in 0..LANES {
        plugins.push(one(&format!("module-{lane}"), MODULE, &json!({})));
        let shared = json!({"protocol": "Module", "pool": {"concurrency": 4}});
        plugins.push(one(&format!("shared-{lane}"), MODULE, &shared));
        plugins.push(one(&format!("once-{lane}"), ONCE, &json!({})));
        plugins.push(one(&format!("reuse-{lane}"), ONCE, &json!({"protocol": "Once", "reuse": true})));
        plugins.push(one(&format!("lines-{lane}"), LINES, &json!({"protocol": "Lines"})));
        for other in OTHERS {
            plugins.push(one(&format!("{other}-{lane}"), crate::gateway::outcomes::acts::MODULE, &word(other)));
        }
    }
    plugins
}

/// The tool and chain of the call that comes after a fault.
pub fn next(fault: &Fault, lane: usize) -> String {
    format!("next-{}-{lane}", fault.protocol)
}

/// The chains of those calls, by their tools.
pub fn nexts() -> Vec<(String, Value)> {
    let mut nexts = Vec::new();
    for lane in 0..LANES {
        for protocol in ["module", "shared", "once", "reuse", "lines"] {
            let (tool, name) = (format!("next-{protocol}-{lane}"), format!("{protocol}-{lane}"));
            let entry = json!({"name": name, "config": {"act": "fine"}, "failurePolicy": "Fail", "timeoutMs": LONG});
            nexts.push((tool.clone(), chain(&tool, "Request", &tool, &[entry])));
        }
    }
    nexts
}

impl Case {
    /// Name of its tool and of its chain.
    pub fn name(&self) -> String {
        let place = ["first", "middle", "last"][self.place];
        format!("{}-{}-{}-{place}", self.fault.protocol, self.fault.name, self.policy.to_lowercase())
    }

    /// The plugin that does wrong.
    pub fn plugin(&self) -> String {
        match self.fault.name {
            own @ ("gone" | "unread") => own.to_owned(),
            _ => format!("{}-{}", self.fault.protocol, self.lane),
        }
    }

    /// Its chain.
    pub fn chain(&self) -> Value {
        let mut entries: Vec<_> =
            OTHERS.iter().map(|other| json!({"name": format!("{other}-{}", self.lane)})).collect();
        let tried = json!({
            "name": self.plugin(), "config": {"act": self.fault.name},
            "failurePolicy": self.policy, "timeoutMs": self.fault.timeout_ms,
        });
        entries.insert(self.place, tried);
        chain(&self.name(), self.phase, &self.name(), &entries)
    }

    /// Whether the execution ended by its deadline and 100 ms.
    pub fn in_time(&self, row: &Value) -> bool {
        row["runMs"].as_f64().is_some_and(|ran| ran <= (self.fault.timeout_ms + 100) as f64)
    }

    /// # Errors
    /// What is wrong with the answer to its call, or with the execution as the history has it.
    pub fn judge(&self, answer: &Value, row: &Value) -> Result<(), String> {
        let result = &answer["result"];
        let traced = result["_meta"]["hawsepipe.dev/trace"].as_array().cloned().unwrap_or_default();
        let outcomes: Vec<_> = traced.iter().map(|entry| entry["outcome"].as_str().unwrap_or_default()).collect();
        let came = outcomes.get(self.place).copied().unwrap_or_default();
        let word = came.strip_prefix("failed(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(came);
        if !self.fault.may.contains(&word) {
            return Err(format!("it came to {came:?}, not one of {:?}: {answer:.600}", self.fault.may));
        }
        if row["reason"].as_str().unwrap_or("ran") != word || !self.in_time(row) {
            return Err(format!("the history has it otherwise, or too late: {row}"));
        }
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let became = (outcomes.join(" "), text.to_owned(), result["isError"] == json!(true));
        let wanted = self.expected(word);
        if became != wanted { Err(format!("it became {became:?}, not {wanted:?}")) } else { Ok(()) }
    }

    /// What a call becomes whose tried entry came to `word`: the outcome of each entry, the text, whether it failed.
    fn expected(&self, word: &str) -> (String, String, bool) {
        let (ran, mut others) = (word == "ran", OTHERS.into_iter());
        let (mut words, mut outcomes, mut failed) = ("a".to_owned(), Vec::new(), false);
        for place in 0..3 {
            if place == self.place {
                outcomes.push(if ran { word.to_owned() } else { format!("failed({word})") });
                failed = !ran && self.policy == "Fail";
                words.push_str(if ran { "+x" } else { "" });
            } else {
                let other = others.next().unwrap();
                outcomes.push(if failed { "skipped(stopped)" } else { "ran" }.to_owned());
                words.push_str(&format!("+{other}"));
            }
        }
        let text = match failed {
            true => format!("The call failed: plugin default/{} could not do its work ({word}).", self.plugin()),
            false => format!(r#"{{"m":"{words}"}}"#),
        };
        (outcomes.join(" "), text, failed)
    }
}
