//! URIs of apps (MCP Apps, extension `io.modelcontextprotocol/ui`): resources of the scheme `ui`, to which tools and their
//! results refer. Each server chooses its own, so on the endpoint of all upstreams they have the name of their upstream in
//! front: `ui://clock/view.html` of the upstream `time` is `ui://time/clock/view.html`.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::value::RawValue;

use super::raw::to_raw;
use super::skim::Skim;
use super::splice::Splice;
use super::tokens::owned;

/// How the URIs of apps begin.
const SCHEME: &str = "ui://";
/// How they begin in JSON, in which each slash can have a backslash in front.
const IN_JSON: &str = "ui:";
/// How a character is written in JSON by its number. Any of the scheme can be.
const ESCAPE: &str = r"\u";

/// Returns the URI that an app of this upstream has on the endpoint of all upstreams; `None` if `uri` is not that of an app.
pub fn public_uri(upstream: &str, uri: &str) -> Option<String> {
    let rest = uri.strip_prefix(SCHEME)?;
    Some(format!("{SCHEME}{upstream}/{rest}"))
}

/// Returns the name of the upstream and the server's own URI of what [`public_uri`] returned; `None` for other URIs.
pub fn own_uri(public: &str) -> Option<(&str, String)> {
    let (upstream, rest) = public.strip_prefix(SCHEME)?.split_once('/')?;
    Some((upstream, format!("{SCHEME}{rest}")))
}

/// Whether a tool is for apps and not for models, as its definition says (`_meta.ui.visibility`).
pub fn is_for_apps_alone(definition: &RawValue) -> bool {
    let ui = Skim::from(definition).member("_meta").and_then(|meta| meta.member("ui"));
    let visibility = ui.and_then(|ui| ui.member("visibility"));
    let seen_by: Vec<String> = visibility.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default();
    !seen_by.is_empty() && !seen_by.iter().any(|who| who == "model")
}

/// Returns a definition or a result of this upstream with the public URIs of apps; `None` if it refers to no app. Everything
/// else keeps its bytes. URIs are found where the protocol and the extension have them: in `_meta`, and in content blocks
/// and contents of resources. Text is not searched.
pub fn published(json: &RawValue, upstream: &str) -> Option<Box<RawValue>> {
    replaced(json, upstream, |found| found.look_into(json.into(), true))
}

/// Returns an error of this upstream with the public URI of the app that its `data` names (MCP 2025-11-25, resources: error
/// handling); `None` if it names no app. Its message is not searched.
pub fn published_error(error: &RawValue, upstream: &str) -> Option<Box<RawValue>> {
    replaced(error, upstream, |found| {
        let members = Skim::from(error).members().into_iter().flatten();
        let data = members.filter(|(name, _)| name.as_deref() == Some("data"));
        data.for_each(|(_, data)| found.look_into_block(data, true));
    })
}

/// Returns this text with the public URIs in the places that `look` finds; `None` if it finds none.
fn replaced<'a>(json: &'a RawValue, upstream: &'a str, look: impl FnOnce(&mut Found<'a>)) -> Option<Box<RawValue>> {
    // To make one takes longer than to search a short text.
    static SOUGHT: LazyLock<[Finder<'_>; 2]> = LazyLock::new(|| [IN_JSON, ESCAPE].map(Finder::new));
    let text = json.get();
    if SOUGHT.iter().all(|finder| finder.find(text.as_bytes()).is_none()) {
        return None;
    }
    let mut found = Found { changed: Splice::new(text), upstream };
    look(&mut found);
    owned(found.changed.finish()?)
}

/// A text in which URIs of apps, which are JSON strings, are being replaced.
struct Found<'a> {
    changed: Splice<'a>,
    upstream: &'a str,
}

impl<'a> Found<'a> {
    /// Looks into a definition, or into a result of a tool, a prompt or a resource. `is_whole` is false for a part of a
    /// result: the protocol has these members one level deep, and nothing is looked for in deeper ones.
    fn look_into(&mut self, object: Skim<'a>, is_whole: bool) {
        for (name, value) in object.members().into_iter().flatten() {
            match name.as_deref() {
                Some("_meta") => self.look_into_meta(value),
                // Of a task that has ended.
                Some("result") if is_whole => self.look_into(value, false),
                Some("content" | "contents") => self.look_into_blocks(value),
                Some("messages") if is_whole => {
                    value.elements().into_iter().flatten().for_each(|message| self.look_into(message, false));
                }
                _ => {}
            }
        }
    }

    fn look_into_meta(&mut self, meta: Skim<'a>) {
        for (name, value) in meta.members().into_iter().flatten() {
            match name.as_deref() {
                Some("ui") => {
                    let members = value.members().into_iter().flatten();
                    members
                        .filter(|(name, _)| name.as_deref() == Some("resourceUri"))
                        .for_each(|(_, uri)| self.note(uri));
                }
                Some("ui/resourceUri") => self.note(value),
                _ => {}
            }
        }
    }

