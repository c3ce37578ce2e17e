//! How a plugin describes itself: what it is for, what it costs, and what it takes. Its members are those of a `plugin.json`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::plugin_kind::PluginKind;

/// The maximum size in bytes of a descriptor in a file or in code.
pub const MAX_DESCRIPTOR: usize = 64 << 10;
/// The maximum timeout of an execution, in milliseconds.
const MAX_TIMEOUT_MS: u32 = 600_000;
/// The maximum number of sentences of a description.
const MAX_SENTENCES: usize = 3;
/// Words that end with a period and do not end a sentence. Neither does a single letter.
const ABBREVIATIONS: [&str; 4] = ["e.g.", "i.e.", "vs.", "etc."];

/// How a plugin describes itself. Absent members are those that nothing says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The name of the Plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The type of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// The name that is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What the plugin does, in one to three sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The cost of an execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_class: Option<CostClass>,
    /// Whether the plugin calls language models.
    #[serde(rename = "usesLLM", default, skip_serializing_if = "Option::is_none")]
    pub uses_llm: Option<bool>,
    /// The roles of the models that the plugin calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_roles: Option<Vec<String>>,
    /// The maximum number of calls to language models in one execution.
    #[serde(rename = "maxLLMCalls", default, skip_serializing_if = "Option::is_none")]
    pub max_llm_calls: Option<u32>,
    /// Tags of the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Hints for planners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planner_hints: Option<PlannerHints>,
    /// The capabilities that the plugin provides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provides: Option<Vec<String>>,
    /// The inputs that the plugin accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepts: Option<Vec<String>>,
    /// The timeout of an execution in milliseconds, unless the Plugin sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
}

/// The cost of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CostClass {
    /// An execution is cheap.
    Cheap,
    /// An execution has a moderate cost.
    Moderate,
    /// An execution is expensive.
    Expensive,
}

/// Hints for planners, which order plugins by them until there is experience.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlannerHints {
    /// The expected duration of an execution in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_latency_ms: Option<u32>,
    /// The expected number of calls to language models in an execution.
    #[serde(rename = "expectedLLMCalls", default, skip_serializing_if = "Option::is_none")]
    pub expected_llm_calls: Option<u32>,
    /// The cost of an execution relative to other plugins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_cost: Option<f64>,
    /// The acts that the plugin supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supported_acts: Option<Vec<String>>,
    /// The topics that the plugin is suited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_tags: Option<Vec<String>>,
    /// The depth that the plugin is suited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_depth: Option<String>,
    /// The role of the plugin as a fallback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_role: Option<String>,
    /// The confidence, from 0 to 1, of a result if the plugin matches the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_when_matched: Option<f64>,
}

