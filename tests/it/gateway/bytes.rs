//! What no plugin changes leaves as it came: results and arguments, byte for byte, over both transports.

use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::{Answer, Http};
use super::parts::{
    ECHO_MODULE, ECHO_ONCE, chain, external, logged, modern_http, plugin, raw_http, raw_stdio, tools_of,
};
use crate::fixtures::fixture;

/// Spacing, number texts, escapes and an order that readers and writers of JSON lose.
const ARGUMENTS: &str =
    r#"{ "b" : 1.0,"a":[1, 1e5 ,-0],"long":12345678901234567890123,"e":"\u0041\/\u2028é","b2":{} }"#;
/// The upstreams, and the plugin on each one's calls.
const UPSTREAMS: [&str; 6] = ["stdio", "stdio-module", "stdio-once", "http", "http-module", "http-once"];

/// What raw.mjs answers `exact` with.
fn exact() -> String {
    std::fs::read_to_string(fixture("servers/exact.json")).unwrap().replace('\n', "")
}

fn manifests(folder: &Folder, url: &str) -> String {
    let mut manifests = plugin("module", ECHO_MODULE, "") + &plugin("once", ECHO_ONCE, "");
    for name in UPSTREAMS {
        let log = folder.path().join(name);
        manifests += &if name.starts_with("http") { external(name, url) } else { raw_stdio(name, &log) };
    }
    for phase in ["Request", "Response"] {
        for echo in ["module", "once"] {
            let upstreams = format!("*-{echo}");
            let name = format!("{}-{echo}", phase.to_lowercase());
            manifests += &chain(&name, phase, &[&upstreams], &[echo]);
        }
    }
    manifests
}

#[tokio::test]
async fn results_and_arguments_come_out_as_they_went_in() {
    let folder = Folder::new();
    let http_log = folder.path().join("http.log");
    let (_server, url) = raw_http(&http_log);
    folder.write("manifests.yaml", &manifests(&folder, &url));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &UPSTREAMS).await;
    let http = Http::new();
    let session = http.initialize(&gateway.url()).await;
    let exact = exact();
    let modern = format!(r#"{},"resultType":"complete"}}"#, &exact[..exact.len() - 1]);
    for upstream in UPSTREAMS {
        let tool = format!("{upstream}__exact");
        assert_eq!(session.call_raw(1, &tool, "{}").await.result(), exact, "{upstream}");
        assert_eq!(http.call_raw(&gateway.url(), &tool, "{}", &json!({})).await.result(), modern, "{upstream}");

        let tool = format!("{upstream}__args");
        let received = |answer: Answer| answer.json()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(received(session.call_raw(1, &tool, ARGUMENTS).await), ARGUMENTS, "{upstream}");
        let stateless = http.call_raw(&gateway.url(), &tool, ARGUMENTS, &json!({})).await;
        assert_eq!(received(stateless), ARGUMENTS, "{upstream}");
    }
    // The servers' own logs: the arguments stood in the request as they were sent.
    assert_eq!(logged(&folder.path().join("stdio"), ARGUMENTS), 2);
    assert_eq!(logged(&http_log, ARGUMENTS), 6);
    // The chains did run on what they did not change.
    let traced = http.call(&gateway.url(), "http-once__exact", &json!({}), &json!({"hawsepipe.dev/trace": true})).await;
    let entries = traced["result"]["_meta"]["hawsepipe.dev/trace"].as_array().unwrap();
    let ran: Vec<_> = entries.iter().map(|e| (e["phase"].as_str().unwrap(), e["outcome"].as_str().unwrap())).collect();
    assert_eq!(ran, [("Request", "ran"), ("Response", "ran")], "{entries:?}");
    assert!(entries.iter().all(|entry| entry["changed"] != true), "{entries:?}");
}

#[tokio::test]
async fn a_result_of_a_modern_server_comes_out_as_the_server_wrote_it() {
    let folder = Folder::new();
    let (_server, url) = modern_http(&folder.path().join("log"));
    folder.write("manifests.yaml", &external("modern", &url));
    let gateway = Gateway::start(&folder);
    let http = Http::new();
    let direct = http.call_raw(&url, "mixed", "{}", &json!({})).await;
    tools_of(&gateway, &["modern"]).await;
    let stateless = http.call_raw(&gateway.url_of("modern"), "mixed", "{}", &json!({})).await;
    assert_eq!(stateless.result(), direct.result());
    assert!(direct.result().contains("12345678901234567890123") && direct.result().contains("1.0"));
    let session = http.initialize(&gateway.url_of("modern")).await;
    let legacy = session.call_raw(1, "mixed", "{}").await;
    assert_eq!(legacy.result(), direct.result());
    assert_eq!(legacy.json()["result"]["content"][1]["type"], Value::from("image"));
}
