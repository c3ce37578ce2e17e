//! What the tests of this binary rely on: outages, tokens, the audit log, controllers, and that nothing is left behind.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::json;

use crate::harness::{API_SERVER, Cluster, Request, counts, until};

/// A ConfigMap of this name.
fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

/// Fails where the answer takes longer.
async fn soon<T>(answer: impl Future<Output = Result<T, Error>>) -> Option<T> {
    tokio::time::timeout(Duration::from_secs(2), answer).await.ok()?.ok()
}

#[tokio::test]
async fn an_api_server_hangs_dies_and_comes_back_with_what_it_had() {
    let cluster = Cluster::own().await;
    let namespace = cluster.namespace().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, &namespace);
    maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();

    cluster.plane().signal(API_SERVER, "STOP");
    assert!(soon(maps.get("kept")).await.is_none(), "a stopped API server answers");
    cluster.plane().signal(API_SERVER, "CONT");
    maps.get("kept").await.unwrap();

    cluster.plane().kill(API_SERVER);
    assert!(soon(maps.get("kept")).await.is_none(), "a killed API server answers");
    cluster.plane().start_api_server_again().await;
    maps.get("kept").await.unwrap();
}

#[tokio::test]
async fn a_service_account_may_do_what_its_role_says_and_no_more() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace().await;
    let client = cluster.service_account(&namespace, "reader").await;
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let forbidden = |answer: Result<(), Error>| matches!(answer, Err(Error::Api(status)) if status.code == 403);
    assert!(forbidden(maps.list(&ListParams::default()).await.map(drop)), "it has no role yet");

    let role = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"},
         "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "reader"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
         "subjects": [{"kind": "ServiceAccount", "name": "reader"}]},
    ]});
    cluster.kubectl(&["apply", "-n", &namespace, "-f", "-"], &role.to_string()).await.unwrap();
    // The authorizer hears of it by a watch.
    until("the role counts", async || maps.list(&ListParams::default()).await.ok()).await;
    assert!(forbidden(maps.create(&PostParams::default(), &config_map("a")).await.map(drop)), "it may only list");
}

#[tokio::test]
async fn the_audit_log_tells_who_asked_for_what() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace().await;
    let client: Client = cluster.service_account(&namespace, "curious").await;
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let get = ["get", "configmaps", "kube-root-ca.crt", "-n", &namespace];
    until("the controller manager publishes its CA", async || cluster.kubectl(&get, "").await.ok()).await;
    let mark = cluster.mark().await;
    for _ in 0..3 {
        maps.list(&ListParams::default()).await.unwrap_err();
    }
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap_err();
    cluster.kubectl(&get, "").await.unwrap();

    let requests = cluster.requests_since(mark).await;
    let user = format!("system:serviceaccount:{namespace}:curious");
    let own: Vec<_> = requests.iter().filter(|request| request.user == user).collect();
    let wanted = [("create configmaps".to_owned(), 1), ("list configmaps".to_owned(), 3)];
    assert_eq!(counts(own.iter().copied()), wanted.into());
    assert!(own.iter().all(|request| request.code == 403 && request.namespace == namespace), "{own:?}");
    let by_kubectl = |request: &&Request| request.agent.starts_with("kubectl/") && request.namespace == namespace;
    let found = requests.iter().filter(by_kubectl).map(|request| (request.user.as_str(), request.name.as_str()));
    assert_eq!(found.collect::<Vec<_>>(), [("admin", "kube-root-ca.crt")]);
    let later = cluster.mark().await;
    assert!(!cluster.requests_since(later).await.iter().any(|request| request.user == user), "it asked no more");
}

/// The controller manager is at work: what a deleted object owned goes with it.
#[tokio::test]
async fn owned_objects_are_collected() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.admin().await, &namespace);
    let owner = maps.create(&PostParams::default(), &config_map("owner")).await.unwrap();
    let mut owned = config_map("owned");
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}]);
    owned.metadata.owner_references = serde_json::from_value(reference).unwrap();
    maps.create(&PostParams::default(), &owned).await.unwrap();
    maps.delete("owner", &DeleteParams::default()).await.unwrap();
    until("the owned object is gone", async || maps.get_opt("owned").await.unwrap().is_none().then_some(())).await;
}

/// Set in the second run of the test below.
const VICTIM: &str = "HAWSEPIPE_TEST_VICTIM";
const NAME: &str = "control_plane::a_test_process_that_is_killed_leaves_nothing_behind";

/// Runs itself a second time, with a control plane, and kills that run.
#[tokio::test]
async fn a_test_process_that_is_killed_leaves_nothing_behind() {
    if std::env::var_os(VICTIM).is_some() {
        let cluster = Cluster::own().await;
        println!("\n{VICTIM} {}", cluster.plane().folder().display());
        return std::future::pending().await;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let folder = lines.filter_map(|line| Some(PathBuf::from(line.strip_prefix(VICTIM)?.trim()))).next();
    victim.kill().unwrap();
    victim.wait().unwrap();
    let folder = folder.expect("the second run says where its control plane is");
    until("its folder is gone", async || (!folder.exists()).then_some(())).await;
    assert_eq!(processes_in(&folder), Vec::<String>::new());
}

/// The processes whose working folder it is, or was.
fn processes_in(folder: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    let inside = processes.filter(|process| {
        std::fs::read_link(process.join("cwd"))
            .is_ok_and(|cwd| cwd.to_string_lossy().starts_with(folder.to_str().unwrap()))
    });
    inside.map(|process| std::fs::read_to_string(process.join("cmdline")).unwrap_or_default()).collect()
}