/// A member of a descriptor that is missing or wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorFault {
    /// The path of the member, such as `descriptor.description`.
    pub field: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl Descriptor {
    /// Reads a descriptor.
    ///
    /// # Errors
    /// If the text is too large, or no JSON object with these members.
    pub fn parse(json: &str) -> Result<Self, String> {
        if json.len() > MAX_DESCRIPTOR {
            return Err(format!("it has {} bytes, at most {MAX_DESCRIPTOR} are read", json.len()));
        }
        serde_json::from_str(json).map_err(|error| format!("it is no descriptor: {error}"))
    }

    /// Reads what a plugin's `getDescriptor` returned.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn of_code(returned: &RawValue) -> Result<Self, String> {
        Self::parse(returned.get()).map_err(|why| format!("getDescriptor returned no descriptor: {why}"))
    }

    /// Returns this descriptor with the members of `lower` that it does not have. `id` and `type` are those of the object, and
    /// are left out.
    #[must_use]
    pub fn over(self, lower: Self) -> Self {
        Self {
            id: None,
            r#type: None,
            name: self.name.or(lower.name),
            version: self.version.or(lower.version),
            description: self.description.or(lower.description),
            cost_class: self.cost_class.or(lower.cost_class),
            uses_llm: self.uses_llm.or(lower.uses_llm),
            model_roles: self.model_roles.or(lower.model_roles),
            max_llm_calls: self.max_llm_calls.or(lower.max_llm_calls),
            tags: self.tags.or(lower.tags),
            planner_hints: self.planner_hints.or(lower.planner_hints),
            provides: self.provides.or(lower.provides),
            accepts: self.accepts.or(lower.accepts),
            timeout_ms: self.timeout_ms.or(lower.timeout_ms),
        }
    }

    /// Returns the timeout in milliseconds, if it is in its range.
    pub fn valid_timeout(&self) -> Option<u32> {
        self.timeout_ms.filter(|timeout| (1..=MAX_TIMEOUT_MS).contains(timeout))
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that `id`, or `name` without one, and `type` are those of the object. Without a type, it is middleware.
    ///
    /// # Errors
    /// The difference, as a message.
    pub fn names(&self, name: &str, kind: PluginKind) -> Result<(), String> {
        let (member, own) = match (&self.id, &self.name) {
            (Some(id), _) => ("id", id),
            (None, Some(own)) => ("name", own),
            (None, None) => return self.is_of(kind),
        };
        if own != name {
            return Err(format!("{member} {own:?} is not the object's name {name:?}"));
        }
        self.is_of(kind)
    }

    /// Checks that the type, if there is one, is that of the object.
    ///
    /// # Errors
    /// The difference, as a message.
    pub fn is_of(&self, kind: PluginKind) -> Result<(), String> {
        match &self.r#type {
            Some(own) if own != kind.as_str() && PluginKind::NAMES.contains(&own.as_str()) => {
                Err(format!("type {own:?} is not the object's type {:?}", kind.as_str()))
            }
            Some(own) if own != kind.as_str() => {
                Err(format!("type: {own:?} is no plugin type: one of {}", PluginKind::NAMES.join(", ")))
            }
            _ => Ok(()),
        }
    }

    /// Returns what is missing or wrong in the descriptor of a plugin of this type. With `is_whole`, nothing else describes the
    /// plugin. Wrappers need no hints. The descriptor of middleware is not checked: no call may fail because of it.
    pub fn faults(&self, kind: PluginKind, is_wrapper: bool, is_whole: bool) -> Vec<DescriptorFault> {
        if kind.is_middleware() {
            return Vec::new();
        }
        let fault = |field, message| DescriptorFault { field, message };
        let needs = |what: &str| format!("{} needs {what}", kind.with_article());
        let mut faults = Vec::new();
        match self.description.as_deref().map(sentences) {
            None | Some(0) if kind.is_stage() && (is_whole || self.description.is_some()) => {
                let message = needs("1 to 3 sentences that tell planners what it does");
                faults.push(fault("descriptor.description", message));
            }
            Some(count) if count > MAX_SENTENCES => {
                faults.push(fault("descriptor.description", format!("{count} sentences, at most {MAX_SENTENCES}")));
            }
            _ => {}
        }
        let is_ordered = matches!(kind, PluginKind::SdPlugin | PluginKind::KbPlugin | PluginKind::GsPlugin);
        if is_whole && is_ordered && !is_wrapper && self.planner_hints.is_none() {
            faults.push(fault("descriptor.plannerHints", needs("them, planners order by them")));
        }
        if self.valid_timeout() != self.timeout_ms {
            faults.push(fault("descriptor.timeoutMs", format!("must be from 1 to {MAX_TIMEOUT_MS}")));
        }
        if is_whole && self.uses_llm == Some(true) && self.max_llm_calls.unwrap_or(0) == 0 {
            let message = "usesLLM is true, so say how many calls one run makes at most";
            faults.push(fault("descriptor.maxLLMCalls", message.to_owned()));
        }
        faults
    }

    /// Returns the descriptor of a plugin with this name and type, with the value that each absent member has.
    #[must_use]
    pub fn with_defaults(self, name: &str, kind: PluginKind) -> Self {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Self {
            id: Some(name.to_owned()),
            r#type: Some(kind.as_str().to_owned()),
            name: self.name.or_else(|| Some(name.to_owned())),
            version: self.version.or_else(|| Some("0.0.0".to_owned())),
            cost_class: self.cost_class.or(Some(CostClass::Moderate)),
            uses_llm: self.uses_llm.or(Some(false)),
            model_roles: self.model_roles.or_else(|| Some(Vec::new())),
            max_llm_calls: self.max_llm_calls.or(Some(0)),
            tags: self.tags.or_else(|| Some(Vec::new())),
            provides: self.provides.or_else(|| kind.is_stage().then(|| list(kind.provides()))),
            accepts: self.accepts.or_else(|| kind.is_stage().then(|| list(&["chat-turn"]))),
            ..self
        }
    }
}

