//! Canary values in every Secret of a scenario that gives away what it can: nothing that people look at holds one.

mod places;
mod plugins;
mod server;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, WatchParams};
use kube::{Api, Error};
use serde_json::{Value, json};

use self::places::Canaries;
use super::harness::{ACCOUNT, Operated, gateway, object};
use super::pods::Served;
use crate::gateway::client::Caller;
use crate::gateway::process::Folder;
use crate::harness::{Cluster, until};

/// A gateway with Secrets of its namespace and of another one.
struct Scenario {
    operated: Operated<'static>,
    /// The other namespace.
    owner: String,
    canaries: Canaries,
    /// What the kubelet would mount.
    mounted: Folder,
    state: Folder,
    url: String,
}

/// An upstream that is sent `key` of a Secret.
fn upstream(name: &str, url: &str, secret: &str, key: &str) -> Value {
    let headers = json!([{"name": "X-Key", "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}]);
    object("MCPUpstream", name, &json!({"external": {"url": url, "headers": headers}, "protocol": {"era": "Legacy"}}))
}

impl Scenario {
    async fn start() -> Self {
        let cluster = Cluster::shared().await;
        let owner = cluster.namespace().await;
        let operated = Operated::with(cluster, &[&owner], &[("HAWSEPIPE_LOG", "debug")]).await;
        let names =
            ["header", "word", "key", "granted", "unnamed", "literal", "no-header", "no-text", "header2", "word2"];
        let (canaries, mounted, state) = (Canaries::new(&names), Folder::new(), Folder::new());
        let this = Self { operated, owner, canaries, mounted, state, url: server::start().await };
        this.store_secrets().await;
        this.operated.apply(&this.objects()).await;
        let mut ledger = upstream("ledger", &format!("{}/up", this.url), "ledger", "key");
        ledger["spec"]["shareWith"] = json!({"namespaces": {"from": "Names", "names": [this.operated.namespace]}});
        cluster.kubectl(&["apply", "-n", &this.owner, "-f", "-"], &ledger.to_string()).await.unwrap();
        this
    }

    /// Secrets as the API server has them, and as files, where they are mounted.
    async fn store_secrets(&self) {
        let canary = |name: &str| self.canaries.get(name);
        // A file of several lines, as keys are.
        let key = format!("-----BEGIN KEY-----\n{}\n-----END KEY-----\n", canary("key"));
        let own = [
            ("up", "key", canary("header").to_owned()),
            ("say", "word", canary("word").to_owned()),
            ("say", "key", key),
            ("unnamed", "key", canary("unnamed").to_owned()),
            ("bad", "header", format!("{}\nX-Other: 1", canary("no-header"))),
        ];
        let mut secrets: Vec<_> = ["up", "say", "unnamed", "bad"]
            .map(|name| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {}}))
            .into();
        for (secret, key, value) in own {
            self.mounted.write(&format!("{secret}/{key}"), &value);
            let object = secrets.iter_mut().find(|object| object["metadata"]["name"] == secret).unwrap();
            object["stringData"][key] = json!(value);
        }
        std::fs::write(self.mounted.path().join("bad/text"), [canary("no-text").as_bytes(), &[0xff]].concat()).unwrap();
        self.operated.apply(&secrets).await;
        let theirs = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ledger"},
            "stringData": {"key": canary("granted")}});
        self.operated.cluster.kubectl(&["apply", "-n", &self.owner, "-f", "-"], &theirs.to_string()).await.unwrap();
    }

    fn objects(&self) -> Vec<Value> {
        let at = |way: &str| format!("{}/{way}", self.url);
        let mut gateway = gateway("main");
        gateway["spec"]["upstreams"] = json!({"namespaces": {"from": "All"}});
        let mut objects = vec![gateway, upstream("up", &at("up"), "up", "key")];
        for way in ["locks", "breaks", "tears", "errs"] {
            objects.push(upstream(way, &at(way), "up", "key"));
        }
        objects.push(upstream("no-header", &at("up"), "bad", "header"));
        objects.push(upstream("no-text", &at("up"), "bad", "text"));
        let mut literal = upstream("literal", &at("up"), "up", "key");
        literal["spec"]["external"]["headers"] = json!([{"name": "X-Key", "value": self.canaries.get("literal")}]);
        objects.push(literal);
        objects.extend(plugins::objects());
        objects
    }

    async fn serve(&self) -> Served<'static> {
        let [state, secrets] = [&self.state, &self.mounted].map(|folder| folder.path().to_str().unwrap());
        self.operated.serve("main", &["--state-dir", state, "--secrets-dir", secrets]).await
    }

    /// Calls every tool and every plugin in every way. Each call is answered, in whatever way.
    async fn provoke(&self, served: &Served<'_>) {
        let call = async |tool: &str, act: &str| {
            let caller = Caller::new(&served.gateway, tool).await.with(json!({"act": act}));
            caller.exchange().await.unwrap_or_else(|error| panic!("{tool} {act}: {error}"))
        };
        for tool in server::TOOLS {
            call(&format!("up__{tool}"), "").await;
        }
        for (tool, acts) in [("act", &plugins::MODULE_ACTS[..]), ("once", &plugins::ONCE_ACTS[..])] {
            for act in acts {
                call(&format!("up__{tool}"), act).await;
            }
        }
        for tool in ["up__never", "up__exits", "ledger__fails", "literal__fails", "no-header__whoami", "locks__whoami"]
        {
            call(tool, "").await;
        }
    }

    /// Waits until the tool `whoami` of an upstream answers with a canary: the server was sent it.
    async fn until_sent(&self, served: &Served<'_>, upstream: &str, canary: &str) {
        let caller = Caller::new(&served.gateway, &format!("{upstream}__whoami")).await;
        let answer = until(&format!("{upstream} is sent {canary}"), async || {
            caller.call().await.ok().filter(|answer| answer == self.canaries.get(canary))
        })
        .await;
        assert_eq!(self.canaries.found_in(&answer), [canary], "it is found where it has to be");
    }

    /// Applies what `hawsepipe grant` prints.
    async fn grant(&self) {
        let (to, upstream) = (format!("{}/main", self.operated.namespace), format!("{}/ledger", self.owner));
        let printed = self.operated.cluster.hawsepipe(None, &["grant", "--to", &to, &upstream]).await.unwrap();
        self.operated.cluster.kubectl(&["apply", "-n", &self.owner, "-f", "-"], &printed).await.unwrap();
    }

    /// Every place with the canaries that stand there.
    async fn leaks(&self, served: &Served<'_>) -> Vec<(String, Vec<&'static str>)> {
        let Self { operated, owner, state, .. } = self;
        let printed = ["snapshot", "main", "-n", &operated.namespace, "--code"];
        let printed = operated.cluster.hawsepipe(None, &printed).await.unwrap();
        let mut found = vec![("what hawsepipe snapshot prints".to_owned(), printed)];
        found.extend(places::of_cluster(operated, &operated.namespace).await);
        found.extend(places::of_cluster(operated, owner).await);
        found.extend(places::of_processes(&operated.operator, &served.gateway).await);
        // A literal is part of the plan, since only Secrets are kept out of it.
        let plans = places::of_snapshot(operated).await.into_iter().chain(places::of_disk(state.path()));
        let (mut leaks, mut literals) = (Vec::new(), 0);
        for (place, text) in plans {
            let mut canaries = self.canaries.found_in(&text);
            let before = canaries.len();
            canaries.retain(|canary| *canary != "literal");
            literals += before - canaries.len();
            leaks.push((place, canaries));
        }
        assert!(literals >= 2, "a literal is found in the snapshot and on disk, or the search does not look there");
        leaks.extend(found.into_iter().map(|(place, text)| (place, self.canaries.found_in(&text))));
        leaks.retain(|(_, canaries)| !canaries.is_empty());
        leaks
    }
}

