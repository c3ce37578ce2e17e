//! What the operator's log says of what it does: one line for each change, and none for a round.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Operated, gateway, object};
use super::workload::IMAGE;
use crate::harness::{Cluster, Process, until};

/// Longer than the operator waits before it looks at a gateway again.
const CALM: Duration = Duration::from_secs(8);
/// What a Secret holds in the operator's log: nothing.
const LITERAL: &str = "literal-token";

/// The lines of a log. The last one may not be whole yet.
fn lines(process: &Process) -> Vec<Value> {
    process.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Those with this message.
fn told(process: &Process, message: &str) -> Vec<Value> {
    lines(process).into_iter().filter(|line| line["message"] == message).collect()
}

impl Operated<'_> {
    /// Waits until the log has this many lines with this message.
    async fn until_told(&self, message: &str, count: usize) -> Vec<Value> {
        until(&format!("{count} lines say {message:?}"), async || {
            let lines = told(&self.operator, message);
            (lines.len() == count).then_some(lines)
        })
        .await
    }

    /// The objects of the lines with this message, sorted and without the namespace.
    fn objects_told(&self, message: &str) -> Vec<String> {
        let lines = told(&self.operator, message);
        let named =
            lines.iter().map(|line| line["object"].as_str().unwrap().replace(&format!("{}/", self.namespace), ""));
        let mut named: Vec<_> = named.collect();
        named.sort();
        named
    }
}

/// Whether a line names this object as the cause.
fn named(line: &Value, name: &str) -> bool {
    line["why"].as_str().unwrap().contains(name)
}

fn plugin(code: &str) -> Value {
    let env = json!([{"name": "TOKEN", "value": LITERAL}]);
    object("Plugin", "mark", &json!({"source": {"inline": code}, "role": "Guard", "env": env}))
}

#[tokio::test]
async fn each_change_of_the_operator_is_one_line_of_its_log_and_rounds_are_none() {
    let operated = Operated::with(Cluster::shared().await, &[], &[IMAGE]).await;
    let chain = object("PluginChain", "answers", &json!({"phase": "Response", "entries": [{"name": "mark"}]}));
    operated.until_told("this operator leads", 1).await;
    operated.apply(&[gateway("main"), plugin("export default () => ({});"), chain]).await;
    operated.until_made("poddisruptionbudget/main-gateway", |made| !made.is_null()).await;
    operated.until_condition("pluginchains", "answers", "Accepted", "True Accepted").await;
    tokio::time::sleep(CALM).await;
    let made = [
        "Deployment main-gateway",
        "NetworkPolicy main-gateway",
        "PodDisruptionBudget main-gateway",
        "Role main-gateway",
        "RoleBinding main-gateway",
        "Secret main-gateway-seal",
        "Service main-gateway",
        "ServiceAccount main-gateway",
    ];
    assert_eq!(operated.objects_told("created"), made);
    let of = format!("MCPGateway {}/main", operated.namespace);
    assert!(told(&operated.operator, "created").iter().all(|line| line["of"] == of && line["level"] == "INFO"));

    // Several revisions, if the objects came in several rounds; the last one has all of them.
    let compiled = told(&operated.operator, "a revision is compiled and stored");
    let last = compiled.last().unwrap();
    assert!(last["gateway"] == format!("{}/main", operated.namespace) && last["current"] == last["revision"], "{last}");
    assert!(compiled.iter().any(|line| named(line, "/mark")), "{compiled:?}");

    // Rounds that change nothing say nothing.
    let before = operated.operator.log();
    operated.kubectl(&["annotate", "mcpgw,plug,pchain", "--all", "example.com/touched=1"]).await;
    tokio::time::sleep(CALM).await;
    let after = operated.operator.log();
    assert_eq!(after.strip_prefix(&before), Some(""), "a round is no line");

    each_edit_is_told(&operated, compiled.len()).await;
    assert!(!operated.operator.log().contains(LITERAL));
}

/// An edit, what is refused, what another client changes, and what is not wanted any more. There were this many revisions.
async fn each_edit_is_told(operated: &Operated<'_>, revisions: usize) {
    operated.apply(&[plugin("export default () => ({ continue: true });")]).await;
    let compiled = operated.until_told("a revision is compiled and stored", revisions + 1).await;
    assert!(named(compiled.last().unwrap(), "/mark"), "{compiled:?}");
    operated.apply(&[plugin("export default (")]).await;
    until("the log has what is refused", async || {
        let is_of_it = |line: &Value| {
            let message = line["message"].as_str().unwrap_or_default();
            line["reason"] == "SyntaxError" && message.starts_with("Accepted: ")
        };
        lines(&operated.operator).iter().any(is_of_it).then_some(())
    })
    .await;
    operated.kubectl(&["label", "role", "main-gateway", "--overwrite", "hawsepipe.dev/gateway=other"]).await;
    let changed = operated.until_told("changed", 1).await;
    assert_eq!(operated.objects_told("changed"), ["Role main-gateway"]);
    assert!(changed[0]["why"].as_str().unwrap().contains("kubectl"), "{changed:?}");
    let mut open = gateway("main");
    open["spec"]["networkPolicy"] = json!("None");
    operated.apply(&[open]).await;
    operated.until_told("deleted", 1).await;
    assert_eq!(operated.objects_told("deleted"), ["NetworkPolicy main-gateway"]);
    operated.delete("mcpgw/main").await;
    operated.until_told("the MCPGateway is gone; Kubernetes deletes what belongs to it", 1).await;
}

#[tokio::test]
async fn an_operator_that_does_not_lead_says_who_does() {
    let operated = Operated::start().await;
    let leads = operated.until_told("this operator leads", 1).await;
    let next = operated.another("next").await;
    let told_by_next =
        until("the other one names the leader", async || told(&next, "another operator leads").pop()).await;
    assert_eq!(told_by_next["leader"], leads[0]["leader"]);
    operated.operator.signal("TERM");
    until("the other one leads", async || told(&next, "this operator leads").pop()).await;
    assert!(told(&next, "created").is_empty(), "nothing was to be made");
}
