//! Checks configurations of plugins against their `configSchema`.
//!
//! Who writes a Plugin writes both, and can make a check long. What it costs at most is known before (`domain/schema`): one that
//! costs too much is refused, the checks of one namespace have a share, and what was found is kept while schema and
//! configuration stay the same.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::domain::digest::sha256_hex;
use crate::domain::schema::{BoundedSchema, PreparedSchema, Unusable, shortened, with_value};

/// The most that one check may cost, as [`BoundedSchema::cost`] tells it: a hundred take a microsecond.
const MAX_COST: u64 = 10_000_000;
/// The most that the checks of the objects of one namespace may cost, in one compilation.
const MAX_COST_OF_NAMESPACE: u64 = 50_000_000;
/// What a check costs at least.
const OF_CHECK: u64 = 5_000;
/// What compiling one place of a schema costs.
const OF_PLACE: u64 = 100;
/// What compiling one pattern of a schema costs.
const OF_PATTERN: u64 = 100_000;
/// The most that finding out where a configuration does not fit may cost, since each may take memory to describe a mismatch.
const MAX_COST_OF_MISFIT: u64 = 100_000;

/// The `configSchema` of a plugin.
#[derive(Debug)]
pub struct ConfigSchema {
    text: String,
    digest: String,
}

impl ConfigSchema {
    /// Takes a schema, which is compiled where a configuration is checked.
    pub fn of(schema: &Value) -> Self {
        let text = schema.to_string();
        Self { digest: sha256_hex(text.as_bytes()), text }
    }
}

/// What is wrong with a configuration, or with the schema that it has to fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigFault {
    /// The schema cannot be used.
    Schema(String),
    /// The configuration does not fit, or its check would cost too much.
    Config(String),
}

/// What a check found.
#[derive(Clone, Debug)]
struct Verdict {
    found: Result<(), ConfigFault>,
    cost: u64,
    /// Whether it was asked for since [`ConfigVerdicts::forget_unused`].
    is_used: bool,
}

/// The digests of a schema and of a configuration.
type Key = (String, String);

/// What checks found, so that a compilation repeats none whose schema and configuration are the same as before.
#[derive(Debug, Default)]
pub struct ConfigVerdicts(Mutex<HashMap<Key, Verdict>>);

impl ConfigVerdicts {
    /// Forgets what was not asked for since this was called before.
    pub fn forget_unused(&self) {
        let mut verdicts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.retain(|_, verdict| std::mem::take(&mut verdict.is_used));
    }

    fn verdict(&self, key: &Key, schema: &ConfigSchema, config: &str) -> Verdict {
        let mut verdicts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = verdicts.entry(key.clone()).or_insert_with(|| judge(&schema.text, config));
        verdict.is_used = true;
        verdict.clone()
    }
}

/// The checks of one compilation.
#[derive(Clone)]
pub struct ConfigChecks<'a> {
    verdicts: &'a ConfigVerdicts,
    /// What the checks cost, by namespace.
    taken: HashMap<String, u64>,
    /// What was checked. To ask again costs nothing.
    done: HashSet<Key>,
}

impl<'a> ConfigChecks<'a> {
    /// Begins the checks of a compilation.
    pub fn new(verdicts: &'a ConfigVerdicts) -> Self {
        Self { verdicts, taken: HashMap::new(), done: HashSet::new() }
    }

    /// Checks a configuration, a JSON text, of an object of `namespace`, which may be any name of those who share a part. What
    /// is found depends on nothing but the schema, the configuration and what was checked before under that name.
    ///
    /// # Errors
    /// If the configuration does not fit, the schema cannot be used, or the check would cost too much.
    pub fn check(&mut self, namespace: &str, schema: &ConfigSchema, config: &str) -> Result<(), ConfigFault> {
        let key = (schema.digest.clone(), sha256_hex(config.as_bytes()));
        let is_new = !self.done.contains(&key);
        let taken = self.taken.entry(namespace.to_owned()).or_default();
        if is_new && *taken >= MAX_COST_OF_NAMESPACE {
            return Err(ConfigFault::Config(format!(
                "it is not checked, since the configurations of namespace {namespace} and their configSchemas are too large \
                 together: make them smaller, or take out patterns"
            )));
        }
        let verdict = self.verdicts.verdict(&key, schema, config);
        if is_new {
            *taken += verdict.cost;
            self.done.insert(key);
        }
        verdict.found
    }
}

fn judge(schema: &str, config: &str) -> Verdict {
    let mut cost = OF_CHECK + (schema.len() + config.len()) as u64;
    let found = checked(schema, config, &mut cost);
    Verdict { found, cost, is_used: false }
}

/// Checks a configuration, and adds to `cost`.
fn checked(schema: &str, config: &str, cost: &mut u64) -> Result<(), ConfigFault> {
    let prepared = PreparedSchema::parse(schema).map_err(unusable)?;
    *cost += prepared.places() as u64 * OF_PLACE + prepared.patterns() as u64 * OF_PATTERN;
    let schema = prepared.compile().map_err(unusable)?;
    let of_check = schema.cost(config);
    if of_check > MAX_COST {
        return Err(ConfigFault::Config(format!(
            "it is not checked, since its values times the places of configSchema are more than {MAX_COST}: make one of them \
             smaller"
        )));
    }
    *cost += of_check;
    let value = serde_json::from_str(config).map_err(|e| ConfigFault::Config(format!("it is not JSON: {e}")))?;
    if schema.is_valid(&value) { Ok(()) } else { Err(ConfigFault::Config(misfit(&schema, &value, of_check))) }
}

/// Says what is wrong with a schema, and what to do.
fn unusable(why: Unusable) -> ConfigFault {
    let remedy = match why {
        Unusable::Invalid(_) => "",
        Unusable::Pattern(_) => ": correct it, or make it simpler",
        Unusable::TooLarge => ": make it smaller",
        Unusable::Unfolds => ": make it smaller and flatter; let the plugin check what is recursive",
        Unusable::Unfollowed(_) => {
            ": only references to schemas in it are, such as \"#/$defs/name\"; let the plugin check what these cannot say"
        }
    };
    ConfigFault::Schema(format!("{why}{remedy}"))
}

/// Says where a configuration does not fit.
fn misfit(schema: &BoundedSchema, value: &Value, cost: u64) -> String {
    let first = (cost <= MAX_COST_OF_MISFIT).then(|| schema.mismatches(value).next()).flatten();
    let place = first.map(|error| format!(" at {:?}: {}", error.instance_path().to_string(), with_value(&error)));
    let place = place.unwrap_or_else(|| "; it has too many values to say where".to_owned());
    shortened(&format_args!("it does not fit configSchema{place}"))
}

#[cfg(test)]
mod tests;
