//! Bindings of sections: the operator compiles them, pods narrow what sections see, and their status says what is wrong.

use serde_json::{Value, json};

use self::runbook::{BINDINGS, SERVERS, places};
use super::harness::{Operated, object};
use super::pods::Served;
use crate::gateway::client::Caller;
use crate::gateway::upstream;
use crate::harness::until;

#[path = "../../sections/runbook.rs"]
mod runbook;

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

    are_in_the_status(&operated, &served).await;
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

/// The status of a pod lists the bindings, also a conflict.
async fn are_in_the_status(operated: &Operated<'_>, served: &Served<'_>) {
    let status =
        operated.cluster.hawsepipe(None, &["status", "--admin", &served.gateway.admin.to_string()]).await.unwrap();
    let row = |name: &str| {
        let name = format!("{}/{name}", operated.namespace);
        let rows = status.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row.first() == Some(&&*name)).map(|row| row[1].to_owned()).collect::<Vec<_>>()
    };
    for (name, state) in
        [("deploy", "Ready"), ("lines", "Ready"), ("gone", "UpstreamNotFound"), ("later", "Conflicted")]
    {
        assert_eq!(row(name), [state], "{name}: {status}");
    }
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

/// What the admin API answers about a place.
async fn admin(served: &Served<'_>, resource: &str, section: &Value) -> Value {
    let encoded: String = section.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
    serde_json::from_str(&served.gateway.get(&format!("/api/v1/{resource}?section={encoded}")).await.text).unwrap()
}

/// The servers whose tools a client at this place lists.
async fn listed(served: &Served<'_>, section: &Value) -> Vec<&'static str> {
    let answer = Caller::new(&served.gateway, "").await.in_section(section.clone()).list().await.unwrap();
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let is_listed = |server: &&str| tools.iter().any(|tool| tool["name"] == format!("{server}__whoami"));
    SERVERS.into_iter().filter(is_listed).collect()
}

#[tokio::test]
async fn for_every_line_of_a_document_list_call_and_explain_of_a_pod_agree() {
    let operated = Operated::start().await;
    let url = upstream::start().await;
    let up = json!({"external": {"url": url}, "protocol": {"era": "Legacy"}});
    let upstreams = SERVERS.map(|name| object("MCPUpstream", name, &up));
    let bindings = BINDINGS.map(|(name, glob, part, upstream)| {
        let spec = format!("{{document: {{glob: {glob:?}}}, {part}, upstream: {{name: {upstream}}}}}");
        object("SectionBinding", name, &serde_saphyr::from_str(&spec).unwrap())
    });
    operated
        .apply(
            &[vec![object("MCPGateway", "main", &json!({"authentication": {"anonymous": {}}}))], upstreams.into()]
                .concat(),
        )
        .await;
    operated.apply(&bindings).await;
    let served = operated.serve("main", &[]).await;
    let all_bound = async || {
        let status: Value = serde_json::from_str(&served.gateway.get("/api/v1/status").await.text).unwrap();
        let states = status["sections"].as_array().unwrap().iter().filter(|binding| binding["state"] == "Ready");
        (states.count() == BINDINGS.len() && status["tools"] == SERVERS.len()).then_some(())
    };
    until("every binding and every tool is there", all_bound).await;
    for (section, expected) in &places() {
        assert_eq!(listed(&served, section).await, *expected, "{section}");
        let explained = admin(&served, "explain", section).await;
        assert_eq!(explained["upstreams"], json!(expected), "{section}: {explained}");
        let context = admin(&served, "tools", section).await;
        let ids: Vec<_> = expected.iter().map(|name| format!("{}/{name}", operated.namespace)).collect();
        assert_eq!(context["enabledServers"], json!(ids), "{section}");
        for server in SERVERS {
            let answer = call(&served, server, section.clone()).await;
            assert_eq!(answer.is_ok(), expected.contains(&server), "{section}: {answer:?}");
        }
    }
}
