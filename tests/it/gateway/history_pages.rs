//! The pages `docs/history.md` and `docs/registry.md`: their manifests and commands do what they say.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::audited::rows;
use super::harness::{Folder, Gateway};
use super::history::{guarded, list};
use super::http::Http;
use super::parts::{ECHO_MODULE, chain, object, plugin, tools_of, until};
use crate::fixtures::{checkout, program};

/// The code blocks of a language in a page.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(checkout().join("docs").join(page)).unwrap();
    let fence = format!("```{language}\n");
    let blocks = page.split(&fence).skip(1);
    blocks.map(|block| block.split_once("```").unwrap().0.to_owned()).collect()
}

/// The commands of a page's blocks that begin so.
fn commands(page: &str, starts: &str) -> Vec<String> {
    let lines = blocks(page, "sh").concat();
    let lines = lines.lines().filter(|line| line.starts_with(starts)).map(str::to_owned);
    let found: Vec<_> = lines.collect();
    assert!(!found.is_empty(), "{page}: {starts}");
    found
}

/// Runs a line of a page in a folder.
fn shell(line: &str, folder: &Path, admin: &str) -> String {
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", Path::new(&program()).parent().unwrap().display());
    let output = Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", line])
        .current_dir(folder)
        .envs([("PATH", path.as_str()), ("HAWSEPIPE_ADMIN", admin)])
        .output()
        .unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{line}: {said}");
    said
}

async fn call(gateway: &Gateway) -> Value {
    tools_of(gateway, &["raw"]).await;
    Http::new().call(&gateway.url(), "raw__args", &json!({"a": "visible"}), &json!({})).await
}

#[tokio::test]
async fn the_page_on_the_history_is_as_it_says() {
    let folder = Folder::new();
    let manifest = &blocks("history.md", "yaml");
    // The example names a database of a cluster; the embedded store is the line that is a comment there.
    let embedded = |text: &str| -> String {
        let spec: Value = serde_saphyr::from_str(text).unwrap();
        let (mut spec, embedded) = (spec["spec"].clone(), json!({"embedded": {"maxSize": "256Mi"}}));
        assert!(text.contains("# embedded: {maxSize: 256Mi}") || spec["history"]["store"].is_null(), "{text}");
        if spec["history"].is_object() {
            spec["history"]["store"] = embedded;
        }
        spec["authentication"] = json!({"anonymous": {}});
        let spec = spec.to_string();
        object("MCPGateway", "main", &spec[1..spec.len() - 1])
    };
    for text in manifest {
        // The plugin that the commands name.
        let redact = plugin("redact", ECHO_MODULE, "") + &chain("redact", "Response", &["raw"], &["redact"]);
        folder.write("manifests.yaml", &(guarded(&folder) + &redact + &embedded(text)));
        let gateway = Gateway::start(&folder);
        assert!(call(&gateway).await["result"].is_object());
        let plan = Http::new().get(&format!("http://{}/api/v1/plan", gateway.admin())).await.json();
        assert_eq!(plan["problems"], json!([]), "{text}");
        until("the call is recorded", async || !list(&gateway, &["calls"]).is_empty()).await;
        // Tests of a cluster run the commands with `--gateway`.
        let lines = ["hawsepipe calls", "hawsepipe exec"].map(|start| commands("history.md", start)).concat();
        for line in lines.into_iter().filter(|line| !line.contains("--gateway")) {
            // The command that follows does not end; a test of its own has it.
            let line = if line.contains("--follow") { line.replace("--follow", "") } else { line };
            let said = shell(&line.replace("| jq", "| cat #"), folder.path(), &gateway.admin());
            assert!(!said.contains("error"), "{line}: {said}");
        }
        let newest = list(&gateway, &["calls"]).swap_remove(0);
        let kept = newest["arguments"]["content"]["a"] == "visible";
        assert_eq!(kept, text.contains("payloads: Redacted"), "{text}: {newest}");
        assert!(gateway.end().1);
        assert!(folder.state().join("history.db").exists());
    }
    audit(&folder).await;
}

/// The section on the audit trail, and the one on tables.
async fn audit(folder: &Folder) {
    let run = commands("history.md", "hawsepipe run -f manifests --store history.db");
    assert_eq!(run.len(), 1);
    let store = folder.path().join("history.db");
    let gateway = Gateway::start_with(folder, &["--store", store.to_str().unwrap()]);
    call(&gateway).await;
    assert!(gateway.end().1);
    let rows = rows(store.to_str().unwrap());
    let last = rows.last().unwrap();
    let head = format!("{}:{}:{}", last["chain"].as_str().unwrap(), last["sequence"], last["hash"].as_str().unwrap());
    for line in commands("history.md", "hawsepipe audit") {
        let example = line.split("--head ").nth(1).map(str::to_owned);
        let line = example.map_or_else(|| line.clone(), |example| line.replace(&example, &head));
        let said = shell(&line, folder.path(), "");
        assert_eq!(said.contains("verified"), line.contains("verify"), "{line}: {said}");
    }
    assert!(folder.path().join("audit.jsonl").exists());
    for line in commands("history.md", "hawsepipe store migrate") {
        let (command, prints) = line.split_once("# prints: ").unwrap();
        assert_eq!(shell(command, folder.path(), "").trim(), prints);
    }
}

#[tokio::test]
async fn the_page_on_the_registry_is_as_it_says() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path().join("team-a/plugins")).unwrap();
    let shout = "export default ({ rawContent }) => ({ text: rawContent.toUpperCase(), continue: true });";
    folder.write("team-a/plugins/shout.mjs", shout);
    let shout = object("Plugin", "shout", "source: {path: shout.mjs}");
    let chain = chain("answers", "Response", &["raw"], &["shout"]);
    folder.write("team-a/manifests.yaml", &(shout + &chain));
    let lines = commands("registry.md", "hawsepipe registry");
    let of = |word: &str| lines.iter().find(|line| line.contains(word)).unwrap();
    shell(of("registry push"), folder.path(), "");
    let listed = shell(of("registry list"), folder.path(), "");
    assert!(listed.contains("default/answers") && listed.contains("default/shout"), "{listed}");

    let served = Folder::with(&super::parts::raw_stdio("raw", &folder.path().join("log")));
    assert!(commands("registry.md", "hawsepipe run")[0].ends_with("-f manifests --registry registry.db"));
    let registry = folder.path().join("registry.db");
    let gateway = Gateway::start_with(&served, &["--registry", registry.to_str().unwrap()]);
    tools_of(&gateway, &["raw"]).await;
    let text = json!("{\"A\":\"VISIBLE\"}");
    gateway.until_answer("raw__args", &json!({"a": "visible"}), "/result/content/0/text", &text).await;
    // The gateway looks once a second.
    shell(of("registry rm"), folder.path(), "");
    let text = json!("{\"a\":\"visible\"}");
    gateway.until_answer("raw__args", &json!({"a": "visible"}), "/result/content/0/text", &text).await;
}
