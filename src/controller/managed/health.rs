//! Whether the pods of a server serve what its spec says.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus,
};
use kube::ResourceExt;

use crate::controller::pod_health::{failing, is_over, is_ready, living};

/// The annotation of a pod with the digest of the template that it was created from.
pub(super) const TEMPLATE: &str = "hawsepipe.dev/template";

/// The pods that should run for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) struct WantedPods {
    /// Kind of the workload.
    pub(in crate::controller) kind: &'static str,
    /// Name of the workload.
    pub(in crate::controller) name: String,
    pub(in crate::controller) replicas: u32,
    /// The digest of their template.
    pub(in crate::controller) template: String,
}

impl WantedPods {
    /// Returns why the pods do not serve what the spec says: one of them fails, none is ready, or one that serves is of an
    /// older template. `None` if they serve it, or if there should be none. `refused` says why no more can be created, if
    /// that is so.
    pub(in crate::controller) fn not_ready(&self, pods: &[Arc<Pod>], refused: Option<&str>) -> Option<String> {
        if self.replicas == 0 {
            return None;
        }
        let living = living(pods);
        let ready: Vec<_> = living.iter().filter(|pod| is_ready(pod)).collect();
        let older = ready.iter().find(|pod| pod.annotations().get(TEMPLATE) != Some(&self.template));
        let refused = || Some(format!("pods of {} {} cannot be created: {}", self.kind, self.name, refused?));
        failing(pods).or_else(|| match (ready.is_empty(), older) {
            (true, _) => refused().or_else(|| Some(format!("no pod of {} {} is ready", self.kind, self.name))),
            (false, Some(older)) => refused().or_else(|| Some(format!("pod {} is not replaced yet", older.name_any()))),
            (false, None) => None,
        })
    }

    /// Whether each of these pods that runs is of the current template.
    pub(in crate::controller) fn replaced(&self, pods: &[Arc<Pod>]) -> bool {
        pods.iter().all(|pod| is_over(pod) || pod.annotations().get(TEMPLATE) == Some(&self.template))
    }
}

/// Whether one of these pods runs, or may run yet.
pub(in crate::controller) fn run(pods: &[Arc<Pod>]) -> bool {
    pods.iter().any(|pod| !is_over(pod))
}

/// Removes from a pod everything that [`WantedPods::not_ready`] does not read.
pub(in crate::controller) fn keep_health(pod: &mut Pod) {
    pod.spec = None;
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.retain(|key, _| key == TEMPLATE);
    }
    let Some(PodStatus { phase, reason, message, conditions, container_statuses, init_container_statuses, .. }) =
        pod.status.take()
    else {
        return;
    };
    let containers = |statuses: Option<Vec<ContainerStatus>>| {
        statuses.map(|statuses| statuses.into_iter().map(container_health).collect())
    };
    let counts = |condition: &PodCondition| matches!(condition.type_.as_str(), "Ready" | "PodScheduled");
    let conditions = conditions.into_iter().flatten().filter(counts).map(|condition| PodCondition {
        last_probe_time: None,
        last_transition_time: None,
        ..condition
    });
    pod.status = Some(PodStatus {
        phase,
        reason,
        message,
        conditions: Some(conditions.collect()),
        container_statuses: containers(container_statuses),
        init_container_statuses: containers(init_container_statuses),
        ..PodStatus::default()
    });
}

fn container_health(status: ContainerStatus) -> ContainerStatus {
    let ended = |ended: ContainerStateTerminated| ContainerStateTerminated {
        container_id: None,
        started_at: None,
        finished_at: None,
        ..ended
    };
    let state =
        |state: ContainerState| ContainerState { running: None, terminated: state.terminated.map(ended), ..state };
    ContainerStatus {
        name: status.name,
        ready: status.ready,
        state: status.state.map(state),
        last_state: status.last_state.map(state),
        ..ContainerStatus::default()
    }
}

