//! A plugin whose workers are all busy: the entry fails as `PoolExhausted`, and its policy decides.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway};
use super::super::http::Http;
use super::super::manifests::{chain, gateway, plugin, raw_server, yaml};
use super::acts::{MODULE, plugins};
use super::seen::list;

/// How long the only worker is held; longer than the rest takes.
const HELD_MS: u64 = 60_000;

/// Phase, role and place of the entry whose plugin is busy.
type Case = (&'static str, &'static str, usize);

fn cases() -> Vec<(Case, String)> {
    let mut cases = Vec::new();
    for phase in ["Request", "Response"] {
        for role in ["Guard", "Transform"] {
            let name = |place| format!("{phase}-{role}-{place}").to_lowercase();
            cases.extend((0..3).map(|place| ((phase, role, place), name(place))));
        }
    }
    cases
}

/// A chain for each case, and one for each role whose entry holds the only worker.
fn objects(cases: &[(Case, String)]) -> Vec<Value> {
    let mut objects = vec![gateway(&json!({"plugins": {"queueTimeoutMs": 200}}))];
    objects.extend(plugins());
    for role in ["Guard", "Transform"] {
        let (name, hold) = (format!("busy-{}", role.to_lowercase()), format!("hold-{}", role.to_lowercase()));
        objects.push(plugin(&name, MODULE, &json!({"role": role, "pool": {"size": 1}, "config": {"act": "change"}})));
        let held = json!({"name": name, "config": {"act": "sleep", "ms": HELD_MS}, "timeoutMs": HELD_MS});
        objects.push(chain(&hold, "Request", &hold, &[held]));
    }
    for ((phase, role, place), name) in cases {
        let mut entries = vec![json!({"name": "one"}), json!({"name": "two"})];
        entries.insert(*place, json!({"name": format!("busy-{}", role.to_lowercase())}));
        objects.push(chain(name, phase, name, &entries));
    }
    objects
}

#[tokio::test]
async fn no_free_worker_is_a_failure_like_others() {
    let (folder, cases) = (Folder::new(), cases());
    let names = cases.iter().map(|(_, name)| name.as_str()).chain(["hold-guard", "hold-transform"]);
    folder.write("tools.txt", &names.collect::<Value>().to_string());
    let tools = folder.path().join("tools.txt");
    let mut objects = objects(&cases);
    objects.push(raw_server("up", &["--also", tools.to_str().unwrap()]));
    folder.write("manifests.yaml", &yaml(&objects));
    let gateway = Gateway::start(&folder);
    gateway.until_answer("up__args", &json!({}), "/result/content/0/text", &json!("{}")).await;
    let url = gateway.url();
    let held = ["hold-guard", "hold-transform"].map(|tool| hold(&url, tool));
    while busy(&gateway).await < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let http = Http::new();
    for ((_, role, place), name) in &cases {
        let meta = json!({"hawsepipe.dev/trace": true});
        let answer = http.call(&url, &format!("up__{name}"), &json!({"m": "a"}), &meta).await;
        let result = &answer["result"];
        assert_eq!(result["_meta"]["hawsepipe.dev/trace"][*place]["outcome"], "failed(PoolExhausted)", "{answer}");
        if *role == "Guard" {
            assert_eq!(result["_meta"]["hawsepipe.dev/failed"]["reason"], "PoolExhausted", "{answer}");
            assert_eq!(result["isError"], true);
        } else {
            assert_eq!(result["content"][0]["text"], r#"{"m":"a+one+two"}"#, "{answer}");
        }
        let rows = list(&gateway, "executions").await;
        let row = rows.iter().find(|row| row["tool"] == **name && row["plugin"].as_str().unwrap().contains("busy"));
        assert_eq!(row.unwrap()["status"], "PoolExhausted");
    }
    held.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A call that holds its plugin's worker until it is aborted.
fn hold(url: &str, tool: &str) -> tokio::task::JoinHandle<Value> {
    let (url, tool) = (url.to_owned(), format!("up__{tool}"));
    tokio::spawn(async move { Http::new().call(&url, &tool, &json!({"m": "a"}), &json!({})).await })
}

/// Workers that execute.
async fn busy(gateway: &Gateway) -> usize {
    let workers = list(gateway, "workers").await;
    workers.iter().filter(|worker| worker["state"] == "Executing").count()
}
