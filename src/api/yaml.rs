//! Prints JSON values as YAML in block style, which is easy to diff.

use std::fmt::Write;

use serde_json::Value;

/// Returns `value` as a YAML document that ends with a newline.
pub fn print(value: &Value) -> String {
    let mut out = String::new();
    block(&mut out, value, 0);
    out
}

/// Writes a mapping or sequence as lines that are indented by `indent` spaces, and any other value as one line.
fn block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (i, (key, value)) in map.iter().enumerate() {
                let pad = if i == 0 && out.ends_with("- ") { 0 } else { indent };
                let _ = write!(out, "{:pad$}{}:", "", scalar(&Value::from(key.as_str())));
                nested(out, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let _ = write!(out, "{:indent$}- ", "");
                block(out, item, indent + 2);
            }
        }
        plain => {
            let _ = writeln!(out, "{}", scalar(plain));
        }
    }
}

/// Writes what follows `key:`. A sequence gets the same indentation as its key.
fn nested(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(out, value, indent + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(out, value, indent);
        }
        plain => {
            out.push(' ');
            block(out, plain, indent);
        }
    }
}

/// Returns a scalar or an empty collection as JSON, which is also YAML. Strings that cannot be misread are not quoted.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether every YAML parser reads the unquoted `text` as the same string.
fn is_plain(text: &str) -> bool {
    let words = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
        && !words.contains(&text.to_ascii_lowercase().as_str())
}
