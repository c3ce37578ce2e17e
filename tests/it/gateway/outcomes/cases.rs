//! The table of what an entry's answer does, as cases: each way to answer or to fail, by each role and policy, in both
//! phases, at each place of a chain of three. The other two entries add a word to the content.

use serde_json::{Value, json};

use super::super::manifests::{chain, merge};

/// What comes of an act.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Becomes {
    /// The content has one more word.
    Changed,
    /// It stays as it was.
    Same,
    /// One more word, and `continue: false`.
    Stopped,
    /// `error` with `continue: false`.
    Denied,
    Failed(&'static str),
    Skipped(&'static str),
}

/// Something that a plugin does, or that keeps it from running.
pub struct Act {
    pub name: &'static str,
    request: Becomes,
    response: Becomes,
    /// The plugin; of the role that is tried where it is empty.
    plugin: &'static str,
    /// JSON of what else its entry says.
    entry: &'static str,
    stands: &'static [Stand],
}

/// How an entry stands in its chain.
#[derive(Clone, Copy)]
pub struct Stand {
    name: &'static str,
    role: &'static str,
    policy: Option<&'static str>,
    shadow: bool,
}

const fn stand(name: &'static str, role: &'static str, policy: Option<&'static str>, shadow: bool) -> Stand {
    Stand { name, role, policy, shadow }
}

/// Every policy by its role's default, and written where it differs; and what only watches.
const ALL: &[Stand] = &[
    stand("guard", "guard", None, false),
    stand("transform", "transform", None, false),
    stand("observe", "observe", None, false),
    stand("transform-fail", "transform", Some("Fail"), false),
    stand("guard-lastgood", "guard", Some("LastGood"), false),
    stand("transform-ignore", "transform", Some("Ignore"), false),
    stand("guard-shadow", "guard", None, true),
    stand("transform-shadow", "transform", None, true),
];
const DEFAULTS: &[Stand] = &[ALL[0], ALL[1], ALL[2]];
const ON_PATH: &[Stand] = &[ALL[0], ALL[1]];
const GUARD: &[Stand] = &[ALL[0]];

const INVALID: Becomes = Becomes::Failed("InvalidOutput");
const THROWN: Becomes = Becomes::Failed("PluginError");
const CRASHED: Becomes = Becomes::Failed("Crashed");
const EXITED: Becomes = Becomes::Failed("ExitCode");
const LATE: Becomes = Becomes::Failed("Timeout");

const fn module(name: &'static str, becomes: Becomes, entry: &'static str, stands: &'static [Stand]) -> Act {
    Act { name, request: becomes, response: becomes, plugin: "", entry, stands }
}

const fn once(name: &'static str, becomes: Becomes, entry: &'static str) -> Act {
    Act { name, request: becomes, response: becomes, plugin: "once", entry, stands: ON_PATH }
}

const fn skip(name: &'static str, cause: &'static str, plugin: &'static str, entry: &'static str) -> Act {
    let becomes = Becomes::Skipped(cause);
    Act { name, request: becomes, response: becomes, plugin, entry, stands: GUARD }
}

const SOON: &str = r#"{"timeoutMs": 150}"#;

/// Everything that an entry may do.
pub const ACTS: &[Act] = &[
    module("change", Becomes::Changed, "{}", ALL),
    module("same", Becomes::Same, "{}", DEFAULTS),
    module("stop", Becomes::Stopped, "{}", ALL),
    Act { name: "deny", request: Becomes::Denied, response: THROWN, plugin: "", entry: "{}", stands: ALL },
    Act { name: "deny-empty", request: Becomes::Denied, response: THROWN, plugin: "", entry: "{}", stands: DEFAULTS },
    module("torn", INVALID, "{}", ALL),
    module("throw", THROWN, "{}", ALL),
    module("no-text", INVALID, "{}", DEFAULTS),
    module("no-continue", INVALID, "{}", DEFAULTS),
    module("odd-type", INVALID, "{}", DEFAULTS),
    module("nothing", INVALID, "{}", DEFAULTS),
    // Of a response that is seen as text, any text is valid.
    module("bad", INVALID, r#"{"view": "Json"}"#, ALL),
    module("large", Becomes::Failed("TooLarge"), "{}", DEFAULTS),
    module("exit", CRASHED, "{}", DEFAULTS),
    module("kill", CRASHED, "{}", DEFAULTS),
    module("late", LATE, SOON, DEFAULTS),
    once("change", Becomes::Changed, "{}"),
    once("stop", Becomes::Stopped, "{}"),
    Act { name: "deny", request: Becomes::Denied, response: THROWN, plugin: "once", entry: "{}", stands: ON_PATH },
    once("torn", INVALID, "{}"),
    once("exit-code", EXITED, "{}"),
    once("half-a-line", INVALID, "{}"),
    once("silent", INVALID, "{}"),
    once("twice", INVALID, "{}"),
    once("kill", CRASHED, "{}"),
    once("late", LATE, r#"{"timeoutMs": 300}"#),
    skip("when-false", "when", "", r#"{"when": "content.text.contains('nowhere')"}"#),
    skip("entry-off", "disabled", "", r#"{"enabled": false}"#),
    skip("plugin-off", "disabled", "off", "{}"),
    skip("other-tools", "filter", "other-tools", "{}"),
    skip("other-upstreams", "filter", "other-upstreams", "{}"),
    // In doubt the plugin runs.
    Act {
        name: "when-errs",
        request: Becomes::Changed,
        response: Becomes::Changed,
        plugin: "",
        entry: r#"{"when": "call.arguments.nowhere == 1"}"#,
        stands: GUARD,
    },
];

/// One entry to try, in one phase, at one place.
pub struct Case {
    act: &'static Act,
    stand: Stand,
    phase: &'static str,
    place: usize,
}

/// Every case of the table.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for act in ACTS {
        for stand in act.stands {
            for phase in ["Request", "Response"] {
                cases.extend((0..3).map(|place| Case { act, stand: *stand, phase, place }));
            }
        }
    }
    cases
}

/// What one entry of the chain is expected to be recorded as.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub plugin: String,
    /// As in the trace.
    pub outcome: String,
    pub mode: &'static str,
    pub changed: bool,
}

/// What a call is expected to give.
pub struct Expected {
    /// `m` of what the client gets; none where the call is ended.
    pub words: Option<String>,
    /// The text and `_meta` of a call that is ended.
    pub ended: Option<(String, Value)>,
    pub recorded: Vec<Recorded>,
    /// Of the call's record.
    pub outcome: &'static str,
    pub reached: bool,
}

impl Case {
    /// Name of its tool and of its chain.
    pub fn name(&self) -> String {
        let place = ["first", "middle", "last"][self.place];
        let protocol = if self.act.plugin == "once" { "once-" } else { "" };
        format!("{protocol}{}-{}-{}-{place}", self.act.name, self.stand.name, self.phase.to_lowercase())
    }

    /// The plugin that is tried.
    fn plugin(&self) -> String {
        match self.act.plugin {
            "" => self.stand.role.to_owned(),
            "once" => format!("{}-once", self.stand.role),
            other => other.to_owned(),
        }
    }

    /// Its chain.
    pub fn chain(&self) -> Value {
        let mut tried = json!({"name": self.plugin()});
        let act = if matches!(self.becomes(), Becomes::Skipped(_)) || self.act.name == "when-errs" {
            "change"
        } else {
            self.act.name
        };
        tried["config"] = json!({ "act": act });
        merge(&mut tried, &serde_json::from_str(self.act.entry).unwrap());
        if self.phase == "Request" {
            // Only a response can be seen in more ways than one.
            tried.as_object_mut().map(|entry| entry.remove("view"));
        }
        if let Some(policy) = self.stand.policy {
            tried["failurePolicy"] = json!(policy);
        }
        if self.stand.shadow {
            tried["mode"] = json!("Shadow");
        }
        let mut entries = vec![json!({"name": "one"}), json!({"name": "two"})];
        entries.insert(self.place, tried);
        chain(&self.name(), self.phase, &self.name(), &entries)
    }

    fn becomes(&self) -> Becomes {
        match (self.phase, self.stand.role) {
            // An observer denies nothing.
            ("Request", "observe") if self.act.request == Becomes::Denied => THROWN,
            ("Request", _) => self.act.request,
            _ => self.act.response,
        }
    }

    fn fails_the_call(&self) -> bool {
        let by_role = match self.stand.role {
            "guard" => "Fail",
            "transform" => "LastGood",
            _ => "Ignore",
        };
        self.stand.policy.unwrap_or(by_role) == "Fail"
    }

    /// What the table says.
    pub fn expected(&self) -> Expected {
        let (becomes, beside) = (self.becomes(), self.stand.shadow || self.stand.role == "observe");
        let mut expected = Expected { words: None, ended: None, recorded: Vec::new(), outcome: "ok", reached: true };
        let (mut words, mut stopped) = ("a".to_owned(), false);
        let mut others = ["one", "two"].into_iter();
        for place in 0..3 {
            if place == self.place {
                expected.recorded.push(self.recorded(becomes));
                match becomes {
                    _ if beside => {}
                    Becomes::Changed => words.push_str("+x"),
                    Becomes::Stopped => {
                        words.push_str("+x");
                        stopped = true;
                    }
                    Becomes::Denied => expected.ended = Some(self.denied()),
                    Becomes::Failed(reason) if self.fails_the_call() => expected.ended = Some(self.failed(reason)),
                    Becomes::Same | Becomes::Failed(_) | Becomes::Skipped(_) => {}
                }
                continue;
            }
            let other = others.next().unwrap();
            let runs = !stopped && expected.ended.is_none();
            if runs {
                words.push_str(&format!("+{other}"));
            }
            let outcome = if runs { "ran" } else { "skipped(stopped)" };
            let plugin = format!("default/{other}");
            expected.recorded.push(Recorded { plugin, outcome: outcome.into(), mode: "Enforce", changed: runs });
        }
        if expected.ended.is_some() {
            expected.outcome = if becomes == Becomes::Denied { "denied" } else { "failed" };
            expected.reached = self.phase == "Response";
        } else {
            expected.words = Some(words);
        }
        expected
    }

    fn recorded(&self, becomes: Becomes) -> Recorded {
        let outcome = match becomes {
            Becomes::Changed | Becomes::Same | Becomes::Stopped => "ran".to_owned(),
            Becomes::Denied => "denied".to_owned(),
            Becomes::Failed(reason) => format!("failed({reason})"),
            Becomes::Skipped(cause) => format!("skipped({cause})"),
        };
        // Of a shadow: what it would have changed. What an observer answers is nobody's affair.
        let changed = matches!(becomes, Becomes::Changed | Becomes::Stopped) && self.stand.role != "observe";
        let mode = if self.stand.shadow { "Shadow" } else { "Enforce" };
        Recorded { plugin: format!("default/{}", self.plugin()), outcome, mode, changed }
    }

    fn denied(&self) -> (String, Value) {
        let error = if self.act.name == "deny-empty" { "" } else { "E_NO" };
        let who = json!({"chain": self.key(), "plugin": format!("default/{}", self.plugin()), "error": error});
        ("not this way".into(), json!({"hawsepipe.dev/denied": who}))
    }

    fn failed(&self, reason: &str) -> (String, Value) {
        let plugin = format!("default/{}", self.plugin());
        let who = json!({"chain": self.key(), "plugin": plugin, "reason": reason});
        let text = format!("The call failed: plugin {plugin} could not do its work ({reason}).");
        (text, json!({"hawsepipe.dev/failed": who}))
    }

    fn key(&self) -> String {
        format!("default/{}", self.name())
    }

    /// What the history quotes of a plugin that reports an error.
    pub fn said(&self) -> Option<&'static str> {
        let said = match self.act.name {
            "throw" => "reported error: Error with a message of 4 characters, at index.mjs:12:11",
            "deny-empty" => "reported error: ",
            _ => "reported error: E_NO",
        };
        (self.becomes() == THROWN).then_some(said)
    }

    /// The phase as manifests name it.
    pub fn phase(&self) -> &'static str {
        self.phase
    }
}
