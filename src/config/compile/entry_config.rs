//! The configuration of an entry of a chain: that of its plugin, with keys of the entry.

use serde_json::value::RawValue;

use crate::domain::raw::RawObject;

/// Returns the plugin's configuration `own`, in which the keys of the entry's configuration replace keys of the same
/// name. Only top-level keys count; nested objects are not merged.
pub fn merge_config(own: Option<&RawValue>, entry: Option<&RawValue>) -> Option<Box<RawValue>> {
    let (Some(own_raw), Some(entry_raw)) = (own, entry) else {
        return entry.or(own).map(RawValue::to_owned);
    };
    let (Ok(mut merged), Ok(top)) = (RawObject::parse(own_raw.get()), RawObject::parse(entry_raw.get())) else {
        return Some(entry_raw.to_owned());
    };
    for (key, value) in top.iter() {
        merged.set(key, value.to_owned());
    }
    Some(merged.to_raw())
}
