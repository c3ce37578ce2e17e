//! The variables that conditions can read: those of entries of chains, of the rules of a gateway, and of loops of pipelines.

use super::expr::{Kind, Member};

/// The variables with their members. `engine/chains/when.rs` has the values: if a call does not have one, a string is empty, a
/// number is 0 and a map is `{}`.
pub const OF_ENTRIES: &[Member] = &[
    ("call", Kind::Members(CALL)),
    ("tool", Kind::Members(TOOL)),
    ("upstream", Kind::Members(UPSTREAM)),
    ("identity", Kind::Members(IDENTITY)),
    ("content", Kind::Members(CONTENT)),
];

/// The variables that the condition of a loop in a pipeline can read (document 002, `AgentConfig.loop_condition`).
pub const OF_LOOPS: &[Member] = &[
    ("result", Kind::Any),
    ("plan", Kind::Any),
    ("observations", Kind::Any),
    ("pluginData", Kind::Any),
    ("decision", Kind::Any),
    ("agents", Kind::Any),
    ("iteration", Kind::Number),
    ("agentIteration", Kind::Number),
    ("arguments", Kind::Any),
    ("sources", Kind::Any),
];

/// The variables of a condition of `customizations` in a pipeline.
pub const OF_CUSTOMIZATIONS: &[Member] = &[("call", Kind::Members(&[("arguments", Kind::Any)]))];

/// The variables of `store.writers` in a pipeline.
pub const OF_WRITERS: &[Member] = &[("identity", Kind::Members(IDENTITY))];

/// The variables of a rule: as of an entry, without `content`.
pub const OF_RULES: &[Member] = &[
    ("call", Kind::Members(CALL)),
    ("tool", Kind::Members(TOOL)),
    ("upstream", Kind::Members(UPSTREAM)),
    ("identity", Kind::Members(IDENTITY)),
];

const CALL: &[Member] = &[
    ("method", Kind::Text),
    ("name", Kind::Text),
    ("arguments", Kind::Any),
    ("userQuery", Kind::Text),
    ("maxTokens", Kind::Number),
    ("session", Kind::Text),
];

const TOOL: &[Member] = &[
    ("name", Kind::Text),
    ("upstreamName", Kind::Text),
    ("annotations", Kind::Members(ANNOTATIONS)),
    ("_meta", Kind::Any),
];

const ANNOTATIONS: &[Member] = &[
    ("readOnlyHint", Kind::Boolean),
    ("destructiveHint", Kind::Boolean),
    ("idempotentHint", Kind::Boolean),
    ("openWorldHint", Kind::Boolean),
];

const UPSTREAM: &[Member] = &[("name", Kind::Text), ("namespace", Kind::Text), ("labels", Kind::Map)];

const IDENTITY: &[Member] = &[
    ("method", Kind::Text),
    ("subject", Kind::Text),
    ("issuer", Kind::Text),
    ("groups", Kind::List),
    ("claims", Kind::Any),
    ("scopes", Kind::List),
];

const CONTENT: &[Member] = &[("text", Kind::Text), ("type", Kind::Text), ("size", Kind::Number)];