/// Whether everything that the scenario is to provoke was told, without the values.
async fn all_is_told(operated: &Operated<'_>, served: &Served<'_>) {
    for upstream in ["no-text", "no-header"] {
        operated.until_condition("mcpupstreams", upstream, "ResolvedRefs", "False InvalidSecret").await;
    }
    for plugin in ["never", "exits"] {
        operated.until_condition("plugins", plugin, "CrashLooping", "True StartFailed").await;
    }
    until("what the plugin says as it fails is told", async || {
        let status = operated.object("plugins", "never").await["status"].to_string();
        status.contains("Error: not with [secret]").then_some(())
    })
    .await;
    for upstream in ["locks", "breaks", "tears", "errs"] {
        until(&format!("{upstream} cannot be reached"), async || {
            (operated.object("mcpupstreams", upstream).await["status"]["connectionState"] == "Error").then_some(())
        })
        .await;
    }
    let up = operated.object("mcpupstreams", "up").await;
    assert_eq!(up["status"]["server"], json!({"name": "for [secret]", "version": "[secret]"}));
    let started = async || operated.events().await.iter().any(|reason| reason == "StartFailed").then_some(());
    until("an Event tells it", started).await;
    let executions = served.gateway.get("/api/v1/executions?limit=1000").await.text;
    for reason in ["PluginError", "InvalidOutput", "Crashed", "ExitCode", "Denied"] {
        assert!(executions.contains(reason), "no execution ended with {reason}: {executions}");
    }
    let calls = served.gateway.get("/api/v1/calls?limit=1000").await.text;
    for (what, text) in [("executions", executions), ("calls", calls), ("the log", served.gateway.log())] {
        assert!(text.contains("[secret]"), "nothing was hidden in {what}: {text}");
    }
    for log in [served.gateway.log(), operated.operator.log()] {
        assert!(log.contains("\"DEBUG\""), "{log}");
    }
}

