//! Two readers of JSON, Rust's and Node's: what one takes the other takes, and it means the same to both, but where RFC
//! 8259 (sections 4, 6, 8.2 and 9) warns that readers differ. The text itself passes unchanged, whatever it is.

use hawsepipe::domain::plugin::Output;
use hawsepipe::node::Lifetimes;
use serde_json::Value;
use serde_json::value::RawValue;

use super::texts::Generator;
use crate::node::{Rig, module, runtime};

const TEXTS: usize = 10_000;
/// Of them, so many at least are valid, and so many are not.
const OF_EACH: usize = 2_000;
const SEED: u64 = 0x5eed;

/// Gives its content back, and says what Node makes of it: `again` is what Node writes for what it has read.
const READER: &str = "const read = (text) => {
  try {
    return { again: JSON.stringify(JSON.parse(text)) };
  } catch {
    return {};
  }
};
export default ({ rawContent }) => ({ text: rawContent, continue: true, metadata: read(rawContent) });";

#[tokio::test]
async fn rust_and_node_read_the_same() {
    let plugin = module(READER).link();
    // One process reads them all.
    let rig = Rig::living(Lifetimes { max_executions: Some(u64::MAX / 16), ..Lifetimes::default() });
    rig.prepare(&[&plugin], &runtime()).await;
    let (mut both, mut neither, mut wrong) = (0, 0, Vec::new());
    for text in Generator(SEED).take(TEXTS) {
        let answer = rig.answer(&plugin, &text).await;
        match compare(&text, &answer) {
            Ok(true) => both += 1,
            Ok(false) => neither += 1,
            Err(what) => wrong.push(format!("{what}: {text:?}")),
        }
    }
    println!("{both} texts are JSON to both, {neither} to neither");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(both > OF_EACH && neither > OF_EACH, "{both} are JSON, {neither} are not");
    assert_eq!(rig.count("hawsepipe_worker_spawns_total", "demand"), 1.0);
}

/// Whether both take the text.
///
/// # Errors
/// Where they differ in that, or in what it means.
fn compare(text: &str, answer: &Output) -> Result<bool, String> {
    if answer.text != text {
        return Err(format!("it came back as {:?}", answer.text));
    }
    let node: Value = serde_json::from_str(answer.metadata.as_ref().unwrap().get()).unwrap();
    let again = node["again"].as_str();
    let taken = serde_json::from_str::<&RawValue>(text).is_ok();
    if taken != again.is_some() {
        return Err(format!("Rust says {taken}, Node {again:?}"));
    }
    let Some(again) = again else { return Ok(false) };
    match serde_json::from_str::<Value>(text) {
        // What Rust cannot hold: deep nesting, lone surrogates, numbers beyond a double.
        Err(error) => match ["recursion limit", "surrogate", "hex escape", "number out of range"]
            .iter()
            .any(|known| error.to_string().contains(known))
        {
            true => Ok(true),
            false => Err(format!("Rust cannot hold it: {error}")),
        },
        Ok(rust) => {
            let node: Value = serde_json::from_str(again).map_err(|error| format!("{again}: {error}"))?;
            if same(&rust, &node) { Ok(true) } else { Err(format!("to Rust it is {rust}, to Node {node}")) }
        }
    }
}

/// Whether two values are the same; numbers as doubles, which is all that Node has.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}
