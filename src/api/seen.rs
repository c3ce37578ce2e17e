//! Converts the names of all tools that upstreams ever listed into the form in which the index of a snapshot stores
//! them, and back.

use super::snapshot::{SnapshotIndex, UpstreamNames};
use crate::domain::ids::ObjectKey;
use crate::domain::seen::SeenNames;

/// Returns the form in which an index stores the names, or `None` if there are no names.
pub fn written(seen: &SeenNames) -> Option<Vec<UpstreamNames>> {
    let of = |(upstream, tools): (&str, &std::collections::BTreeSet<String>)| {
        let (namespace, name) = upstream.split_once('/')?;
        Some(UpstreamNames {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            tools: tools.iter().cloned().collect(),
        })
    };
    let all: Vec<_> = seen.iter().filter_map(of).collect();
    (!all.is_empty()).then_some(all)
}

/// Returns the names that an index holds, as many as the limits of [`SeenNames`] allow.
pub fn read(index: &SnapshotIndex) -> SeenNames {
    let mut seen = SeenNames::default();
    seen.merge_all(index.seen_names.iter().flatten().map(|UpstreamNames { namespace, name, tools }| {
        (ObjectKey::new(namespace, name).to_string(), tools.iter().map(String::as_str))
    }));
    seen
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::seen::{MAX_BYTES, MAX_OF_ONE};

    #[test]
    fn names_come_back_and_an_index_without_them_has_none() {
        let mut seen = SeenNames::default();
        seen.add(&ObjectKey::new("team", "up"), ["read", "list"]);
        let mut index = json!({"current": "a", "revisions": []});
        assert!(read(&serde_json::from_value(index.clone()).unwrap()).is_empty());
        assert_eq!(written(&SeenNames::default()), None);
        index["seenNames"] = serde_json::to_value(written(&seen)).unwrap();
        assert_eq!(index["seenNames"], json!([{"namespace": "team", "name": "up", "tools": ["list", "read"]}]));
        assert_eq!(read(&serde_json::from_value(index).unwrap()), seen);
    }

    #[test]
    fn as_many_as_are_kept_fit_into_the_bytes_that_are_said() {
        let mut seen = SeenNames::default();
        for length in [1, 8, 60, 128] {
            for n in 0..MAX_OF_ONE {
                let names: Vec<_> = (0..MAX_OF_ONE).map(|n| format!("{n:0>length$}")).collect();
                let upstream = ObjectKey::new(format!("{:n>63}", n % 4), format!("{n:0>63}"));
                seen.add(&upstream, names.iter().take(n + 1).map(String::as_str));
            }
        }
        assert!(seen.is_full());
        let text = serde_json::to_string(&written(&seen)).unwrap();
        assert!(text.len() <= MAX_BYTES, "{} bytes", text.len());
    }
}
