//! Edits of plugins that cannot be loaded, or take their time.

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::manifests::{chain, object, raw_server, yaml};
use super::parts::until;

const TEXT: &str = "/result/content/0/text";

/// A plugin that puts this word in the place of the content.
fn says(word: &str) -> String {
    format!("export default () => ({{ text: '{word}', continue: true }});")
}

/// A folder with a guard `guard.mjs` on the answers of `args`, and an observer `slow.mjs` on those of `slow`.
fn folder(guard: &str, slow: &str) -> Folder {
    let folder = Folder::with(&yaml(&[
        raw_server("up", &[]),
        object("Plugin", "guard", &json!({"source": {"path": "guard.mjs"}, "role": "Guard"})),
        object("Plugin", "slow", &json!({"source": {"path": "slow.mjs"}, "role": "Observe"})),
        chain("answers", "Response", "args", &[json!({"name": "guard"})]),
        chain("seldom", "Response", "slow", &[json!({"name": "slow"})]),
    ]));
    folder.write("plugins/guard.mjs", guard);
    folder.write("plugins/slow.mjs", slow);
    folder
}

async fn call(gateway: &Gateway) -> Value {
    Http::new().call(&gateway.url(), "up__args", &json!({}), &json!({})).await
}

async fn says_now(gateway: &Gateway, word: &str) {
    let answer = call(gateway).await;
    assert_eq!(answer.pointer(TEXT), Some(&json!(word)), "{answer}");
}

async fn guard(gateway: &Gateway) -> Value {
    let answer = Http::new().get(&format!("http://{}/api/v1/plugins", gateway.admin())).await.body;
    let plugins: Value = serde_json::from_str(&answer).unwrap();
    let found = plugins["items"].as_array().unwrap().iter().find(|plugin| plugin["plugin"] == "default/guard");
    found.unwrap().clone()
}

/// Waits until the newest form of the guard is said not to be loaded, because of this.
async fn until_not_loaded(gateway: &Gateway, why: &str) {
    until(why, async || {
        let guard = guard(gateway).await;
        guard["notLoaded"].is_string() && guard["error"].as_str().is_some_and(|error| error.contains(why))
    })
    .await;
}

#[tokio::test]
async fn an_edit_that_cannot_be_loaded_changes_nothing_that_runs() {
    let folder = folder(&says("one"), &says("slow"));
    let gateway = Gateway::start(&folder);
    gateway.until_answer("up__args", &json!({}), TEXT, &json!("one")).await;
    let first = guard(&gateway).await["revision"].clone();
    for (code, why) in [
        ("throw new TypeError('not today'); export default () => {};", "TypeError: not today"),
        ("import './not-there.mjs'; export default () => {};", "not-there.mjs"),
        ("export default 5;", "exports no function"),
        ("export default () => {}; process.exit(3);", "it ended while it was loaded"),
    ] {
        folder.write("plugins/guard.mjs", code);
        until_not_loaded(&gateway, why).await;
        says_now(&gateway, "one").await;
        assert_eq!(guard(&gateway).await["revision"], first, "what runs");
    }
    let told = gateway.log().iter().filter(|line| line.contains("not today")).count();
    assert!((1..=2).contains(&told), "{told} lines of one edit");
    // Other edits go on meanwhile, and a gateway that starts anew has it too.
    folder.write("more.yaml", &yaml(&[raw_server("more", &[])]));
    gateway.until_answer("more__exact", &json!({}), "/result/isError", &json!(false)).await;
    assert!(gateway.end().1);
    let gateway = Gateway::start(&folder);
    gateway.until_answer("up__args", &json!({}), TEXT, &json!("one")).await;
    until_not_loaded(&gateway, "it ended while it was loaded").await;
    says_now(&gateway, "one").await;
    folder.write("plugins/guard.mjs", &says("two"));
    gateway.until_answer("up__args", &json!({}), TEXT, &json!("two")).await;
    assert!(guard(&gateway).await["notLoaded"].is_null());
}

#[tokio::test]
async fn a_first_version_that_cannot_be_loaded_fails_closed() {
    let folder = folder("throw new Error('never'); export default () => {};", &says("slow"));
    let gateway = Gateway::start(&folder);
    let refused = "/result/_meta/hawsepipe.dev~1refused/reason";
    gateway.until_answer("up__args", &json!({}), refused, &json!("NotLoaded")).await;
    folder.write("plugins/guard.mjs", &says("well"));
    gateway.until_answer("up__args", &json!({}), TEXT, &json!("well")).await;
}

#[tokio::test]
async fn one_that_loads_slowly_holds_up_nobody_else() {
    // It is never loaded.
    let folder =
        folder(&says("one"), "await new Promise((done) => setTimeout(done, 60_000)); export default () => {};");
    let gateway = Gateway::start(&folder);
    gateway.until_answer("up__args", &json!({}), TEXT, &json!("one")).await;
    let loading = async || {
        let workers = Http::new().get(&format!("http://{}/api/v1/workers", gateway.admin())).await.body;
        let workers: Value = serde_json::from_str(&workers).unwrap();
        let mut of_slow =
            workers["items"].as_array().unwrap().iter().filter(|w| w["plugin"] == "default/slow").cloned();
        of_slow.any(|worker| worker["state"] == "Spawned")
    };
    assert!(loading().await, "the first plan did not wait for it");
    for word in ["two", "three"] {
        folder.write("plugins/guard.mjs", &says(word));
        gateway.until_answer("up__args", &json!({}), TEXT, &json!(word)).await;
    }
    assert!(loading().await, "nor did others");
}

#[test]
fn validate_loads_plugins_and_says_where_code_does_not_parse() {
    let folder = folder("throw new TypeError('not today'); export default () => {};", "\nexport default (");
    let path = folder.path().to_str().unwrap();
    let said = |arguments: &[&str]| {
        let output = run(&[&["validate", path], arguments].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = said(&[]);
    assert_eq!(code, Some(1), "{text}");
    let throws = "Plugin default/guard: spec.source: cannot be started: TypeError: not today (NotLoaded)";
    assert!(text.contains("manifests.yaml:") && text.contains(throws), "{text}");
    let unparsed = "plugins/slow.mjs:2:";
    assert!(text.lines().any(|line| line.contains(unparsed) && line.contains("SyntaxError")), "{text}");
    let (code, text) = said(&["--no-load"]);
    assert!(code == Some(1) && text.contains(unparsed) && !text.contains("NotLoaded"), "{text}");
}

#[tokio::test]
async fn a_guard_whose_file_is_broken_runs_in_its_last_form_after_a_restart() {
    let folder = folder(&says("one"), &says("slow"));
    let gateway = Gateway::start(&folder);
    gateway.until_answer("up__args", &json!({}), TEXT, &json!("one")).await;
    gateway.end();
    let cases = [
        ("export default (", "SyntaxError"),
        ("throw new Error('x');", "UnsupportedExports"),
        ("", "there is no code in it"),
    ];
    for (code, reason) in cases {
        folder.write("plugins/guard.mjs", code);
        let gateway = Gateway::start(&folder);
        gateway.until_answer("up__args", &json!({}), TEXT, &json!("one")).await;
        let plan = Http::new().get(&format!("http://{}/api/v1/plan", gateway.admin())).await.body;
        assert!(plan.contains(reason), "{code}: {plan}");
        gateway.end();
    }
}
