//! Plugins and chains in a database: `hawsepipe registry`, and `hawsepipe run --registry`.

use serde_json::json;

use super::harness::{Folder, Gateway, run};
use super::history::{Postgres, err, out, sqlite};
use super::http::Http;
use super::manifests::{chain, plugin, raw_server, yaml};
use super::parts::until;

/// A folder with a chain and a plugin whose code is in a file.
fn shouting(code: &str) -> Folder {
    let folder = Folder::with(&yaml(&[
        super::manifests::object("Plugin", "shout", &json!({"source": {"path": "shout.mjs"}})),
        plugin(
            "guard",
            "export default ({ rawContent: text }) => ({ text, continue: true });",
            &json!({"role": "Guard"}),
        ),
        chain("answers", "Response", "args", &[json!({"name": "guard"}), json!({"name": "shout"})]),
    ]));
    folder.write("plugins/shout.mjs", code);
    folder
}

fn shout(mark: &str) -> String {
    format!("export default ({{ rawContent }}) => ({{ text: rawContent.toUpperCase() + '{mark}', continue: true }});")
}

fn registry(registry: &str, arguments: &[&str]) -> (bool, String) {
    let output = run(&[&["registry"], arguments, &["--registry", registry]].concat());
    (output.status.success(), out(&output) + &err(&output))
}

fn push(target: &str, folder: &Folder) {
    let (done, said) = registry(target, &["push", "-f", folder.path().to_str().unwrap()]);
    assert!(done && said.contains("Plugin default/shout"), "{said}");
}

async fn answers(gateway: &Gateway, wanted: &str) {
    gateway.until_answer("up__args", &json!({"m": "a"}), "/result/content/0/text", &json!(wanted)).await;
}

/// Push, run, push again while it runs, remove, and a start without the database.
async fn plugins_and_chains_in(target: &str) {
    push(target, &shouting(&shout("1")));
    let folder = Folder::with(&yaml(&[raw_server("up", &[])]));
    let gateway = Gateway::start_with(&folder, &["--registry", target]);
    answers(&gateway, "{\"M\":\"A\"}1").await;
    push(target, &shouting(&shout("2")));
    answers(&gateway, "{\"M\":\"A\"}2").await;
    // What cannot be parsed is not pushed. What does not load changes nothing, and nobody else's.
    let broken = shouting("export default (");
    let (done, said) = registry(target, &["push", "-f", broken.path().to_str().unwrap()]);
    assert!(!done && said.contains("SyntaxError") && said.contains("nothing was pushed"), "{said}");
    push(target, &shouting("throw new Error('at its start'); export default () => 1;"));
    push(target, &shouting(&shout("3")));
    answers(&gateway, "{\"M\":\"A\"}3").await;
    let (done, said) = registry(target, &["rm", "Plugin", "shout"]);
    assert!(!done && said.contains("is used by PluginChain default/answers") && said.contains("--force"), "{said}");
    let (_, listed) = registry(target, &["list"]);
    let kinds: Vec<_> =
        listed.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(kinds, ["Plugin default/guard", "Plugin default/shout", "PluginChain default/answers"], "{listed}");
    assert!(registry(target, &["rm", "PluginChain", "answers"]).0);
    answers(&gateway, "{\"m\":\"a\"}").await;
    let (done, said) = registry(target, &["rm", "PluginChain", "answers"]);
    assert!(!done && said.contains("the registry has no PluginChain default/answers"), "{said}");
    assert!(gateway.end().1);
}

#[tokio::test]
async fn a_registry_in_sqlite() {
    let folder = Folder::new();
    plugins_and_chains_in(folder.path().join("registry.db").to_str().unwrap()).await;
}

#[tokio::test]
async fn a_registry_in_postgres_and_a_start_while_it_is_down() {
    let mut postgres = Postgres::start();
    plugins_and_chains_in(&postgres.url).await;
    push(&postgres.url, &shouting(&shout("4")));
    let folder = Folder::with(&yaml(&[raw_server("up", &[])]));
    let first = Gateway::start_with(&folder, &["--registry", &postgres.url]);
    answers(&first, "{\"M\":\"A\"}4").await;
    first.end();
    postgres.does("stop");
    let second = Gateway::start_with(&folder, &["--registry", &postgres.url]);
    answers(&second, "{\"M\":\"A\"}4").await;
    postgres.does("start");
    push(&postgres.url, &shouting(&shout("5")));
    answers(&second, "{\"M\":\"A\"}5").await;
}

/// A gateway that cannot read its registry, or has the wrong one, would run without the Guards in it.
#[test]
fn a_registry_that_is_empty_or_down_does_not_run_without_its_objects() {
    let folder = Folder::with(&yaml(&[raw_server("up", &[])]));
    let empty = folder.path().join("typo.db");
    // The copy of another registry is none of these.
    let other = folder.path().join("other.db");
    push(other.to_str().unwrap(), &shouting(&shout("1")));
    Gateway::start_with(&folder, &["--registry", other.to_str().unwrap()]).end();
    for (target, said) in [
        (empty.to_str().unwrap(), "nothing was ever pushed to it"),
        ("postgres://nobody:swordfish@127.0.0.1:1/none", "postgres://127.0.0.1:1/none"),
        ("postgres:nobody:swordfish@127.0.0.1/none", "is not postgres://USER:PASSWORD@HOST/DATABASE"),
        ("postgres://nobody:a#swordfish/@127.0.0.1/none", "percent-encode @"),
    ] {
        // The second start must not take what the first one left for a copy.
        for _ in 0..2 {
            let state = folder.state();
            let arguments = ["run", "-f", folder.path().to_str().unwrap(), "--state-dir", state.to_str().unwrap()];
            let output = run(&[&arguments[..], &["--registry", target, "--listen", "127.0.0.1:0"]].concat());
            let words = err(&output);
            assert!(!output.status.success() && words.contains(said) && !words.contains("swordfish"), "{words}");
        }
    }
}