/// Returns the number of sentences of a text. A sentence ends at `.`, `!` or `?` before a blank or the end of the text.
fn sentences(text: &str) -> usize {
    let (mut ended, mut is_open) = (0, false);
    for word in text.split_whitespace() {
        let is_abbreviation = ABBREVIATIONS.contains(&word.to_lowercase().trim_start_matches('('))
            || (word.ends_with('.') && word.trim_end_matches('.').chars().count() == 1);
        is_open = is_abbreviation || !word.ends_with(['.', '!', '?']);
        ended += usize::from(!is_open);
    }
    ended + usize::from(is_open)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Descriptor {
        Descriptor::parse(json).unwrap()
    }

    #[test]
    fn sentences_end_before_a_blank_or_the_end() {
        for (text, count) in [
            ("", 0),
            ("Finds notes", 1),
            ("Finds notes.", 1),
            ("Finds notes, e.g. of runs, vs. of calls etc. of all. Fast!", 2),
            ("Version 1.2 is here. Is it? Yes! So", 4),
            ("Written by J. Doe. By hand.", 2),
            ("Ends...", 1),
        ] {
            assert_eq!(sentences(text), count, "{text}");
        }
    }

    #[test]
    fn faults_name_the_member() {
        let found = |json: &str, kind, is_wrapper, is_whole| {
            let faults = of(json).faults(kind, is_wrapper, is_whole).into_iter();
            faults.map(|fault| format!("{}: {}", fault.field, fault.message)).collect::<Vec<_>>()
        };
        let kb = PluginKind::KbPlugin;
        let missing = "descriptor.description: a kb-plugin needs 1 to 3 sentences that tell planners what it does";
        let hints = "descriptor.plannerHints: a kb-plugin needs them, planners order by them";
        assert_eq!(found("{}", kb, false, true), [missing, hints]);
        assert_eq!(found("{}", kb, false, false), [""; 0], "the code may say it");
        assert_eq!(found("{}", kb, true, true), [missing], "a wrapper needs no hints");
        assert_eq!(found("{}", PluginKind::Middleware, false, true), [""; 0]);
        assert_eq!(found(r#"{"description":"A.","plannerHints":{}}"#, kb, false, true), [""; 0]);
        let five = r#"{"description":"It is. It does. It goes. It ends. Done."}"#;
        assert_eq!(found(five, PluginKind::Phase, false, false), ["descriptor.description: 5 sentences, at most 3"]);
        assert_eq!(
            found(r#"{"timeoutMs":0}"#, PluginKind::Phase, false, false),
            ["descriptor.timeoutMs: must be from 1 to 600000"]
        );
        let all = r#"{"description":"A. B. C. D.","usesLLM":true,"timeoutMs":0}"#;
        assert_eq!(
            found(all, PluginKind::Middleware, false, true),
            [""; 0],
            "a guard runs, whatever it says of itself"
        );
        let calls = "descriptor.maxLLMCalls: usesLLM is true, so say how many calls one run makes at most";
        assert_eq!(found(r#"{"usesLLM":true}"#, PluginKind::Phase, false, true), [calls]);
        assert_eq!(found(r#"{"usesLLM":true,"maxLLMCalls":2}"#, PluginKind::Phase, false, true), [""; 0]);
    }

    #[test]
    fn id_and_type_are_those_of_the_object() {
        let kb = PluginKind::KbPlugin;
        for (json, why) in [
            ("{}", None),
            (r#"{"id":"a","type":"kb-plugin","name":"Notes"}"#, None),
            (r#"{"id":"b"}"#, Some(r#"id "b" is not the object's name "a""#)),
            (r#"{"name":"Notes"}"#, Some(r#"name "Notes" is not the object's name "a""#)),
            (r#"{"id":"a","type":"gs-plugin"}"#, Some(r#"type "gs-plugin" is not the object's type "kb-plugin""#)),
        ] {
            assert_eq!(of(json).names("a", kb).err().as_deref(), why, "{json}");
        }
        let banana = of(r#"{"type":"banana"}"#).names("a", kb).unwrap_err();
        assert!(banana.starts_with(r#"type: "banana" is no plugin type: one of middleware, sd-plugin, "#), "{banana}");
    }

    #[test]
    fn members_that_are_set_take_precedence_by_key() {
        let (upper, lower) = (of(r#"{"version":"2","tags":["a"]}"#), of(r#"{"id":"x","version":"1","name":"N"}"#));
        assert_eq!(upper.over(lower), of(r#"{"version":"2","tags":["a"],"name":"N"}"#));
        let shown = of(r#"{"version":"2"}"#).with_defaults("kb-a", PluginKind::KbPlugin);
        let shown = serde_json::to_value(shown).unwrap();
        assert_eq!(shown["provides"], serde_json::json!(["retrieve-context"]));
        assert_eq!((&shown["id"], &shown["costClass"]), (&"kb-a".into(), &"moderate".into()));
    }
}
