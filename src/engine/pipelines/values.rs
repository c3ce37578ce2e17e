//! The values that steps store (`ctx.store`). Each plugin has its own, in the partition of the run; a run also reads those that all runs
//! share.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::context::RunContext;
use super::host::Refusal;
use crate::config::access::condition_values;
use crate::domain::partition::{SHARED, StoreScope};
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::values::{
    KeyRange, MAX_KEY, MAX_VALUE, NewValue, PartitionOwner, StoredKey, StoredValue, StoringPlugin, ValueError,
    ValuePlace,
};
use crate::engine::chains::recheck::current_identity;

/// The maximum number of keys of one list.
const MAX_KEYS: usize = 1000;

/// A request of `ctx.store`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoreRequest<'a> {
    op: StoreOp,
    #[serde(default)]
    key: String,
    #[serde(borrow, default, deserialize_with = "any")]
    value: Option<&'a RawValue>,
    bytes: Option<String>,
    ttl_seconds: Option<u64>,
    if_version: Option<u64>,
    #[serde(default)]
    prefix: String,
    limit: Option<usize>,
    after: Option<String>,
}

/// The operations of `ctx.store`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum StoreOp {
    Get,
    Set,
    Delete,
    List,
}

/// Reads any JSON, also `null`.
fn any<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

fn invalid(message: impl Into<String>) -> Refusal {
    RpcError::new(INVALID_PARAMS, message.into()).into()
}

fn refused(error: ValueError, plugin: &str) -> Refusal {
    match error {
        ValueError::Conflict(version) => {
            Refusal::new(Reason::StoreConflict, format!("the value has version {version}"))
        }
        ValueError::Full { used, quota } => Refusal::new(
            Reason::StoreFull,
            format!("{used} of {quota} bytes of {plugin} are used (its spec.limits.storeSize)"),
        ),
        ValueError::NoPartition => Refusal::new(Reason::StoreUnavailable, "the values are being erased"),
        ValueError::Unavailable(why) => Refusal::new(Reason::StoreUnavailable, why),
    }
}

/// Checks a key.
fn checked(key: String) -> Result<String, Refusal> {
    let is_printable = !key.chars().any(char::is_control);
    match key.len() {
        1..=MAX_KEY if is_printable => Ok(key),
        _ => Err(invalid(format!("key: give 1 to {MAX_KEY} bytes without control characters"))),
    }
}

/// Reads a value to set: any JSON, or bytes in base64.
fn read_value(value: Option<&RawValue>, bytes: Option<String>) -> Result<StoredValue, Refusal> {
    let (text, is_bytes) = match (value, bytes) {
        // A text with half of a surrogate pair, or JSON that is too deep, could not be read back.
        (Some(value), None) if serde_json::from_str::<Value>(value.get()).is_ok() => (value.get().to_owned(), false),
        (None, Some(bytes)) if STANDARD.decode(&bytes).is_ok() => (bytes, true),
        _ => return Err(invalid("value: give JSON with valid Unicode that is not too deep, or a Uint8Array")),
    };
    let size = if is_bytes { text.len() / 4 * 3 } else { text.len() };
    if size > MAX_VALUE {
        let message = format!("the value has {size} bytes, {MAX_VALUE} are allowed");
        return Err(Refusal::new(Reason::TooLarge, message));
    }
    Ok(StoredValue { text, version: 0, is_bytes })
}

/// Returns a value as the plugin gets it.
fn given(value: StoredValue) -> Value {
    if value.is_bytes {
        return json!({"bytes": value.text, "version": value.version});
    }
    let read: Value = serde_json::from_str(&value.text).unwrap_or_default();
    json!({"value": read, "version": value.version})
}