#[tokio::test]
async fn rows_that_were_changed_or_are_newer_affect_no_other() {
    let folder = Folder::new();
    let target = folder.path().join("registry.db");
    let target = target.to_str().unwrap();
    push(target, &shouting(&shout("1")));
    // Code with another digest: the plugin is not loaded, and as the chain's entry it must not be skipped silently.
    sqlite(target, &["UPDATE registry_code SET content = 'export default 1'", "SELECT 1"]);
    let manifests = Folder::with(&yaml(&[raw_server("up", &[])]));
    let gateway = Gateway::start_with(&manifests, &["--registry", target]);
    until("the plugin is reported", async || {
        let plan = Http::new().get(&format!("http://{}/api/v1/plan", gateway.admin())).await.body;
        plan.contains("shout-registry-code")
    })
    .await;
    let answer = Http::new().call(&gateway.url(), "up__args", &json!({"m": "a"}), &json!({})).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    gateway.end();

    sqlite(target, &["UPDATE registry_settings SET value = 2 WHERE name = 'schema'", "SELECT 1"]);
    let (done, said) = registry(target, &["list"]);
    assert!(!done && said.contains("schema 2, and this program reads up to 1"), "{said}");
}

/// Pushes a Plugin with this spec. Returns whether that was done, and what was said.
fn pushed(folder: &Folder, spec: &serde_json::Value) -> (bool, String) {
    folder.write("manifests.yaml", &yaml(&[super::manifests::object("Plugin", "shout", spec)]));
    let target = folder.path().join("registry.db");
    registry(target.to_str().unwrap(), &["push", "-f", folder.path().join("manifests.yaml").to_str().unwrap()])
}

#[test]
fn nothing_is_pushed_that_a_gateway_would_not_accept_or_that_is_outside_the_folder() {
    let (folder, secret) = (Folder::new(), Folder::new());
    secret.write("secret.mjs", "export default () => ({ text: 'canary', continue: true });");
    folder.write("plugins/shout.mjs", &shout("1"));
    let outside = secret.path().join("secret.mjs");
    std::os::unix::fs::symlink(&outside, folder.path().join("plugins/link.mjs")).unwrap();
    std::os::unix::fs::symlink(secret.path(), folder.path().join("plugins/away")).unwrap();
    let above = format!("../../{}/secret.mjs", secret.path().file_name().unwrap().to_str().unwrap());
    for (spec, said) in [
        (json!({"source": {"path": outside}}), "spec.source.path"),
        (json!({"source": {"path": above}}), "spec.source.path"),
        (json!({"source": {"path": "link.mjs"}}), "is a link out of the plugin folder"),
        (json!({"source": {"path": "away/secret.mjs"}}), "is a link out of the plugin folder"),
        (json!({"source": {"path": "shout.mjs"}, "rloe": "Guard"}), "spec.rloe: unknown field; did you mean role?"),
        (json!({"source": {"inline": "export default ("}}), "SyntaxError"),
        (json!({"source": {"inline": "export const x = 1;"}}), "UnsupportedExports"),
        (json!({"source": {"path": "shout.mjs"}, "sha256": "0".repeat(64)}), "DigestMismatch"),
    ] {
        let (done, words) = pushed(&folder, &spec);
        assert!(!done && words.contains(said) && !words.contains("canary"), "{spec}: {words}");
    }
    assert!(!folder.path().join("registry.db").exists(), "not even a registry is made");
    let (done, words) = pushed(&folder, &json!({"source": {"path": "shout.mjs"}}));
    assert!(done, "{words}");
}

#[test]
fn a_name_that_no_object_can_have_is_not_pushed() {
    let named = |name: &str| super::manifests::object("Plugin", name, &json!({"source": {"inline": shout("1")}}));
    let folder = Folder::with(&yaml(&[named("a/shout")]));
    let target = folder.path().join("registry.db");
    let target = target.to_str().unwrap();
    let (done, said) = registry(target, &["push", "-f", folder.path().to_str().unwrap()]);
    assert!(!done && said.contains("default/a/shout: names have lower-case letters"), "{said}");
    let (done, said) = registry(target, &["list"]);
    assert!(!done && said.contains("there is no such file") && !std::path::Path::new(target).exists(), "{said}");
    folder.write("manifests.yaml", &yaml(&[named("shout.v1")]));
    let (done, said) = registry(target, &["push", "-f", folder.path().to_str().unwrap()]);
    assert!(!done && said.contains("metadata.name: at most 63 characters"), "{said}");
}
