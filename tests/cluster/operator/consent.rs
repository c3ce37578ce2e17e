//! Consent across namespaces: two yeses to use what is another's, one no to end it at once.

use serde_json::{Value, json};

use super::harness::{Operated, Tenant, object};
use super::pods::Served;
use crate::gateway::upstream;
use crate::harness::until;

/// The gateway's namespace and one that shares with it.
struct Shared {
    operated: Operated<'static>,
    lender: Tenant<'static>,
    url: String,
}

impl Shared {
    async fn start() -> Self {
        let (operated, lender) = Operated::with_tenant().await;
        let url = upstream::start().await;
        let this = Self { operated, lender, url };
        let from = json!({"namespaces": {"from": "Names", "names": [this.operated.namespace, this.lender.namespace]}});
        let gateway = json!({"authentication": {"anonymous": {}}, "upstreams": from, "chains": from});
        this.operated.apply(&[object("MCPGateway", "main", &gateway), this.chain()]).await;
        this
    }

    /// Whom the lender shares with.
    fn share(&self, shared: bool) -> Value {
        let names = if shared { vec![self.operated.namespace.clone()] } else { vec!["nobody".to_owned()] };
        json!({"namespaces": {"from": "Names", "names": names}})
    }

    fn upstream(&self, shared: bool, headers: &Value) -> Value {
        let external = json!({"url": self.url, "headers": headers});
        object(
            "MCPUpstream",
            "ledger",
            &json!({"external": external, "protocol": {"era": "Legacy"},
            "shareWith": self.share(shared)}),
        )
    }

    fn plugin(&self, shared: bool) -> Value {
        let code = "export default ({ rawContent }) => ({ text: `lent ${rawContent}`, continue: true });";
        object("Plugin", "lent", &json!({"source": {"inline": code}, "shareWith": self.share(shared)}))
    }

    /// A chain of the gateway's namespace that runs the lender's plugin.
    fn chain(&self) -> Value {
        let entry = json!({"name": "lent", "namespace": self.lender.namespace});
        let gateways = json!([{"name": "main"}]);
        object("PluginChain", "answers", &json!({"phase": "Response", "entries": [entry], "gateways": gateways}))
    }

    async fn serve(&self) -> Served<'_> {
        self.operated.serve("main", &[]).await
    }
}

#[tokio::test]
async fn consent_that_is_withdrawn_counts_at_once() {
    let shared = Shared::start().await;
    let (operated, lender) = (&shared.operated, &shared.lender);
    lender.apply(&[shared.upstream(true, &json!([])), shared.plugin(true)]).await;
    let served = shared.serve().await;
    served.gateway.until_answers("ledger__whoami", "lent nobody").await;
    lender.until_row("mcpup", "ledger", &["external", "Connected", "1", "0", "1/1", "True", "Ready"]).await;
    lender.until_row("plug", "lent", &["middleware", "Transform", "Module", "1", "1/1", "True", "Ready"]).await;
    let lent = format!("{}/lent", lender.namespace);
    operated.until_row("pchain", "answers", &["Response", &lent, "1", "1/1", "True", "Ready"]).await;

    shared.plugin_is_withdrawn(&served, &lent).await;
    shared.upstream_is_withdrawn(&served).await;
}

impl Shared {
    /// What the plugin did is not done without it, whatever its role.
    async fn plugin_is_withdrawn(&self, served: &Served<'_>, lent: &str) {
        let (operated, lender) = (&self.operated, &self.lender);
        lender.apply(&[self.plugin(false)]).await;
        until("the call is refused", async || {
            let answer = served.gateway.call("ledger__whoami").await;
            assert!(answer.as_ref().map_or(true, |text| text == "lent nobody"), "without the plugin: {answer:?}");
            answer.err().filter(|refusal| refusal.contains("RefNotPermitted"))
        })
        .await;
        let message =
            operated.until_condition("pluginchains", "answers", "ResolvedRefs", "False RefNotPermitted").await;
        assert!(message.contains("spec.shareWith"), "{message}");
        for (plural, name, condition, is) in [
            ("pluginchains", "answers", "Refusing", "True GuardUnavailable"),
            ("pluginchains", "answers", "Ready", "False RefNotPermitted"),
            ("mcpgateways", "main", "Refusing", "True GuardUnavailable"),
        ] {
            operated.until_condition(plural, name, condition, is).await;
        }
        operated.until_row("pchain", "answers", &["Response", lent, "1", "1/1", "False", "RefNotPermitted"]).await;
        operated.until_event("PluginChain", "answers", "Warning RefNotPermitted").await;
        operated.until_event("PluginChain", "answers", "Warning GuardUnavailable").await;
        // The fault is the chain's: it does not make the lender's object look bad, and pods get none of its code.
        lender.until_condition("plugins", "lent", "Programmed", "True NotUsed").await;
        lender.until_row("plug", "lent", &["middleware", "Transform", "Module", "1", "0/0", "True", "Ready"]).await;
        assert!(served.gateway.report().await.plugins.is_empty());
        lender.apply(&[self.plugin(true)]).await;
        served.gateway.until_answers("ledger__whoami", "lent nobody").await;
        operated.until_condition("pluginchains", "answers", "Ready", "True Ready").await;
    }

