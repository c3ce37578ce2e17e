//! `hawsepipe snapshot` and `hawsepipe rollback`, on what an operator stored.

use serde_json::{Value, json};

use super::harness::{Operated, gateway, object};
use crate::harness::until;

const CODE: &str = "export default () => ({ continue: true });";
const EDITED: &str = "export default () => ({ text: 'edited', continue: true });";
/// Where a secret should not be, and sometimes is.
const LITERAL: &str = "literal-token";

fn objects(code: &str) -> Vec<Value> {
    let headers = json!([{"name": "Authorization", "value": LITERAL}]);
    vec![
        gateway("main"),
        object("MCPUpstream", "up", &json!({"external": {"url": "http://up.example/mcp", "headers": headers}})),
        object("Plugin", "mark", &json!({"source": {"inline": code}, "role": "Guard"})),
        object("PluginChain", "answers", &json!({"phase": "Response", "entries": [{"name": "mark"}]})),
    ]
}

impl Operated<'_> {
    /// What a command of ours prints, with this namespace.
    async fn print(&self, arguments: &[&str]) -> Result<String, String> {
        self.cluster.hawsepipe(None, &[arguments, &["-n", &self.namespace]].concat()).await
    }

    async fn print_json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.print(&[arguments, &["-o", "json"]].concat()).await.unwrap()).unwrap()
    }

    /// The revision that pods are to run.
    async fn current(&self) -> Option<String> {
        let stored = self.objects("gatewaysnapshots").await;
        let current = stored.iter().find_map(|object| object["spec"]["index"]["current"].as_str());
        current.map(str::to_owned)
    }

    /// Applies objects and waits until what pods are to run is another revision, which is given.
    async fn edited(&self, objects: &[Value], before: &str) -> String {
        self.apply(objects).await;
        until("another revision", async || self.current().await.filter(|current| current != before)).await
    }
}

/// The first revision that holds all objects.
async fn compiled(operated: &Operated<'_>) -> String {
    operated.apply(&objects(CODE)).await;
    until("everything is compiled", async || {
        let printed = operated.print(&["snapshot", "main", "-o", "json"]).await.ok()?;
        let plan: Value = serde_json::from_str(&printed).unwrap();
        let names = |list: &str| plan[list].as_array().map(Vec::len);
        let all = [names("upstreams"), names("plugins"), names("chains")] == [Some(1); 3];
        all.then(|| plan["revision"].as_str().unwrap().to_owned())
    })
    .await
}

#[tokio::test]
async fn plans_are_listed_printed_and_compared() {
    let operated = Operated::start().await;
    let first = compiled(&operated).await;
    let mut edit = objects(EDITED);
    edit[1]["spec"]["limits"] = json!({"concurrentCalls": 7});
    // Two objects change, in one revision or in two: the first one is still kept.
    operated.apply(&edit).await;
    let differences = until("the edits are in the current revision", async || {
        let differences = operated.print_json(&["snapshot", "main", "--diff", &first]).await;
        (differences["items"].as_array().unwrap().len() == 2).then_some(differences)
    })
    .await;
    let current = operated.current().await.unwrap();
    assert_eq!((&differences["from"], &differences["to"]), (&json!(first), &json!(current)));
    let namespace = &operated.namespace;
    let of = |kind: &str| differences["items"].as_array().unwrap().iter().find(|d| d["kind"] == kind).unwrap();
    let upstream = json!({"change": "changed", "kind": "MCPUpstream", "object": format!("{namespace}/up"),
        "fields": ["concurrent_calls"]});
    assert_eq!(*of("MCPUpstream"), upstream);
    let code = &of("Plugin")["code"];
    assert!(code["from"].as_str().unwrap().len() == 64 && code["from"] != code["to"], "{code}");
    let table = operated.print(&["snapshot", "main", "--diff", &first[..8]]).await.unwrap();
    assert!(table.lines().count() == 3 && table.contains("concurrent_calls"), "{table}");

    let listed = operated.print_json(&["snapshot"]).await;
    let listed = listed["items"].as_array().unwrap().clone();
    let marked: Vec<_> = listed.iter().filter(|one| one["current"] == true).map(|one| &one["revision"]).collect();
    assert_eq!(marked, [&json!(current)], "{listed:?}");
    assert!(listed.iter().all(|one| one["gateway"] == "main" && one["sizeBytes"].as_u64() > Some(0)), "{listed:?}");
    let unknown = operated.print(&["snapshot", "main", "--revision", "zz"]).await.unwrap_err();
    assert!(unknown.contains("has no revision") && unknown.contains(&current), "{unknown}");
}

