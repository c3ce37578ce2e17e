//! Counts the credentials that were refused, by kinds, for operators.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;

use crate::domain::digest::sha256_hex;
use crate::domain::refusal::{RefusalKind, TokenFacts, TokenValues};

/// The maximum number of kinds.
const MAX_KINDS: usize = 1000;
/// A kind is logged again after this time, in milliseconds.
const LOG_AGAIN: u64 = 60_000;
/// The maximum number of lines in the log within [`LOG_AGAIN`]: a client can make new kinds as it likes.
const MAX_LINES: u32 = 100;

/// Refused credentials of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusalView {
    /// The id of the kind.
    pub id: String,
    /// The name of the listener; `admin` for the admin API.
    pub listener: String,
    /// Why the credentials were refused, a single word.
    pub reason: &'static str,
    /// The issuer that the tokens name; empty without one.
    pub issuer: String,
    /// The audiences that the tokens name, separated by spaces.
    pub audience: String,
    /// The address of the client, or its network of IPv6.
    pub address: String,
    /// How often such a credential was refused.
    pub count: u64,
    /// When the first one was refused, in Unix milliseconds.
    pub first: u64,
    /// When the last one was refused, in Unix milliseconds.
    pub last: u64,
    /// What the last token has. It is not proved: the signature can be wrong.
    pub found: TokenValues,
    /// What the gateway accepts.
    pub accepted: TokenValues,
}

/// The kinds of refused credentials.
#[derive(Default)]
pub struct Refusals(Mutex<Table>);

#[derive(Default)]
struct Table {
    kinds: HashMap<RefusalKind, Refused>,
    /// When the lines of the log began to be counted, and their number.
    lines: (u64, u32),
}

struct Refused {
    count: u64,
    first: u64,
    last: u64,
    /// When a line of the log was about it.
    logged: u64,
    facts: TokenFacts,
}

impl Refusals {
    /// Counts a refusal. Returns whether a line of the log is due. If there is no room, the least frequent kind goes, and of
    /// several the one that is longest ago.
    pub fn add(&self, kind: RefusalKind, facts: TokenFacts, now: u64) -> bool {
        let mut table = self.table();
        if !table.kinds.contains_key(&kind) && table.kinds.len() >= MAX_KINDS {
            let least = table.kinds.iter().min_by_key(|(_, refused)| (refused.count, refused.last));
            let least = least.map(|(kind, _)| kind.clone());
            least.and_then(|kind| table.kinds.remove(&kind));
        }
        let Table { kinds, lines } = &mut *table;
        let new = || Refused { count: 0, first: now, last: now, logged: 0, facts: TokenFacts::default() };
        let refused = kinds.entry(kind).or_insert_with(new);
        (refused.count, refused.last, refused.facts) = (refused.count + 1, now, facts);
        if now.saturating_sub(lines.0) >= LOG_AGAIN {
            *lines = (now, 0);
        }
        let is_due = lines.1 < MAX_LINES && now.saturating_sub(refused.logged) >= LOG_AGAIN;
        if is_due {
            (refused.logged, lines.1) = (now, lines.1 + 1);
        }
        is_due
    }

    /// Returns all kinds, those that were refused last first.
    pub fn list(&self) -> Vec<RefusalView> {
        let mut all: Vec<_> = self.table().kinds.iter().map(|(kind, refused)| view(kind, refused)).collect();
        all.sort_by(|a, b| b.last.cmp(&a.last).then_with(|| a.id.cmp(&b.id)));
        all
    }

    /// Locks the table. A poisoned lock is used too: what was counted stays counted.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn view(kind: &RefusalKind, refused: &Refused) -> RefusalView {
    let RefusalKind { listener, fault, issuer, audience, address } = kind;
    let Refused { count, first, last, facts: TokenFacts { found, accepted }, .. } = refused;
    let unique = serde_json::json!([listener, fault.as_str(), issuer, audience, address]).to_string();
    RefusalView {
        id: format!("{:.16}", sha256_hex(unique.as_bytes())),
        listener: listener.clone(),
        reason: fault.as_str(),
        issuer: issuer.clone(),
        audience: audience.clone(),
        address: address.clone(),
        count: *count,
        first: *first,
        last: *last,
        found: found.clone(),
        accepted: accepted.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::refusal::Fault;

    fn kind(issuer: &str) -> RefusalKind {
        let found = TokenValues { iss: vec![issuer.to_owned()], ..TokenValues::default() };
        let facts = TokenFacts { found, ..TokenFacts::default() };
        RefusalKind::new("http", Fault::UnknownIssuer, &facts, "10.0.0.1".to_owned())
    }

    #[test]
    fn the_least_frequent_kind_goes_and_the_frequent_ones_stay() {
        let refusals = Refusals::default();
        let add = |issuer: &str, now| refusals.add(kind(issuer), TokenFacts::default(), now);
        for now in 1..=3 {
            add("often", now);
        }
        (0..3 * MAX_KINDS).for_each(|n| {
            add(&format!("i{n}"), 10 + n as u64);
        });
        let all = refusals.list();
        assert_eq!(all.len(), MAX_KINDS);
        let often = all.iter().find(|view| view.issuer == "often").unwrap();
        assert_eq!((often.count, often.first, often.last, often.reason), (3, 1, 3, "UnknownIssuer"));
        assert_eq!(all[0].issuer, format!("i{}", 3 * MAX_KINDS - 1), "the last one is first");
        assert!(!all.iter().any(|view| view.issuer == "i0"));
    }

    #[test]
    fn a_kind_is_logged_once_a_minute_and_all_kinds_a_hundred_times() {
        let refusals = Refusals::default();
        let start = 1_700_000_000_000;
        let add = |issuer: &str, after: u64| refusals.add(kind(issuer), TokenFacts::default(), start + after);
        let due: Vec<_> = [0, 1, 59_999, 60_000, 60_001].map(|after| add("a", after)).into();
        assert_eq!(due, [true, false, false, true, false]);
        let lines = (0..500).filter(|n| add(&format!("i{n}"), 120_000)).count();
        assert_eq!(lines, MAX_LINES as usize);
        assert!(add("b", 180_000));
    }
}
