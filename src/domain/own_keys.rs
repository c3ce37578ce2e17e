//! Keys that this gateway alone puts into `_meta`, and into the `data` of errors: the trace of a call, and why it was denied.
//! What a server puts there under such a key is taken out of its messages, so that clients can rely on it.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::value::RawValue;

use super::skim::Skim;

/// How all keys of the gateway begin.
pub const OWN_KEYS: &str = "hawsepipe.dev/";

/// How deep `_meta` is looked for. What MCP defines has it eleven levels deep at most: of a resource in the result of a tool in a
/// message of a question of a task.
const DEPTH: usize = 12;
/// Members that hold any JSON, so that a `_meta` in them is not MCP's.
const OPAQUE: [&str; 7] =
    ["arguments", "data", "input", "inputSchema", "outputSchema", "requestedSchema", "structuredContent"];
/// The member that can have keys of the gateway, in everything but errors.
const META: &str = "_meta";
/// The same in errors (JSON-RPC 2.0).
const DATA: &str = "data";

/// Returns a result, or parameters, of a server without the keys of the gateway. Everything else keeps its bytes.
pub fn without_own_keys(object: &RawValue) -> Cow<'_, RawValue> {
    without(object, META)
}

/// Returns an error of a server without the keys of the gateway. Everything else keeps its bytes.
pub fn error_without_own_keys(error: &RawValue) -> Cow<'_, RawValue> {
    without(error, DATA)
}

fn without<'a>(object: &'a RawValue, holder: &str) -> Cow<'a, RawValue> {
    if !may_have_key(object.get().as_bytes()) {
        return Cow::Borrowed(object);
    }
    let mut edited = Edited { text: object.get(), copied: 0, new: String::new() };
    edited.look_into(Skim::from(object), holder, DEPTH);
    edited.finish().map_or(Cow::Borrowed(object), Cow::Owned)
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

/// A text of which parts were taken out.
struct Edited<'a> {
    text: &'a str,
    /// How much of the text is copied, or taken out.
    copied: usize,
    new: String,
}

impl<'a> Edited<'a> {
    /// Takes the keys out of the members called `holder` of an object, and of what is in it.
    fn look_into(&mut self, value: Skim<'a>, holder: &str, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        for element in value.elements().into_iter().flatten().filter(|element| element.get().starts_with('{')) {
            self.look_into(element, holder, depth);
        }
        for (name, value) in
            value.members().into_iter().flatten().filter(|(_, value)| value.get().starts_with(['{', '[']))
        {
            match name.as_deref() {
                Some(name) if name == holder => self.take_out(value),
                Some(name) if OPAQUE.contains(&name) => {}
                // The error of a task.
                Some("error") => self.look_into(value, DATA, depth),
                _ => self.look_into(value, META, depth),
            }
        }
    }

    /// Takes the keys out of this object, if it has any.
    fn take_out(&mut self, object: Skim<'a>) {
        let is_own = |name: &Option<Cow<'_, str>>| name.as_deref().is_some_and(|name| name.starts_with(OWN_KEYS));
        let Some(members) = object.members().filter(|members| members.clone().any(|(name, _)| is_own(&name))) else {
            return;
        };
        let mut from = self.place(object) + 1;
        self.new.push_str(&self.text[self.copied..from]);
        let mut is_first = true;
        for (name, value) in members {
            let end = self.place(value) + value.get().len();
            if !is_own(&name) {
                let member = self.text[from..end].trim_start_matches([' ', '\t', '\r', '\n', ',']);
                self.new.push_str(if std::mem::take(&mut is_first) { "" } else { "," });
                self.new.push_str(member);
            }
            from = end;
        }
        self.copied = from;
    }

    /// Where this value, which is a part of the text, begins.
    fn place(&self, value: Skim<'_>) -> usize {
        value.get().as_ptr() as usize - self.text.as_ptr() as usize
    }

    /// Returns the new text; `None` if nothing was taken out.
    fn finish(mut self) -> Option<Box<RawValue>> {
        if self.copied == 0 {
            return None;
        }
        self.new.push_str(&self.text[self.copied..]);
        RawValue::from_string(self.new).ok()
    }
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
                r#"{ "n": 1.0, "_meta" : {"a" : 1e2,"b":[ ] }, "m" : 2 }"#,
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
        ] {
            assert_eq!(cleaned(text, without_own_keys), expected);
        }
        let error = r#"{"code":1,"message":"m","data":{"hawsepipe.dev/denied":{}}}"#;
        assert_eq!(cleaned(error, error_without_own_keys), r#"{"code":1,"message":"m","data":{}}"#);
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
            &deep,
        ] {
            assert_eq!(cleaned(text, without_own_keys), text);
        }
    }
}
