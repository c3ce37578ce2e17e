//! How pods are: whether they are ready, and what keeps them from it, in their own words.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition};
use kube::ResourceExt;

/// Maximum number of characters of a text from a pod's status.
const MAX_WORDS: usize = 1024;
/// Maximum number of characters of what a container said last: an Event, which has 1000, has room for it after the names
/// of the gateway and of the pod.
const MAX_LAST_WORDS: usize = 512;
/// What stands between two lines of a container's last words, since a condition has one line.
const BETWEEN: &str = " | ";
/// What a container waits for while nothing is wrong.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Returns what keeps the first of these pods that fails, by name, from becoming ready, in its own words; `None` if none
/// fails. Pods that were evicted stay for a long time beside those that took their place, so they count only while no
/// other pod fails or is ready.
pub(super) fn failing(pods: &[Arc<Pod>]) -> Option<String> {
    let first =
        |pods: &[&Arc<Pod>]| pods.iter().find_map(|pod| Some(format!("pod {}: {}", pod.name_any(), failure(pod)?)));
    let living = living(pods);
    let is_served = living.iter().any(|pod| is_ready(pod));
    first(&living).or_else(|| first(&present(pods, is_over)).filter(|_| !is_served))
}

/// Returns the pods that run or may run yet, by name.
pub(super) fn living(pods: &[Arc<Pod>]) -> Vec<&Arc<Pod>> {
    present(pods, |pod| !is_over(pod))
}

/// Returns the pods of which `is` is true, by name, without those that are being deleted.
fn present(pods: &[Arc<Pod>], is: impl Fn(&Pod) -> bool) -> Vec<&Arc<Pod>> {
    let mut present: Vec<_> = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none() && is(pod)).collect();
    present.sort_by_key(|pod| pod.name_any());
    present
}

/// Whether a pod has ended for good, such as one that was evicted, or that ended well when its node was shut down.
pub(super) fn is_over(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(|status| matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")))
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    conditions(pod).any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn conditions(pod: &Pod) -> impl Iterator<Item = &PodCondition> {
    pod.status.iter().filter_map(|status| status.conditions.as_ref()).flatten()
}

/// Returns what keeps a pod from becoming ready, in its own words.
fn failure(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    if is_over(pod) {
        let why = status.reason.as_ref().or(status.phase.as_ref())?;
        return Some(words(why, status.message.as_deref()));
    }
    let initial = status.init_container_statuses.iter().flatten();
    let failing = initial.chain(status.container_statuses.iter().flatten()).find_map(container_failure);
    let unscheduled = || {
        let mut unscheduled = conditions(pod).filter(|c| c.type_ == "PodScheduled" && c.status == "False");
        unscheduled.find_map(|c| Some(words(c.reason.as_deref()?, c.message.as_deref())))
    };
    failing.or_else(unscheduled)
}

/// Returns why a container does not run, or why it ended the last time if it is not ready yet.
fn container_failure(status: &ContainerStatus) -> Option<String> {
    let state = status.state.as_ref();
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let waiting = waiting.filter(|waiting| !waiting.reason.as_deref().is_some_and(|why| STARTING.contains(&why)));
    let waits =
        waiting.map(|waiting| words(waiting.reason.as_deref().unwrap_or("Waiting"), waiting.message.as_deref()));
    let is_failure = |ended: &&ContainerStateTerminated| ended.exit_code != 0 || ended.signal.is_some();
    let ended = |state: Option<&ContainerState>| {
        let ended = state.and_then(|state| state.terminated.as_ref()).filter(is_failure)?;
        let how = format!("it ended with code {} ({})", ended.exit_code, ended.reason.as_deref().unwrap_or("-"));
        Some(words(&how, Some(&last_words(ended.message.as_deref().unwrap_or_default()))))
    };
    let last = ended(state).or_else(|| ended(status.last_state.as_ref())).filter(|_| !status.ready);
    let told: Vec<_> = waits.into_iter().chain(last).collect();
    (!told.is_empty()).then(|| format!("container {}: {}", status.name, told.join("; ")))
}

/// Returns a word and the text that explains it, if there is one.
fn words(word: &str, text: Option<&str>) -> String {
    let text = text.map(str::trim).filter(|text| !text.is_empty()).map(|text| format!(": {text}"));
    format!("{word}{}", text.unwrap_or_default()).chars().take(MAX_WORDS).collect()
}

/// Returns the end of a container's termination message as one line: its last line says why the container ended.
fn last_words(message: &str) -> String {
    let lines: Vec<_> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = lines.join(BETWEEN);
    match text.char_indices().nth_back(MAX_LAST_WORDS - 1) {
        None | Some((0, _)) => text,
        Some((start, _)) => {
            let end = &text[start..];
            format!("...{}", end.split_once(BETWEEN).map_or(end, |(_, whole)| whole))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_termination_message_the_last_lines_stay() {
        assert_eq!(last_words("one\n\n  two\n"), "one | two");
        assert_eq!(last_words(" \n"), "");
        let whole = "\u{e4}".repeat(MAX_LAST_WORDS);
        assert_eq!(last_words(&whole), whole);
        let lines: Vec<_> = (0..200).map(|number| format!("line {number}")).collect();
        let told = last_words(&lines.join("\n"));
        assert!(told.starts_with("...line ") && told.ends_with("line 198 | line 199"), "{told}");
        assert!(told.chars().count() <= MAX_LAST_WORDS + 3, "{told}");
        let told = last_words(&format!("first\n{}why", "\u{e4}".repeat(2000)));
        assert_eq!(told, format!("...{}why", "\u{e4}".repeat(MAX_LAST_WORDS - 3)));
    }
}
