//! Warnings about plugins that run twice on one call, because two chains of a phase name them.

use super::link::{Linked, LinkedChain, LinkedEntry};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Returns a warning for each chain with a plugin that an earlier chain of the same phase has too, if both run on all calls of a
/// tool. The contract 1.0 has each plugin once for a server and a phase.
pub(crate) fn doubled_plugins(linked: &Linked) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (place, later) in linked.chains.iter().enumerate() {
        for earlier in &linked.chains[..place] {
            let Some(plugin) = doubled(earlier, later).filter(|_| run_together(linked, earlier, later)) else {
                continue;
            };
            let message = format!(
                "Plugin {plugin} is in PluginChain {} too, which covers the same upstreams in the same phase: it runs twice on \
                 each of their calls",
                earlier.plan.key
            );
            let object = ObjectId::new(Kind::PluginChain, later.plan.key.clone());
            problems.push(Problem::warning(Reason::InvalidConfig, object, "spec.entries", message));
        }
    }
    problems
}

/// Returns the first plugin that both chains run with the same settings and without a condition.
fn doubled<'a>(earlier: &LinkedChain, later: &'a LinkedChain) -> Option<&'a ObjectKey> {
    let plain = |entry: &LinkedEntry| entry.enabled && entry.plan.when.is_none();
    let config = |entry: &LinkedEntry| entry.plan.config.as_ref().map(|config| config.get().to_owned());
    let is_same = |a: &LinkedEntry, b: &LinkedEntry| a.plan.plugin == b.plan.plugin && config(a) == config(b);
    let entries = later.entries.iter().filter(|entry| plain(entry));
    let mut same = entries.filter(|entry| earlier.entries.iter().any(|other| plain(other) && is_same(other, entry)));
    same.next().map(|entry| &entry.plan.plugin)
}

/// Whether there is an upstream of which both chains select the same tools, by the same methods and in the same phase.
fn run_together(linked: &Linked, a: &LinkedChain, b: &LinkedChain) -> bool {
    let [of_a, of_b] = [a, b].map(|chain| (chain.plan.phase, &chain.plan.include, &chain.plan.exclude));
    let has_method = || a.plan.methods.iter().any(|method| b.plan.methods.contains(method));
    let mut upstreams = linked.upstreams.iter().map(|upstream| &upstream.target.plan);
    of_a == of_b && has_method() && upstreams.any(|upstream| a.covers(upstream) && b.covers(upstream))
}
