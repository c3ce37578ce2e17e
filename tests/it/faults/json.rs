//! Two readers of JSON, Rust's and Node's: what one takes the other takes, and it means the same to both, but where RFC
//! 8259 (sections 4, 6, 8.2 and 9) warns that readers differ. The text itself passes unchanged, whatever it is.

use hawsepipe::domain::plugin::Output;
use hawsepipe::node::Lifetimes;
use serde_json::Value;
use serde_json::value::RawValue;

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

/// Numbers, the last of them none.
const NUMBERS: [&str; 34] = [
    "0",
    "-0",
    "1",
    "-1",
    "1.0",
    "-1.50",
    "0.1",
    "1E5",
    "1e+5",
    "2.5e-3",
    "9007199254740991",
    "9007199254740993",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890",
    "4.9e-324",
    "2.2250738585072011e-308",
    "1.7976931348623157e308",
    "1e-400",
    "1e400",
    "-1e400",
    "0.30000000000000004",
    "01",
    "1.",
    ".5",
    "+1",
    "0x10",
    "1e",
    "--1",
    "NaN",
    "-Infinity",
    "1_000",
];
const NO_NUMBERS: usize = 10;

/// Parts of strings, the last of them of none.
const PARTS: [&str; 22] = [
    "a",
    "é",
    "😀",
    "\u{2028}",
    "\u{7f}",
    "\u{feff}",
    "\\n",
    "\\u0041",
    "\\ud83d\\ude00",
    "\\ud800",
    "\\udc00x",
    "\\u0000",
    "\\/",
    "\\\"",
    "__proto__",
    "\n",
    "\t",
    "\u{1}",
    "\\x",
    "\\u12",
    "\\",
    "\"",
];
const NO_PARTS: usize = 7;

const SPACES: [&str; 12] = ["", "", "", "", " ", "\n", "\t\r ", "  ", "\u{a0}", "\u{feff}", "\u{b}", "/**/"];
const NO_SPACES: usize = 4;

const WORDS: [&str; 8] = ["null", "true", "false", "nul", "True", "undefined", "'a'", "\u{0}"];
const NO_WORDS: usize = 5;

/// Keys that stand twice, or mean something to JavaScript, are among them.
const KEYS: [&str; 8] = ["a", "b", "__proto__", "constructor", "toJSON", "1", "", "\\u0061"];

/// Texts that are JSON, or nearly. The same seed gives the same.
struct Generator(u64);

impl Iterator for Generator {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut text = String::new();
        self.space(&mut text);
        self.value(&mut text, 0);
        self.space(&mut text);
        if self.below(4) == 0 {
            self.damage(&mut text);
        }
        Some(text)
    }
}

impl Generator {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    /// One of `all`; of those at its end, which are `wrong`, seldom.
    fn pick(&mut self, all: &[&'static str], wrong: usize) -> &'static str {
        let right = all.len() - wrong;
        match wrong > 0 && self.below(60) == 0 {
            true => all[right + self.below(wrong)],
            false => all[self.below(right)],
        }
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(self.pick(&SPACES, NO_SPACES));
    }

    fn value(&mut self, out: &mut String, depth: usize) {
        match self.below(if depth > 4 { 6 } else { 10 }) {
            0 => out.push_str(self.pick(&WORDS, NO_WORDS)),
            1 | 2 => out.push_str(self.pick(&NUMBERS, NO_NUMBERS)),
            3 => self.digits(out),
            4 | 5 => self.string(out),
            6 if self.below(20) == 0 => {
                let levels = 100 + self.below(200);
                out.push_str(&"[".repeat(levels));
                out.push_str(&"]".repeat(levels));
            }
            6 | 7 => self.list(out, depth, '[', ']'),
            _ => self.list(out, depth, '{', '}'),
        }
    }

    fn list(&mut self, out: &mut String, depth: usize, open: char, close: char) {
        out.push(open);
        for item in 0..self.below(4) {
            if item > 0 {
                out.push(',');
            }
            self.space(out);
            if open == '{' {
                out.push_str(&format!("\"{}\"", self.pick(&KEYS, 0)));
                self.space(out);
                out.push(':');
                self.space(out);
            }
            self.value(out, depth + 1);
            self.space(out);
        }
        out.push(close);
    }

    fn digits(&mut self, out: &mut String) {
        for _ in 0..=self.below(25) {
            out.push(char::from(b'1' + u8::try_from(self.below(9)).unwrap()));
        }
        if self.below(2) == 0 {
            out.push_str(&format!(".{}", self.below(1_000_000_000)));
        }
        if self.below(3) == 0 {
            out.push_str(&format!("e-{}", self.below(330)));
        }
    }

    fn string(&mut self, out: &mut String) {
        out.push('"');
        for _ in 0..self.below(5) {
            out.push_str(self.pick(&PARTS, NO_PARTS));
        }
        out.push('"');
    }

    /// Takes a character away, puts one in, or cuts the text.
    fn damage(&mut self, text: &mut String) {
        let mut all: Vec<char> = text.chars().collect();
        let at = self.below(all.len() + 1);
        match self.below(3) {
            0 if at < all.len() => drop(all.remove(at)),
            1 => all.truncate(at),
            _ => all.insert(at, ['"', '\\', ',', '}', ']', '[', '-', '0', 'e', '\u{0}'][self.below(10)]),
        }
        *text = all.into_iter().collect();
    }
}

#[tokio::test]
async fn rust_and_node_read_the_same() {
    let plugin = module(READER).link();
    // One process reads them all.
    let rig = Rig::living(Lifetimes { max_executions: u64::MAX / 16, ..Lifetimes::default() });
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