impl RunContext<'_> {
    /// Answers a request of `ctx.store`.
    ///
    /// # Errors
    /// If the request is not valid, the caller may not change what it would change, or the store refuses it or is not there.
    pub(super) async fn store(
        &self,
        storing: Option<&StoringPlugin>,
        arguments: Option<&RawValue>,
    ) -> Result<Value, Refusal> {
        let Some(storing) = storing else { return Err(invalid("the step stores no values")) };
        let request = serde_json::from_str(arguments.map_or("{}", RawValue::get));
        let request: StoreRequest<'_> = request.map_err(|_| invalid("the request of the store is not valid"))?;
        self.touch_partition(storing).await?;
        let answered = match request.op {
            StoreOp::Get => self.get_value(storing, &checked(request.key)?).await,
            StoreOp::Set => {
                self.may_write()?;
                self.set_value(storing, self.new_value(storing, request)?).await
            }
            StoreOp::Delete => {
                self.may_write()?;
                let place = self.place(storing, self.scope());
                let deleted = self.pipelines.values.delete(&place, &checked(request.key)?).await;
                deleted.map(|deleted| json!({"deleted": deleted}))
            }
            StoreOp::List => {
                let StoreRequest { prefix, limit, after, .. } = request;
                if prefix.len() > MAX_KEY {
                    return Err(invalid(format!("prefix: give at most {MAX_KEY} bytes")));
                }
                let range = KeyRange { prefix, after, limit: limit.unwrap_or(MAX_KEYS).min(MAX_KEYS) };
                self.list_values(storing, &range).await
            }
        };
        answered.map_err(|why| refused(why, &storing.plugin))
    }

    /// Returns the value that a request sets.
    fn new_value(&self, storing: &StoringPlugin, request: StoreRequest<'_>) -> Result<NewValue, Refusal> {
        let expires_at = request.ttl_seconds.map(|seconds| self.now().saturating_add(seconds.saturating_mul(1000)));
        let value = read_value(request.value, request.bytes)?;
        let (key, if_version, quota) = (checked(request.key)?, request.if_version, storing.quota);
        Ok(NewValue { key, value, expires_at, if_version, quota })
    }

    fn now(&self) -> u64 {
        self.pipelines.clock.unix_millis()
    }

    fn scope(&self) -> StoreScope {
        self.pipeline.plan.store.scope
    }

    /// Returns where the values of a scope are.
    fn place(&self, storing: &StoringPlugin, scope: StoreScope) -> ValuePlace {
        ValuePlace {
            plugin: storing.plugin.clone(),
            namespace: self.call.plan().key.namespace.clone(),
            partition: scope.partition(&self.call.facts.caller.identity, &self.conversation),
        }
    }

    /// Notes the first use of a plugin's partition by the run, if there is one.
    async fn touch_partition(&self, storing: &StoringPlugin) -> Result<(), Refusal> {
        if !self.used.lock().stores.insert(storing.plugin.clone()) {
            return Ok(());
        }
        let place = self.place(storing, self.scope());
        let touched = self.pipelines.values.touch_partition(&place, self.now()).await;
        touched.map_err(|why| refused(why, &storing.plugin))
    }

    /// Creates the partition of a run.
    async fn create_partition(&self, place: &ValuePlace) -> Result<(), ValueError> {
        let identity = &self.call.facts.caller.identity;
        let scope = self.scope().of(identity);
        let owner = PartitionOwner {
            scope,
            principal: if scope == StoreScope::Shared { String::new() } else { identity.subject.clone() },
            conversation: if scope == StoreScope::Conversation { self.conversation.clone() } else { String::new() },
        };
        self.pipelines.values.use_partition(place, &owner, self.now()).await
    }

    /// Checks that the run may still write, and that the caller, as it is known now, may change values of the pipeline's scope.
    fn may_write(&self) -> Result<(), Refusal> {
        self.check_in_force(None).map_err(|(reason, message)| Refusal::new(reason, message))?;
        if self.scope() != StoreScope::Shared {
            return Ok(());
        }
        let (snapshot, latest) = (self.pipelines.in_force.snapshot(), self.client.latest_identity());
        let caller = current_identity(&snapshot, latest.as_ref().unwrap_or(&self.call.facts.caller.identity));
        let newest = snapshot.linked.upstreams.iter().find(|upstream| upstream.target.plan.key == self.call.plan().key);
        let writers = newest.and_then(|upstream| upstream.pipeline.as_ref()?.writers.as_ref());
        let holds = caller.zip(writers).map(|(caller, writers)| {
            let identity = condition_values::identity(caller);
            writers.evaluate(identity.to_string().len(), || Ok(vec![("identity", identity)]))
        });
        match holds {
            Some(Ok(true)) => Ok(()),
            _ => {
                let message = format!(
                    "the values of ToolPipeline {} are shared, and its store.writers does not hold for the caller",
                    self.name
                );
                Err(Refusal::new(Reason::StoreReadOnly, message))
            }
        }
    }

    async fn get_value(&self, storing: &StoringPlugin, key: &str) -> Result<Value, ValueError> {
        for place in self.readable(storing) {
            if let Some(value) = self.pipelines.values.get(&place, key, self.now()).await? {
                return Ok(json!({"found": given(value)}));
            }
        }
        Ok(json!({"found": null}))
    }

    async fn set_value(&self, storing: &StoringPlugin, new: NewValue) -> Result<Value, ValueError> {
        let place = self.place(storing, self.scope());
        let written = match self.pipelines.values.set(&place, new.clone(), self.now()).await {
            // It is the first value, or the partition was erased.
            Err(ValueError::NoPartition) => {
                self.create_partition(&place).await?;
                self.pipelines.values.set(&place, new, self.now()).await?
            }
            written => written?,
        };
        self.pipelines.metrics.pipelines.stored(&storing.plugin, written.bytes);
        Ok(json!({"version": written.version}))
    }

    /// Lists keys: those of the run's own partition take precedence over shared ones.
    async fn list_values(&self, storing: &StoringPlugin, range: &KeyRange) -> Result<Value, ValueError> {
        let mut keys: BTreeMap<String, StoredKey> = BTreeMap::new();
        for place in self.readable(storing) {
            for found in self.pipelines.values.list(&place, range, self.now()).await? {
                keys.entry(found.key.clone()).or_insert(found);
            }
        }
        Ok(json!({"keys": keys.into_values().take(range.limit).collect::<Vec<_>>()}))
    }

    /// Returns where a run reads: first its own values, then those that all runs share.
    fn readable(&self, storing: &StoringPlugin) -> Vec<ValuePlace> {
        let own = self.place(storing, self.scope());
        let shared = ValuePlace { partition: SHARED.to_owned(), ..own.clone() };
        if own == shared { vec![own] } else { vec![own, shared] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_keys_have_bounds() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(read_value(Some(&raw("{\"a\":1}")), None).unwrap().text, "{\"a\":1}");
        assert!(read_value(None, Some("AQI=".into())).unwrap().is_bytes);
        assert!(read_value(None, Some("!".into())).is_err() && read_value(None, None).is_err());
        for unreadable in [r#""\ud800""#.to_owned(), format!("{}{}", "[".repeat(200), "]".repeat(200))] {
            assert!(read_value(Some(&raw(&unreadable)), None).is_err(), "{unreadable}");
        }
        let large = raw(&format!("\"{}\"", "x".repeat(MAX_VALUE)));
        assert!(read_value(Some(&large), None).is_err());
        assert!(checked("a/b".into()).is_ok());
        for key in [String::new(), "a\0".into(), "k".repeat(MAX_KEY + 1)] {
            assert!(checked(key).is_err());
        }
    }

    #[test]
    fn a_request_can_set_any_json() {
        for (json, value) in
            [(r#"{"op":"set","key":"k","value":null}"#, Some("null")), (r#"{"op":"get","key":"k"}"#, None)]
        {
            let request: StoreRequest<'_> = serde_json::from_str(json).unwrap();
            assert_eq!(request.value.map(RawValue::get), value, "{json}");
        }
    }

    #[test]
    fn a_plugin_gets_a_value_as_it_was_set() {
        let stored = |text: &str, is_bytes| StoredValue { text: text.into(), version: 3, is_bytes };
        assert_eq!(given(stored("[1]", false)), json!({"value": [1], "version": 3}));
        assert_eq!(given(stored("AQI=", true)), json!({"bytes": "AQI=", "version": 3}));
    }
}
