//! Bindings of sections: the operator compiles them, pods narrow what sections see, and their status says what is wrong.

use serde_json::{Value, json};

use super::harness::{Operated, object};
use super::pods::Served;
use crate::gateway::client::Caller;
use crate::gateway::upstream;
use crate::harness::until;

fn binding(name: &str, part: (&str, Value), upstream: &Value) -> Value {
    let mut spec = json!({"document": {"glob": "runbooks/*.md"}, "upstream": upstream});
    spec[part.0] = part.1;
    object("SectionBinding", name, &spec)
}

#[tokio::test]
async fn bindings_narrow_what_sections_see_and_say_what_is_wrong() {
    let (operated, lender) = Operated::with_tenant().await;
    let url = upstream::start().await;
    let both = json!({"namespaces": {"from": "Names", "names": [operated.namespace, lender.namespace]}});
    let gateway = json!({"authentication": {"anonymous": {}}, "upstreams": both});
    let up = json!({"external": {"url": url}, "protocol": {"era": "Legacy"}});
    let lent = |with: &str| {
        let mut spec = up.clone();
        spec["shareWith"] = json!({"namespaces": {"from": "Names", "names": [with]}});
        object("MCPUpstream", "ledger", &spec)
    };
    lender.apply(&[lent(&operated.namespace)]).await;
    let (own, foreign) = (json!({"name": "own"}), json!({"name": "ledger", "namespace": lender.namespace}));
    let heading = || ("heading", json!({"text": "Deploy", "level": 2}));
    operated
        .apply(&[
            object("MCPGateway", "main", &gateway),
            object("MCPUpstream", "own", &up),
            binding("deploy", heading(), &own),
            binding("lines", ("range", json!({"startLine": 10, "endLine": 40})), &foreign),
            binding("gone", ("block", json!({"id": "gone"})), &json!({"name": "nobody"})),
            binding("later", heading(), &foreign),
        ])
        .await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("ledger__whoami", "nobody").await;
    let glob = "runbooks/*.md";
    operated.until_row("secbind", "deploy", &[glob, "##", "Deploy", "own", "1/1", "True", "Ready"]).await;
    operated.until_row("secbind", "lines", &[glob, "10-40", "ledger", "1/1", "True", "Ready"]).await;
    operated.until_row("secbind", "gone", &[glob, "^gone", "nobody", "1/1", "False", "UpstreamNotFound"]).await;
    operated.until_row("secbind", "later", &[glob, "##", "Deploy", "ledger", "1/1", "False", "Conflicted"]).await;
    let conflict = operated.until_condition("sectionbindings", "later", "Accepted", "False Conflicted").await;
    assert!(conflict.contains(&format!("SectionBinding {}/deploy", operated.namespace)), "{conflict}");
    operated.until_event("SectionBinding", "gone", "Warning UpstreamNotFound").await;

    calls(&served).await;
    lender.apply(&[lent("somebody-else")]).await;
    operated.until_row("secbind", "lines", &[glob, "10-40", "ledger", "1/1", "False", "RefNotPermitted"]).await;
    let line = || json!({"document": "runbooks/a.md", "line": 17});
    let gone = || json!({"document": "runbooks/a.md", "block": "gone"});
    until("the range is closed", async || {
        call(&served, "own", line()).await.err().filter(|refusal| refusal.contains("RefNotPermitted"))
    })
    .await;
    let selector = json!({"matchLabels": {"a": "b"}});
    let elsewhere = json!({"authentication": {"anonymous": {}}, "upstreams": both, "sections": {"selector": selector}});
    operated.apply(&[object("MCPGateway", "main", &elsewhere)]).await;
    operated.until_row("secbind", "deploy", &[glob, "##", "Deploy", "own", "0/0", "False", "NotTaken"]).await;
    until("the gateway does not take it", async || call(&served, "own", gone()).await.ok()).await;
}

/// Calls the tool of an upstream from a section.
async fn call(served: &Served<'_>, upstream: &str, section: Value) -> Result<String, String> {
    Caller::new(&served.gateway, &format!("{upstream}__whoami")).await.in_section(section).call().await
}

/// Calls from each of the sections, and from outside of them.
async fn calls(served: &Served<'_>) {
    let call = async |upstream: &str, section: Value| call(served, upstream, section).await;
    let deploy = || json!({"document": "runbooks/a.md", "headings": [{"text": "Deploy", "level": 2}]});
    let line = || json!({"document": "runbooks/a.md", "line": 17});
    let gone = || json!({"document": "runbooks/a.md", "block": "gone"});
    let refused = |answer: Result<String, String>, reason: &str| answer.unwrap_err().contains(reason);
    assert_eq!(call("own", deploy()).await.as_deref(), Ok("nobody"));
    assert!(refused(call("ledger", deploy()).await, "OutsideSection"));
    assert_eq!(call("ledger", line()).await.as_deref(), Ok("nobody"));
    assert!(refused(call("own", line()).await, "OutsideSection"));
    for upstream in ["own", "ledger"] {
        assert!(refused(call(upstream, gone()).await, "UpstreamNotFound"), "{upstream}");
        assert_eq!(call(upstream, json!({"document": "a.md", "line": 17})).await.as_deref(), Ok("nobody"));
    }
}
