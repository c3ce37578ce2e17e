//! What is said before anything runs: of manifests that serve nothing, of programs that are not there, in plain words.

use std::process::Output;

use serde_json::json;

use super::harness::{Folder, hawsepipe, run};
use super::parts::{ECHO_MODULE, chain, object, plugin, process, raw_stdio};

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What `validate` says of a path, and its exit code.
fn validated(path: &str) -> (i32, String) {
    let output = run(&["validate", path]);
    (output.status.code().unwrap(), out(&output) + &err(&output))
}

#[test]
fn nothing_to_serve_is_said_and_where_it_was_looked_for() {
    let folder = Folder::new();
    let path = folder.path().to_str().unwrap();
    let (code, said) = validated(path);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&format!("no MCPUpstream is in {path}, which has no *.yaml, *.yml or *.json")), "{said}");
    assert!(said.contains("NothingToServe") && said.contains("0 errors, 1 warning"), "{said}");
    folder.write("shout.mjs", ECHO_MODULE);
    assert!(validated(path).1.contains("`hawsepipe plugin run FILE` tries one"), "{}", validated(path).1);
    let below = folder.path().join("team");
    std::fs::create_dir(&below).unwrap();
    folder.write("team/servers.yaml", &raw_stdio("raw", "/dev/null".as_ref()));
    let (_, said) = validated(path);
    assert!(said.contains(&format!("folders in it are not read: name {} too", below.display())), "{said}");
    folder.write("empty.yaml", "");
    let (_, said) = validated(folder.path().join("empty.yaml").to_str().unwrap());
    assert!(said.contains("empty.yaml") && said.contains("nothing to serve"), "{said}");
    let (code, said) = validated(below.to_str().unwrap());
    assert!(code == 0 && said.trim().starts_with("0 errors, 0 warnings in "), "{said}");
}

#[test]
fn a_manifest_that_declares_nothing_is_said() {
    let folder = Folder::new();
    let path = folder.path().to_str().unwrap();
    folder.write("up.yaml", &raw_stdio("raw", "/dev/null".as_ref()));
    folder.write("cut.yaml", "---\n---\n");
    let (code, said) = validated(path);
    assert!(code == 0 && said.contains("cut.yaml: warning: it declares no object (NothingToServe)"), "{said}");
    assert!(said.contains("0 errors, 1 warning"), "{said}");
    folder.write("cut.yaml", "apiVersion: v1\nkind: List\nitem:\n- {}\n");
    let (code, said) = validated(path);
    assert!(code == 1 && said.contains("cut.yaml:1:1: error: the List has no items: items must be"), "{said}");
}

#[test]
fn a_guard_that_does_not_act_is_said() {
    let folder = Folder::new();
    let path = folder.path().to_str().unwrap();
    let chain = object("PluginChain", "answers", "phase: Response, entries: [{name: guard, mode: Shadow}]");
    let manifests = [raw_stdio("raw", "/dev/null".as_ref()), plugin("guard", ECHO_MODULE, "role: Guard"), chain];
    folder.write("manifests.yaml", &manifests.concat());
    let (code, said) = validated(path);
    assert!(code == 0 && said.contains("spec.entries[0].mode: Shadow on a Guard: it only records"), "{said}");
    assert!(said.contains("(GuardWeakened)") && said.contains("0 errors, 1 warning"), "{said}");
    let explained = out(&run(&["explain", "raw/args", "-f", path]));
    let row = explained.lines().find(|line| line.contains("default/guard")).unwrap();
    assert!(row.contains("does not act (Shadow): runs") && row.trim_end().ends_with("none"), "{explained}");
}

