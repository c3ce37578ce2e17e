//! Plugins that `hawsepipe plugin import` makes of folders.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::harness::{Operated, object};
use super::whole::objects;
use crate::harness::documents_in;

/// The plugins of the tree, each with its type.
fn wanted() -> Vec<(String, &'static str)> {
    let kb = (0..10).map(|number| (format!("kb-{number}"), "kb-plugin"));
    let others = [("val-a", "val-plugin"), ("pass", "middleware"), ("z3", "gs-plugin"), ("lint", "val-plugin")];
    let others = others.into_iter().map(|(name, kind)| (name.to_owned(), kind));
    kb.chain(others).chain([("sd-pack".to_owned(), "sd-plugin")]).collect()
}

/// Twelve folders with plugins, two wrappers and one package.
fn tree(root: &Path) {
    let write = |path: &str, text: &str| {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    let described = |id: &str, kind: &str| {
        json!({"id": id, "type": kind, "version": "1.0.0", "description": "Finds notes.", "plannerHints": {}})
            .to_string()
    };
    for number in 0..10 {
        let at = format!("plugins/kb-plugin/kb-{number}");
        write(&format!("{at}/plugin.json"), &described(&format!("kb-{number}"), "kb-plugin"));
        write(&format!("{at}/index.mjs"), "export const retrieve = () => ({ status: 'no-context' });");
    }
    write("plugins/val-plugin/val-a/plugin.json", &described("val-a", "val-plugin"));
    write("plugins/val-plugin/val-a/index.mjs", "export const validate = () => ({ status: 'accepted' });");
    write("plugins/pass/plugin.json", r#"{"name": "pass", "role": "Observe", "description": "Passes."}"#);
    write("plugins/pass/index.mjs", "export default ({ rawContent }) => ({ text: rawContent, continue: true });");
    for (name, kind) in [("z3", "gs-plugin"), ("lint", "val-plugin")] {
        let manifest = json!({"id": name, "type": kind, "protocolVersion": 1, "command": "python3", "args": ["w.py"],
            "description": "Solves."});
        write(&format!("plugins/wrappers/{name}/manifest.json"), &manifest.to_string());
        write(
            &format!("plugins/wrappers/{name}/w.py"),
            "import sys\nsys.stdin.readline()\nprint('{\"status\":\"unsupported\"}')\n",
        );
    }
    write("node_modules/sd-pack/package.json", r#"{"name": "sd-pack", "hawsepipe": {"plugins": ["./sd/index.mjs"]}}"#);
    write("node_modules/sd-pack/sd/plugin.json", &described("sd-pack", "sd-plugin"));
    write("node_modules/sd-pack/sd/index.mjs", "export const detectSeeds = () => ({ status: 'unsupported' });");
}

/// The Python of PATH, as an absolute path.
fn python() -> String {
    let output = Command::new("sh").args(["-c", "command -v python3"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn the_plugins_of_a_folder_are_imported_and_ready() {
    let operated = Operated::start().await;
    let root = std::env::temp_dir().join(format!("hawsepipe-import-{}", uuid::Uuid::new_v4().simple()));
    tree(&root);
    let folder = root.join("plugins").display().to_string();
    let printed = operated.cluster.hawsepipe(None, &["plugin", "import", &folder, "--packages"]).await.unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    let imported = documents_in(&printed);
    assert_eq!(imported.len(), 2 * wanted().len(), "{printed}");

    let mut all = objects().await;
    let gateway = all.iter_mut().find(|object| object["kind"] == "MCPGateway").unwrap();
    gateway["spec"]["plugins"]["allowedWrappers"] = json!(["z3", "lint"]);
    gateway["spec"]["plugins"]["interpreters"] = json!([{"name": "python3", "path": python()}]);
    all.push(object("PluginChain", "passing", &json!({"phase": "Request", "entries": [{"name": "pass"}]})));
    operated.apply(&all).await;
    let apply = ["apply", "--validate=strict", "-n", &operated.namespace, "-f", "-"];
    operated
        .cluster
        .kubectl(&apply, &imported.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"))
        .await
        .unwrap();
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    for (name, kind) in wanted() {
        operated.until_condition("plugins", &name, "Ready", "True Ready").await;
        assert_eq!(operated.object("plugins", &name).await["status"]["type"], kind, "{name}");
    }
}
