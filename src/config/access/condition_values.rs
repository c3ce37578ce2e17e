//! The values of the variables that conditions of entries and rules share (`config/variables.rs`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::domain::apps;
use crate::domain::identity::Identity;
use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind};
use crate::domain::normal_uri::normal_form;
use crate::domain::plan::UpstreamPlan;
use crate::domain::route::Route;

/// The names of an item: that on the endpoint for all upstreams, whichever endpoint the client uses, so that a condition holds for
/// the same calls on each, and that at its server.
pub(crate) struct Names<'a> {
    pub(crate) public: Cow<'a, str>,
    pub(crate) own: Cow<'a, str>,
}

/// The names of an item, of which a resource and a template have two forms if the URI is not in its normal form: servers can take
/// both for the same resource.
pub(crate) struct ItemNames<'a> {
    pub(crate) as_sent: Names<'a>,
    pub(crate) normal: Option<Names<'static>>,
}

impl<'a> ItemNames<'a> {
    /// `upstream` is the name of the item's upstream.
    pub(crate) fn new(kind: ItemKind, public: Cow<'a, str>, own: &'a str, upstream: &str) -> Self {
        let normal = if kind.has_name() { None } else { normal_form(own) };
        let normal = normal.map(|own| Names {
            public: apps::public_uri(upstream, &own).unwrap_or_else(|| own.clone()).into(),
            own: own.into(),
        });
        Self { as_sent: Names { public, own: own.into() }, normal }
    }

    /// Returns the names of the item of a route. A tool or prompt that has no public name gets the one with its upstream's prefix;
    /// the public name of a resource is its URI.
    pub(crate) fn of(route: &'a Route, upstream: &UpstreamPlan) -> Self {
        let (kind, upstream) = (route.item.kind, &*upstream.key.name);
        let public = match route.public.as_deref() {
            Some(public) => Cow::Borrowed(public),
            None if kind.has_name() => Cow::Owned(format!("{upstream}__{}", route.own)),
            None => apps::public_uri(upstream, &route.own).map_or(Cow::Borrowed(&*route.own), Cow::Owned),
        };
        Self::new(kind, public, &route.item.name, upstream)
    }

    /// The forms of the names, that of the request first.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &Names<'a>> {
        [&self.as_sent].into_iter().chain(&self.normal)
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

/// Returns the variable for an item with these names. `_meta` is left out if it is not read: it can be large.
pub(crate) fn tool(item: &Item, names: &Names<'_>, with_meta: bool) -> Result<Value, String> {
    let Item { hints, meta, .. } = item;
    let meta = meta.as_deref().filter(|_| with_meta).map_or_else(|| Ok(json!({})), |meta| read(meta.get()))?;
    Ok(json!({
        "name": names.public,
        "upstreamName": names.own,
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
