//! Changes outside of manifests while a gateway runs: files that plugins import, values of secrets, whole folders.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::manifests::{chain, object, plugin, raw_server, yaml};
use super::parts::{everything, until};

const TEXT: &str = "/result/content/0/text";

fn answers(plugin: &str) -> Value {
    chain("answers", "Response", "args", &[json!({"name": plugin})])
}

#[tokio::test]
async fn an_edit_of_a_file_that_a_plugin_imports_shows() {
    let folder = Folder::new();
    let code = "import { word } from './word.mjs'; export default () => ({ text: word, continue: true });";
    folder.write("plugins/mark.mjs", code);
    let word = |word: &str| folder.write("plugins/word.mjs", &format!("export const word = '{word}';"));
    word("one");
    let mark = object("Plugin", "mark", &json!({"source": {"path": "mark.mjs"}}));
    folder.write("manifests.yaml", &yaml(&[raw_server("up", &[]), mark, answers("mark")]));
    let gateway = Gateway::start(&folder);
    gateway.until_answer("up__args", &json!({}), TEXT, &json!("one")).await;
    word("two");
    // Long before the worker that has the old word has served its thousand calls.
    until("the new word", async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Http::new().call(&gateway.url(), "up__args", &json!({}), &json!({})).await.pointer(TEXT) == Some(&json!("two"))
    })
    .await;
}

/// A folder of the moment, as the kubelet makes them, swapped in by a link.
fn mount(secret: &Path, moment: &str, value: &str) {
    std::fs::create_dir_all(secret.join(moment)).unwrap();
    std::fs::write(secret.join(moment).join("value"), value).unwrap();
    symlink(moment, secret.join("..data_tmp")).unwrap();
    std::fs::rename(secret.join("..data_tmp"), secret.join("..data")).unwrap();
}

#[tokio::test]
async fn secrets_that_are_rotated_reach_plugins_and_servers() {
    let (folder, secrets) = (Folder::new(), Folder::new());
    let mounted = secrets.path().join("mounted");
    mount(&mounted, "..one", "first-of-plugin");
    symlink("..data/value", mounted.join("value")).unwrap();
    std::fs::create_dir_all(secrets.path().join("default/written")).unwrap();
    secrets.write("default/written/value", "first-of-server\n");
    let of = |name: &str| json!({"name": "GIVEN", "valueFrom": {"secretKeyRef": {"name": name, "key": "value"}}});
    let code = "export default () => ({ text: process.env.GIVEN, continue: true });";
    let server = everything("server").replace("process: {", &format!("process: {{env: [{}], ", of("written")));
    let objects = [raw_server("up", &[]), plugin("mark", code, &json!({"env": [of("mounted")]})), answers("mark")];
    folder.write("manifests.yaml", &(yaml(&objects) + &server));
    let gateway = Gateway::start_with(&folder, &["--secrets-dir", secrets.path().to_str().unwrap()]);
    let server_has = async |value: &str| {
        until(value, async || {
            let answer = Http::new().call(&gateway.url(), "server__get-env", &json!({}), &json!({})).await;
            answer.pointer(TEXT).is_some_and(|text| text.as_str().unwrap().contains(value))
        })
        .await;
    };
    gateway.until_answer("up__args", &json!({}), TEXT, &json!("first-of-plugin")).await;
    server_has("first-of-server").await;
    mount(&mounted, "..two", "second-of-plugin");
    gateway.until_answer("up__args", &json!({}), TEXT, &json!("second-of-plugin")).await;
    secrets.write("default/written/value", "second-of-server\n");
    server_has("second-of-server").await;
}

/// Denies what holds `word`.
fn guarded(word: &str) -> String {
    let code = format!(
        "export default ({{ rawContent: text }}) => text.includes('{word}')
           ? {{ text: 'no {word}', continue: false, error: 'fish' }} : {{ text, continue: true }};"
    );
    yaml(&[
        raw_server("up", &[]),
        plugin("guard", &code, &json!({"role": "Guard"})),
        chain("asks", "Request", "*", &[json!({"name": "guard"})]),
    ])
}

#[tokio::test]
async fn a_folder_that_is_moved_away_takes_no_guard_along() {
    let folder = Folder::with(&guarded("trout"));
    let gateway = Gateway::start(&folder);
    let denies = async |word: &str| {
        gateway.until_answer("up__args", &json!({"m": word}), TEXT, &json!(format!("no {word}"))).await;
    };
    denies("trout").await;
    let away = folder.path().with_extension("away");
    std::fs::rename(folder.path(), &away).unwrap();
    gateway.logged(|line| line["message"].as_str().is_some_and(|said| said.starts_with("the plan stays as it is")));
    denies("trout").await;
    // Another folder in its place counts.
    std::fs::create_dir(folder.path()).unwrap();
    folder.write("manifests.yaml", &guarded("salmon"));
    denies("salmon").await;
    folder.write("manifests.yaml", &guarded("pike"));
    denies("pike").await;
    std::fs::remove_dir_all(away).unwrap();
}
