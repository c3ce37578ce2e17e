//! Members of requests that not every endpoint takes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

/// The members that a request is sent without if the endpoint refuses them. `max_tokens` has another name then.
const MEMBERS: [&str; 3] = ["max_tokens", "response_format", "temperature"];
/// The other name of `max_tokens`.
const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";
/// How long it is known that an endpoint refuses a member.
const KNOWN: Duration = Duration::from_secs(3600);
/// For how many models that is known at most.
const MAX_KNOWN: usize = 1000;

/// The members that models refuse, by URL and model, and since when that is known.
type Known = HashMap<(String, String), (Instant, Vec<&'static str>)>;

/// The members that models refuse.
#[derive(Default)]
pub(super) struct Refused(Mutex<Known>);

impl Refused {
    /// Changes a request to what the endpoint takes, as far as that is known.
    pub(super) fn adapt(&self, base_url: &str, body: &mut Map<String, Value>) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let members = known.get(&of(base_url, body)).filter(|(since, _)| since.elapsed() < KNOWN);
        members.into_iter().flat_map(|(_, members)| members).for_each(|member| without(member, body));
    }

    /// Changes a request that an endpoint refused with this answer, and remembers that. Returns false if the answer names none
    /// of the members.
    pub(super) fn learn(&self, base_url: &str, answer: &[u8], body: &mut Map<String, Value>) -> bool {
        let is_named =
            |member: &&&str| body.contains_key(**member) && memchr::memmem::find(answer, member.as_bytes()).is_some();
        let Some(member) = MEMBERS.iter().find(is_named) else { return false };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        let (since, members) = known.entry(of(base_url, body)).or_insert_with(|| (Instant::now(), Vec::new()));
        if since.elapsed() >= KNOWN {
            members.clear();
        }
        *since = Instant::now();
        members.push(member);
        without(member, body);
        true
    }
}

fn of(base_url: &str, body: &Map<String, Value>) -> (String, String) {
    let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
    (base_url.to_owned(), model.to_owned())
}

fn without(member: &str, body: &mut Map<String, Value>) {
    if let Some(value) = body.remove(member)
        && member == MEMBERS[0]
    {
        body.insert(MAX_COMPLETION_TOKENS.to_owned(), value);
    }
}
