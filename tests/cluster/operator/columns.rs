//! What `kubectl get` shows: the columns of each kind, and what stands in them.

use serde_json::{Value, json};

use super::harness::{Operated, gateway, object};
use crate::gateway::upstream;

/// Short name, columns, and those of `-o wide`.
const COLUMNS: [(&str, &str, &str); 7] = [
    ("mcpgw", "NAME READY PODS LIVE UPSTREAMS TOOLS CHAINS PROBLEMS READY REASON REFUSING AGE", "REVISION ADDRESS"),
    ("mcpup", "NAME TYPE STATE TOOLS FAILURES LIVE READY REASON AGE", "ERA ADDRESS"),
    ("plug", "NAME TYPE ROLE PROTOCOL CHAINS LIVE READY REASON AGE", "SHA256"),
    ("pchain", "NAME PHASE RUNS UPSTREAMS LIVE READY REASON AGE", "REVISION"),
    ("tpipe", "NAME TOOL MODE STEPS LIVE READY REASON AGE", "REVISION"),
    ("secbind", "NAME DOCUMENT SECTION UPSTREAM LIVE READY REASON AGE", ""),
    ("gatewaysnapshots", "NAME GATEWAY PART KIND REVISION SIZE AGE", ""),
];

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Columns in any order, AGE apart: which comes last is the printer's business with `-o wide`.
fn sorted(line: &str) -> Vec<&str> {
    let mut words = words(line);
    words.sort_unstable();
    words
}

const CODE: &str = "export default () => ({ continue: true }); export const note = 1;";

const STEP: &str = "export const execute = () => ({ output: {} });";

/// One of each kind that people write.
fn objects(url: &str) -> [Value; 7] {
    let section = json!({"document": {"glob": "a.md"}, "block": {"id": "b"}, "upstream": {"name": "up"}});
    let agents = json!([{"name": "main", "type": "custom", "plugin": {"name": "step"}}]);
    let pipeline = json!({"tool": {"description": "asks"}, "declared": {"startAgent": "main", "agents": agents}});
    [
        gateway("main"),
        object("MCPUpstream", "up", &json!({"external": {"url": url}, "protocol": {"era": "Legacy"}})),
        object("Plugin", "say", &json!({"source": {"inline": CODE}, "role": "Guard"})),
        object("Plugin", "step", &json!({"source": {"inline": STEP}, "type": "phase"})),
        object("PluginChain", "answers", &json!({"phase": "Response", "entries": [{"name": "say"}]})),
        object("ToolPipeline", "ask", &pipeline),
        object("SectionBinding", "block", &section),
    ]
}

#[tokio::test]
async fn every_kind_has_its_columns() {
    let operated = Operated::start().await;
    operated.apply(&objects(&upstream::start().await)).await;
    let _served = operated.serve("main", &[]).await;
    operated.until_row("mcpgw", "main", &["1/1", "1/1", "1", "2", "1", "0", "True", "Ready"]).await;
    operated.until_row("mcpup", "up", &["external", "Connected", "1", "0", "1/1", "True", "Ready"]).await;
    operated.until_row("plug", "say", &["middleware", "Guard", "Module", "1", "1/1", "True", "Ready"]).await;
    operated.until_row("pchain", "answers", &["Response", "say", "2", "1/1", "True", "Ready"]).await;

    operated.until_row("tpipe", "ask", &["ask", "Declared", "1", "1/1", "True", "Ready"]).await;

    for (resource, columns, wide) in COLUMNS {
        let printed = operated.get(&[resource]).await;
        assert_eq!(words(printed.lines().next().unwrap()), words(columns), "{resource}");
        let printed = operated.get(&[resource, "-o", "wide"]).await;
        assert_eq!(sorted(printed.lines().next().unwrap()), sorted(&format!("{columns} {wide}")), "{resource} -o wide");
    }

    let of = async |plural: &str, name: &str| operated.object(plural, name).await["status"].clone();
    let (gateway, plugin, chain) =
        (of("mcpgateways", "main").await, of("plugins", "say").await, of("pluginchains", "answers").await);
    let wide = async |resource: &str| operated.get(&[resource, "-o", "wide", "--no-headers"]).await;
    for (resource, shown) in [
        ("mcpgw", gateway["snapshot"]["revision"].as_str().unwrap()),
        ("mcpup", "Legacy"),
        ("mcpup", "http://127.0.0.1"),
        ("plug", plugin["running"]["sha256"].as_str().unwrap()),
        ("pchain", chain["revision"].as_str().unwrap()),
    ] {
        let row = wide(resource).await;
        assert!(words(&row).iter().any(|word| word.starts_with(shown)), "{shown} is not in {row}");
    }
    assert_eq!(plugin["sizeBytes"], CODE.len(), "{plugin:#}");
    assert_eq!(plugin["exports"], json!(["default", "note"]), "{plugin:#}");
    assert_eq!((&plugin["running"]["sha256"], &plugin["running"]["generation"]), (&plugin["sha256"], &json!(1)));
}