    /// Looks into a list of content blocks or of contents of resources, or into a single one.
    fn look_into_blocks(&mut self, blocks: Skim<'a>) {
        match blocks.elements() {
            Some(blocks) => blocks.for_each(|block| self.look_into_block(block, true)),
            None => self.look_into_block(blocks, true),
        }
    }

    /// Looks into a content block or, if `is_whole` is false, into the resource that one has in it.
    fn look_into_block(&mut self, block: Skim<'a>, is_whole: bool) {
        for (name, value) in block.members().into_iter().flatten() {
            match name.as_deref() {
                Some("_meta") => self.look_into_meta(value),
                Some("resource") if is_whole => self.look_into_block(value, false),
                Some("uri") => self.note(value),
                _ => {}
            }
        }
    }

    fn note(&mut self, uri: Skim<'a>) {
        if let Some(public) = uri.text().and_then(|own| public_uri(self.upstream, &own)) {
            self.changed.replace(uri.get(), to_raw(&public).get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_uri_leads_back() {
        for uri in ["ui://clock/view.html", "ui://x", "ui:///", "ui://a/b?c=ui://d#e"] {
            let public = public_uri("time", uri).unwrap();
            assert_eq!(own_uri(&public), Some(("time", uri.to_owned())), "{public}");
        }
        for uri in ["https://clock/view.html", "UI://x", "ui:x", ""] {
            assert_eq!(public_uri("time", uri), None, "{uri}");
        }
        assert_eq!(own_uri("ui://time"), None);
    }

    #[test]
    fn uris_are_changed_where_they_are_defined_and_all_else_keeps_its_bytes() {
        for (own, public) in [
            (
                r#"{"n": 1.0, "_meta":{"ui": {"resourceUri" : "ui:\/\/a\/b", "x":"ui://a"}, "ui/resourceUri":"ui://a/b","y":[ ]}}"#,
                r#"{"n": 1.0, "_meta":{"ui": {"resourceUri" : "ui://up/a/b", "x":"ui://a"}, "ui/resourceUri":"ui://up/a/b","y":[ ]}}"#,
            ),
            (
                r#"{"content":[{"type":"text","text":"ui://a"},{"uri":"ui://a","n": 1e2},{"resource":{"uri":"ui://b"}}]}"#,
                r#"{"content":[{"type":"text","text":"ui://a"},{"uri":"ui://up/a","n": 1e2},{"resource":{"uri":"ui://up/b"}}]}"#,
            ),
            (r#"{"content":[{"uri":"\u0075i://a"}]}"#, r#"{"content":[{"uri":"ui://up/a"}]}"#),
            (
                r#"{"contents":[{"uri":"ui://a","text":"<p>ui://a"},{"uri":"text://a"}]}"#,
                r#"{"contents":[{"uri":"ui://up/a","text":"<p>ui://a"},{"uri":"text://a"}]}"#,
            ),
            (
                r#"{"messages":[{"role":"user","content":{"type":"resource_link","uri":"ui://a"}}]}"#,
                r#"{"messages":[{"role":"user","content":{"type":"resource_link","uri":"ui://up/a"}}]}"#,
            ),
        ] {
            let raw = RawValue::from_string(own.into()).unwrap();
            assert_eq!(published(&raw, "up").unwrap().get(), public);
        }
        let error = RawValue::from_string(r#"{"data":{"uri":"ui://a","n": 1.0},"uri":"ui://a"}"#.into()).unwrap();
        let public = r#"{"data":{"uri":"ui://up/a","n": 1.0},"uri":"ui://a"}"#;
        assert_eq!(published_error(&error, "up").unwrap().get(), public);
        for same in
            [r#"{"content":[{"text":"ui://a"}]}"#, r#"{"_meta":{"ui":{"resourceUri":7}}}"#, "[]", r#"{"x":"ui:"}"#]
        {
            assert!(published(&RawValue::from_string(same.into()).unwrap(), "up").is_none(), "{same}");
        }
    }

    #[test]
    fn how_deep_a_result_nests_costs_no_stack_and_no_time() {
        const LEVELS: usize = 100_000;
        let nested = [(r#"{"result":"#, "}"), (r#"{"messages":["#, "]}"), (r#"{"content":{"resource":"#, "}}")];
        for (member, close) in nested {
            let (open, close) = (member.repeat(LEVELS), close.repeat(LEVELS));
            let text = format!(r#"{{"_":"ui:",{}1{close}"#, &open[1..]);
            let text = RawValue::from_string(text).unwrap();
            assert!(published(&text, "up").is_none(), "{member}");
        }
    }
}
