//! The official conformance suite, run against a server directly and through a gateway: what passes directly passes
//! through the gateway too, but for what `tests/conformance/baseline` names.

mod baseline;
mod checks;
mod clients;
mod compared;
mod program;
mod suite;

use std::path::Path;
use std::process::Command;

use crate::fixtures::checkout;
use crate::gateway::harness::{Folder, Gateway, HEAVY};
use crate::gateway::http::Http;
use crate::gateway::parts::{ECHO_MODULE, announced, object, plugin, tools_of};
use crate::gateway::replicas::KEY;
use crate::upstream::Running;
use compared::{Direct, calls};
pub use program::fixture_program;

/// The fewest calls that each of several processes has had at the end: of legacy clients there are some 20 in all.
const LEAST_CALLS: u64 = 5;
/// The name that the server has at the gateway.
const UPSTREAM: &str = "fixture";

/// The server of `tests/conformance/rmcp`, and its URL.
pub fn fixture_server() -> (Running, String) {
    let mut command = Command::new(fixture_program());
    command.arg("server");
    announced(command)
}

/// A command of the suite's, beside the gateways.
fn command(program: &Path) -> tokio::process::Command {
    tokio::process::Command::new(program)
}

/// Two plugins that change nothing, on both phases of every method. The first has this role.
fn pass_through(role: &str) -> String {
    let mut manifests = String::new();
    for (name, role) in [("passes-first", role), ("passes-second", "Transform")] {
        manifests += &plugin(name, ECHO_MODULE, &format!("protocol: Module, role: {role}"));
    }
    let entries = "entries: [{name: passes-first}, {name: passes-second}]";
    for phase in ["Request", "Response"] {
        let lists =
            "notifications: Pass, methods: [tools/list, prompts/list, resources/list, resources/templates/list, ";
        let lists = if phase == "Response" { lists } else { "methods: [" };
        let methods = "tools/call, prompts/get, resources/read, sampling/createMessage, elicitation/create]";
        let spec = format!("phase: {phase}, upstreams: {{names: [{UPSTREAM}]}}, {lists}{methods}, {entries}");
        manifests += &object("PluginChain", &format!("passes-{}", phase.to_lowercase()), &spec);
    }
    manifests
}

/// A gateway on this server, or several that share a key.
async fn gateways(count: usize, url: &str, era: &str, more: &str) -> (Vec<Gateway>, [Folder; 2]) {
    let upstream = object("MCPUpstream", UPSTREAM, &format!("external: {{url: {url:?}}}, protocol: {{era: {era}}}"));
    let (folder, keys) = (Folder::with(&format!("{upstream}{more}")), Folder::new());
    keys.write("key", KEY);
    let key = keys.path().join("key");
    let mut gateways = Vec::new();
    for _ in 0..count {
        let gateway = Gateway::start_with(&folder, &["--seal-key-file", key.to_str().unwrap()]);
        tools_of(&gateway, &[UPSTREAM]).await;
        gateways.push(gateway);
    }
    (gateways, [folder, keys])
}

/// What stands before the server.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Gateway,
    /// A gateway with plugins that change nothing, on every method.
    Plugins,
    /// The same, one of them a Guard.
    Guards,
    /// Two processes of one gateway. Each request goes to the other one than the request before it.
    TwoProcesses,
}

/// Runs the suite of a revision at the server, and through gateways that speak with the server in these eras; compares.
async fn compared(revision: &str, eras: &[&str], before: Before) {
    let _alone = HEAVY.lock().await;
    let (_server, url) = tokio::task::spawn_blocking(fixture_server).await.unwrap();
    let direct = Direct::of(revision, &url).await;
    for era in eras {
        let more = match before {
            Before::Plugins => pass_through("Transform"),
            Before::Guards => pass_through("Guard"),
            Before::Gateway | Before::TwoProcesses => String::new(),
        };
        let (gateways, _folders) = gateways(if before == Before::TwoProcesses { 2 } else { 1 }, &url, era, &more).await;
        let (_spread, url) = match before {
            Before::TwoProcesses => {
                let (spread, url) = spread(&gateways);
                (Some(spread), url)
            }
            // The suite takes no address for one of this machine.
            _ => (None, format!("http://localhost:{}", gateways[0].address().port())),
        };
        let what = match before {
            Before::Plugins => "with-plugins",
            Before::Guards => "with-guards",
            Before::Gateway | Before::TwoProcesses => "",
        };
        direct.held_against(era, what, &format!("{url}/{UPSTREAM}/mcp")).await;
        for gateway in &gateways {
            let metrics = Http::new().get(&format!("http://{}/metrics", gateway.admin())).await.body;
            assert!(calls(&metrics) >= LEAST_CALLS, "another process had nearly all calls: {metrics}");
        }
    }
}

/// A load balancer before these gateways, and its URL.
fn spread(gateways: &[Gateway]) -> (Running, String) {
    let mut command = Command::new("node");
    command.arg(checkout().join("tests/conformance/spread.mjs"));
    command.args(gateways.iter().map(|gateway| format!("http://{}", gateway.address())));
    announced(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_for_legacy_clients_passes_through_the_gateway() {
    compared("2025-11-25", &["Modern"], Before::Gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_for_modern_clients_passes_through_the_gateway() {
    compared("2026-07-28", &["Modern"], Before::Gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make conformance"]
async fn the_same_with_a_legacy_server() {
    compared("2025-11-25", &["Legacy"], Before::Gateway).await;
    compared("2026-07-28", &["Legacy"], Before::Gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make conformance"]
async fn the_same_with_two_processes_and_with_plugins() {
    let eras = ["Legacy", "Modern"];
    for before in [Before::TwoProcesses, Before::Plugins, Before::Guards] {
        compared("2025-11-25", &eras, before).await;
        compared("2026-07-28", &eras, before).await;
    }
}
