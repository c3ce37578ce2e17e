//! Remembers which objects were found as desired. There are thousands, and few of them change between two rounds.

use std::collections::HashMap;
use std::sync::Arc;

use kube::api::DynamicObject;

/// The objects of one owner that were found as desired, by resource, each with the digest of what is desired.
#[derive(Default)]
pub(super) struct Compared(HashMap<String, (Arc<DynamicObject>, String)>);

impl Compared {
    /// Whether an object is as desired. Calls `compare` only if the object or the digest changed since it was.
    pub(super) fn is_same(
        &mut self,
        plural: &str,
        seen: &Arc<DynamicObject>,
        digest: &str,
        compare: impl FnOnce() -> bool,
    ) -> bool {
        if self.0.get(plural).is_some_and(|(before, wanted)| Arc::ptr_eq(before, seen) && wanted == digest) {
            return true;
        }
        let is_same = compare();
        if is_same {
            self.0.insert(plural.to_owned(), (Arc::clone(seen), digest.to_owned()));
        } else {
            self.0.remove(plural);
        }
        is_same
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_compared_again_only_when_it_or_the_desired_one_changed() {
        let object = || {
            let text = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}});
            Arc::new(serde_json::from_value::<DynamicObject>(text).unwrap())
        };
        let (mut compared, mut count) = (Compared::default(), 0);
        let mut is_same = |plural: &str, seen: &Arc<DynamicObject>, digest: &str, answer: bool| {
            let before = count;
            let is_same = compared.is_same(plural, seen, digest, || {
                count += 1;
                answer
            });
            (is_same, count - before)
        };
        let (first, second) = (object(), object());
        assert_eq!(is_same("services", &first, "a", false), (false, 1));
        assert_eq!(is_same("services", &first, "a", true), (true, 1), "one that differs is not remembered");
        assert_eq!(is_same("services", &first, "a", false), (true, 0));
        assert_eq!(is_same("deployments", &first, "a", false), (false, 1), "it is another resource");
        assert_eq!(is_same("services", &first, "b", true), (true, 1), "something else is desired");
        assert_eq!(is_same("services", &second, "b", true), (true, 1), "the object changed");
        assert_eq!(is_same("services", &first, "b", false), (false, 1));
        assert_eq!(is_same("services", &second, "b", false), (false, 1), "one that differed is forgotten");
    }
}
