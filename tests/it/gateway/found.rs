//! Plugins that are found in folders: by a standalone gateway, and by `hawsepipe plugin import`.

use std::process::Output;

use serde_json::{Value, json};

use super::harness::{Folder, Gateway, run};
use super::http::Http;
use super::manifests::{gateway, raw_server, yaml};
use super::parts::until;

const KB: &str = "export const retrieve = () => ({ status: 'no-context' });";
const PASS: &str = "export default ({ rawContent }) => ({ text: rawContent, continue: true });";

/// Twelve folders with plugins, two wrappers and one package.
fn tree(folder: &Folder) {
    let write = |path: &str, text: &str| {
        std::fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
        folder.write(path, text);
    };
    let described = |id: &str, kind: &str| {
        json!({"id": id, "type": kind, "version": "1.0.0", "description": "Finds notes.", "plannerHints": {}})
            .to_string()
    };
    for number in 0..10 {
        let at = format!("plugins/kb-plugin/kb-{number}");
        write(&format!("{at}/plugin.json"), &described(&format!("kb-{number}"), "kb-plugin"));
        write(&format!("{at}/index.mjs"), KB);
    }
    write("plugins/val-plugin/val-a/plugin.json", &described("val-a", "val-plugin"));
    write("plugins/val-plugin/val-a/index.mjs", "export const validate = () => ({ status: 'accepted' });");
    write("plugins/pass/plugin.json", r#"{"name": "pass", "role": "Observe", "description": "Passes."}"#);
    write("plugins/pass/index.mjs", PASS);
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

fn text(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The plugins of a gateway, each with its type, and whether it is a wrapper.
async fn registry(gateway: &Gateway) -> Vec<(String, String, bool)> {
    let plugins = Http::new().get(&format!("http://{}/api/v1/plugins?limit=100", gateway.admin())).await.json();
    let shown = |plugin: &Value| {
        let text = |name: &str| plugin[name].as_str().unwrap().to_owned();
        (text("plugin"), text("type"), plugin["wrapper"] == true)
    };
    let mut all: Vec<_> = plugins["items"].as_array().unwrap().iter().map(shown).collect();
    all.sort();
    all
}

/// A folder that comes later is a plugin too, and of two with one id neither is.
async fn follows(folder: &Folder, gateway: &Gateway) {
    let write = |path: &str, text: &str| {
        std::fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
        folder.write(path, text);
    };
    write("plugins/kb-plugin/late/index.mjs", KB);
    write("plugins/kb-plugin/late/plugin.json", r#"{"description": "Comes late.", "plannerHints": {}}"#);
    until("the new folder is a plugin", async || {
        registry(gateway).await.contains(&("default/late".into(), "kb-plugin".into(), false))
    })
    .await;
    write("plugins/other/plugin.json", r#"{"id": "val-a"}"#);
    write("plugins/other/index.mjs", PASS);
    let twice = "val-a is in ";
    until("two folders with one id are none", async || {
        let status = Http::new().get(&format!("http://{}/api/v1/status", gateway.admin())).await.body;
        status.contains(twice) && status.contains("NameConflict")
    })
    .await;
}

#[tokio::test]
async fn spec_plugins_discovery_directory_has_the_plugins_that_import_prints() {
    let allowed = json!(["z3", "lint"]);
    let folder = Folder::new();
    tree(&folder);
    let plugins = json!({"plugins": {"discovery": "Directory", "allowedWrappers": allowed}});
    folder.write("gateway.yaml", &yaml(&[gateway(&plugins), raw_server("up", &[])]));
    let discovering = Gateway::start(&folder);
    until("all plugins are found", async || registry(&discovering).await.len() == 15).await;
    let found = registry(&discovering).await;
    assert!(found.contains(&("default/z3".into(), "gs-plugin".into(), true)), "{found:?}");
    assert!(found.contains(&("default/pass".into(), "middleware".into(), false)), "{found:?}");

    let plugins = folder.path().join("plugins").display().to_string();
    let import = || run(&["plugin", "import", &plugins, "--packages", "-n", "default"]);
    let (first, second) = (import(), import());
    let (manifests, said) = text(&first);
    assert!(first.status.success(), "{said}");
    assert_eq!(first.stdout, second.stdout, "the same each time");
    let imported = Folder::new();
    let declared = json!({"plugins": {"allowedWrappers": allowed}});
    imported.write("gateway.yaml", &yaml(&[gateway(&declared), raw_server("up", &[])]));
    imported.write("plugins.yaml", &manifests);
    let (valid, said) = text(&run(&["validate", imported.path().to_str().unwrap()]));
    assert!(valid.contains("0 errors, 0 warnings"), "{valid}{said}");
    let declaring = Gateway::start(&imported);
    until("all plugins are there", async || registry(&declaring).await.len() == 15).await;
    assert_eq!(registry(&declaring).await, found);

    follows(&folder, &discovering).await;
}

#[test]
fn what_cannot_be_imported_is_said_and_the_rest_is_printed() {
    let folder = Folder::new();
    let write = |path: &str, text: &str| {
        std::fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
        folder.write(path, text);
    };
    write("plugins/one/plugin.json", "{}");
    write("plugins/one/index.mjs", PASS);
    write("plugins/several/plugin.json", "{}");
    write("plugins/several/index.mjs", PASS);
    write("plugins/several/more.mjs", "export const x = 1;");
    write("plugins/broken/plugin.json", "[");
    let plugins = folder.path().join("plugins").display().to_string();
    let output = run(&["plugin", "import", &plugins]);
    let (printed, said) = text(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(printed.contains("name: plugin-one") && !printed.contains("several"), "{printed}");
    assert!(said.contains("several: 2 files; bundle them into one, or build an image and give --image"), "{said}");
    assert!(said.contains("broken/plugin.json: "), "{said}");
    let image = "registry.example.com/plugins@sha256:0000000000000000000000000000000000000000000000000000000000000000";
    let (printed, _) = text(&run(&["plugin", "import", &plugins, "--image", image]));
    assert!(printed.contains("path: several/index.mjs") && printed.contains(image), "{printed}");
    let empty = Folder::new();
    let output = run(&["plugin", "import", empty.path().to_str().unwrap()]);
    assert!(!output.status.success() && text(&output).1.contains("there is no plugin"), "{:?}", text(&output));
}
