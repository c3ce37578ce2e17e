//! Tests of loading manifests: golden files, positions of Problems, and reloads.

mod kept;
mod pools;
mod refused;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::config::input::SourceInput;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::TransportPlan;
use crate::domain::reason::Reason;

fn file(name: &str, text: &str) -> FileText {
    FileText { path: Arc::new(name.into()), folder: "/m".into(), text: Ok(text.to_owned()) }
}

fn read(paths: &[PathBuf]) -> Vec<FileText> {
    read_files(paths, &HashSet::new())
}

fn one(text: &str) -> LoadedManifests {
    load(vec![file("a.yaml", text)], None, Path::new("/m/plugins"))
}

fn said(loaded: &LoadedManifests) -> Vec<String> {
    loaded.problems.iter().map(ToString::to_string).collect()
}

const PLUGIN: &str = "\
apiVersion: hawsepipe.dev/v1alpha1
kind: Plugin
metadata: {name: p}
spec:
  source: {inline: x}
";

const CHAIN: &str = "\
apiVersion: hawsepipe.dev/v1alpha1
kind: PluginChain
metadata: {name: c, namespace: team}
spec:
  phase: Request
  tools: {include: [\"read_*\"]}
  entries:
  - name: p
";

/// Every golden manifest passes the schemas and rules. The Problems about parts that this version does not support are
/// exactly those in the `.problems` file of the manifest.
#[test]
fn golden_manifests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/api");
    for name in [
        "00-minimal",
        "01-gateway",
        "02-upstreams",
        "03-plugins",
        "04-chains",
        "05-pipeline",
        "06-sections",
        "07-access",
    ] {
        let files = read(&[folder.join(format!("{name}.yaml"))]);
        let loaded = load(files, None, Path::new("plugins"));
        assert!(loaded.invalid.is_empty() && loaded.unreadable.is_empty(), "{name}: {:#?}", said(&loaded));
        let lines = loaded.problems.iter().map(|located| {
            let place = located.place.unwrap_or_default();
            let level = if located.problem.is_error() { "error" } else { "warning" };
            format!("{}:{} {level}: {}\n", place.line, place.column, located.problem)
        });
        let found: String = lines.collect();
        let expected = std::fs::read_to_string(folder.join(format!("{name}.problems"))).unwrap_or_default();
        assert!(found == expected, "{name}.problems should be:\n{found}");
    }
}

#[test]
fn a_problem_has_its_place_and_the_rest_is_loaded() {
    let loaded = one(&format!("{PLUGIN}---\n{}", CHAIN.replace("  - name: p", "  - name: p\n    whne: x")));
    assert_eq!(
        said(&loaded),
        [
            "a.yaml:15:5: error: PluginChain team/c: spec.entries[0].whne: unknown field; did you mean when? (InvalidObject)"
        ]
    );
    assert_eq!(loaded.plugins.len(), 1);
    assert!(loaded.chains.is_empty());
    let chain = loaded.invalid[0].chain.as_ref().unwrap();
    assert_eq!((chain.include.as_slice(), chain.entries.len()), (["read_*".to_owned()].as_slice(), 0));
}

#[test]
fn a_part_that_is_not_valid_selects_everything() {
    let chain = CHAIN.replace("include:", "includes:").replace("phase: Request", "phase: Requests");
    let loaded = one(&format!("{chain}  methods: [tools/eat]\n"));
    let chain = loaded.invalid[0].chain.as_ref().unwrap();
    assert!(chain.include.is_empty() && chain.exclude.is_empty() && chain.upstreams.is_none());
    assert_eq!(chain.methods, crate::domain::method::Method::CHAINED);
    assert_eq!(chain.phase, crate::domain::plugin::Phase::Request);
}

#[test]
fn documents_that_are_not_ours() {
    let loaded = one("\
kind: Plugin
---
apiVersion: hawsepipe.dev/v1alpha1
kind: Plugins
metadata: {name: x}
---
apiVersion: hawsepipe.dev/v1beta1
kind: Plugin
metadata: {name: x}
---
apiVersion: hawsepipe.dev/v1alpha1
kind: ToolPipeline
metadata: {name: x}
spec: {tool: {description: asks}, planned: {planner: {builtIn: true}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: x}
---
apiVersion: hawsepipe.dev/v1alpha1
kind: Plugin
metadata: {}
");
    assert_eq!(
        said(&loaded),
        [
            "a.yaml:1:1: error: it is not a Kubernetes object: apiVersion is missing (InvalidObject)",
            "a.yaml:4:1: error: no such kind: Plugins; did you mean Plugin? (InvalidObject)",
            "a.yaml:7:1: error: Plugin: apiVersion must be hawsepipe.dev/v1alpha1 (InvalidObject)",
            "a.yaml:17:1: warning: Role (rbac.authorization.k8s.io/v1) is not read outside a cluster (ClusterOnly)",
            "a.yaml:22:1: error: Plugin: metadata.name is missing, or not a string (InvalidObject)",
            "a.yaml:14:35: error: ToolPipeline default/x: spec.planned: this version cannot do what the field asks for, so calls of the \
             pipeline are refused until it is taken out (NotImplemented)",
        ]
    );
}

#[test]
fn the_later_of_two_is_a_problem() {
    let loaded = load(vec![file("a.yaml", PLUGIN), file("b.yaml", PLUGIN)], None, Path::new(""));
    assert_eq!(
        said(&loaded),
        ["b.yaml:3:12: error: Plugin default/p: metadata.name: is declared twice; the one that counts is in a.yaml, \
             line 1: remove one of them (InvalidObject)"]
    );
    assert_eq!(loaded.plugins.len(), 1);
}

/// The code of the plugin `p`, and the files of the Problems.
fn code_and_refused(loaded: &LoadedManifests) -> (String, Vec<String>) {
    let SourceInput::Inline(code) = &loaded.plugins[0].source else { panic!("{:?}", loaded.plugins) };
    let refused = loaded.problems.iter().filter_map(|located| located.file.as_ref());
    (code.clone(), refused.map(|file| file.display().to_string()).collect())
}

#[test]
fn a_second_declaration_does_not_take_over() {
    let plugin = |code: &str| PLUGIN.replace("inline: x", &format!("inline: {code}"));
    let read = |files: Vec<FileText>, before: &LoadedManifests| load(files, Some(before), Path::new(""));
    let runs = read(vec![file("m.yaml", &plugin("old"))], &LoadedManifests::default());
    let of = |name: &str| vec![name.to_owned()];

    let joined = read(vec![file("a.yaml", &plugin("new")), file("m.yaml", &plugin("old"))], &runs);
    assert_eq!(code_and_refused(&joined), ("old".to_owned(), of("a.yaml")), "the file that counts comes later");
    let edited = read(vec![file("a.yaml", &plugin("old")), file("m.yaml", &plugin("edited"))], &joined);
    assert_eq!(code_and_refused(&edited), ("edited".to_owned(), of("a.yaml")), "its file is edited");
    let renamed = read(vec![file("a.yaml", &plugin("new")), file("z.yaml", &plugin("edited"))], &edited);
    assert_eq!(code_and_refused(&renamed), ("edited".to_owned(), of("a.yaml")), "its file is renamed");
    let one_file = format!("{}---\n{}", plugin("new"), plugin("edited"));
    let inserted = read(vec![file("z.yaml", &one_file)], &renamed);
    assert_eq!(code_and_refused(&inserted), ("edited".to_owned(), of("z.yaml")), "above it, in its own file");
    let removed = read(vec![file("a.yaml", &plugin("new"))], &inserted);
    assert_eq!(code_and_refused(&removed), ("new".to_owned(), Vec::new()), "there is only the other one");
}

#[test]
fn kinds_of_kubernetes_count() {
    let loaded = one("\
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: team}
data: {a: aGVsbG8=, b: aGVsbG8=, c: '!', d: /w==}
stringData: {b: plain}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data: {k: v, n: 1}
---
apiVersion: v1
kind: Namespace
metadata: {name: team, labels: {mcp: \"on\"}}
");
    let values = &loaded.secrets[&ObjectKey::new("team", "s")];
    let values: Vec<_> = values.iter().map(|(key, value)| (key.as_str(), value.expose())).collect();
    assert_eq!(values, [("a", "hello"), ("b", "plain")]);
    assert_eq!(loaded.config_maps[&ObjectKey::new("default", "m")].len(), 1);
    assert_eq!(loaded.namespaces["team"]["mcp"], "on");
    assert_eq!(loaded.namespaces["team"]["kubernetes.io/metadata.name"], "team");
    let fields: Vec<_> = loaded.problems.iter().map(|p| (p.problem.reason, p.problem.field.as_str())).collect();
    assert_eq!(
        fields,
        [(Reason::InvalidSecret, "data.c"), (Reason::InvalidSecret, "data.d"), (Reason::InvalidObject, "data.n")]
    );
}

#[test]
fn no_problem_holds_a_value_of_a_secret() {
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {pin: 0123, n: 99e999}\ndata: {k: hunter2!}\n";
    for text in [secret.to_owned(), secret.replace(", n: 99e999", "")] {
        let said = said(&one(&text)).join("\n");
        assert!(!said.is_empty());
        assert!(["0123", "99e999", "hunter2"].iter().all(|value| !said.contains(value)), "{said}");
        let shown = format!("{:?}", one(&secret.replace("pin: 0123, n: 99e999", "pin: hunter3")));
        assert!(!shown.contains("hunter3"), "{shown}");
    }
}

#[test]
fn lists_and_json_are_read() {
    let json = r#"{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "a"},
   "spec": {"source": {"inline": "x"}, "timeoutMs": 0}}]}"#;
    let loaded = load(vec![file("a.json", json)], None, Path::new(""));
    assert_eq!(
        said(&loaded),
        ["a.json:3:40: error: Plugin default/a: spec.timeoutMs: must be from 1 to 600000; it is 0 (InvalidObject)"]
    );
    let twice = load(vec![file("a.json", "{\"a\": 1, \"a\": 2}")], None, Path::new(""));
    assert_eq!(said(&twice), ["a.json:1:10: error: the key a stands here twice; it is in line 1 too (InvalidYaml)"]);
    let broken = load(vec![file("a.json", "{\"a\": 1,\n]")], None, Path::new(""));
    assert!(said(&broken)[0].starts_with("a.json:2:1: error: it is not JSON: "), "{:?}", said(&broken));
    assert_eq!(broken.unreadable, [PathBuf::from("a.json")]);
}

#[test]
fn a_document_that_can_be_anything_is_told_apart_from_one_that_is_of_no_kind_of_ours() {
    let upstream =
        "apiVersion: hawsepipe.dev/v1alpha1\nkind: MCPUpstream\nmetadata: {name: a}\nspec: {external: {url: http://a}}";
    for (other, is_unclear) in [
        ("apiVersion: hawsepipe.dev/v1alpha1\nkind: PluginChian\nmetadata: {name: g}", true),
        ("apiVersion: hawsepipe.dev/v1alpha1\nkind: PluginChain\nmetadata: {}", true),
        ("kind: List", true),
        ("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]", false),
        ("apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: j-}", false),
        ("# nothing", false),
    ] {
        let loaded = load(vec![file("a.yaml", &format!("{upstream}\n---\n{other}"))], None, Path::new(""));
        assert_eq!(!loaded.unclear.is_empty(), is_unclear, "{other}: {:?}", said(&loaded));
        assert_eq!((loaded.upstreams.len(), loaded.unreadable.len()), (1, 0), "{other}: {:?}", said(&loaded));
    }
}

#[test]
fn a_file_that_breaks_counts_as_it_was() {
    let before = one(PLUGIN);
    let after = load(vec![file("a.yaml", "a: [")], Some(&before), Path::new(""));
    assert_eq!(after.plugins.len(), 1);
    assert_eq!(after.unreadable.len(), 1);
    let again = load(vec![file("a.yaml", "b: [")], Some(&after), Path::new(""));
    assert_eq!(again.plugins.len(), 1);
}

#[test]
fn rules_about_changes_are_asked_against_what_was_accepted() {
    let before = one(CHAIN);
    assert!(said(&before).is_empty());
    let turned = CHAIN.replace("Request", "Response");
    let mut loaded = before;
    for _ in 0..2 {
        loaded = load(vec![file("a.yaml", &turned)], Some(&loaded), Path::new(""));
        assert!(said(&loaded)[0].contains("phase is immutable"), "{:?}", said(&loaded));
    }
    assert!(said(&load(vec![file("a.yaml", CHAIN)], Some(&loaded), Path::new(""))).is_empty());
}

#[test]
fn old_booleans_are_refused_with_a_word_of_help() {
    let loaded = one(&PLUGIN.replace("spec:", "spec:\n  enabled: yes"));
    let said = said(&loaded);
    assert!(said[1].contains("spec.enabled: must be true or false; it is a string (yes, no, on and off"), "{said:?}");
}

#[test]
fn a_url_that_nothing_can_reach_is_refused() {
    let of = |url: &str| {
        one(&format!(
            "apiVersion: hawsepipe.dev/v1alpha1\nkind: MCPUpstream\nmetadata: {{name: u}}\nspec: {{external: {{url: \"{url}\"}}}}\n"
        ))
    };
    for wrong in ["http://[::1", "http://host:99999/mcp", "http://host:65536", "http://", "http://:80/", "http://h:1x/"]
    {
        let said = said(&of(wrong));
        assert!(said.len() == 1 && said[0].contains("spec.external.url: must be a URL"), "{wrong}: {said:?}");
    }
    for good in
        ["http://[::1]:65535/mcp", "https://h.example/a@b?b=c#d", "http://h", "http://127.0.0.1:0", "http://h?a"]
    {
        assert_eq!(said(&of(good)), Vec::<String>::new());
    }
}

#[test]
fn later_problems_are_located() {
    let loaded = one(CHAIN);
    let id = ObjectId::new(Kind::PluginChain, ObjectKey::new("team", "c"));
    let problem = crate::domain::problem::Problem::error(Reason::PluginNotFound, id, "spec.entries[0]", "gone");
    let located = loaded.locate(problem);
    let place = located.place.unwrap();
    assert_eq!((place.line, place.column), (8, 5));
    assert_eq!(located.file.as_deref(), Some(Path::new("a.yaml")));
}

#[test]
fn relative_paths_start_in_the_folder_of_their_file() {
    let loaded = one("\
apiVersion: hawsepipe.dev/v1alpha1
kind: MCPUpstream
metadata: {name: u}
spec: {process: {command: ./server, cwd: ./data/.}}
---
apiVersion: hawsepipe.dev/v1alpha1
kind: MCPGateway
metadata: {name: g}
spec: {authentication: {anonymous: {}}, plugins: {pluginDir: ../code, nodeExecutable: node}}
");
    let TransportPlan::Process { command, cwd, .. } = &loaded.upstreams[0].plan.transport else { panic!() };
    assert_eq!((command.as_str(), cwd.as_path()), ("/m/server", Path::new("/m/data")));
    let runtime = &loaded.gateways[0].plan.runtime;
    assert_eq!(
        (runtime.plugin_dir.as_path(), runtime.node_executable.as_path()),
        (Path::new("/m/../code"), Path::new("node"))
    );
}

#[test]
fn folders_are_read_by_name_and_not_below() {
    let folder = std::env::temp_dir().join(format!("hawsepipe-files-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("below")).unwrap();
    for name in ["b.yml", "a.yaml", "c.json", "notes.txt", ".hidden.yaml", "below/package.json"] {
        std::fs::write(folder.join(name), "").unwrap();
    }
    assert_eq!(unread_folders(std::slice::from_ref(&folder)), None);
    std::fs::write(folder.join("below/d.yaml"), PLUGIN).unwrap();
    let unread = unread_folders(std::slice::from_ref(&folder)).unwrap();
    assert!(unread.contains("below are not read"), "{unread}");
    for written in ["below", "./below", "below/../below"] {
        assert_eq!(unread_folders(&[folder.clone(), folder.join(written)]), None, "{written}");
    }
    std::fs::write(folder.join("D.YAML"), "").unwrap();
    std::fs::write(folder.join("e.yaml"), b"a: \n\xff").unwrap();
    let files = read(&[folder.clone(), folder.join("missing")]);
    assert_eq!(read(&[folder.clone(), folder.join("a.yaml")]).len(), 5);
    let names: Vec<_> = files.iter().map(|f| f.path.strip_prefix(&folder).unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["D.YAML", "a.yaml", "b.yml", "c.json", "e.yaml", "missing"]);
    let failed =
        |file: &FileText| file.text.as_ref().map_err(|error| (error.reason, error.message.clone())).unwrap_err();
    assert_eq!(failed(&files[4]), (Reason::InvalidYaml, "line 2 is not a text in UTF-8".into()));
    assert_eq!(failed(&files[5]).0, Reason::FileNotFound);
    std::fs::write(folder.join("e.yaml"), vec![b'#'; 5 << 20]).unwrap();
    assert_eq!(failed(&read(&[folder.join("e.yaml")])[0]).0, Reason::TooLarge);
    assert!(files.iter().all(|f| f.folder == folder));
    std::fs::remove_dir_all(folder).unwrap();
}
