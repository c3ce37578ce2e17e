//! Citations of sources in an output.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Finds citations such as `[3]` in all texts of an output. Removes those of sources that do not exist, of which there are
/// `known`. Returns the numbers that are cited.
pub fn cite(output: &mut Map<String, Value>, known: usize) -> BTreeSet<usize> {
    let mut cited = BTreeSet::new();
    output.values_mut().for_each(|value| cite_in(value, known, &mut cited));
    cited
}

fn cite_in(value: &mut Value, known: usize, cited: &mut BTreeSet<usize>) {
    match value {
        Value::String(text) => *text = without_unknown(text, known, cited),
        Value::Array(items) => items.iter_mut().for_each(|item| cite_in(item, known, cited)),
        Value::Object(members) => members.values_mut().for_each(|member| cite_in(member, known, cited)),
        _ => {}
    }
}

fn without_unknown(text: &str, known: usize, cited: &mut BTreeSet<usize>) -> String {
    let mut parts = text.split('[');
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = part.split_once(']').filter(|(number, _)| is_number(number));
        match number.map(|(number, rest)| (number.parse().unwrap_or(0), rest)) {
            Some((number, rest)) if !(1..=known).contains(&number) => kept.push_str(rest),
            found => {
                cited.extend(found.map(|(number, _)| number));
                kept.push('[');
                kept.push_str(part);
            }
        }
    }
    kept
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn citations_of_sources_that_do_not_exist_are_removed() {
        let mut output = json!({"a": "x [1] y [4]. [n] [", "b": [{"c": "[2][99999999999999999999][0]"}], "d": 1});
        let cited = cite(output.as_object_mut().unwrap(), 3);
        assert_eq!(output, json!({"a": "x [1] y . [n] [", "b": [{"c": "[2]"}], "d": 1}));
        assert_eq!(cited, BTreeSet::from([1, 2]));
    }
}
