//! Keys that this gateway alone puts into `_meta`, and into the `data` of errors: the trace of a call, and why it was denied.
//! What a server puts there under such a key is taken out of its messages, so that clients can rely on it. So it is with what
//! clients answer to questions of servers.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::value::RawValue;

use super::skim::Skim;
use super::splice::Splice;
use super::tokens::owned;

/// How all keys of the gateway begin.
pub const OWN_KEYS: &str = "hawsepipe.dev/";

/// How deep `_meta` is looked for. What MCP defines has it eleven levels deep at most: of a resource in the result of a tool in
/// a message of a question of a task.
const DEPTH: usize = 12;
/// Members that hold any JSON, so that a `_meta` in them is not MCP's.
const OPAQUE: [&str; 7] =
    ["arguments", "data", "input", "inputSchema", "outputSchema", "requestedSchema", "structuredContent"];

/// What a value of a message is, which tells what its members are.
#[derive(Clone, Copy)]
enum Part {
    /// What MCP defines, or an array of that.
    Defined,
    /// An error (JSON-RPC 2.0, error object).
    Error,
    /// A `_meta`, which can have keys of the gateway.
    Meta,
    /// The `data` of an error, which can too. Questions to the user can be in it (MCP 2025-11-25, URL elicitation required
    /// error).
    Data,
    /// Questions or answers, under names that the server chooses (MCP 2026-07-28, `inputRequests` and `inputResponses`).
    Named,
}

impl Part {
    /// Whether keys of the gateway are taken out of an object that is this part.
    fn can_have_own_keys(self) -> bool {
        matches!(self, Self::Meta | Self::Data)
    }

    /// What the member of this name is; `None` if nothing is looked for in it. A name that cannot be decoded is none of MCP's.
    fn member(self, name: Option<&str>) -> Option<Self> {
        match (self, name) {
            (Self::Named, _) => Some(Self::Defined),
            (Self::Data, Some("elicitations")) => Some(Self::Defined),
            (Self::Data | Self::Meta, _) => None,
            (Self::Error, Some("data")) => Some(Self::Data),
            (_, Some("_meta")) => Some(Self::Meta),
            // That of a task.
            (_, Some("error")) => Some(Self::Error),
            (_, Some("inputRequests")) => Some(Self::Named),
            (_, Some(name)) if OPAQUE.contains(&name) => None,
            _ => Some(Self::Defined),
        }
    }
}

/// Returns a result or parameters without the keys of the gateway. Everything else keeps its bytes.
pub fn without_own_keys(object: &RawValue) -> Cow<'_, RawValue> {
    without(object, Part::Defined)
}

/// Returns an error without the keys of the gateway. Everything else keeps its bytes.
pub fn error_without_own_keys(error: &RawValue) -> Cow<'_, RawValue> {
    without(error, Part::Error)
}

/// Returns the answers of a client to questions, by the names of these, without the keys of the gateway. Everything else keeps
/// its bytes.
pub fn answers_without_own_keys(answers: &RawValue) -> Cow<'_, RawValue> {
    without(answers, Part::Named)
}

fn without(object: &RawValue, part: Part) -> Cow<'_, RawValue> {
    if !may_have_key(object.get().as_bytes()) {
        return Cow::Borrowed(object);
    }
    let mut without = Splice::new(object.get());
    look_into(&mut without, Skim::from(object), part, DEPTH);
    without.finish().and_then(owned).map_or(Cow::Borrowed(object), Cow::Owned)
}

/// Whether a text can have a key of the gateway: as it is, or with characters of ASCII escaped, which encoders do with a
/// slash at most.
fn may_have_key(text: &[u8]) -> bool {
    // To make one takes longer than to search a short text.
    static NAME: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(OWN_KEYS.trim_end_matches('/')));
    static ESCAPE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(br"\u00"));
    let is_ascii = |at: usize| matches!(text.get(at + br"\u00".len()), Some(b'2' | b'6' | b'7'));
    NAME.find(text).is_some() || ESCAPE.find_iter(text).any(is_ascii)
}

/// Whether this is the name of a key of the gateway.
fn is_own(name: Option<&str>) -> bool {
    name.is_some_and(|name| name.starts_with(OWN_KEYS))
}

