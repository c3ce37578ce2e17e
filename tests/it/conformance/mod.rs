//! The official conformance suite, run against a server directly and through a gateway: what passes directly passes
//! through the gateway too, but for what `tests/conformance/baseline` names.

mod baseline;
mod checks;
mod clients;
mod suite;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::fixtures::checkout;
use crate::gateway::harness::{Folder, Gateway, HEAVY};
use crate::gateway::parts::{ECHO_MODULE, announced, object, plugin, tools_of};
use crate::upstream::Running;
use baseline::Baseline;
use checks::Checks;

/// The name that the server has at the gateway.
const UPSTREAM: &str = "fixture";

/// The server of `tests/conformance/rmcp`, and its URL.
pub fn fixture_server() -> (Running, String) {
    let mut command = Command::new(fixture_program());
    command.arg("server");
    announced(command)
}

/// The programs of `tests/conformance/rmcp`, built beside the gateway's own.
pub fn fixture_program() -> PathBuf {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let target = Path::new(env!("CARGO_BIN_EXE_hawsepipe")).ancestors().nth(2).unwrap().join("conformance");
        let manifest = checkout().join("tests/conformance/rmcp/Cargo.toml");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--quiet", "--manifest-path"])
            .arg(manifest)
            .arg("--target-dir")
            .arg(&target)
            .status();
        assert!(built.unwrap().success(), "the programs on the SDK for Rust cannot be built");
        target.join("debug/hawsepipe-conformance")
    });
    BUILT.clone()
}

/// Two plugins that change nothing, on both phases of every method.
fn pass_through() -> String {
    let mut manifests = String::new();
    for role in ["Guard", "Transform"] {
        manifests += &plugin(
            &format!("passes-{}", role.to_lowercase()),
            ECHO_MODULE,
            &format!("protocol: Module, role: {role}"),
        );
    }
    let entries = "entries: [{name: passes-guard}, {name: passes-transform}]";
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

/// Runs the suite of a revision at the server and through a gateway that speaks with the server in `era`; compares.
async fn compared(revision: &str, era: &str, more: &str) {
    let _alone = HEAVY.lock().await;
    let (_server, url) = tokio::task::spawn_blocking(fixture_server).await.unwrap();
    let direct = Checks::of(revision, &url).await;
    assert!(direct.failing_scored().is_empty(), "the server itself: {:?}", direct.failing_scored());
    let upstream = object("MCPUpstream", UPSTREAM, &format!("external: {{url: {url:?}}}, protocol: {{era: {era}}}"));
    let folder = Folder::with(&format!("{upstream}{more}"));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &[UPSTREAM]).await;
    // The suite takes no address for one of this machine.
    let through = format!("http://localhost:{}/{UPSTREAM}/mcp", gateway.address().port());
    let first = Checks::of(revision, &through).await.lost_since(&direct);
    let (scored, unscored): (Vec<_>, Vec<_>) = first.iter().partition(|check| direct.is_scored(check));
    let title = format!("{revision} at a server of the era {era}");
    eprintln!("{title}: {} checks are lost through the gateway: {scored:?}", scored.len());
    eprintln!("{title}: of those that are not scored, these are lost: {unscored:?}");
    eprintln!("{title}: not scored, and failing at the server itself: {:?}", direct.failing_unscored());
    let baseline = Baseline::read(&format!("{revision}-on-{}", era.to_lowercase()));
    if baseline.fits(&first) {
        return;
    }
    // Time plays a part in some checks: what both runs say counts.
    let second = Checks::of(revision, &through).await.lost_since(&direct);
    baseline.assert(&first, &second);
}

#[tokio::test(flavor = "multi_thread")]
async fn legacy_clients_on_a_legacy_server() {
    compared("2025-11-25", "Legacy", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn legacy_clients_on_a_modern_server() {
    compared("2025-11-25", "Modern", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn modern_clients_on_a_modern_server() {
    compared("2026-07-28", "Modern", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn modern_clients_on_a_legacy_server() {
    compared("2026-07-28", "Legacy", "").await;
}

/// Plugins that change nothing change nothing. `make conformance` asks for this longer run.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_with_plugins_on_every_method() {
    if std::env::var_os("HAWSEPIPE_CONFORMANCE").is_none() {
        return;
    }
    for (revision, era) in
        [("2025-11-25", "Legacy"), ("2025-11-25", "Modern"), ("2026-07-28", "Modern"), ("2026-07-28", "Legacy")]
    {
        compared(revision, era, &pass_through()).await;
    }
}
