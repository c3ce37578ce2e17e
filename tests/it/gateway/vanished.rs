//! Manifests that are emptied, deleted or contradicted while a gateway runs.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::manifests::{chain, gateway, object, plugin, raw_server, yaml};
use super::parts::until;

/// A program that does not save in one step lets the file be empty, or away, for this long.
const GAP: Duration = Duration::from_millis(200);

async fn answer(gateway: &Gateway) -> String {
    Http::new().call(&gateway.url(), "up__args", &json!({}), &json!({})).await.to_string()
}

pub(super) async fn problems(gateway: &Gateway) -> String {
    let status = Http::new().get(&format!("http://{}/api/v1/status", gateway.admin())).await.body;
    serde_json::from_str::<Value>(&status).unwrap()["problems"].to_string()
}

/// What `hawsepipe wait` says, and whether everything is in force.
pub(super) fn waited(gateway: &Gateway) -> (bool, String) {
    let output = run(&["wait", "--admin", &gateway.admin()]);
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[tokio::test]
async fn a_gateway_that_vanishes_stays_in_force_and_that_is_said() {
    let folder = Folder::with(&yaml(&[raw_server("up", &[])]));
    let stopped = yaml(&[gateway(&json!({"stopped": true}))]);
    folder.write("gateway.yaml", &stopped);
    let running = Gateway::start(&folder);
    let file = folder.path().join("gateway.yaml");
    type Lose = fn(&PathBuf);
    let ways: [(&str, Lose); 3] = [
        ("the file counts as it was, with MCPGateway default/main: ", |file| fs::write(file, "").unwrap()),
        ("the file counts as it was, with MCPGateway default/main: ", |file| fs::write(file, "# none\n").unwrap()),
        ("MCPGateway default/main is in force and no manifest declares it", |file| fs::remove_file(file).unwrap()),
    ];
    for (why, lose) in ways {
        lose(&file);
        let (is_settled, said) = waited(&running);
        assert!(!is_settled && said.contains(why), "{said}");
        assert!(problems(&running).await.contains(why), "{}", problems(&running).await);
        assert!(answer(&running).await.contains("this gateway is stopped"), "{why}");
        folder.write("gateway.yaml", &stopped);
        let (is_settled, said) = waited(&running);
        assert!(is_settled && problems(&running).await == "[]", "{said}");
    }
    running.logged(|line| line["message"].as_str().is_some_and(|said| said.starts_with("the plan stays as it is")));
    folder.write("gateway.yaml", &yaml(&[gateway(&json!({}))]));
    running.until_answer("up__args", &json!({}), "/result/content/0/text", &json!("{}")).await;
}

#[tokio::test]
async fn a_chain_whose_file_is_saved_in_steps_guards_each_call_and_one_that_is_deleted_goes() {
    let code = "export default () => ({ text: 'guarded', continue: true });";
    let entries = [json!({"name": "guard"})];
    let folder = Folder::with(&yaml(&[raw_server("up", &[]), plugin("guard", code, &json!({"role": "Guard"}))]));
    let guard = yaml(&[chain("guard", "Response", "args", &entries)]);
    folder.write("chain.yaml", &guard);
    let running = Gateway::start(&folder);
    running.until_answer("up__args", &json!({}), "/result/content/0/text", &json!("guarded")).await;
    let file = folder.path().join("chain.yaml");
    let ways: [fn(&PathBuf); 2] = [|file| fs::write(file, "").unwrap(), |file| fs::remove_file(file).unwrap()];
    for lose in ways {
        lose(&file);
        let calls = async {
            loop {
                let answer = answer(&running).await;
                assert!(answer.contains("guarded"), "{answer}");
            }
        };
        assert!(tokio::time::timeout(GAP, calls).await.is_err());
        fs::write(&file, &guard).unwrap();
        assert!(waited(&running).0);
        assert!(answer(&running).await.contains("guarded"));
    }
    fs::remove_file(&file).unwrap();
    assert!(waited(&running).0);
    assert!(!answer(&running).await.contains("guarded"));
}

#[tokio::test]
async fn a_second_gateway_is_a_problem_of_the_status() {
    let folder = Folder::with(&yaml(&[gateway(&json!({})), raw_server("up", &[])]));
    let running = Gateway::start(&folder);
    folder.write("other.yaml", &yaml(&[object("MCPGateway", "other", &json!({"authentication": {"anonymous": {}}}))]));
    let several = "there are several gateways (default/main, default/other)";
    until("it is said", async || problems(&running).await.contains(several)).await;
    let status = run(&["status", "--admin", &running.admin()]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains(several) && status.contains("(PreviousRevision)"), "{status}");
    fs::remove_file(folder.path().join("other.yaml")).unwrap();
    until("it is mended", async || problems(&running).await == "[]").await;
}