#[test]
fn what_clients_do_not_get_and_what_no_server_is_asked_is_explained() {
    let folder = Folder::new();
    let path = folder.path().to_str().unwrap();
    let tools = "tools: {exclude: [secret], overrides: [{name: args, answer: Ask Ann.}]}";
    let approved = format!("[{{name: args, sha256: {:?}}}]", "0".repeat(64));
    let server = format!("external: {{url: 'http://127.0.0.1:1/mcp'}}, {tools}, pinning: {{approved: {approved}}}");
    let gateway = "authentication: {anonymous: {}}, upstreams: {toolDiscovery: Search}, limits: {maxConnections: 500}";
    folder.write("all.yaml", &(object("MCPUpstream", "raw", &server) + &object("MCPGateway", "main", gateway)));
    let (code, said) = validated(path);
    assert!(code == 0 && said.contains("spec.pinning.mode: without it, pinning is off"), "{said}");
    assert!(said.contains("0 errors, 1 warning"), "{said}");
    for (tool, why) in [
        ("raw/secret", "clients do not get it: its upstream excludes it (spec.tools.exclude)"),
        ("raw/args", "nothing is sent to the server: the answer is the text of spec.tools.overrides[0].answer"),
        ("search_tools", "it is a tool of the gateway (toolDiscovery: Search)"),
    ] {
        let explained = run(&["explain", tool, "-f", path]);
        let text = out(&explained);
        assert!(
            explained.status.success() && text.lines().nth(1).unwrap().starts_with(why),
            "{text}{}",
            err(&explained)
        );
    }
}

#[test]
fn a_program_that_is_not_there_is_found_before_it_is_needed() {
    let folder = Folder::new();
    let servers = [
        process("typo", "no-such-program-here".as_ref(), &[]),
        process("moved", "./bin/server".as_ref(), &[]),
        process("there", "node".as_ref(), &[]),
        process("plain", "./servers.yaml".as_ref(), &[]),
        process("folder", folder.path(), &[]),
        object("MCPUpstream", "on-path", "process: {command: servers.yaml, env: [{name: PATH, value: FOLDER}]}")
            .replace("FOLDER", folder.path().to_str().unwrap()),
        object("MCPUpstream", "unused", "enabled: false, process: {command: no-such-program-either}"),
        object("MCPUpstream", "elsewhere", "process: {command: node, env: [{name: PATH, value: /no/such/folder}]}"),
    ];
    folder.write("servers.yaml", &servers.concat());
    let (code, said) = validated(folder.path().to_str().unwrap());
    assert_eq!(code, 0, "another machine may have it: {said}");
    assert!(said.contains("MCPUpstream default/typo: spec.process.command: there is no program no-such-program-here"));
    assert!(said.contains("default/moved: spec.process.command: there is no program /"), "{said}");
    assert!(said.contains("default/elsewhere"), "{said}");
    for (name, why) in [
        ("plain", "/servers.yaml is not executable (chmod +x makes it so): the server cannot be started here"),
        ("folder", " is a folder, not a program: the server cannot be started here"),
        ("on-path", "/servers.yaml is not executable (chmod +x makes it so): the server cannot be started here"),
    ] {
        let line = said.lines().find(|line| line.contains(&format!("default/{name}: "))).unwrap_or(&said);
        assert!(line.contains(why) && (name == "on-path") == line.contains("there is no program"), "{line}");
    }
    assert!(!said.contains("default/there") && !said.contains("default/unused"), "{said}");
}