/// Whether two versions of a pod, both reduced by [`keep_health`], are equally well.
pub(in crate::controller) fn has_same_health(before: &Pod, now: &Pod) -> bool {
    let parts =
        |pod: &Pod| (pod.metadata.uid.clone(), pod.metadata.deletion_timestamp.is_some(), pod.metadata.labels.clone());
    parts(before) == parts(now)
        && before.metadata.annotations == now.metadata.annotations
        && before.status == now.status
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn wanted(replicas: u32) -> WantedPods {
        WantedPods { kind: "Deployment", name: "files-mcp".to_owned(), replicas, template: "new".to_owned() }
    }

    /// Returns a pod as the watch keeps it.
    fn pod(name: &str, status: &Value) -> Arc<Pod> {
        let annotations = json!({TEMPLATE: "new", "other": "x"});
        let mut pod: Pod = serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations},
            "spec": {"containers": []}, "status": status}))
        .unwrap();
        keep_health(&mut pod);
        Arc::new(pod)
    }

    fn ready() -> Value {
        json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [container(true, &json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}), &json!({}))]})
    }

    fn container(is_ready: bool, state: &Value, last: &Value) -> Value {
        json!({"name": "server", "ready": is_ready, "image": "i", "imageID": "x", "restartCount": 3, "state": state,
            "lastState": last})
    }

    fn with(state: &Value, last: &Value) -> Arc<Pod> {
        pod("b", &json!({"phase": "Pending", "containerStatuses": [container(false, state, last)]}))
    }

    fn waits(reason: &str, message: &str) -> Value {
        json!({"waiting": {"reason": reason, "message": message}})
    }

    /// Checks why pods are not ready.
    fn check(pods: &[Arc<Pod>], expected: &str) {
        assert_eq!(wanted(1).not_ready(pods, None).as_deref(), Some(expected));
        assert_eq!(wanted(0).not_ready(pods, None), None, "there should be none");
    }

    #[test]
    fn why_a_container_does_not_run_is_told_in_the_pods_own_words() {
        let ended = json!({"terminated": {"exitCode": 3, "reason": "Error", "message": "no such folder\n"}});
        let pull = waits("ImagePullBackOff", "Back-off pulling image");
        let over = "it ended with code 3 (Error): no such folder";
        let pulling = "container server: ImagePullBackOff: Back-off pulling image";
        check(&[with(&pull, &json!({}))], &format!("pod b: {pulling}"));
        check(&[pod("a", &ready()), with(&pull, &json!({}))], &format!("pod b: {pulling}"));
        let crash = with(&waits("CrashLoopBackOff", "back-off 10s"), &ended);
        check(&[crash], &format!("pod b: container server: CrashLoopBackOff: back-off 10s; {over}"));
        check(&[with(&json!({"running": {}}), &ended)], &format!("pod b: container server: {over}"));
        check(&[with(&ended, &json!({}))], &format!("pod b: container server: {over}"));
        let mut initial = container(false, &pull, &json!({}));
        initial["name"] = json!("bridge-copy");
        let initial = pod("a", &json!({"initContainerStatuses": [initial]}));
        check(&[initial], "pod a: container bridge-copy: ImagePullBackOff: Back-off pulling image");
        let log = format!("{}Error: no such folder\n", "{\"level\":\"INFO\"}\n".repeat(200));
        let ended = json!({"terminated": {"exitCode": 3, "reason": "Error", "message": log}});
        let told = wanted(1).not_ready(&[with(&ended, &json!({}))], None).unwrap();
        assert!(told.ends_with(" | Error: no such folder") && told.len() < 620, "{told}");
        let long = wanted(1).not_ready(&[with(&waits("ErrImagePull", &"x".repeat(5000)), &json!({}))], None).unwrap();
        assert!(long.len() < 1100, "{}", long.len());
    }

    #[test]
    fn a_pod_that_runs_nowhere_is_told_and_one_that_starts_has_its_time() {
        let none = "no pod of Deployment files-mcp is ready";
        check(&[], none);
        check(&[with(&waits("ContainerCreating", ""), &json!({}))], none);
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"});
        check(&[pod("a", &evicted)], "pod a: Evicted: low on memory");
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"});
        check(&[pod("a", &json!({"phase": "Pending", "conditions": [condition]}))], "pod a: Unschedulable: 0/3 nodes");
    }

    #[test]
    fn pods_that_cannot_be_created_are_told_where_they_are_needed() {
        let told = |pods: &[Arc<Pod>]| wanted(1).not_ready(pods, Some("FailedCreate: exceeded quota: q"));
        let refused = "pods of Deployment files-mcp cannot be created: FailedCreate: exceeded quota: q";
        assert_eq!(told(&[]).as_deref(), Some(refused));
        assert_eq!(told(&[pod("a", &ready())]), None, "one serves");
        let mut older = Pod::clone(&pod("b", &ready()));
        older.metadata.annotations = None;
        assert_eq!(told(&[Arc::new(older)]).as_deref(), Some(refused), "it is not replaced");
    }

    #[test]
    fn pods_serve_what_the_spec_says_once_one_is_ready_and_none_is_of_an_older_template() {
        let mut older = Pod::clone(&pod("b", &ready()));
        older.metadata.annotations = Some([(TEMPLATE.to_owned(), "old".to_owned())].into());
        let mut ending = older.clone();
        ending.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let new = pod("a", &ready());
        assert_eq!(wanted(2).not_ready(&[Arc::clone(&new)], None), None, "one serves");
        assert_eq!(wanted(1).not_ready(&[Arc::clone(&new), Arc::new(ending)], None), None, "it is on its way out");
        let evicted = pod("0", &json!({"phase": "Failed", "reason": "Evicted", "conditions": []}));
        assert_eq!(wanted(1).not_ready(&[evicted, Arc::clone(&new)], None), None, "another pod took its place");
        let mut ended = older.clone();
        ended.status = serde_json::from_value(json!({"phase": "Succeeded"})).unwrap();
        let ended = [Arc::new(ended)];
        assert!(!run(&ended) && wanted(1).replaced(&ended), "its node was shut down");
        let message = wanted(1).not_ready(&[new, Arc::new(older)], None);
        assert_eq!(message.as_deref(), Some("pod b is not replaced yet"));
        let restarted = container(true, &json!({"running": {}}), &json!({"terminated": {"exitCode": 1}}));
        let mut status = ready();
        status["containerStatuses"] = json!([restarted]);
        assert_eq!(wanted(1).not_ready(&[pod("a", &status)], None), None, "it serves again");
    }

    #[test]
    fn what_ticks_in_a_pod_is_no_news() {
        let at = |time: &str, is_ready: &str| {
            let condition = json!({"type": "Ready", "status": is_ready, "lastTransitionTime": time});
            let ended =
                json!({"terminated": {"exitCode": 1, "startedAt": time, "finishedAt": time, "containerID": time}});
            pod(
                "a",
                &json!({"conditions": [condition, {"type": "Initialized", "status": is_ready}], "startTime": time,
                "containerStatuses": [container(true, &json!({"running": {"startedAt": time}}), &ended)]}),
            )
        };
        let before = at("2026-01-01T00:00:00Z", "True");
        assert!(has_same_health(&before, &at("2026-01-02T00:00:00Z", "True")));
        assert!(!has_same_health(&before, &at("2026-01-01T00:00:00Z", "False")));
        assert!(before.spec.is_none() && !before.annotations().contains_key("other"));
    }
}
