//! Plugins that do what their configuration says.

use serde_json::{Value, json};

use super::super::manifests::{merge, plugin};

/// A Module.
pub const MODULE: &str = include_str!("acts.mjs");
/// A script of contract 1.0.
pub const ONCE: &str = include_str!("acts.cjs");

/// One of each role as Module and as script, two that add their name, and some that leave every call out.
pub fn plugins() -> Vec<Value> {
    let module = |name: &str, more: &Value| {
        let mut spec = json!({"config": {"act": "change"}, "limits": {"maxOutputSize": "256Ki"}});
        merge(&mut spec, more);
        plugin(name, MODULE, &spec)
    };
    let once = |name: &str, more: &Value| plugin(name, ONCE, more);
    vec![
        module("one", &json!({"config": {"act": "change", "word": "one"}})),
        module("two", &json!({"config": {"act": "change", "word": "two"}})),
        module("guard", &json!({"role": "Guard"})),
        module("transform", &json!({"role": "Transform"})),
        module("observe", &json!({"role": "Observe"})),
        once("guard-once", &json!({"role": "Guard"})),
        once("transform-once", &json!({})),
        module("off", &json!({"role": "Guard", "enabled": false})),
        module("other-tools", &json!({"role": "Guard", "filter": {"tools": ["nowhere*"]}})),
        module("other-upstreams", &json!({"role": "Guard", "filter": {"upstreams": ["nowhere*"]}})),
    ]
}