#[tokio::test]
async fn no_secret_is_seen_anywhere() {
    let scenario = Scenario::start().await;
    let (operated, canaries) = (&scenario.operated, &scenario.canaries);
    let served = scenario.serve().await;
    scenario.until_sent(&served, "up", "header").await;
    scenario.until_sent(&served, "literal", "literal").await;
    scenario.provoke(&served).await;
    scenario.grant().await;
    scenario.until_sent(&served, "ledger", "granted").await;
    scenario.provoke(&served).await;
    scenario.mounted.write("say/word", canaries.get("word2"));
    scenario.mounted.write("up/key", canaries.get("header2"));
    scenario.until_sent(&served, "up", "header2").await;
    scenario.provoke(&served).await;
    all_is_told(operated, &served).await;

    let stored = operated.get(&["secrets", "-o", "json"]).await;
    for canary in ["header", "word", "unnamed", "no-header"] {
        assert!(canaries.found_in(&stored).contains(&canary), "{canary} is in a Secret, and is not found there");
    }
    let leaks = scenario.leaks(&served).await;
    assert!(leaks.is_empty(), "{leaks:#?}");
}

#[tokio::test]
async fn the_operators_token_reads_no_secret() {
    let operated = Operated::start().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own"}});
    operated.apply(&[secret]).await;
    let client = operated.cluster.client_of(&operated.namespace, ACCOUNT).await;
    let is_forbidden = |error: Error| matches!(error, Error::Api(status) if status.code == 403);
    let own: Api<Secret> = Api::namespaced(client.clone(), &operated.namespace);
    assert!(own.get("own").await.is_err_and(is_forbidden), "get");
    for secrets in [own, Api::namespaced(client.clone(), "kube-system"), Api::all(client)] {
        assert!(secrets.list(&ListParams::default()).await.is_err_and(is_forbidden), "list {secrets:?}");
        let watch = secrets.watch(&WatchParams::default().timeout(1), "0").await;
        assert!(watch.is_err_and(is_forbidden), "watch {secrets:?}");
    }
}
