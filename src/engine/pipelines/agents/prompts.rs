//! The words that agents give their models, and the schemas of the answers.

use serde_json::{Value, json};

/// The maximum number of characters of the observations that a model gets. The oldest are cut.
const MAX_OBSERVATIONS: usize = 60_000;

pub(super) const COORDINATOR: &str = "You judge a question before it is researched. Say how complex it is, whether it is a new topic, \
    and whether it is ambiguous. If you can answer it well without any source, set isSimpleQuery and give the answer in \
    directResponse.";
pub(super) const BACKGROUND: &str = "You collect context for a question before it is researched. Call tools if they help, then give a \
    summary of at most 200 words and the key terms.";
pub(super) const PLANNER: &str = "You plan the research of a question. Give steps that can be carried out one by one with the tools, \
    without those that are done. Set hasEnoughContext if the observations suffice to answer.";
pub(super) const RESEARCHER: &str = "You carry out one step of a research with the tools. Give what you found as an observation, with \
    its key points. State only what the tools have answered.";
pub(super) const REFLECTOR: &str = "You judge whether the observations cover the question. Decide complete if they do, continue if the \
    plan still does, and adjust if the plan must be changed.";
pub(super) const SYNTHESIZER: &str = "You write the answer to a question from observations alone. Cite the numbered sources as [1] after \
    each statement that rests on them. Do not cite a source that is not listed.";

pub(super) fn coordinator_schema() -> Value {
    object(
        &["complexity", "followUpType", "isAmbiguous", "isSimpleQuery"],
        json!({
            "complexity": {"type": "string", "enum": ["simple", "moderate", "complex"]},
            "followUpType": {"type": "string", "enum": ["new_topic", "clarification", "complex_follow_up"]},
            "isAmbiguous": {"type": "boolean"},
            "clarifyingQuestions": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "recommendedDepth": {"type": "string", "enum": ["auto", "light", "medium", "extended"]},
            "reasoning": {"type": "string"},
            "isSimpleQuery": {"type": "boolean"},
            "directResponse": {"type": ["string", "null"]},
        }),
    )
}

pub(super) fn background_schema() -> Value {
    object(&["summary"], json!({"summary": {"type": "string"}, "keyTerms": strings()}))
}

pub(super) fn planner_schema() -> Value {
    let step = object(
        &["id", "title"],
        json!({
            "id": {"type": "string"},
            "title": {"type": "string"},
            "description": {"type": "string"},
            "stepType": {"type": "string", "enum": ["research", "analysis"]},
            "needsSearch": {"type": "boolean"},
        }),
    );
    object(
        &["title", "hasEnoughContext", "steps"],
        json!({
            "title": {"type": "string"},
            "thought": {"type": "string"},
            "hasEnoughContext": {"type": "boolean"},
            "steps": {"type": "array", "items": step},
        }),
    )
}

pub(super) fn researcher_schema() -> Value {
    object(
        &["observation"],
        json!({"observation": {"type": "string"}, "keyPoints": strings(), "sourcesUsed": strings()}),
    )
}

pub(super) fn reflector_schema() -> Value {
    object(
        &["decision", "reasoning"],
        json!({
            "decision": {"type": "string", "enum": ["continue", "adjust", "complete"]},
            "reasoning": {"type": "string"},
            "remainingTopics": strings(),
            "coveredTopics": strings(),
            "coverageGaps": strings(),
            "suggestedChanges": strings(),
        }),
    )
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

fn strings() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

/// Returns what all agents are given of the state: the question, the plan, the observations and the sources.
pub(in crate::engine::pipelines) fn sections(state: &Value) -> String {
    let mut text = format!("# Question\n{}", state["query"].as_str().unwrap_or_default());
    let mut add = |title: &str, section: String| {
        if !section.is_empty() {
            text.push_str(&format!("\n\n# {title}\n{section}"));
        }
    };
    let plan = &state["plan"];
    add("Plan", plan["steps"].as_array().map(|_| plan.to_string()).unwrap_or_default());
    add("Observations", observations(state));
    add("Sources", sources(state));
    text
}

/// Returns the observations, one a line. The oldest are cut.
pub(in crate::engine::pipelines) fn observations(state: &Value) -> String {
    let observations = state["observations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<_> = observations.iter().map(Value::to_string).collect();
    let mut size = 0;
    let fits = |text: &&String| {
        size += text.len();
        size <= MAX_OBSERVATIONS
    };
    let kept = texts.iter().rev().take_while(fits).count();
    let cut = texts.len() - kept;
    let note = if cut > 0 { format!("(The {cut} oldest are left out.)\n") } else { String::new() };
    note + &texts[cut..].join("\n")
}

/// Returns the sources with their numbers, one a line.
pub(in crate::engine::pipelines) fn sources(state: &Value) -> String {
    let source = |source: &Value| {
        let text = |name: &str| source[name].as_str().unwrap_or_default().to_owned();
        format!("[{}] {} {}", text("id"), text("title"), text("url"))
    };
    let sources = state["sources"].as_array().map(Vec::as_slice).unwrap_or_default();
    sources.iter().map(source).collect::<Vec<_>>().join("\n")
}
