//! How large objects may be in a plan: a gateway is shared, and what one of its users writes must leave room for the
//! others.

use std::collections::HashMap;
use std::io;

use serde::Serialize;

use super::resolve::withhold;
use super::{Fault, id};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{Plan, Refusal, TransportPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// The most bytes of an object in a plan, as JSON, without its code.
pub(super) const MAX_OBJECT: usize = 512 << 10;
/// The most bytes of a code text.
pub(super) const MAX_CODE: usize = 900 << 10;
/// The most bytes of the same as JSON: control characters take six bytes each.
const MAX_CODE_JSON: usize = 1 << 20;
/// The most bytes of all objects of one namespace in a plan, their code included.
pub(super) const MAX_NAMESPACE: usize = 64 << 20;
/// The most objects of one namespace in a plan.
pub(super) const MAX_OBJECTS: usize = 8192;

/// Checks that an object fits into a plan.
///
/// # Errors
/// If it is too large.
pub(super) fn check(object: &impl Serialize) -> Result<(), Fault> {
    let size = size(object);
    if size <= MAX_OBJECT {
        return Ok(());
    }
    let message = format!(
        "it has {size} bytes with the values of its ConfigMaps, where {MAX_OBJECT} are the most: make its config or its \
         values smaller"
    );
    Err((Reason::TooLarge, "spec".to_owned(), message))
}

/// Checks that code fits into a plan; `field` says where it is.
///
/// # Errors
/// If it is too large.
pub(super) fn check_code(text: &str, field: &str) -> Result<(), Fault> {
    if text.len() <= MAX_CODE && size(&text) <= MAX_CODE_JSON {
        return Ok(());
    }
    let message = format!(
        "the code has {} bytes, and {} as JSON, where {MAX_CODE} and {MAX_CODE_JSON} are the most: make it smaller",
        text.len(),
        size(&text)
    );
    Err((Reason::TooLarge, field.to_owned(), message))
}

/// Has what is beyond the bounds of its namespace refuse: the first objects of a namespace in the plan's order are those
/// that are served.
pub fn enforce(plan: &mut Plan, problems: &mut Vec<Problem>) {
    let mut used = Used::default();
    for upstream in &mut plan.upstreams {
        let size = size(&upstream);
        if let Err(refusal) = used.add(id(Kind::MCPUpstream, &upstream.key), size, problems) {
            (upstream.refusing, upstream.transport) = (Some(refusal), TransportPlan::None);
            (upstream.include, upstream.exclude, upstream.overrides) = (Vec::new(), Vec::new(), Vec::new());
            upstream.labels.clear();
        }
    }
    for chain in &mut plan.chains {
        let size = size(&chain);
        if let Err(refusal) = used.add(id(Kind::PluginChain, &chain.key), size, problems) {
            (chain.refusing, chain.entries) = (Some(refusal), Vec::new());
        }
    }
    let mut beyond: HashMap<ObjectKey, Refusal> = HashMap::new();
    for plugin in &plan.plugins {
        let size = size(plugin) + plan.code.get(&plugin.digest).map_or(0, String::len);
        if let Err(refusal) = used.add(id(Kind::Plugin, &plugin.key), size, problems) {
            beyond.insert(plugin.key.clone(), refusal);
        }
    }
    if beyond.is_empty() {
        return;
    }
    plan.plugins.retain(|plugin| !beyond.contains_key(&plugin.key));
    let kept: std::collections::HashSet<_> = plan.plugins.iter().map(|plugin| &plugin.digest).collect();
    plan.code.retain(|digest, _| kept.contains(digest));
    for entry in plan.chains.iter_mut().flat_map(|chain| &mut chain.entries) {
        if let Some(refusal) = beyond.get(&entry.plugin) {
            withhold(entry, refusal.clone());
        }
    }
}

/// What namespaces take of a plan: bytes and objects.
#[derive(Default)]
struct Used(HashMap<String, (usize, usize)>);

impl Used {
    fn add(&mut self, object: ObjectId, size: usize, problems: &mut Vec<Problem>) -> Result<(), Refusal> {
        let (bytes, objects) = self.0.entry(object.key.namespace.clone()).or_default();
        if *bytes + size <= MAX_NAMESPACE && *objects < MAX_OBJECTS {
            (*bytes, *objects) = (*bytes + size, *objects + 1);
            return Ok(());
        }
        let message = format!(
            "the objects of namespace {} in this gateway have more than {MAX_NAMESPACE} bytes, or are more than \
             {MAX_OBJECTS}: what comes after that is refused",
            object.key.namespace
        );
        problems.push(Problem::error(Reason::TooLarge, object, "", message.clone()));
        Err(Refusal { reason: Reason::TooLarge, message })
    }
}

/// Bytes of an object as JSON.
fn size(object: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    // What a plan holds always has a form in JSON.
    let _ = serde_json::to_writer(&mut counter, object);
    counter.0
}

/// Counts what is written.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
