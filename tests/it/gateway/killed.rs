//! What gateways leave among the temporary files: nothing when they end, and what a killed one left the next one removes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::json;

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::manifests::{chain, plugin, raw_server, yaml};
use super::parts::until;

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
fn runs(pid: &u64) -> bool {
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
