//! Finds the JSON in the text that a model answered: models put a thought before it, a code fence around it, and words around that.

use serde_json::Value;

const FENCE: &str = "```";
/// How many code blocks are looked at.
const MAX_BLOCKS: usize = 8;

/// Returns the JSON values that a text can mean: all of it, or each of its code blocks.
pub(super) fn values(text: &str) -> impl Iterator<Item = Value> {
    let text = without_thought(text);
    let one_line = text.strip_prefix(FENCE).and_then(|text| text.strip_suffix(FENCE));
    let one_line = one_line.map(|text| text.strip_prefix("json").unwrap_or(text));
    let blocks = blocks(text).into_iter().take(MAX_BLOCKS);
    [Some(text), one_line].into_iter().flatten().chain(blocks).filter_map(|text| serde_json::from_str(text).ok())
}

/// Returns the text behind a thought that it begins with.
fn without_thought(text: &str) -> &str {
    let text = text.trim();
    let thought = text.strip_prefix("<think>").and_then(|rest| rest.split_once("</think>"));
    thought.map_or(text, |(_, rest)| rest.trim())
}

/// Returns what is between two lines that are fences. A string in JSON has no line of its own that could be one.
fn blocks(text: &str) -> Vec<&str> {
    let (mut blocks, mut begin, mut at) = (Vec::new(), None, 0);
    for line in text.split_inclusive('\n') {
        let end = at;
        at += line.len();
        match (line.trim().strip_prefix(FENCE), begin) {
            (Some(_), None) => begin = Some(at),
            (Some(""), Some(from)) => {
                blocks.push(&text[from..end]);
                begin = None;
            }
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_found_in_a_fence_and_behind_a_thought() {
        let fenced = "```json\n{\"a\": \"```\"}\n```";
        let a = json!({"a": "```"});
        for (text, expected) in [
            (r#" {"a": "```"} "#.to_owned(), vec![a.clone()]),
            ("```json{\"a\": \"```\"}```".to_owned(), vec![a.clone()]),
            (fenced.to_owned(), vec![a.clone(), a.clone()]),
            (format!("Here it is:\r\n{}\r\nAnything else?", fenced.replace('\n', "\r\n")), vec![a.clone()]),
            (format!("<think>\n```\n1\n```\n</think>\n\n{fenced}"), vec![a.clone(), a.clone()]),
            ("  <think>no</think>{}".to_owned(), vec![json!({})]),
            ("<think>a</think><think>b</think>{}".to_owned(), vec![]),
            (format!("<think>never ends {fenced}"), vec![]),
            (
                "One:\n```\n[1]\n```\nor\n  ```JSON\n  [2]\n  ```\nnot\n```sh\nls\n```".to_owned(),
                vec![json!([1]), json!([2])],
            ),
            ("```\n{}".to_owned(), vec![]),
            ("no JSON".to_owned(), vec![]),
            (String::new(), vec![]),
        ] {
            assert_eq!(values(&text).collect::<Vec<_>>(), expected, "{text}");
        }
        assert_eq!(values(&"```\n1\n```\n".repeat(20)).count(), MAX_BLOCKS);
    }
}
