//! Whose tool a name is, over outages and restarts.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::harness::{Folder, Gateway, SOON, run};
use super::manifests::{gateway, object, raw_server, yaml};
use super::outcomes::seen::list;

/// The public names of the tools of `upstream`.
async fn names_of(gateway: &Gateway, upstream: &str) -> Vec<String> {
    let of = |tool: &Value| (tool["upstream"] == upstream).then(|| tool["name"].as_str().map(str::to_owned));
    list(gateway, "tools").await.iter().filter_map(of).flatten().collect()
}

#[tokio::test]
async fn a_restart_while_a_server_is_down_gives_its_names_to_no_other() {
    let main = gateway(&json!({"upstreams": {"prefix": "OnConflict"}, "limits": {"listTimeoutMs": 1000}}));
    let folder = Folder::with(&yaml(&[main.clone(), raw_server("first", &[]), raw_server("second", &[])]));
    let running = Gateway::start(&folder);
    running.until_answer("second__args", &json!({}), "/result/content/0/text", &json!("{}")).await;
    assert!(names_of(&running, "first").await.contains(&"args".to_owned()));
    let (kept, deadline) = (folder.state().join("seen-names"), std::time::Instant::now() + SOON);
    while !std::fs::read_to_string(&kept).is_ok_and(|text| text.contains("default/first")) {
        assert!(std::time::Instant::now() < deadline, "names were not written");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    running.signal(Signal::KILL);
    drop(running);

    let down = object("MCPUpstream", "first", &json!({"process": {"command": "/no/such/server"}}));
    folder.write("manifests.yaml", &yaml(&[main, down, raw_server("second", &[])]));
    let again = Gateway::start(&folder);
    again.until_answer("second__args", &json!({}), "/result/content/0/text", &json!("{}")).await;
    let names = names_of(&again, "second").await;
    assert!(!names.is_empty() && names.iter().all(|name| name.starts_with("second__")), "{names:?}");
}

#[tokio::test]
async fn a_state_folder_that_cannot_be_written_is_a_warning() {
    let folder = Folder::with(&yaml(&[gateway(&json!({})), raw_server("up", &[])]));
    std::fs::create_dir_all(folder.state().join("lock")).unwrap();
    let running = Gateway::start(&folder);
    running.logged(|line| line["level"] == "WARN" && line["message"].as_str().unwrap().contains("--state-dir"));
    running.until_answer("up__args", &json!({}), "/result/content/0/text", &json!("{}")).await;
}

#[test]
fn a_state_folder_that_is_none_ends_a_start() {
    let folder = Folder::with(&yaml(&[raw_server("up", &[])]));
    let file = folder.path().join("manifests.yaml");
    for state in [file.clone(), file.join("below")] {
        let state = state.to_str().unwrap();
        let path = folder.path().to_str().unwrap();
        let output = run(&["run", "-f", path, "--listen", "0", "--admin", "0", "--state-dir", state]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("--state-dir {state}: {} is not a folder", file.display())), "{said}");
    }
}
