//! The control plane is gone for a while: gateways serve on, restart from the plan on disk, and catch up afterwards.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::harness::{Operated, condition, gateway, object};
use super::pods::Served;
use crate::gateway::client::{Caller, Load};
use crate::gateway::process::Folder;
use crate::gateway::upstream;
use crate::harness::{API_SERVER, Cluster, until};

/// How long the API server is gone.
const GONE: Duration = Duration::from_secs(15);
/// The same in a long run: longer than every pause of the operator.
const LONG: Duration = Duration::from_secs(60);
/// How soon after that an edit has to be in force everywhere, and shown in every status.
const CONVERGED: Duration = Duration::from_secs(30);
/// 20 calls a second, of each gateway.
const PERIOD: Duration = Duration::from_millis(50);

/// A plugin that puts before an answer a word of its code and one of a Secret.
fn says(word: &str) -> Value {
    let code = format!(
        "const {{ WORD }} = process.env;\n\
         export default ({{ rawContent }}) => ({{ text: `{word} ${{WORD}} ${{rawContent}}`, continue: true }});"
    );
    let env = json!([{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "say", "key": "word"}}}]);
    object("Plugin", "say", &json!({"source": {"inline": code}, "role": "Guard", "env": env}))
}

/// A pod of a gateway, with what is mounted into it.
struct Pod<'c> {
    served: Served<'c>,
    state: Folder,
    secrets: Folder,
}

impl<'c> Pod<'c> {
    async fn start(operated: &Operated<'c>) -> Self {
        let (state, secrets) = (Folder::new(), Folder::new());
        secrets.write("up/key", "pearl");
        secrets.write("say/word", "opal");
        let served = operated.serve("main", &arguments(&state, &secrets)).await;
        Self { served, state, secrets }
    }

    /// Kills its process and starts it anew.
    async fn restart(&mut self) {
        self.served.restart(&arguments(&self.state, &self.secrets)).await;
    }

    async fn load(&self) -> Load {
        Load::start(Caller::new(&self.served.gateway, "up__whoami").await, PERIOD)
    }

    /// Waits until it serves a form of the plugin, with the values of both Secrets.
    async fn until_says(&self, word: &str) {
        self.served.gateway.until_answers("up__whoami", &format!("{word} opal pearl")).await;
    }
}

fn arguments<'a>(state: &'a Folder, secrets: &'a Folder) -> [&'a str; 4] {
    ["--state-dir", state.path().to_str().unwrap(), "--secrets-dir", secrets.path().to_str().unwrap()]
}

/// Ends a load: every call of it went well, and there were as many as there should be.
async fn all_went_well(load: Load, at_least: Duration) {
    let calls = load.stop().await;
    let failed: Vec<_> = calls.iter().filter_map(|call| call.text.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} of {} calls failed, such as {:?}", failed.len(), calls.len(), failed[0]);
    let wanted = at_least.as_millis() / PERIOD.as_millis();
    assert!(calls.len() as u128 >= wanted, "{} calls, not {wanted}", calls.len());
    println!("{} calls, none failed", calls.len());
}

impl Operated<'_> {
    /// Applies a form of the plugin, and waits until both pods serve it and every status says so.
    async fn converges(&self, pods: [&Pod<'_>; 2], word: &str) {
        let began = Instant::now();
        let converged = async {
            self.apply(&[says(word)]).await;
            pods[0].until_says(word).await;
            pods[1].until_says(word).await;
            let is_told = async |plural: &str, name: &str, live: &str| {
                let object = self.object(plural, name).await;
                let status = &object["status"];
                let current = status["observedGeneration"] == object["metadata"]["generation"];
                let ready = condition(status, "Ready").is_some_and(|(ready, _)| ready == "True Ready");
                (current && ready && status["live"] == live).then_some(())
            };
            until("the plugin's status says so", async || is_told("plugins", "say", "1/1").await).await;
            until("the gateway's status says so", async || is_told("mcpgateways", "main", "2/2").await).await;
        };
        if tokio::time::timeout(CONVERGED, converged).await.is_err() {
            let told = [self.object("plugins", "say").await, self.object("mcpgateways", "main").await];
            panic!("not converged within {CONVERGED:?}: {:#}\n{:#}", told[0]["status"], told[1]["status"]);
        }
        println!("converged {:?} after the API server was back", began.elapsed());
    }
}

/// How the API server goes, and comes back.
#[derive(Clone, Copy)]
enum Outage {
    /// It is killed, and started again.
    Killed,
    /// It does not answer, and then it does.
    Hanging,
}

impl Outage {
    fn begin(self, cluster: &Cluster) {
        match self {
            Self::Killed => cluster.plane().kill(API_SERVER),
            Self::Hanging => cluster.plane().signal(API_SERVER, "STOP"),
        }
    }

    async fn end(self, cluster: &Cluster) {
        match self {
            Self::Killed => cluster.plane().start_api_server_again().await,
            Self::Hanging => cluster.plane().signal(API_SERVER, "CONT"),
        }
    }
}

/// A gateway with a plugin and an upstream that are each given a Secret's value.
async fn apply_objects(operated: &Operated<'_>) {
    let headers = json!([{"name": "X-Key", "valueFrom": {"secretKeyRef": {"name": "up", "key": "key"}}}]);
    let external = json!({"url": upstream::start().await, "headers": headers});
    let objects = [
        gateway("main"),
        object("MCPUpstream", "up", &json!({"external": external, "protocol": {"era": "Legacy"}})),
        says("start"),
        object("PluginChain", "answers", &json!({"phase": "Response", "entries": [{"name": "say"}]})),
    ];
    operated.apply(&objects).await;
}

/// The control plane of a cluster is gone for this time, while calls are made.
async fn without(outage: Outage, time: Duration) {
    let cluster = Cluster::own().await;
    let operated = Operated::on(&cluster).await;
    apply_objects(&operated).await;
    let steady = Pod::start(&operated).await;
    let mut restarted = Pod::start(&operated).await;
    operated.converges([&steady, &restarted], "one").await;
    let load = steady.load().await;

    let revision = steady.served.gateway.report().await.revision;
    let began = tokio::time::Instant::now();
    outage.begin(&cluster);
    restarted.restart().await;
    restarted.until_says("one").await;
    assert_eq!(restarted.served.gateway.report().await.revision, revision);
    let other_load = restarted.load().await;
    let asked = cluster.kubectl(&["get", "--raw", "/version", "--request-timeout=1s"], "").await;
    assert!(asked.is_err(), "the API server answers");
    let restart = began.elapsed();
    tokio::time::sleep_until(began + time).await;
    outage.end(&cluster).await;
    operated.converges([&steady, &restarted], "two").await;
    all_went_well(other_load, time.saturating_sub(restart) / 2).await;
    all_went_well(load, time).await;
}

#[tokio::test]
async fn no_call_fails_without_the_api_server() {
    // Both at once, because most of it is waiting.
    tokio::join!(without(Outage::Killed, GONE), without(Outage::Hanging, GONE));
}

#[tokio::test]
#[ignore = "long: make test-long"]
async fn no_call_fails_in_a_minute_without_the_api_server() {
    tokio::join!(without(Outage::Killed, LONG), without(Outage::Hanging, LONG));
}