#[test]
fn a_header_that_cannot_be_sent_and_one_without_a_value_are_told() {
    let folder = Folder::new();
    let header = |name: &str| format!("{{name: {name}, valueFrom: {{secretKeyRef: {{name: keys, key: {name}}}}}}}");
    let headers = format!("[{}, {}]", header("A"), header("B"));
    let up = object("MCPUpstream", "up", &format!("external: {{url: 'http://127.0.0.1:1/mcp', headers: {headers}}}"));
    let keys = |a: &str| {
        let data = format!("{{A: {a}, B: ''}}");
        format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: keys}}\nstringData: {data}\n")
    };
    folder.write("up.yaml", &(up.clone() + &keys(r#""sword\nfish""#)));
    let (code, said) = validated(folder.path().to_str().unwrap());
    let broken = r#"spec.external.headers: A: key "A" of Secret default/keys has a line break"#;
    assert!(code == 1 && said.contains(broken) && said.contains("(InvalidSecret)") && !said.contains("fish"), "{said}");
    folder.write("up.yaml", &(up + &keys("swordfish")));
    let (code, said) = validated(folder.path().to_str().unwrap());
    let empty =
        r#"spec.external.headers: B: key "B" of Secret default/keys is empty: the header is sent without a value"#;
    assert!(code == 0 && said.contains(empty) && said.contains("0 errors, 1 warning"), "{said}");
}

#[test]
fn a_size_of_nothing_is_refused() {
    let folder = Folder::new();
    let up = "external: {url: 'http://127.0.0.1:1/mcp'}, limits: {maxResponseSize: 0Mi}";
    let limits = "authentication: {anonymous: {}}, limits: {maxRequestSize: 0, maxResponseSize: '0.0'}";
    folder.write("all.yaml", &(object("MCPUpstream", "up", up) + &object("MCPGateway", "main", limits)));
    let (code, said) = validated(folder.path().to_str().unwrap());
    assert!(code == 1 && said.contains("main: spec.limits.maxRequestSize: must be at least 1; it is 0"), "{said}");
    for field in ["main: spec.limits.maxResponseSize", "up: spec.limits.maxResponseSize"] {
        assert!(said.contains(&format!("{field}: must be a size of one byte or more such as 512Ki")), "{said}");
    }
}

#[test]
fn findings_are_told_in_plain_words_and_once() {
    let folder = Folder::new();
    folder.write("servers.yaml", &raw_stdio("raw", "/dev/null".as_ref()));
    let wrong = "export default (";
    folder.write("wrong.yaml", &(plugin("wrong", wrong, "") + &chain("uses", "Response", &["raw"], &["wrong"])));
    let path = folder.path().to_str().unwrap();
    let (code, said) = validated(path);
    assert!(code == 1 && said.contains("1 error, 0 warnings"), "{said}");
    assert!(said.lines().any(|line| line.contains(": so: PluginChain default/uses")), "{said}");
    folder.write("wrong.yaml", &plugin("wrong", ECHO_MODULE, "timeoutMs: 99999999999999999999"));
    let (_, said) = validated(path);
    assert!(said.contains("must be a whole number; it is a number that is too large"), "{said}");
    folder.write("wrong.yaml", &plugin("wrong", ECHO_MODULE, "timeoutMs: 1.5"));
    assert!(validated(path).1.contains("it is a number with a fraction"), "{}", validated(path).1);
    folder.write("wrong.yaml", "kind: Plugin");
    assert!(validated(path).1.contains("it is not a Kubernetes object: apiVersion is missing"));
    folder.write("wrong.yaml", "a: [");
    assert!(validated(path).1.contains("it is not YAML: "));
    folder.write("plugin.mjs", "export default ({ a: 1, b }) => b;");
    let (code, said) = validated(folder.path().join("plugin.mjs").to_str().unwrap());
    assert!(code == 1 && said.contains("it is code, not a manifest"), "{said}");
}

#[test]
fn a_when_that_can_never_hold_is_an_error() {
    let folder = Folder::new();
    folder.write("servers.yaml", &raw_stdio("raw", "/dev/null".as_ref()));
    let entry = |when: &str| {
        let entries = format!("phase: Response, entries: [{{name: echo, when: {when:?}}}]");
        plugin("echo", ECHO_MODULE, "") + &object("PluginChain", "answers", &entries)
    };
    let path = folder.path().to_str().unwrap();
    folder.write("chain.yaml", &entry("1 + 1"));
    let (code, said) = validated(path);
    assert!(code == 1 && said.contains("spec.entries[0].when: it yields a number, not a boolean"), "{said}");
    folder.write("chain.yaml", &entry("call.arguments.paths.map(p, p) == []"));
    let (code, said) = validated(path);
    assert!(
        code == 1 && said.contains("spec.entries[0].when: of the macros only has, all and exists are allowed"),
        "{said}"
    );
    folder.write("chain.yaml", &entry("content.text.split(',').size() > 1"));
    let (code, said) = validated(path);
    assert!(code == 1 && said.contains("the function `split` is not allowed here: write x.matches(pattern)"), "{said}");
    folder.write("chain.yaml", &entry("content.size > 1 + 1"));
    assert_eq!(validated(path).0, 0, "{}", validated(path).1);
}

#[test]
fn a_folder_of_secrets_that_is_not_there_is_said() {
    let folder = Folder::with(&raw_stdio("raw", "/dev/null".as_ref()));
    let path = folder.path().to_str().unwrap();
    for arguments in [&["validate", path][..], &["run", "-f", path], &["explain", "raw/args", "-f", path]] {
        let output = run(&[arguments, &["--secrets-dir", "/no/such/folder"]].concat());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(err(&output).contains("--secrets-dir /no/such/folder: there is no such folder"), "{}", err(&output));
    }
}

#[test]
fn a_configuration_is_checked_before_a_plugin_is_tried_with_it() {
    let folder = Folder::new();
    let schema = "configSchema: {type: object, required: [n], properties: {n: {type: number}}}, config: {n: 1}";
    folder.write("plugin.yaml", &plugin("shape", ECHO_MODULE, schema));
    let path = folder.path().to_str().unwrap();
    let tried = |config: &str| {
        let mut command = hawsepipe();
        command.args(["plugin", "run", path, "--text", "x", "-o", "json", "--config", config]);
        let output = command.output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code().unwrap(), report)
    };
    let (code, report) = tried(r#"{"n": 2}"#);
    assert_eq!((code, &report["outcome"]), (0, &json!("ran")), "{report}");
    let (code, report) = tried(r#"{"n": "two"}"#);
    assert_eq!((code, &report["reason"]), (1, &json!("InvalidConfig")), "{report}");
    assert!(report["message"].as_str().unwrap().contains("/n"), "{report}");
}

#[test]
fn a_schema_whose_check_could_take_long_is_said() {
    let folder = Folder::new();
    let path = folder.path().to_str().unwrap();
    let chain = object("PluginChain", "answers", "phase: Response, entries: [{name: shape, config: {other: 1}}]");
    let said = |schema: serde_json::Value, config: serde_json::Value| {
        let spec = format!("configSchema: {schema}, config: {config}");
        folder.write(
            "plugin.yaml",
            &(raw_stdio("raw", "/dev/null".as_ref()) + &plugin("shape", ECHO_MODULE, &spec) + &chain),
        );
        let (code, said) = validated(path);
        assert_eq!(code, 1, "{said}");
        said
    };
    let constants: Vec<_> = (0..4_000).map(|n| json!({"const": n})).collect();
    let alternatives = json!({"properties": {"list": {"items": {"anyOf": constants}}}});
    let endless = said(alternatives, json!({"list": vec![3999; 2_000]}));
    assert!(endless.contains("spec.config: it is not checked, since its values times"), "{endless}");
    assert!(endless.contains("spec.entries[0].config: it is not checked, since its values times"), "{endless}");
    let unfolds = |n: usize| json!({"allOf": [{"$ref": format!("#/$defs/d{n}")}, {"$ref": format!("#/$defs/d{n}")}]});
    let mut definitions: serde_json::Map<_, _> = (0..40).map(|n| (format!("d{n}"), unfolds(n + 1))).collect();
    definitions.insert("d40".to_owned(), json!({"type": "object"}));
    for (schema, why) in [
        (json!({"$defs": definitions, "$ref": "#/$defs/d0"}), "it is recursive, or has more than 10000 places"),
        (json!({"properties": {"x": {"pattern": "^(?=a)b$"}}}), "the pattern \"^(?=a)b$\" is not valid, is too large"),
        (
            json!({"$ref": "https://example.com/schema.json"}),
            "a reference to \"https://example.com/schema.json\", which is not",
        ),
    ] {
        let said = said(schema, json!({}));
        assert!(said.contains("spec.configSchema: it") || said.contains("spec.configSchema: the pattern"), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(
            said.contains("spec.entries[0].config: it cannot be checked against configSchema of default/shape"),
            "{said}"
        );
    }
}

#[test]
fn a_gateway_that_is_not_there_is_said() {
    let folder = Folder::with(&raw_stdio("raw", "/dev/null".as_ref()));
    let path = folder.path().to_str().unwrap();
    let asked = || run(&["validate", path, "--gateway", "nope"]);
    assert!(err(&asked()).contains("no MCPGateway nope: the manifests have none, so leave"), "{}", err(&asked()));
    folder.write("gateway.yaml", &object("MCPGateway", "main", "authentication: {anonymous: {}}"));
    assert!(err(&asked()).contains("no MCPGateway nope; there is: default/main"), "{}", err(&asked()));
}

#[test]
fn objects_that_no_gateway_takes_are_said() {
    let folder = Folder::new();
    let path = folder.path().to_str().unwrap();
    let raw = raw_stdio("raw", "/dev/null".as_ref());
    let elsewhere = |object: String| object.replace("metadata: {", "metadata: {namespace: sec, ");
    let of_sec = [
        raw.replace("name: raw", "name: lost"),
        plugin("marks", ECHO_MODULE, ""),
        chain("answers", "Response", &["lost"], &["marks"]),
    ];
    let of_sec = of_sec.map(elsewhere).concat();
    folder.write("all.yaml", &(object("MCPGateway", "main", "authentication: {anonymous: {}}") + &raw + &of_sec));
    let (code, said) = validated(path);
    assert!(code == 0 && said.contains("0 errors, 2 warnings"), "{said}");
    for (object, reason) in [("MCPUpstream sec/lost", "(NoGateway)"), ("PluginChain sec/answers", "(NotTaken)")] {
        let line = said.lines().find(|line| line.contains(object)).unwrap();
        assert!(line.contains("it is in namespace sec, and default/main takes") && line.contains(reason), "{line}");
    }
    let explained = out(&run(&["explain", "raw/args", "-f", path]));
    let row = explained.lines().find(|line| line.contains("sec/answers")).unwrap();
    assert!(row.contains("not selected: no gateway takes it"), "{explained}");
    let takes = "authentication: {anonymous: {}}, upstreams: {selector: {matchLabels: {a: b}}}";
    folder.write("all.yaml", &(object("MCPGateway", "main", takes) + &raw));
    assert!(validated(path).1.contains("default/main takes upstreams with other labels"), "{}", validated(path).1);
    // The implicit gateway takes all, and one gateway of several some of what is declared.
    folder.write("all.yaml", &of_sec);
    assert!(validated(path).1.contains("0 errors, 0 warnings"), "{}", validated(path).1);
    let other = elsewhere(object("MCPGateway", "other", "authentication: {anonymous: {}}"));
    folder.write(
        "all.yaml",
        &(object("MCPGateway", "main", "authentication: {anonymous: {}}") + &raw + &other + &of_sec),
    );
    let several = run(&["validate", path, "--gateway", "main"]);
    assert!(out(&several).contains("0 errors, 0 warnings"), "{}", out(&several));
}

#[test]
fn a_guard_without_methods_is_a_warning_of_its_chain() {
    let folder = Folder::new();
    let chain_of = |name: &str, more: &str| {
        let spec = format!("phase: Response, {more} entries: [{{name: guard}}, {{name: second}}]");
        object("PluginChain", name, &spec)
    };
    let shadow = object("PluginChain", "shadow", "phase: Response, entries: [{name: other, mode: Shadow}]");
    let manifests = raw_stdio("raw", "/dev/null".as_ref())
        + &plugin("guard", ECHO_MODULE, "role: Guard")
        + &plugin("second", ECHO_MODULE, "role: Guard")
        + &plugin("other", ECHO_MODULE, "")
        + &chain_of("silent", "")
        + &chain_of("named", "methods: [tools/call],")
        + &shadow;
    folder.write("all.yaml", &manifests);
    let (code, said) = validated(folder.path().to_str().unwrap());
    assert!(code == 0 && said.contains("0 errors, 2 warnings"), "{said}");
    // The other one is about Guards that run twice.
    let line = said.lines().next().unwrap();
    assert!(line.contains("PluginChain default/silent: spec.methods: it has a Guard and names no methods"), "{said}");
}

#[test]
fn what_is_refused_while_a_plugin_is_missing_depends_on_the_condition() {
    let folder = Folder::new();
    let entries = "entries: [{name: gone, when: 'call.name == \"a\"'}]";
    let conditional = |phase: &str| object("PluginChain", &phase.to_lowercase(), &format!("phase: {phase}, {entries}"));
    let manifests = raw_stdio("raw", "/dev/null".as_ref()) + &conditional("Request") + &conditional("Response");
    folder.write("all.yaml", &manifests);
    let (_, said) = validated(folder.path().to_str().unwrap());
    let ends = |chain: &str, end: &str| {
        let line = said.lines().find(|line| line.contains(chain)).unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains(&format!("is refused before it is sent{end} (PluginNotFound)")), "{said}");
    };
    ends("default/request", ", unless the `when` of the entry is false");
    // The content of a response is not known before the call is sent.
    ends("default/response", "");
}
