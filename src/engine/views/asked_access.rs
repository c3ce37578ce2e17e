//! Explains what the rules mean for a client that would call an item: by the decision of the gateway itself, if the call is given.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::config::access::authorize::{AccessRequest, CallContent, RequestValues, Rules};
use crate::config::access::condition_values::ItemNames;
use crate::domain::identity::Identity;
use crate::domain::item::{Item, ItemKind};
use crate::domain::plan::{PrefixMode, UpstreamPlan};
use crate::domain::quoted::Quoted;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::route::Route;
use crate::domain::tool_name::shortened;
use crate::engine::access::explained::AccessExplanation;
use crate::engine::plan::link::Linked;
use crate::engine::plan::snapshot::Snapshot;

/// A client whose access is explained, and what is known of its call.
#[derive(Clone, Copy)]
pub struct AskedAccess<'a> {
    /// The client.
    pub client: &'a Identity,
    /// The arguments of the call, a JSON object; `None` if the call is not known.
    pub arguments: Option<&'a str>,
    /// The annotations of the tool; `None` for those that its server lists, or else the defaults of the protocol.
    pub annotations: Option<&'a Map<String, Value>>,
}

impl AskedAccess<'_> {
    /// Explains an item that no server has listed; `None` if there are no rules. `names` are those that the item can have.
    pub(super) fn of_unlisted(
        &self,
        linked: &Linked,
        upstream: usize,
        (kind, own): (ItemKind, &str),
        names: &[String],
    ) -> Result<Option<AccessExplanation>, String> {
        let Some(rules) = &linked.rules else { return Ok(None) };
        let plan = &linked.upstreams[upstream].target.plan;
        let item = self.item(kind, json!({kind.name_member(): own}))?;
        let of = |name| ItemNames::new(kind, Cow::Borrowed(name), own, &plan.key.name);
        let mut explained = names.iter().map(|name| self.explain(rules, (plan, &item), of(name)));
        let Some(mut first) = explained.next() else { return Ok(None) };
        if let Some(other) = explained.find(|other| other.allowed != first.allowed) {
            let [one, two] = [(&names[0], &first.decision), (&names[names.len() - 1], &other.decision)]
                .map(|(name, decision)| format!("as {name}: {decision}"));
            first.decision = format!("the name of the tool depends on what the servers list. {one}; {two}");
            first.allowed = None;
        }
        Ok(Some(first))
    }

    /// Explains an item that a server lists; `None` if there are no rules.
    pub(super) fn of_listed(&self, snapshot: &Snapshot, route: &Route) -> Result<Option<AccessExplanation>, String> {
        let Some(rules) = &snapshot.linked.rules else { return Ok(None) };
        let plan = &snapshot.linked.upstreams[route.upstream].target.plan;
        let mut item = route.item.clone();
        if self.annotations.is_some() {
            item.hints = self.item(item.kind, json!({item.kind.name_member(): item.name}))?.hints;
        }
        // Rules see arguments of the types that the tool's schema has, as calls do.
        let coerced =
            self.arguments.and_then(|arguments| snapshot.items.get(route.index)?.arguments.coerced(arguments));
        let asked = AskedAccess { arguments: coerced.as_deref().or(self.arguments), ..*self };
        Ok(Some(asked.explain(rules, (plan, &item), ItemNames::of(route, plan))))
    }

    fn explain(
        &self,
        rules: &Rules,
        (upstream, item): (&UpstreamPlan, &Item),
        names: ItemNames<'_>,
    ) -> AccessExplanation {
        // The arguments of a prompt are a part of its content; a resource has none (`condition_values::arguments`).
        let content = self.arguments.map(|arguments| match item.kind {
            ItemKind::Tool => Cow::Borrowed(arguments),
            _ => Cow::Owned(format!("{{\"arguments\":{arguments}}}")),
        });
        let call = content.as_deref().map(|content| CallContent { content, user_query: "", max_tokens: 0 });
        rules.explain(&AccessRequest {
            identity: self.client,
            session: "",
            item,
            names,
            upstream: &upstream.key,
            labels: &upstream.labels,
            method: item.kind.used_by(),
            call,
            values: RequestValues::default(),
        })
    }

    /// Makes an item of a definition without annotations.
    fn item(&self, kind: ItemKind, mut definition: Value) -> Result<Item, String> {
        if let Some(annotations) = self.annotations {
            definition["annotations"] = Value::Object(annotations.clone());
        }
        Item::parse(kind, &to_raw(&definition)).map_err(|why| format!("there can be no such {kind}: {why}"))
    }
}

/// What is known of a call, as a command line or a query has it.
#[derive(Debug, Default)]
pub struct AskedCall {
    arguments: Option<String>,
    annotations: Option<Map<String, Value>>,
}

impl AskedCall {
    /// Reads the arguments of a call and the annotations of its tool.
    ///
    /// # Errors
    /// If one of them is no JSON object.
    pub fn read(arguments: Option<String>, annotations: Option<&str>) -> Result<Self, String> {
        let wrong = |what: &str, text: &str| format!("the {what} are no JSON object: {}", Quoted(text, 80));
        if let Some(text) = &arguments {
            RawObject::parse(text).map_err(|_| wrong("arguments", text))?;
        }
        let read = |text| serde_json::from_str(text).map_err(|_| wrong("annotations", text));
        Ok(Self { arguments, annotations: annotations.map(read).transpose()? })
    }

    /// Returns the access of a client that makes the call.
    pub fn by<'a>(&'a self, client: &'a Identity) -> AskedAccess<'a> {
        AskedAccess { client, arguments: self.arguments.as_deref(), annotations: self.annotations.as_ref() }
    }
}

/// Returns the names that an item can have on the endpoint for all upstreams, the likely one first. `shown` is its name on the
/// endpoint of its upstream. Servers are not asked: with the prefix `OnConflict`, another upstream can have such a tool.
pub(super) fn public_names(linked: &Linked, upstream: usize, kind: ItemKind, shown: &str) -> Vec<String> {
    let (gateway, plans) = (&linked.plan.gateway, &linked.plan.upstreams);
    let plan = &linked.upstreams[upstream].target.plan;
    let prefixed = || format!("{}__{shown}", plan.key.name);
    let looks_prefixed =
        || plans.iter().any(|it| shown.strip_prefix(&*it.key.name).is_some_and(|it| it.starts_with("__")));
    let names = match gateway.prefix {
        _ if !kind.has_name() => vec![shown.to_owned()],
        _ if plan.pipeline().is_some() => vec![shown.to_owned()],
        PrefixMode::Always => vec![prefixed()],
        PrefixMode::Never => vec![shown.to_owned()],
        PrefixMode::OnConflict if looks_prefixed() => vec![prefixed()],
        PrefixMode::OnConflict if plans.len() == 1 => vec![shown.to_owned()],
        PrefixMode::OnConflict => vec![shown.to_owned(), prefixed()],
    };
    let short = |name| if kind == ItemKind::Tool { shortened(name, gateway.max_name_length) } else { name };
    names.into_iter().map(short).collect()
}
