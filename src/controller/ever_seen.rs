//! Tool names that pods have received from upstreams. The index keeps them for pods that start while a server is
//! unreachable.

use std::collections::BTreeSet;

use super::compiled::KeptPlans;
use super::pods::Pods;
use crate::domain::plan::{Plan, PrefixMode};
use crate::domain::seen::SeenNames;

/// Returns the upstreams whose tool names are kept: those of the newest plan and of the kept revisions, as far as these
/// prefix tool names only on conflict. The names of an upstream are forgotten once no revision that can run has the
/// upstream.
pub(super) fn counting(newest: &Plan, kept: &KeptPlans) -> BTreeSet<String> {
    let kept = kept.values().flatten().map(AsRef::as_ref);
    let plans = std::iter::once(newest).chain(kept).filter(|plan| plan.gateway.prefix == PrefixMode::OnConflict);
    plans.flat_map(|plan| &plan.upstreams).map(|upstream| upstream.key.to_string()).collect()
}

/// Adds the tool names that pods report for these upstreams. Returns whether any name is new.
pub(super) fn hear(seen: &mut SeenNames, newest: &Plan, kept: &KeptPlans, pods: &Pods) -> bool {
    let mut reported = pods.reports().map(|report| &report.seen_names).filter(|names| !names.is_empty()).peekable();
    if reported.peek().is_none() {
        return false;
    }
    let counting = counting(newest, kept);
    reported.fold(false, |news, names| {
        let mut names = names.clone();
        names.retain(|upstream| counting.contains(upstream));
        news | seen.merge(&names)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::compile::compile;
    use crate::config::compile::tests::{folder, gateway, upstream};
    use crate::controller::pods::Reported;
    use crate::domain::ids::ObjectKey;
    use crate::domain::report::Report;
    use crate::domain::seen::MAX_OF_ONE;

    fn plan(prefix: PrefixMode, upstreams: &[&str]) -> Plan {
        let mut inputs = folder();
        gateway(&mut inputs).plan.prefix = prefix;
        inputs.upstreams = upstreams.iter().map(|name| upstream(name)).collect();
        compile(&inputs, None).0
    }

    /// Returns pods that each report these tool names for one upstream.
    fn pods(reports: &[(&str, &[&str])]) -> Pods {
        let ready = reports.iter().enumerate().map(|(pod, (upstream, names))| {
            let mut report = Report::default();
            report.seen_names.add(&ObjectKey::new("default", *upstream), names.iter().copied());
            (pod.to_string(), Ok(Arc::new(Reported::new(report))))
        });
        Pods { all: u32::try_from(reports.len()).unwrap(), ready: ready.collect(), ..Pods::default() }
    }

    #[test]
    fn names_of_all_pods_are_kept_of_upstreams_that_a_kept_revision_has() {
        let newest = plan(PrefixMode::OnConflict, &["a"]);
        let kept = KeptPlans::from([
            ("older".to_owned(), Ok(Arc::new(plan(PrefixMode::OnConflict, &["b"])))),
            ("prefixed".to_owned(), Ok(Arc::new(plan(PrefixMode::Always, &["c"])))),
            ("damaged".to_owned(), Err("damaged".to_owned())),
        ]);
        let mut seen = SeenNames::default();
        let pods = pods(&[("a", &["read"]), ("a", &["list"]), ("b", &["x"]), ("c", &["y"]), ("none", &["z"])]);
        assert!(hear(&mut seen, &newest, &kept, &pods));
        let expected = r#"{"default/a":["list","read"],"default/b":["x"]}"#;
        assert_eq!(serde_json::to_string(&seen).unwrap(), expected);
        assert!(!hear(&mut seen, &newest, &kept, &pods), "they are known");
    }

    #[test]
    fn what_has_no_room_is_no_news() {
        let newest = plan(PrefixMode::OnConflict, &["a"]);
        let names: Vec<_> = (0..=MAX_OF_ONE).map(|n| format!("tool{n}")).collect();
        let [some, others] =
            [&names[1..], &names[..1]].map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut seen = SeenNames::default();
        assert!(hear(&mut seen, &newest, &KeptPlans::new(), &pods(&[("a", &some)])));
        assert!(!hear(&mut seen, &newest, &KeptPlans::new(), &pods(&[("a", &others)])));
        assert_eq!(seen.len(), MAX_OF_ONE);
    }
}
