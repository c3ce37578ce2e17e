//! The values that a function stores while a command runs it. They end with the command.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};

/// The values, each with `value` or `bytes`, and `version`.
#[derive(Default)]
pub(super) struct MockStore(BTreeMap<String, Value>);

impl MockStore {
    /// Answers a request of `ctx.store`.
    ///
    /// # Errors
    /// If the request is not valid, or the value has another version.
    pub(super) fn answer(&mut self, arguments: Option<&RawValue>) -> Result<Value, RpcError> {
        let request: Value = serde_json::from_str(arguments.map_or("{}", RawValue::get)).unwrap_or_default();
        let key = request["key"].as_str().unwrap_or_default();
        match request["op"].as_str() {
            Some("get") => Ok(json!({"found": self.0.get(key)})),
            Some("set") => self.set(key, &request),
            Some("delete") => Ok(json!({"deleted": self.0.remove(key).is_some()})),
            Some("list") => {
                let prefix = request["prefix"].as_str().unwrap_or_default();
                let limit =
                    request["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
                let after = |key: &str| request["after"].as_str().is_none_or(|after| key > after);
                let keys = self.0.iter().filter(|(key, _)| key.starts_with(prefix) && after(key)).take(limit);
                let size = |value: &Value| value.get("value").map_or(0, |value| value.to_string().len());
                let shown = keys.map(|(key, it)| json!({"key": key, "version": it["version"], "size": size(it)}));
                Ok(json!({"keys": shown.collect::<Vec<_>>()}))
            }
            _ => Err(RpcError::new(INVALID_PARAMS, "the request of the store is not valid")),
        }
    }

    fn set(&mut self, key: &str, request: &Value) -> Result<Value, RpcError> {
        let version = self.0.get(key).and_then(|stored| stored["version"].as_u64()).unwrap_or_default();
        if request["ifVersion"].as_u64().is_some_and(|wanted| wanted != version) {
            return Err(RpcError::refused(Reason::StoreConflict, format!("the value has version {version}")));
        }
        let mut stored = json!({"version": version + 1});
        let member = if request.get("bytes").is_some() { "bytes" } else { "value" };
        stored[member] = request[member].clone();
        self.0.insert(key.to_owned(), stored);
        Ok(json!({"version": version + 1}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::raw::to_raw;

    #[test]
    fn values_have_versions_and_are_listed() {
        let mut store = MockStore::default();
        let mut answer = |request: Value| store.answer(Some(&to_raw(&request))).map_err(|error| error.message);
        assert_eq!(answer(json!({"op": "set", "key": "a", "value": null, "ifVersion": 0})), Ok(json!({"version": 1})));
        let conflict = answer(json!({"op": "set", "key": "a", "value": 1, "ifVersion": 0}));
        assert_eq!(conflict, Err("the value has version 1".to_owned()));
        assert_eq!(answer(json!({"op": "set", "key": "b", "bytes": "AQI="})), Ok(json!({"version": 1})));
        let found = answer(json!({"op": "get", "key": "b"}));
        assert_eq!(found, Ok(json!({"found": {"bytes": "AQI=", "version": 1}})));
        let listed = answer(json!({"op": "list", "prefix": "", "after": "a"})).unwrap();
        assert_eq!(listed["keys"][0]["key"], "b");
        assert_eq!(answer(json!({"op": "delete", "key": "b"})), Ok(json!({"deleted": true})));
        assert_eq!(answer(json!({"op": "get", "key": "b"})), Ok(json!({"found": null})));
        assert!(answer(json!({"op": "drop"})).is_err());
    }
}
