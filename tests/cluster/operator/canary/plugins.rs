//! Plugins that do with their Secrets what they should not.

use serde_json::{Value, json};

use crate::operator::harness::object;

/// Serves many calls. `act` among the arguments says what it does.
const MODULE: &str = r"
const { WORD, KEY } = process.env;
const pass = (text) => ({ text, continue: true });
const never = () => new Promise(() => {});

const acts = {
  pass,
  tells: (text) => ({ text, continue: true, metadata: { WORD, [WORD]: [KEY, `${WORD}, said`] } }),
  logs: (text, log) => {
    console.log(WORD, KEY);
    console.error({ WORD, KEY });
    log.warn(`it is ${WORD}`);
    log.debug(JSON.stringify(process.env));
    log(`${'x'.repeat(8170)} ${WORD}`);
    return pass(text);
  },
  prints: (text) => {
    process.stderr.write(`${WORD}\n${KEY}\n${'x'.repeat(1000)} ${WORD}\n`);
    process.stdout.write(`${JSON.stringify(process.env)}\n${WORD}`);
    return pass(text);
  },
  throws: () => { throw new Error(`no ${WORD}`); },
  'throws-long': () => { throw new Error(`${'x'.repeat(475)} ${WORD}`); },
  'throws-text': () => { throw WORD; },
  denies: () => ({ text: 'no', continue: false, error: `no ${WORD}: ${KEY}` }),
  'denies-long': () => ({ text: 'no', continue: false, error: `${'x'.repeat(1005)} ${WORD}` }),
  odd: (text) => ({ text, continue: WORD }),
  exits: () => { process.stderr.write(`Error: no ${WORD}\n`); process.exit(3); },
  dies: () => { setImmediate(() => { throw new Error(`no ${WORD}`); }); return never(); },
  rejects: () => { Promise.reject(new Error(`no ${WORD}`)); return never(); },
};

export default ({ rawContent }, { log }) => acts[JSON.parse(rawContent).act](rawContent, log);
";
/// What it can do.
pub const MODULE_ACTS: [&str; 14] = [
    "pass",
    "tells",
    "logs",
    "prints",
    "throws",
    "throws-long",
    "throws-text",
    "denies",
    "denies-long",
    "odd",
    "exits",
    "dies",
    "rejects",
    "unknown",
];

/// A script for one call, of contract 1.0.
const ONCE: &str = r"
const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const { WORD, KEY } = process.env;
const say = (output) => process.stdout.write(`${JSON.stringify(output)}\n`);
process.stderr.write(`${WORD}\n${KEY}\n`);
const acts = {
  pass: () => say({ text: input.rawContent, continue: true, metadata: { WORD } }),
  denies: () => say({ text: 'no', continue: false, error: `no ${WORD}` }),
  exits: () => process.exit(3),
  half: () => process.stdout.write(`{'text': '${WORD}`),
  throws: () => { throw new Error(`no ${WORD}`); },
};
acts[JSON.parse(input.rawContent).act]();
";
/// What it can do.
pub const ONCE_ACTS: [&str; 5] = ["pass", "denies", "exits", "half", "throws"];

/// Two that cannot be started, and say why.
const NEVER: &str = "throw new Error(`not with ${process.env.WORD}`);\nexport default () => ({});";
const EXITS: &str = "console.warn(process.env.KEY);\nprocess.stderr.write(`Error: not with ${process.env.WORD}\\n`);\n\
    process.exit(1);\nexport default () => ({});";

/// Each plugin, and the chain by which it serves the requests of the tool that has its name.
pub fn objects() -> Vec<Value> {
    let from = |key: &str| json!({"secretKeyRef": {"name": "say", "key": key}});
    let env = json!([{"name": "WORD", "valueFrom": from("word")}, {"name": "KEY", "valueFrom": from("key")}]);
    let one = |(name, code): (&str, &str)| {
        let plugin = json!({"source": {"inline": code}, "role": "Guard", "env": env});
        let chain = json!({"phase": "Request", "upstreams": {"names": ["up"]}, "tools": {"include": [name]},
            "entries": [{"name": name}]});
        [object("Plugin", name, &plugin), object("PluginChain", name, &chain)]
    };
    [("act", MODULE), ("once", ONCE), ("never", NEVER), ("exits", EXITS)].into_iter().flat_map(one).collect()
}
