//! Arguments for code that the gateway runs itself.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::domain::plugin::Failure;
use crate::domain::quoted::Quoted;
use crate::domain::reason::Reason;
use crate::domain::tokens::{JsonToken, JsonTokens};

/// Reads the arguments of a call. Guards have seen their text, so what would reach the code as something else is refused.
///
/// # Errors
/// If they cannot be read, or have a number that JavaScript rounds.
pub(super) fn read_arguments(arguments: Option<&RawValue>) -> Result<Value, Failure> {
    let Some(arguments) = arguments.map(RawValue::get) else { return Ok(Value::Object(Map::new())) };
    let invalid = |message| Failure::new(Reason::InvalidArguments, message);
    let read =
        serde_json::from_str(arguments).map_err(|why| invalid(format!("the arguments cannot be read: {why}")))?;
    let rounded = JsonTokens(arguments).find_map(|token| match token {
        JsonToken::Other(text) if is_rounded(text) => Some(Quoted(text, 40)),
        _ => None,
    });
    rounded.map_or(Ok(read), |number| {
        Err(invalid(format!(
            "the number {number} in the arguments has more digits than JavaScript keeps: send it as a string"
        )))
    })
}

/// Whether a number of a JSON text is another one as a double, which is what JavaScript has.
fn is_rounded(number: &str) -> bool {
    let double: Result<f64, _> = number.parse();
    double.is_ok_and(|double| decimal(number) != decimal(&format!("{double:e}")))
}

/// Returns the significant digits of a number, and the power of ten by which they are multiplied.
fn decimal(number: &str) -> Option<(String, i64)> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
    let significant = digits.trim_end_matches('0');
    let power = i64::try_from(digits.len() - significant.len()).ok()? - i64::try_from(fraction.len()).ok()?;
    let significant = significant.trim_start_matches('0');
    let power = if significant.is_empty() { 0 } else { exponent.parse::<i64>().ok()?.checked_add(power)? };
    Some((significant.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &str) -> Result<Value, String> {
        let raw = RawValue::from_string(arguments.to_owned()).unwrap();
        read_arguments(Some(&raw)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn arguments_are_read_as_they_were_sent() {
        assert_eq!(read_arguments(None).unwrap(), serde_json::json!({}));
        for arguments in [
            r#"{"a":["12345678901234567890",true,null],"b":9007199254740991}"#,
            r#"{"a":[0,-0.0,0e9,1e22,1.50,-1E-7,0.30000000000000004,100000000000000000000000]}"#,
        ] {
            assert!(read(arguments).is_ok(), "{arguments}: {:?}", read(arguments));
        }
    }

    #[test]
    fn arguments_that_would_reach_the_code_as_others_are_refused() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        for (arguments, said) in [
            (&*deep, "the arguments cannot be read: recursion limit exceeded"),
            (r#"{"a":1e999}"#, "the arguments cannot be read: number out of range"),
            (r#"{"a":"\ud800"}"#, "the arguments cannot be read: "),
            (r#"{"a":[12345678901234567890123]}"#, "the number \"12345678901234567890123\" in the arguments"),
            (r#"{"a":9007199254740993}"#, "send it as a string"),
            (r#"{"a":-0.1000000000000000055}"#, "send it as a string"),
            (r#"{"a":1e-400}"#, "send it as a string"),
        ] {
            let refusal = read(arguments).unwrap_err();
            assert!(refusal.contains(said), "{arguments}: {refusal}");
        }
    }
}