#[tokio::test]
async fn a_plan_is_printed_without_values_and_its_code_on_demand() {
    let operated = Operated::start().await;
    compiled(&operated).await;
    let plain = operated.print(&["snapshot", "main"]).await.unwrap();
    assert!(plain.contains("up.example") && !plain.contains(LITERAL) && !plain.contains("continue: true"), "{plain}");
    let with_code = operated.print(&["snapshot", "main", "--code"]).await.unwrap();
    assert!(with_code.contains("continue: true") && !with_code.contains(LITERAL), "{with_code}");
    let table = operated.print(&["snapshot", "main", "-o", "table"]).await.unwrap();
    assert!(table.lines().count() == 5 && table.contains("PluginChain"), "{table}");
    let absent = operated.print(&["snapshot", "other"]).await.unwrap_err();
    assert!(absent.contains("nothing is compiled for MCPGateway"), "{absent}");
}

#[tokio::test]
async fn a_gateway_is_kept_at_a_revision_until_it_is_let_go() {
    let operated = Operated::start().await;
    let first = compiled(&operated).await;
    let second = operated.edited(&objects(EDITED), &first).await;
    operated.print(&["rollback", "main", &first[..6]]).await.unwrap();
    until("the first revision is back", async || operated.current().await.filter(|now| *now == first)).await;
    // Whoever applies the gateway's manifest again does not undo it.
    operated.apply(&objects(CODE)).await;
    let listed = until("the edit is compiled and waits", async || {
        let listed = operated.print_json(&["snapshot"]).await;
        let items = listed["items"].as_array().unwrap().clone();
        (items[0]["revision"] == json!(first)).then_some(items)
    })
    .await;
    assert_eq!(listed[0]["current"], true, "{listed:?}");
    operated.apply(&objects(EDITED)).await;
    until("what runs is still the first", async || {
        let listed = operated.print_json(&["snapshot"]).await;
        (listed["items"][0]["revision"] == json!(second)).then_some(())
    })
    .await;
    assert_eq!(operated.current().await.unwrap(), first);
    operated.print(&["rollback", "main", "--unpin"]).await.unwrap();
    until("the newest revision runs", async || operated.current().await.filter(|now| *now == second)).await;
}

#[tokio::test]
async fn a_pin_of_somebody_else_is_left_to_them() {
    let operated = Operated::start().await;
    let first = compiled(&operated).await;
    let second = operated.edited(&objects(EDITED), &first).await;
    let mut pinned = gateway("main");
    pinned["spec"]["pinnedRevision"] = json!(first);
    operated.apply(&[pinned]).await;
    let refused = operated.print(&["rollback", "main", "--unpin"]).await.unwrap_err();
    assert!(refused.contains("was not set by `hawsepipe rollback`"), "{refused}");
    let refused = operated.print(&["rollback", "main", &second]).await.unwrap_err();
    assert!(refused.contains("spec.pinnedRevision of MCPGateway") && refused.contains("conflict"), "{refused}");
}

#[tokio::test]
async fn a_right_that_is_missing_is_told_with_commands_that_give_it() {
    let operated = Operated::start().await;
    compiled(&operated).await;
    let (cluster, namespace) = (operated.cluster, &operated.namespace);
    cluster.make_account(namespace, "reader").await;
    let token = cluster.token(namespace, "reader", &[]).await;
    let asks = async |arguments: &[&str]| cluster.hawsepipe(Some(&token), arguments).await;
    let who = format!("ServiceAccount {namespace}/reader may not");
    let main = format!("{namespace}/main");
    for (arguments, part) in [
        (&["snapshot"][..], "list gatewaysnapshots.hawsepipe.dev in all namespaces. Or name one namespace with -n."),
        (&["rollback", &main, "--unpin"], "get mcpgateways.hawsepipe.dev in namespace"),
        (&["grant", &format!("{namespace}/up"), "--to", "other/main"], "get mcpupstreams.hawsepipe.dev in namespace"),
    ] {
        let refused = asks(arguments).await.unwrap_err();
        assert!(refused.contains(&format!("{who} {part}")) && !refused.contains("Status {"), "{refused}");
    }
    let refused = asks(&["snapshot", &main]).await.unwrap_err();
    let commands: Vec<_> = refused.lines().filter_map(|line| line.trim().strip_prefix("kubectl ")).collect();
    assert_eq!(commands.len(), 2, "{refused}");
    for command in commands {
        cluster.kubectl(&command.split(' ').collect::<Vec<_>>(), "").await.unwrap();
    }
    let printed = until("the right is given", async || asks(&["snapshot", &main]).await.ok()).await;
    assert!(printed.contains("up.example"), "{printed}");
}
