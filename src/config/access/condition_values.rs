//! The values of the variables that conditions of entries and rules share (`config/variables.rs`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::domain::identity::Identity;
use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind};
use crate::domain::plan::UpstreamPlan;
use crate::domain::route::Route;

/// Returns the name of an item on the endpoint for all upstreams, whichever endpoint the client uses, so that a condition
/// holds for the same calls on each. A tool or prompt that has no name there gets the one with its upstream's prefix. Of a
/// resource, its URI.
pub(crate) fn public_name<'a>(route: &'a Route, kind: ItemKind, upstream: &UpstreamPlan) -> Cow<'a, str> {
    match route.public.as_deref() {
        Some(public) => Cow::Borrowed(public),
        None if kind.has_name() => Cow::Owned(format!("{}__{}", upstream.key.name, route.own)),
        None => Cow::Borrowed(&*route.own),
    }
}

pub(crate) fn upstream(key: &ObjectKey, labels: &BTreeMap<String, String>) -> Value {
    json!({"name": *key.name, "namespace": *key.namespace, "labels": labels})
}

pub(crate) fn identity(identity: &Identity) -> Value {
    let Identity { method, subject, issuer, groups, scopes, claims, .. } = identity;
    json!({
        "method": method.as_str(),
        "subject": subject,
        "issuer": issuer,
        "groups": groups,
        "claims": claims,
        "scopes": scopes,
    })
}

/// Returns the variable for an item with this public name. `_meta` is left out if it is not read: it can be large.
pub(crate) fn tool(item: &Item, public: &str, with_meta: bool) -> Result<Value, String> {
    let Item { name, hints, meta, .. } = item;
    let meta = meta.as_deref().filter(|_| with_meta).map_or_else(|| Ok(json!({})), |meta| read(meta.get()))?;
    Ok(json!({
        "name": public,
        "upstreamName": *name,
        "annotations": {
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
        "_meta": meta,
    }))
}

/// Returns the arguments of a call with this content of the request phase. Of a prompt, they are a part of the content; a
/// resource has none.
pub(crate) fn arguments(kind: ItemKind, content: &str) -> Result<Value, String> {
    let mut content = read(content)?;
    Ok(match kind {
        ItemKind::Tool => content,
        _ => content.get_mut("arguments").map_or_else(|| json!({}), Value::take),
    })
}

/// Parses JSON. A number that no double can hold is an error.
fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|_| "the JSON of the call cannot be read".to_owned())
}
