//! The content that passes through a chain, the part of it that an entry sees, and the changes that the entry's answer
//! makes to it.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::text_block::{Mirror, TextBlock};
use super::valid_content::{invalid, valid_definition, valid_error, valid_params, valid_result};
use crate::domain::item::ItemKind;
use crate::domain::json::{JsonStep, doubled_key};
use crate::domain::method::Method;
use crate::domain::plugin::{ContentType, Failure, Role, View};
use crate::domain::raw::to_raw;
use crate::domain::rpc::{LEVELS_ABOVE_ITEM, LEVELS_ABOVE_QUESTION};
use crate::domain::skim::Skim;
use crate::domain::tokens::{MAX_DEPTH, deeper_than, owned};
use crate::domain::upstream::Answer;

/// What passes through a chain.
#[derive(Clone, Debug)]
pub enum Content {
    /// The arguments of a call, or the parameters of another request or question: the JSON text of an object.
    Arguments(String),
    /// A result or an error: the upstream's to a call, or the client's to a question.
    Answer(Answer),
    /// The definition of an item.
    Definition(ItemKind, Box<RawValue>),
}

/// The content that an entry sees.
#[derive(Debug)]
pub struct ShownContent<'a> {
    /// The content as JSON, or the text of its only text block.
    pub text: Cow<'a, str>,
    /// The type of `text`: JSON or plain text.
    pub kind: ContentType,
    /// How the structured content of the result relates to the text.
    mirror: Mirror,
}

impl Content {
    /// Returns the part that an entry of this role sees with this `view`. The results of other requests than tool calls
    /// are always seen whole. With `Auto`, a Guard sees the whole result if anything besides its text could hold data that
    /// the Guard has to check, or if structured content can say in other characters what the text says.
    pub fn shown(&self, method: Method, view: View, role: Role) -> ShownContent<'_> {
        let result = match self {
            Self::Arguments(text) => return ShownContent::json(text),
            Self::Definition(_, definition) => return ShownContent::json(definition.get()),
            Self::Answer(Answer::Error(error)) => return ShownContent::json(error.get()),
            Self::Answer(Answer::Result(result)) => result,
        };
        let block = if view == View::Json || method != Method::CallTool { None } else { TextBlock::of(result) };
        let shown = block.filter(|block| view == View::Text || block.says_all(role));
        shown.map_or_else(
            || ShownContent::json(result.get()),
            |TextBlock { text, mirror, .. }| ShownContent { text, kind: ContentType::Text, mirror },
        )
    }

    /// The size of the content in bytes.
    pub fn size(&self) -> u64 {
        self.text().len() as u64
    }

    /// The content as JSON.
    fn text(&self) -> &str {
        match self {
            Self::Arguments(text) => text,
            Self::Answer(Answer::Result(raw) | Answer::Error(raw)) | Self::Definition(_, raw) => raw.get(),
        }
    }

    /// The path of the first key that occurs twice in one object of the content; `None` if there is no such key.
    pub fn doubled_key(&self) -> Option<Vec<JsonStep>> {
        doubled_key(self.text())
    }

    /// How many levels of a message are above the part that the plugin saw, at most.
    fn levels_above(&self, method: Method, seen: &ShownContent<'_>) -> usize {
        match self {
            Self::Definition(..) => LEVELS_ABOVE_ITEM,
            Self::Arguments(_) if method.is_question() => LEVELS_ABOVE_QUESTION,
            Self::Arguments(_) => 2,
            Self::Answer(_) => 1 + usize::from(seen.mirror == Mirror::SameJson),
        }
    }

    /// Returns the content with `text` in place of the part that the plugin saw, or `None` if the two are equal.
    ///
    /// # Errors
    /// `InvalidOutput` if the changed content is not valid for its phase.
    pub fn replaced(&self, method: Method, seen: &ShownContent<'_>, text: &str) -> Result<Option<Self>, Failure> {
        if text == seen.text {
            return Ok(None);
        }
        let is_json = seen.kind == ContentType::Json || seen.mirror == Mirror::SameJson;
        if is_json && deeper_than(MAX_DEPTH - self.levels_above(method, seen), text.as_bytes()) {
            return Err(invalid("its JSON nests too deep"));
        }
        let changed = match self {
            Self::Arguments(before) => {
                valid_params(method, before, text)?;
                Self::Arguments(text.to_owned())
            }
            Self::Definition(kind, before) => Self::Definition(*kind, valid_definition(*kind, before, text)?),
            Self::Answer(Answer::Error(_)) => Self::Answer(Answer::Error(valid_error(text)?)),
            Self::Answer(Answer::Result(_)) if seen.kind == ContentType::Json => {
                Self::Answer(Answer::Result(valid_result(method, text)?))
            }
            Self::Answer(Answer::Result(result)) => Self::Answer(Answer::Result(with_text(result, seen.mirror, text)?)),
        };
        Ok(Some(changed))
    }
}

