//! Checks configurations of plugins against their `configSchema`.
//!
//! Who writes a Plugin writes both, and can make a check of a few lines endless. So each is ended after a number of steps
//! (`domain/schema`), the checks of one namespace share a number of them, and what was found is kept while schema and
//! configuration stay the same.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::domain::digest::sha256_hex;
use crate::domain::schema::{BoundedSchema, Ended, PreparedSchema, Unusable, shortened, with_value};

/// The steps that one check may take, with compiling the schema: some 100 of them take a microsecond.
const MAX_STEPS: u64 = 10_000_000;
/// The steps that the checks of the objects of one namespace may take, in one compilation.
const MAX_STEPS_OF_NAMESPACE: u64 = 50_000_000;
/// The steps that a check takes at least.
const OF_CHECK: u64 = 5_000;
/// The steps of finding out where a configuration does not fit. Each may take the memory that describes a mismatch.
const OF_PLACE: u64 = 50_000;

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
    /// The configuration does not fit, or its check was ended.
    Config(String),
}

/// What a check found.
#[derive(Clone, Debug)]
struct Verdict {
    found: Result<(), ConfigFault>,
    steps: u64,
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
    /// The steps that were taken, by namespace.
    taken: HashMap<String, u64>,
    /// What was checked. To ask again takes no steps.
    done: HashSet<Key>,
}

impl<'a> ConfigChecks<'a> {
    /// Begins the checks of a compilation.
    pub fn new(verdicts: &'a ConfigVerdicts) -> Self {
        Self { verdicts, taken: HashMap::new(), done: HashSet::new() }
    }

    /// Checks a configuration, a JSON text, of an object of `namespace`, which may be any name of those who share steps. What
    /// is found depends on nothing but the schema, the configuration and what was checked before under that name.
    ///
    /// # Errors
    /// If the configuration does not fit, the schema cannot be used, or the check would take too many steps.
    pub fn check(&mut self, namespace: &str, schema: &ConfigSchema, config: &str) -> Result<(), ConfigFault> {
        let key = (schema.digest.clone(), sha256_hex(config.as_bytes()));
        let is_new = !self.done.contains(&key);
        let taken = self.taken.entry(namespace.to_owned()).or_default();
        if is_new && *taken >= MAX_STEPS_OF_NAMESPACE {
            return Err(ConfigFault::Config(format!(
                "it is not checked, since the configurations of namespace {namespace} take more than \
                 {MAX_STEPS_OF_NAMESPACE} steps to check: make their configSchemas smaller, or take out patterns and \
                 alternatives"
            )));
        }
        let verdict = self.verdicts.verdict(&key, schema, config);
        if is_new {
            *taken += verdict.steps;
            self.done.insert(key);
        }
        verdict.found
    }
}

fn judge(schema: &str, config: &str) -> Verdict {
    let mut left = MAX_STEPS;
    let found = checked(schema, config, &mut left);
    Verdict { found, steps: MAX_STEPS - left, is_used: false }
}

/// Checks a configuration, and takes the steps from `left`.
fn checked(schema: &str, config: &str, left: &mut u64) -> Result<(), ConfigFault> {
    *left = left.saturating_sub(OF_CHECK + (schema.len() + config.len()) as u64);
    let prepared = PreparedSchema::parse(schema).map_err(unusable)?;
    let mut compiling = MAX_STEPS;
    let schema = prepared.compile(&mut compiling);
    *left = left.saturating_sub(MAX_STEPS - compiling);
    let schema = schema.map_err(unusable)?;
    let value = serde_json::from_str(config).map_err(|e| ConfigFault::Config(format!("it is not JSON: {e}")))?;
    match schema.is_valid(&value, left) {
        Ok(true) => Ok(()),
        Ok(false) => {
            *left = left.saturating_sub(OF_PLACE);
            Err(ConfigFault::Config(misfit(&schema, &value)))
        }
        Err(ended) => Err(ConfigFault::Config(why_ended(ended))),
    }
}

/// Says what is wrong with a schema, and what to do.
fn unusable(why: Unusable) -> ConfigFault {
    let remedy = match why {
        Unusable::Invalid(_) => "",
        Unusable::Pattern => ": correct it, or make it simpler",
        Unusable::TooLarge | Unusable::Unfolds | Unusable::TooLong(_) | Unusable::TooDeep => ": make it smaller",
        Unusable::Unfollowed(_) => {
            ": only references to schemas in it are, such as \"#/$defs/name\"; let the plugin check what these cannot say"
        }
    };
    ConfigFault::Schema(format!("{why}{remedy}"))
}

/// Says where a configuration does not fit.
fn misfit(schema: &BoundedSchema, value: &Value) -> String {
    let first = schema.mismatches(value, &mut OF_PLACE.clone(), |mut errors| {
        errors.next().map(|error| format!(" at {:?}: {}", error.instance_path().to_string(), with_value(&error)))
    });
    let place = first.ok().flatten();
    let place = place.unwrap_or_else(|| "; where was not looked for, since there are too many alternatives".to_owned());
    shortened(&format_args!("it does not fit configSchema{place}"))
}

fn why_ended(ended: Ended) -> String {
    match ended {
        Ended::TooLong => format!(
            "its check against configSchema was ended after {MAX_STEPS} steps: take alternatives, references or patterns \
             out of configSchema, or values out of this"
        ),
        Ended::TooDeep => "it nests too deep to be checked against configSchema: make one of them flatter".to_owned(),
    }
}

#[cfg(test)]
mod tests;