/// Takes the keys out of this value, which is a part of the text of `without`, and of what is in it.
fn look_into(without: &mut Splice<'_>, value: Skim<'_>, part: Part, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for element in value.elements().into_iter().flatten().filter(|element| element.get().starts_with('{')) {
        look_into(without, element, part, depth);
    }
    let stays = |name: Option<&str>| !(part.can_have_own_keys() && is_own(name));
    value.retain_members(without, stays, |without, name, member| {
        if let Some(part) = part.member(name).filter(|_| member.get().starts_with(['{', '['])) {
            look_into(without, member, part, depth);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str, clean: impl Fn(&RawValue) -> Cow<'_, RawValue>) -> String {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        let cleaned = clean(&raw);
        if let Cow::Borrowed(same) = &cleaned {
            assert_eq!(same.get(), text);
        }
        cleaned.get().to_owned()
    }

    #[test]
    fn keys_of_the_gateway_are_taken_out_wherever_meta_is() {
        for (text, expected) in [
            (r#"{"_meta":{"hawsepipe.dev/trace":[]}}"#, r#"{"_meta":{}}"#),
            (
                r#"{ "n": 1.0, "_meta" : { "a" : 1e2 , "hawsepipe.dev/x" : {"y":","} , "b":[ ] }, "m" : 2 }"#,
                r#"{ "n": 1.0, "_meta" : { "a" : 1e2 , "b":[ ] }, "m" : 2 }"#,
            ),
            (r#"{"_meta":{"h\u0061wsepipe\u002Edev\/trace":1,"\ud800":2}}"#, r#"{"_meta":{"\ud800":2}}"#),
            (r#"{"\u005fmeta":{"hawsepipe.dev/x":1}}"#, r#"{"\u005fmeta":{}}"#),
            (r#"{"_meta":{"hawsepipe.dev/x":1},"_meta":{"hawsepipe.dev/x":2}}"#, r#"{"_meta":{},"_meta":{}}"#),
            (
                r#"{"content":[{"resource":{"_meta":{"hawsepipe.dev/x":1}}},{"_meta":{"hawsepipe.dev/y":1}}]}"#,
                r#"{"content":[{"resource":{"_meta":{}}},{"_meta":{}}]}"#,
            ),
            (r#"{"tools":[{"name":"a","_meta":{"hawsepipe.dev/x":1}}]}"#, r#"{"tools":[{"name":"a","_meta":{}}]}"#),
            (
                r#"{"status":"failed","error":{"code":1,"data":{"hawsepipe.dev/denied":{},"k":1}}}"#,
                r#"{"status":"failed","error":{"code":1,"data":{"k":1}}}"#,
            ),
            (
                r#"{"inputRequests":{"data":{"params":{"_meta":{"hawsepipe.dev/x":1}}},"_meta":{"params":{"_meta":{"hawsepipe.dev/x":1,"k":1}}}}}"#,
                r#"{"inputRequests":{"data":{"params":{"_meta":{}}},"_meta":{"params":{"_meta":{"k":1}}}}}"#,
            ),
        ] {
            assert_eq!(cleaned(text, without_own_keys), expected);
        }
        let error = r#"{"code":1,"message":"m","data":{"hawsepipe.dev/denied":{}}}"#;
        assert_eq!(cleaned(error, error_without_own_keys), r#"{"code":1,"message":"m","data":{}}"#);
        let asks = r#"{"data":{"a":1, "hawsepipe.dev/x":1, "elicitations": [{"_meta":{"hawsepipe.dev/x":1}, "b":1.0}] , "hawsepipe.dev/y":1,"c":2}}"#;
        let cleaned_of_all = r#"{"data":{"a":1, "elicitations": [{"_meta":{}, "b":1.0}],"c":2}}"#;
        assert_eq!(cleaned(asks, error_without_own_keys), cleaned_of_all);
        let only_in_it = r#"{"data":{"elicitations":[{"_meta":{"hawsepipe.dev/x":1}}], "k":1}}"#;
        let cleaned_in_it = r#"{"data":{"elicitations":[{"_meta":{}}], "k":1}}"#;
        assert_eq!(cleaned(only_in_it, error_without_own_keys), cleaned_in_it);
        let answers = r#"{"data":{"action":"accept","_meta":{"hawsepipe.dev/x":1}},"hawsepipe.dev/a":{"n": 1.0}}"#;
        let cleaned_answers = r#"{"data":{"action":"accept","_meta":{}},"hawsepipe.dev/a":{"n": 1.0}}"#;
        assert_eq!(cleaned(answers, answers_without_own_keys), cleaned_answers);
    }

    #[test]
    fn what_is_the_servers_own_keeps_its_bytes() {
        let deep = format!(r#"{}{{"_meta":{{"hawsepipe.dev/x":1}}}}{}"#, "[".repeat(20_000), "]".repeat(20_000));
        for text in [
            r#"{ "content": [ {"text":"hawsepipe.dev/trace"} ], "n": 1.0 }"#,
            r#"{"structuredContent":{"_meta":{"hawsepipe.dev/x":1}},"hawsepipe.dev/x":1}"#,
            r#"{"level":"info","data":{"_meta":{"hawsepipe.dev/x":1}}}"#,
            r#"{"_meta":{"other.dev/x":"\u0061 hawsepipe.dev/x"}}"#,
            r#"{"_meta":["hawsepipe.dev/x"]}"#,
            r#"{"inputRequests":{"a":{"params":{"requestedSchema":{"_meta":{"hawsepipe.dev/x":1}}}}}}"#,
            &deep,
        ] {
            assert_eq!(cleaned(text, without_own_keys), text);
        }
    }
}