impl<'a> ShownContent<'a> {
    fn json(text: &'a str) -> Self {
        Self { text: Cow::Borrowed(text), kind: ContentType::Json, mirror: Mirror::Absent }
    }
}

/// Returns `result` with a new text in its only block. If the structured content repeats the old text, it repeats the new one,
/// or is left out if that is no JSON.
fn with_text(result: &RawValue, mirror: Mirror, text: &str) -> Result<Box<RawValue>, Failure> {
    let (result, quoted) = (Skim::from(result), to_raw(&text));
    let block = result.member("content").and_then(|blocks| blocks.elements()?.next());
    let block = block.and_then(|block| block.with_members(&[("text", Some(quoted.get()))]));
    let content = block.map(|block| format!("[{block}]"));
    let structured = match mirror {
        Mirror::Wrapped => Some(Cow::Owned(format!("{{\"result\":{quoted}}}"))),
        Mirror::SameJson => Skim::of(text.as_bytes()).map(|json| Cow::Borrowed(json.get())),
        Mirror::Absent | Mirror::Other => None,
    };
    let mut changes = vec![("content", content.as_deref())];
    // Without JSON in the text, the structured content is left out: the text has all that it said.
    if matches!(mirror, Mirror::Wrapped | Mirror::SameJson) {
        changes.push(("structuredContent", structured.as_deref()));
    }
    let changed = content.is_some().then(|| result.with_members(&changes)).flatten();
    changed.and_then(owned).ok_or_else(|| invalid("the result cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::reason::Reason;

    fn result(json: &str) -> Content {
        Content::Answer(Answer::Result(RawValue::from_string(json.into()).unwrap()))
    }

    /// Returns what an entry sees of the result `json`, and the changed result if the entry answers `text`.
    fn pass(json: &str, view: View, text: &str) -> (String, Result<Option<String>, Reason>) {
        let content = result(json);
        let seen = content.shown(Method::CallTool, view, Role::Transform);
        let replaced = content
            .replaced(Method::CallTool, &seen, text)
            .map(|c| c.map(|c| c.text().to_owned()))
            .map_err(|f| f.reason);
        (seen.text.into_owned(), replaced)
    }

    #[test]
    fn one_text_block_is_seen_as_text() {
        let (seen, replaced) = pass(r#"{"content":[{"type":"text","text":"a\nb","x": 1.0}],"y":2}"#, View::Auto, "c");
        assert_eq!(seen, "a\nb");
        assert_eq!(replaced.unwrap().unwrap(), r#"{"content":[{"type":"text","text":"c","x": 1.0}],"y":2}"#);
    }

    #[test]
    fn structured_content_that_mirrors_follows() {
        let same = r#"{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"a":1}}"#;
        let (seen, replaced) = pass(same, View::Auto, r#"{"a":2}"#);
        assert_eq!(seen, r#"{"a": 1}"#);
        assert_eq!(
            replaced.unwrap().unwrap(),
            r#"{"content":[{"type":"text","text":"{\"a\":2}"}],"structuredContent":{"a":2}}"#
        );
        let deep = |levels: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(levels - 1), "]".repeat(levels - 1));
        assert!(pass(same, View::Auto, &deep(MAX_DEPTH - 2)).1.is_ok());
        for text in [&deep(MAX_DEPTH - 1), &deep(20_000)] {
            assert_eq!(pass(same, View::Auto, text).1, Err(Reason::InvalidOutput));
        }
        let cut = pass(same, View::Auto, r#"{"a":"#).1.unwrap().unwrap();
        assert_eq!(cut, r#"{"content":[{"type":"text","text":"{\"a\":"}]}"#);
        let wrapped = r#"{"content":[{"type":"text","text":"s"}],"structuredContent":{"result":"s"}}"#;
        assert!(pass(wrapped, View::Auto, "t").1.unwrap().unwrap().ends_with(r#""structuredContent":{"result":"t"}}"#));
    }

    #[test]
    fn structured_content_that_says_more_is_seen() {
        let json = r#"{"content":[{"type":"text","text":"s"}],"structuredContent":{"secret":"x"}}"#;
        assert_eq!(pass(json, View::Auto, "").0, json);
        assert_eq!(pass(json, View::Text, "t").0, "s");
    }

    #[test]
    fn a_guard_sees_whatever_is_not_the_text() {
        let hidden = [
            r#"{"content":[{"type":"text","text":"s"}],"_meta":{"note":"SECRET"}}"#,
            r#"{"content":[{"type":"text","text":"s","_meta":{"note":"SECRET"}}]}"#,
            r#"{"content":[{"type":"text","text":"s","annotations":{"audience":["SECRET"]}}]}"#,
            r#"{"content":[{"type":"text","text":"s"}],"unknown":"SECRET"}"#,
            r#"{"content":[{"type":"text","text":"s"}],"isError":"SECRET"}"#,
            r#"{"content":[{"type":"text","text":"s"}],"isError":false,"isError":"SECRET"}"#,
            r#"{"content":[{"type":"text","text":"s"}],"resultType":"SECRET"}"#,
            r#"{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":"SECRET","a":1}}"#,
            r#"{"content":[{"type":"text","text":"{\"n\":12345678901234567890123}"}],"structuredContent":{"n":12345678901234567890999}}"#,
        ];
        for json in hidden {
            let content = result(json);
            let seen = content.shown(Method::CallTool, View::Auto, Role::Guard);
            assert_eq!((seen.kind, &*seen.text), (ContentType::Json, json), "{json}");
        }
        for json in &hidden[..4] {
            assert_eq!(
                result(json).shown(Method::CallTool, View::Auto, Role::Transform).text,
                "s",
                "a shaper is not handed JSON: {json}"
            );
            assert_eq!(
                result(json).shown(Method::CallTool, View::Text, Role::Guard).text,
                "s",
                "its owner wants the text alone: {json}"
            );
        }
    }

    #[test]
    fn a_guard_sees_what_the_text_says_in_other_characters() {
        for json in [
            r#"{"content":[{"type":"text","text":"{\"a\":\"\\u0053ECRET\"}"}],"structuredContent":{"a":"SECRET"}}"#,
            r#"{"content":[{"type":"text","text":"{\"\\u0053ECRET\":1}"}],"structuredContent":{"SECRET":1}}"#,
            r#"{"content":[{"type":"text","text":"{\"a\":\"M\\u00fcller\"}"}],"structuredContent":{"a":"Müller"}}"#,
            r#"{"content":[{"type":"text","text":"{\"a\":\"x\\ny\"}"}],"structuredContent":{"a":"x\ny"}}"#,
            r#"{"content":[{"type":"text","text":"{\"a\":\"\\\"x\\\"\"}"}],"structuredContent":{"a":"\"x\""}}"#,
            r#"{"content":[{"type":"text","text":"{\"a\":\"..\\/x\"}"}],"structuredContent":{"a":"../x"}}"#,
            r#"{"content":[{"type":"text","text":"{\"a\":[true,4.2e3]}"}],"structuredContent":{"a":[true,4.2e3]}}"#,
            r#"{"content":[{"type":"text","text":"{\"a\":42E2}"}],"structuredContent":{"a":42E2}}"#,
        ] {
            let content = result(json);
            let shown = |view, role| content.shown(Method::CallTool, view, role);
            let seen = shown(View::Auto, Role::Guard);
            assert_eq!((seen.kind, &*seen.text), (ContentType::Json, json), "{json}");
            for (view, role) in [(View::Text, Role::Guard), (View::Auto, Role::Transform), (View::Auto, Role::Observe)]
            {
                let seen = shown(view, role);
                assert_eq!((seen.kind, seen.mirror), (ContentType::Text, Mirror::SameJson), "{role:?} {json}");
            }
        }
    }

    #[test]
    fn a_guard_sees_text_that_structured_content_repeats_in_the_same_characters() {
        for (text, json) in [
            (
                r#"{"é":[true,false,null,-1.5]}"#,
                r#"{"content":[{"type":"text","text":"{\"\u00e9\":[true,false,null,-1.5]}"}],"structuredContent":{"\u00e9":[true,false,null,-1.5]}}"#,
            ),
            // The one string of the structured content is the text, whatever stands in it.
            (
                r#"{"a":"\u0053"} 1e3"#,
                r#"{"content":[{"type":"text","text":"{\"a\":\"\\u0053\"} 1e3"}],"structuredContent":{"result":"{\"a\":\"\\u0053\"} 1e3"}}"#,
            ),
        ] {
            let content = result(json);
            let seen = content.shown(Method::CallTool, View::Auto, Role::Guard);
            assert_eq!((seen.kind, &*seen.text), (ContentType::Text, text), "{json}");
            let changed = content.replaced(Method::CallTool, &seen, r#"{"a":"\n"}"#).unwrap().unwrap();
            let next = changed.shown(Method::CallTool, View::Auto, Role::Guard);
            let repeats = seen.mirror == Mirror::Wrapped;
            assert_eq!(next.kind == ContentType::Text, repeats, "the next Guard: {}", changed.text());
        }
    }

    #[test]
    fn a_guard_sees_text_where_there_is_nothing_else() {
        for json in [
            r#"{"content":[{"type":"text","text":"{\"a\": 1}"}]}"#,
            r#"{"resultType":"complete","content":[{"text":"{\"a\": 1}","type":"text"}],"isError":true}"#,
            r#"{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"a":1}}"#,
            r#"{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"result":"{\"a\": 1}"}}"#,
            r#"{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":null}"#,
            r#"{"content":[{"type":"text","text":"{\"a\": 1}"}],"isError":null}"#,
        ] {
            let content = result(json);
            let seen = content.shown(Method::CallTool, View::Auto, Role::Guard);
            assert_eq!((seen.kind, &*seen.text), (ContentType::Text, r#"{"a": 1}"#), "{json}");
        }
    }

    #[test]
    fn other_shapes_are_seen_whole() {
        for json in [
            r#"{"content":[]}"#,
            r#"{"content":[{"type":"image","data":"","mimeType":"image/png"}]}"#,
            r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
            r#"{"content":[{"type":"text","text":"\ud800"}]}"#,
            r#"{"content":[{"type":"text","text":"a"}],"content":[{"type":"text","text":"b"}]}"#,
            r#"{"toolResult":1}"#,
        ] {
            assert_eq!(pass(json, View::Text, json), (json.to_owned(), Ok(None)), "{json}");
        }
    }

    #[test]
    fn changed_content_must_stay_valid() {
        let json = r#"{"content":[]}"#;
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"content":{}}"#,
            r#"{"content":[{}]}"#,
            r#"{"content":[{"type":"text"}]}"#,
            r#"{"content":[],"isError":"yes"}"#,
            &format!(r#"{{"content":[],"x":{}1{}}}"#, "[".repeat(200), "]".repeat(200)),
        ] {
            assert_eq!(pass(json, View::Json, bad).1, Err(Reason::InvalidOutput), "{bad}");
        }
        let arguments = Content::Arguments("{}".into());
        assert!(
            arguments
                .replaced(Method::CallTool, &arguments.shown(Method::CallTool, View::Auto, Role::Guard), "[]")
                .is_err()
        );
        assert!(
            arguments
                .replaced(Method::CallTool, &arguments.shown(Method::CallTool, View::Auto, Role::Guard), r#"{"a":1}"#)
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn an_error_stays_an_error() {
        let error =
            Content::Answer(Answer::Error(RawValue::from_string(r#"{"code":-1,"message":"m"}"#.into()).unwrap()));
        let seen = error.shown(Method::CallTool, View::Auto, Role::Transform);
        assert_eq!(seen.kind, ContentType::Json);
        assert!(error.replaced(Method::CallTool, &seen, r#"{"code":-1,"message":"n"}"#).unwrap().is_some());
        assert!(error.replaced(Method::CallTool, &seen, r#"{"content":[]}"#).is_err());
    }
}
