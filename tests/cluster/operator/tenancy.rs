//! The example of `docs/tenancy.md` as it is written there; only namespaces and addresses of servers are the test's.

use serde_json::{Value, json};

use super::harness::{Operated, Tenant, object};
use super::pods::Served;
use crate::gateway::upstream;
use crate::harness::{Cluster, checkout, documents_in, until};

/// What an answer of the plugin that the platform lends begins with, and the key that the ledger is called with.
const PREFIX: &str = "[internal]";
const KEY: &str = "not-a-real-key";

/// The names of the page, and those of the test.
struct Names {
    namespaces: [(&'static str, String); 3],
    url: String,
}

impl Names {
    /// A text of the page, with the test's namespaces.
    fn of(&self, text: &str) -> String {
        let put =
            |text: String, (theirs, ours): &(&str, String)| text.replace(&format!("{theirs}/"), &format!("{ours}/"));
        self.namespaces.iter().fold(text.to_owned(), put)
    }

    fn put(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.starts_with("http://") => text.clone_from(&self.url),
            Value::String(text) => {
                let ours = self.namespaces.iter().find(|(theirs, _)| theirs == text);
                ours.into_iter().for_each(|(_, ours)| text.clone_from(ours));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.put(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.put(member)),
            _ => {}
        }
    }
}

/// The YAML of a page, and the commands that it shows.
fn examples(page: &str) -> (Vec<Value>, Vec<&str>) {
    let blocks = page.split("\n```").skip(1).step_by(2);
    let yaml = blocks.clone().filter_map(|block| block.strip_prefix("yaml\n")).flat_map(documents_in).collect();
    (yaml, blocks.filter(|block| block.starts_with('\n')).flat_map(str::lines).collect())
}

/// The objects of the page are applied, and a pod of its gateway runs.
struct Example {
    operated: Operated<'static>,
    names: Names,
    finance: Tenant<'static>,
    support: Tenant<'static>,
    page: String,
}

impl Example {
    async fn start() -> Self {
        let cluster = Cluster::shared().await;
        let [finance, support] = [cluster.namespace().await, cluster.namespace().await];
        let operated = Operated::with(cluster, &[&finance, &support], &[]).await;
        let platform = operated.namespace.clone();
        let namespaces = [("platform", platform), ("finance", finance.clone()), ("support", support.clone())];
        let names = Names { namespaces, url: upstream::start().await };
        let page = std::fs::read_to_string(checkout().join("docs/tenancy.md")).unwrap();
        let team = async |namespace| Tenant { cluster, client: cluster.admin().await, namespace };
        Self { operated, names, finance: team(finance).await, support: team(support).await, page }
    }

    async fn apply(&self) {
        let (mut objects, _) = examples(&self.page);
        for object in &mut objects {
            self.names.put(object);
            if object["kind"] == "MCPUpstream" {
                // The test's server speaks no other.
                object["spec"]["protocol"] = json!({"era": "Legacy"});
            }
        }
        let texts: Vec<_> = objects.iter().map(Value::to_string).collect();
        let apply = ["apply", "--validate=strict", "-f", "-"];
        let applied = self.operated.cluster.kubectl(&apply, &texts.join("\n")).await.unwrap();
        assert!(applied.lines().count() >= 11, "too few objects to be all of the page: {applied}");
    }

    /// The command of the page is that of the status, and grants the Secret.
    async fn grant(&self) {
        let (finance, is) = (&self.finance, "False SecretNotGranted");
        let told = finance.until_condition("mcpupstreams", "finance-ledger", "ResolvedRefs", is).await;
        let (_, commands) = examples(&self.page);
        let command = commands.iter().find_map(|line| line.strip_suffix(" | kubectl apply -f -")).unwrap();
        assert_eq!(self.names.of(command), told);
        let words: Vec<_> = told.split_whitespace().skip(1).collect();
        let roles = finance.cluster.hawsepipe(None, &words).await.unwrap();
        finance.cluster.kubectl(&["apply", "-f", "-"], &roles).await.unwrap();
    }

    /// Has the team support apply a chain of answers with one part more.
    async fn add_chain(&self, name: &str, part: &str, value: Value, config: Option<Value>) {
        let platform = &self.operated.namespace;
        let mut entry = json!({"name": "label", "namespace": platform});
        if let Some(config) = config {
            entry["config"] = config;
        }
        let gateways = json!([{"name": "shared", "namespace": platform}]);
        let mut spec = json!({"phase": "Response", "gateways": gateways, "entries": [entry]});
        spec[part] = value;
        self.support.apply(&[object("PluginChain", name, &spec)]).await;
    }
}

async fn until_refused(served: &Served<'_>, tool: &str, word: &str) {
    until(&format!("{tool} is refused, {word}"), async || {
        served.gateway.call(tool).await.err()?.contains(word).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_example_of_the_documentation_works_as_it_says() {
    let example = Example::start().await;
    example.apply().await;
    let served = example.operated.serve("shared", &[]).await;
    example.grant().await;
    let (ledger, tickets) = ("finance-ledger__whoami", "support-tickets__whoami");
    served.gateway.until_answers(ledger, KEY).await;
    served.gateway.until_answers(tickets, &format!("{PREFIX} nobody")).await;
    for tool in [ledger, tickets] {
        let denied = served.gateway.call_with(&[tool, r#"{"note": "my Password"}"#]).await.unwrap_err();
        assert!(denied.contains("[BLOCKED]"), "{tool}: {denied}");
    }

    // What a team cannot do: reach the other's calls, or set the config of what it was lent.
    example.add_chain("theirs", "upstreams", json!({"names": ["finance-*"]}), None).await;
    example.support.until_condition("pluginchains", "theirs", "Programmed", "False NoUpstreams").await;
    assert_eq!(served.gateway.call(ledger).await.unwrap(), KEY);
    example.add_chain("configured", "order", json!(1), Some(json!({"prefix": "[public]"}))).await;
    example.support.until_condition("pluginchains", "configured", "ResolvedRefs", "False RefNotPermitted").await;
    until_refused(&served, tickets, "RefNotPermitted").await;
    assert_eq!(served.gateway.call(ledger).await.unwrap(), KEY, "its own calls are refused, and no others");

    example.operated.delete("pluginchain/no-credentials-out").await;
    until_refused(&served, ledger, "no-credentials-out").await;
}
