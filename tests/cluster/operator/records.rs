//! `hawsepipe calls` and `hawsepipe executions` of all pods of a gateway.
//!
//! No kubelet runs here, so a script stands in for `kubectl port-forward`: a pod's port is that of its process.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command as Blocking, Output, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use super::harness::{Operated, gateway, object};
use super::pods::Served;
use crate::gateway::process::Folder;
use crate::gateway::upstream;
use crate::harness::{checkout, until};

const KUBECTL: &str = "#!/bin/sh
echo \"$@\" >> \"$0.log\"
for last; do :; done
echo \"Forwarding from 127.0.0.1${last} -> ${last#:}\"
exec sleep 300
";

/// A command of ours that finds the script as `kubectl`.
fn command(operated: &Operated<'_>, folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawsepipe"));
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let gateway = format!("{}/main", operated.namespace);
    command.args([arguments, &["--gateway", &gateway]].concat());
    command
        .envs([("PATH", path.as_ref()), ("KUBECONFIG", operated.cluster.kubeconfig().as_os_str())])
        .kill_on_drop(true);
    command
}

fn script() -> Folder {
    let folder = Folder::new();
    folder.write("kubectl", KUBECTL);
    std::fs::set_permissions(folder.path().join("kubectl"), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn items(output: &Output) -> Vec<Value> {
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    listed["items"].as_array().unwrap().clone()
}

/// Calls a pod until the call is recorded, and returns its id.
async fn call(served: &Served<'_>, known: usize) -> String {
    until("a call succeeds", async || served.gateway.call("up__whoami").await.ok()).await;
    until("the call is listed", async || {
        let listed: Value = serde_json::from_str(&served.gateway.get("/api/v1/calls?outcome=ok").await.text).ok()?;
        let items = listed["items"].as_array()?;
        (items.len() > known).then(|| items[0]["requestId"].as_str().unwrap().to_owned())
    })
    .await
}

async fn started(spec: &Value) -> Operated<'static> {
    let operated = Operated::start().await;
    let url = upstream::start().await;
    let code = "export default ({ rawContent }) => ({ text: rawContent, continue: true });";
    let mut main = gateway("main");
    main["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    operated
        .apply(&[
            main,
            object("MCPUpstream", "up", &json!({"external": {"url": url}, "protocol": {"era": "Legacy"}})),
            object("Plugin", "same", &json!({"source": {"inline": code}})),
            object("PluginChain", "answers", &json!({"phase": "Response", "entries": [{"name": "same"}]})),
        ])
        .await;
    operated
}

#[tokio::test]
async fn records_of_all_pods_are_merged_by_time_and_a_silent_pod_is_named() {
    let operated = started(&json!({})).await;
    let (a, b) = (operated.serve("main", &[]).await, operated.serve("main", &[]).await);
    let ids = [call(&a, 0).await, call(&b, 0).await, call(&a, 1).await, call(&b, 1).await];
    let folder = script();
    let run = async |arguments: &[&str]| command(&operated, &folder, arguments).output().await.unwrap();
    let listed = run(&["calls", "--outcome", "ok", "-o", "json"]).await;
    let found: Vec<_> = items(&listed).iter().map(|call| call["requestId"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, ids.iter().rev().cloned().collect::<Vec<_>>(), "{listed:?}");
    let newest = items(&run(&["calls", "--outcome", "ok", "--limit", "2", "-o", "json"]).await);
    assert_eq!(newest.iter().map(|call| &call["requestId"]).collect::<Vec<_>>(), [&ids[3], &ids[2]]);
    let one = items(&run(&["executions", "--request", &ids[1], "-o", "json"]).await);
    assert_eq!(one.iter().map(|it| &it["requestId"]).collect::<Vec<_>>(), [&ids[1]], "{one:?}");

    let mut follow = command(&operated, &folder, &["calls", "--outcome", "ok", "--follow", "-o", "jsonl"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut next = async || -> Value { serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap() };
    for id in &ids {
        assert_eq!(next().await["requestId"], **id);
    }
    for (pod, known) in [(&b, 2), (&a, 2)] {
        let id = call(pod, known).await;
        assert_eq!(next().await["requestId"], *id);
    }
    let later = operated.serve("main", &[]).await;
    let id = call(&later, 0).await;
    assert_eq!(next().await["requestId"], *id, "a pod that starts later is read too");
    ends_with_its_processes(follow, &folder).await;

    let silent = format!("main-{}", b.gateway.admin.port());
    b.gateway.signal("STOP");
    let listed = run(&["calls", "--outcome", "ok", "--timeout", "5", "-o", "json"]).await;
    b.gateway.signal("CONT");
    assert_eq!(items(&listed).len(), 4, "the other pods have four calls: {listed:?}");
    assert!(text(&listed.stderr).contains(&format!("warning: pod {silent} is left out: ")), "{listed:?}");
    let nobody = ["calls", "--gateway", &format!("{}/nobody", operated.namespace)];
    let why = operated.cluster.hawsepipe(None, &nobody).await.unwrap_err();
    assert!(why.contains("there is no MCPGateway"), "{why}");
}

/// A command that a signal ends leaves no `kubectl` behind.
async fn ends_with_its_processes(mut follow: Child, folder: &Folder) {
    let running = || {
        let found = Blocking::new("pgrep").args(["-P", &follow.id().unwrap_or_default().to_string()]).output().unwrap();
        text(&found.stdout).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let children = running();
    assert_eq!(children.len(), 3, "{}", std::fs::read_to_string(folder.path().join("kubectl.log")).unwrap());
    Blocking::new("kill").arg(follow.id().unwrap().to_string()).status().unwrap();
    follow.wait().await.unwrap();
    let are_gone = async || children.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()).then_some(());
    until("they have ended", are_gone).await;
}

#[tokio::test]
async fn the_database_that_pods_share_is_read_once() {
    let python = std::env::var("HAWSEPIPE_TEST_PYTHON").unwrap_or_else(|_| ".cache/venv/bin/python".to_owned());
    let mut postgres = Command::new(checkout().join(python));
    postgres.arg(checkout().join("tests/fixtures/postgres.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut postgres = postgres.spawn().unwrap();
    let mut url = BufReader::new(postgres.stdout.take().unwrap()).lines();
    let url = url.next_line().await.unwrap().unwrap();
    let secrets = Folder::new();
    secrets.write("history-db/url", &url);
    let store = json!({"postgres": {"urlSecretRef": {"name": "history-db", "key": "url"}}});
    let operated = started(&json!({"history": {"store": store}})).await;
    let more = ["--secrets-dir", secrets.path().to_str().unwrap()];
    let (a, b) = (operated.serve("main", &more).await, operated.serve("main", &more).await);
    let ids = [call(&a, 0).await, call(&b, 1).await];
    let folder = script();
    let listed = command(&operated, &folder, &["calls", "--outcome", "ok", "-o", "json"]).output().await.unwrap();
    assert_eq!(
        items(&listed).iter().map(|call| &call["requestId"]).collect::<Vec<_>>(),
        [&ids[1], &ids[0]],
        "{listed:?}"
    );
    let forwarded = || std::fs::read_to_string(folder.path().join("kubectl.log")).unwrap().lines().count();
    assert_eq!(forwarded(), 1);
    postgres.stdin.as_mut().unwrap().write_all(b"stop\n").await.unwrap();
    until("all pods are read while the database is down", async || {
        let before = forwarded();
        let listed = command(&operated, &folder, &["calls", "--outcome", "ok", "-o", "json"]).output().await.unwrap();
        (text(&listed.stderr).contains("warning: ") && items(&listed).len() == 2 && forwarded() == before + 2)
            .then_some(())
    })
    .await;
    drop(postgres.stdin.take());
    let _ = postgres.wait().await;
}