    /// Its tools are gone.
    async fn upstream_is_withdrawn(&self, served: &Served<'_>) {
        let lender = &self.lender;
        lender.apply(&[self.upstream(false, &json!([]))]).await;
        let unknown = until("the tool is gone", async || served.gateway.call("ledger__whoami").await.err()).await;
        assert!(unknown.contains("ledger__whoami"), "{unknown}");
        let message = lender.until_condition("mcpupstreams", "ledger", "Programmed", "False NoGateway").await;
        assert!(message.contains("spec.shareWith"), "{message}");
        lender.until_event("MCPUpstream", "ledger", "Warning NoGateway").await;
        until("the columns show it", async || {
            let row = lender.get(&["mcpup", "ledger", "--no-headers"]).await;
            let words: Vec<_> = row.split_whitespace().collect();
            (words[1] == "external" && words[words.len() - 4..words.len() - 1] == ["0/0", "False", "NoGateway"])
                .then_some(())
        })
        .await;
        lender.apply(&[self.upstream(true, &json!([]))]).await;
        served.gateway.until_answers("ledger__whoami", "lent nobody").await;
    }
}

#[tokio::test]
async fn a_chain_of_another_namespace_needs_both_sides() {
    let shared = Shared::start().await;
    let (operated, lender) = (&shared.operated, &shared.lender);
    lender.apply(&[shared.upstream(true, &json!([])), shared.plugin(true)]).await;
    let served = shared.serve().await;
    served.gateway.until_answers("ledger__whoami", "lent nobody").await;
    let code = "export default ({ rawContent }) => ({ text: `theirs ${rawContent}`, continue: true });";
    let theirs = |gateways: Value| {
        object(
            "PluginChain",
            "theirs",
            &json!({"phase": "Response", "entries": [{"name": "own"}], "gateways": gateways}),
        )
    };
    let named = json!([{"name": "main", "namespace": operated.namespace}]);
    lender.apply(&[object("Plugin", "own", &json!({"source": {"inline": code}})), theirs(named)]).await;
    // The tenant's first, the owner's last.
    served.gateway.until_answers("ledger__whoami", "lent theirs nobody").await;
    lender.until_row("pchain", "theirs", &["Response", "own", "1", "1/1", "True", "Ready"]).await;
    lender.apply(&[theirs(json!([]))]).await;
    served.gateway.until_answers("ledger__whoami", "lent nobody").await;
    let message = lender.until_condition("pluginchains", "theirs", "Programmed", "False NotTaken").await;
    assert!(message.contains("spec.gateways"), "{message}");
    lender.until_event("PluginChain", "theirs", "Warning NotTaken").await;
}

#[tokio::test]
async fn the_message_of_a_secret_that_is_not_granted_is_the_command_that_grants_it() {
    let shared = Shared::start().await;
    let (operated, lender) = (&shared.operated, &shared.lender);
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ledger"}, "stringData": {"key": "pearl"}});
    let headers = json!([{"name": "X-Key", "valueFrom": {"secretKeyRef": {"name": "ledger", "key": "key"}}}]);
    lender.apply(&[secret, shared.upstream(true, &headers), shared.plugin(true)]).await;
    let served = shared.serve().await;

    let not_granted = async || {
        let command = lender.until_condition("mcpupstreams", "ledger", "ResolvedRefs", "False SecretNotGranted").await;
        lender.until_condition("mcpupstreams", "ledger", "Ready", "False SecretNotGranted").await;
        until("calls are refused", async || served.gateway.call("ledger__whoami").await.err()).await;
        command
    };
    let command = not_granted().await;
    let words: Vec<_> = command.split_whitespace().collect();
    let expected = format!("hawsepipe grant {}/ledger --to {}/main", lender.namespace, operated.namespace);
    assert_eq!(words.join(" "), expected);
    lender.until_event("MCPUpstream", "ledger", "Warning SecretNotGranted").await;

    let printed = lender.cluster.hawsepipe(None, &words[1..]).await.unwrap();
    let applied = lender.cluster.kubectl(&["apply", "-f", "-"], &printed).await.unwrap();
    assert!(applied.contains("role.") && applied.contains("rolebinding."), "{applied}");
    served.gateway.until_answers("ledger__whoami", "lent pearl").await;
    lender.until_condition("mcpupstreams", "ledger", "ResolvedRefs", "True ResolvedRefs").await;
    lender.until_condition("mcpupstreams", "ledger", "Ready", "True Ready").await;

    lender.cluster.kubectl(&["delete", "-f", "-"], &printed).await.unwrap();
    assert_eq!(not_granted().await, command);
    // No status, Event or log of either holds the value.
    let told = lender.get(&["mcpup,events", "-o", "json"]).await;
    assert!(![told, served.gateway.log(), operated.operator.log()].iter().any(|text| text.contains("pearl")));
}
