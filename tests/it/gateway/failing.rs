//! What `status` says of plugins that fail on calls.

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::manifests::{chain, plugin, raw_server, yaml};
use super::parts::ECHO_MODULE;

#[tokio::test]
async fn status_tells_which_plugins_fail_on_calls_and_nothing_that_they_say() {
    let folder = Folder::with(&yaml(&[
        raw_server("up", &[]),
        plugin("throws", "export default () => { throw new Error('c4nary'); };", &json!({"role": "Guard"})),
        plugin("works", ECHO_MODULE, &json!({})),
        chain("checks", "Response", "args", &[json!({"name": "works"}), json!({"name": "throws"})]),
    ]));
    let gateway = Gateway::start(&folder);
    gateway
        .until_answer("up__args", &json!({}), "/result/_meta/hawsepipe.dev~1failed/reason", &json!("PluginError"))
        .await;
    let admin = gateway.admin();
    let status = |output: &str| {
        let output = run(&["status", "--admin", &admin, "-o", output]);
        String::from_utf8(output.stdout).unwrap()
    };
    let table = status("table");
    let row = |name: &str| table.lines().find(|line| line.starts_with(&format!("default/{name} "))).unwrap();
    let said = table.lines().find(|line| line.starts_with("PLUGIN")).unwrap();
    assert!(said.contains("FAILED") && row("throws").contains("1 of 1 (PluginError)"), "{table}");
    assert!(!row("works").contains(" of "), "{table}");
    let json: Value = serde_json::from_str(&status("json")).unwrap();
    let of = |name: &str| json["plugins"].as_array().unwrap().iter().find(|it| it["plugin"] == name).unwrap().clone();
    let recent = &of("default/throws")["recentFailures"];
    assert_eq!((&recent["failed"], &recent["lastReason"]), (&json!(1), &json!("PluginError")), "{recent}");
    assert!(recent["lastAt"].is_u64() && of("default/works")["recentFailures"].is_null());
    assert!(!table.contains("c4nary") && !json.to_string().contains("c4nary"));
}
