//! What gateways leave among the temporary files: nothing when they end, and what a killed one left the next one removes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::json;

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::manifests::{chain, plugin, raw_server, yaml};
use super::parts::{process, tools_of, until};
use crate::fixtures::{fixture, python};

/// The private folders among these temporary files.
fn private(temporary: &Folder) -> BTreeSet<PathBuf> {
    let found = std::fs::read_dir(temporary.path()).unwrap().map(|found| found.unwrap().path());
    found.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("hawsepipe-plugins-")).collect()
}

#[tokio::test]
async fn the_next_start_removes_the_folder_of_a_killed_gateway_and_of_no_other() {
    let shout = "export default ({ rawContent }) => ({ text: rawContent.toUpperCase(), continue: true });";
    let manifests = |code: &str| {
        let answers = chain("answers", "Response", "args", &[json!({"name": "shout"})]);
        yaml(&[raw_server("up", &[]), plugin("shout", code, &json!({})), answers])
    };
    let (folder, temporary) = (Folder::with(&manifests(shout)), Folder::new());
    let started = || Gateway::start_in(&folder, &[], &[("TMPDIR", temporary.path().to_str().unwrap())]);
    let shouts = async |gateway: &Gateway, text: &str| {
        gateway.until_answer("up__args", &json!({"m": "a"}), "/result/content/0/text", &json!(text)).await;
    };
    let living = started();
    let of_living = private(&temporary);
    assert_eq!(of_living.len(), 1, "{of_living:?}");
    let killed = started();
    shouts(&killed, r#"{"M":"A"}"#).await;
    assert_eq!(private(&temporary).len(), 2);
    killed.signal(Signal::KILL);
    assert!(!killed.ended().await);
    assert_eq!(private(&temporary).len(), 2, "it had no time to clear up");

    let next = started();
    let left = private(&temporary);
    assert!(left.len() == 2 && left.is_superset(&of_living), "{left:?}, {of_living:?}");
    next.logged(|line| line["removed"] == 1);
    // The other one goes on, and finds its folder where it was.
    shouts(&living, r#"{"M":"A"}"#).await;
    folder.write("manifests.yaml", &manifests(&shout.replace("()", "() + '!'")));
    shouts(&living, r#"{"M":"A"}!"#).await;
    shouts(&next, r#"{"M":"A"}!"#).await;
    for gateway in [living, next] {
        assert!(gateway.end().1);
    }
    assert_eq!(private(&temporary), BTreeSet::new());
}

/// Whether a process runs: one that nobody has waited for yet is a zombie, and does not.
pub(super) fn runs(pid: &u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

#[tokio::test]
async fn workers_die_with_a_killed_gateway_whatever_their_scripts_do() {
    let once = "const { readFileSync } = require('node:fs'); setInterval(() => {}, 1000);
        const { rawContent: text } = JSON.parse(readFileSync(0, 'utf8'));
        console.log(JSON.stringify({ text, continue: true }));";
    let module = "setInterval(() => {}, 1000); process.on('exit', () => { for (;;); });
        export default ({ rawContent: text }) => ({ text, continue: true });";
    // The one of a running call has read its input, and waits for nothing.
    let hangs = once.replace("console.log", "if (!text) console.log");
    let folder = Folder::with(&yaml(&[
        raw_server("up", &[]),
        plugin("once", once, &json!({})),
        plugin("module", module, &json!({})),
        plugin("hangs", &hangs, &json!({"protocol": "Once", "timeoutMs": 60_000})),
        chain("answers", "Response", "args", &[json!({"name": "module"})]),
        chain("asks", "Request", "exact", &[json!({"name": "once"})]),
        chain("hang", "Request", "slow", &[json!({"name": "hangs"})]),
    ]));
    let gateway = Gateway::start(&folder);
    gateway.until_answer("up__args", &json!({"m": 1}), "/result/content/0/text", &json!(r#"{"m":1}"#)).await;
    let url = gateway.url();
    let call = tokio::spawn(async move { Http::new().call(&url, "up__slow", &json!({"ms": 1}), &json!({})).await });
    let workers = async || Http::new().get(&format!("http://{}/api/v1/workers", gateway.admin())).await.body;
    until("all of them are there, and one is in a call", async || {
        let workers = workers().await;
        ["once", "module", "hangs"].iter().all(|name| workers.contains(&format!("default/{name}")))
            && workers.contains("Executing")
            && !workers.contains("Spawned")
    })
    .await;
    let workers: serde_json::Value = serde_json::from_str(&workers().await).unwrap();
    let pids: Vec<_> =
        workers["items"].as_array().unwrap().iter().map(|worker| worker["pid"].as_u64().unwrap()).collect();
    assert!(pids.len() >= 3, "{workers}");
    gateway.signal(Signal::KILL);
    assert!(!gateway.ended().await);
    until("every worker is gone", async || !pids.iter().any(runs)).await;
    call.abort();
}

#[tokio::test]
async fn one_that_is_ended_while_it_starts_leaves_nothing() {
    let never = "setInterval(() => {}, 1000); await new Promise(() => {}); export default () => {};";
    let answers = chain("answers", "Response", "args", &[json!({"name": "never"})]);
    let folder = Folder::with(&yaml(&[raw_server("up", &[]), plugin("never", never, &json!({})), answers]));
    let temporary = Folder::new();
    let gateway = Gateway::starting(&folder, &[], &[("TMPDIR", temporary.path().to_str().unwrap())]);
    assert_eq!(private(&temporary).len(), 1);
    assert!(gateway.end().1);
    assert_eq!(private(&temporary), BTreeSet::new());
}

/// A server with a child and a grandchild, which ignore that it ends. Their ids go into `$TMPDIR/pids`.
fn with_children() -> String {
    let script = "setsid sh -c 'sleep 1000 & echo $! >> $TMPDIR/pids; echo $$ >> $TMPDIR/pids; wait' > /dev/null 2>&1 &
        exec \"$0\" \"$@\"";
    let (python, server) = (python(), fixture("servers/modern.py"));
    process("up", Path::new("sh"), &["-c", script, python.to_str().unwrap(), server.to_str().unwrap(), "--stdio"])
}

/// A gateway, the two processes that its server has started, and the folder of its temporary files.
async fn with_processes(folder: &Folder) -> (Gateway, Vec<u64>, Folder) {
    let temporary = Folder::new();
    let gateway = Gateway::start_in(folder, &[], &[("TMPDIR", temporary.path().to_str().unwrap())]);
    tools_of(&gateway, &["up"]).await;
    let pids = || std::fs::read_to_string(temporary.path().join("pids")).unwrap_or_default();
    until("its server has started both", async || pids().lines().count() == 2).await;
    let pids: Vec<_> = pids().lines().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.iter().all(runs), "{pids:?}");
    (gateway, pids, temporary)
}

#[tokio::test]
async fn the_next_start_ends_what_servers_of_a_killed_gateway_had_started_and_nothing_else() {
    let (folder, other) = (Folder::with(&with_children()), Folder::with(&with_children()));
    let (living, of_living, _living) = with_processes(&folder).await;
    let (elsewhere, of_elsewhere, _elsewhere) = with_processes(&other).await;
    let (killed, of_killed, _killed) = with_processes(&folder).await;
    for gateway in [killed, elsewhere] {
        gateway.signal(Signal::KILL);
        assert!(!gateway.ended().await);
    }
    assert!(of_killed.iter().chain(&of_elsewhere).all(runs), "the kernel ends the server alone");

    let (next, of_next, _next) = with_processes(&folder).await;
    next.logged(|line| line["processes"] == 2);
    until("both have ended", async || !of_killed.iter().any(runs)).await;
    assert!(of_living.iter().chain(&of_next).all(runs), "a gateway that runs keeps its own");
    assert!(of_elsewhere.iter().all(runs), "another state folder is another gateway");
    let (again, of_again, _again) = with_processes(&other).await;
    until("those have ended too", async || !of_elsewhere.iter().any(runs)).await;
    for gateway in [living, next, again] {
        assert!(gateway.end().1);
    }
    until("nothing is left", async || {
        ![of_living.clone(), of_next.clone(), of_again.clone()].concat().iter().any(runs)
    })
    .await;
}
