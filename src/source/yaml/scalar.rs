//! Scalars of the core schema of YAML 1.2.

use saphyr_parser::{ScalarStyle, Tag};
use serde_json::{Number, Value};

/// Returns the value of a scalar, and a warning if kubectl reads another value.
///
/// # Errors
/// If the tag is not supported, or JSON cannot represent the number.
pub(super) fn read(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<(Value, Option<String>), String> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => return Ok((text.into(), None)),
        // Who means `when: !has(x)` must not be led to leave out the `!`.
        Some(tag) => {
            let tag = &tag.suffix;
            return Err(format!(
                "!{tag:.40} is read as a tag, which is not allowed; put the text in quotes if `!` is part of it"
            ));
        }
        None if style != ScalarStyle::Plain => return Ok((text.into(), None)),
        None => {}
    }
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text)?.unwrap_or_else(|| text.into()),
    };
    let warning = other_reading(text).map(|other| {
        let read = if value.is_string() { "a string" } else { "a decimal number" };
        // The message repeats only short words such as `yes`. Anything else can be a secret.
        let word = if text.len() <= 3 && value.is_string() { text } else { "this" };
        format!("{word} is {read} here, and {other} to kubectl: put it in quotes, or write what is meant")
    });
    Ok((value, warning))
}

/// Returns `text` as a number, or `None` if it is not one.
fn number(text: &str) -> Result<Option<Value>, String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err(format!("JSON has no number {text}; put it in quotes if a string is meant"));
    }
    let radix = |prefix, radix| text.strip_prefix(prefix).and_then(|digits| u64::from_str_radix(digits, radix).ok());
    if let Some(whole) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return Ok(Some(whole.into()));
    }
    let plain = text.strip_prefix('+').unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(None);
    }
    if unsigned.bytes().all(|b| b.is_ascii_digit()) {
        let whole = plain.parse::<i64>().map(Value::from).or_else(|_| plain.parse::<u64>().map(Value::from));
        if let Ok(whole) = whole {
            return Ok(Some(whole));
        }
    }
    let has_digit = unsigned.bytes().any(|b| b.is_ascii_digit());
    let Ok(float) = plain.parse::<f64>() else { return Ok(None) };
    match Number::from_f64(float).filter(|_| has_digit) {
        Some(number) => Ok(Some(number.into())),
        None => Err("the number is out of range".to_owned()),
    }
}

/// Describes how YAML 1.1 reads `text`, if that differs from YAML 1.2.
fn other_reading(text: &str) -> Option<&'static str> {
    const YES: [&str; 6] = ["y", "Y", "yes", "Yes", "YES", "on"];
    const NO: [&str; 6] = ["n", "N", "no", "No", "NO", "off"];
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit()) && word.bytes().all(|b| b.is_ascii_digit() || b == b'_')
    };
    if YES.contains(&text) || matches!(text, "On" | "ON") {
        Some("true")
    } else if NO.contains(&text) || matches!(text, "Off" | "OFF") {
        Some("false")
    } else if digits.contains('_') && is_number(digits) {
        Some("a number")
    } else if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| (b'0'..=b'7').contains(&b)) {
        Some("an octal number")
    } else {
        None
    }
}
