//! URIs that clients may not use because chains over lists keep from clients the resource that they name, or the template
//! that they fit.
//!
//! A server can take several URIs for the same resource, so a URI is compared in several spellings (RFC 3986, 6.2.2, and
//! beyond it where a server is likely to see no difference). It is better to refuse too many of the URIs that no list names
//! than too few.

use std::collections::HashMap;
use std::sync::OnceLock;

use regex::Regex;

use super::templates::{MAX_OF_ONE_UPSTREAM, pattern_of};
use crate::domain::item::{Item, ItemKind};

/// The hidden URIs, by the index of the upstream in the plan.
#[derive(Default)]
pub(crate) struct HiddenUris(HashMap<usize, OfUpstream>);

#[derive(Default)]
struct OfUpstream {
    /// The URIs of resources as their server lists them, by their plainest spelling.
    resources: HashMap<String, String>,
    templates: Vec<HiddenTemplate>,
}

/// A template that is kept from clients.
struct HiddenTemplate {
    text: String,
    /// What stands before the first expression, as [`spelling`] has it.
    start: String,
    /// Compiled when it is first needed; `None` if the template cannot be matched.
    pattern: OnceLock<Option<Regex>>,
}

impl HiddenUris {
    /// Hides the URIs of a resource or a template of this upstream. Items of other kinds have none.
    pub(super) fn hide(&mut self, upstream: usize, item: &Item) {
        let name = item.name.clone();
        match item.kind {
            ItemKind::Resource => {
                self.0.entry(upstream).or_default().resources.insert(spelling(without_fragment(&name), |_| true), name);
            }
            ItemKind::Template => {
                self.0.entry(upstream).or_default().templates.push(HiddenTemplate::new(name));
            }
            ItemKind::Tool | ItemKind::Prompt => {}
        }
    }

    /// Returns the hidden resource or template of this upstream that a URI may lead to, by its kind and name.
    pub(crate) fn find(&self, upstream: usize, uri: &str) -> Option<(ItemKind, &str)> {
        let hidden = self.0.get(&upstream)?;
        let spellings = spellings(uri);
        if let Some(own) = spellings.iter().find_map(|spelling| hidden.resources.get(spelling)) {
            return Some((ItemKind::Resource, own));
        }
        let mut templates = hidden.templates.iter().enumerate();
        let fitting = templates.find(|(place, template)| template.fits(&spellings, *place < MAX_OF_ONE_UPSTREAM))?.1;
        Some((ItemKind::Template, &fitting.text))
    }
}

impl HiddenTemplate {
    fn new(text: String) -> Self {
        let start = spelling(text.split('{').next().unwrap_or_default(), is_unreserved);
        Self { text, start, pattern: OnceLock::new() }
    }

    /// Whether one of the spellings fits. A template that cannot be matched, or for which there is no room, fits every URI
    /// that begins as it does.
    fn fits(&self, spellings: &[String], has_room: bool) -> bool {
        let pattern = || pattern_of(decoded(&self.text, is_unreserved).trim_end_matches('/'), true);
        let pattern = if has_room { self.pattern.get_or_init(pattern).as_ref() } else { None };
        let fits = |spelling: &String| match pattern {
            Some(pattern) => pattern.is_match(spelling),
            None => spelling.starts_with(&self.start),
        };
        spellings.iter().any(fits)
    }
}

/// Returns a URI as it is, and in spellings that a server may take for the same: with and without its query.
fn spellings(uri: &str) -> Vec<String> {
    let whole = without_fragment(uri);
    let bare = whole.split('?').next().unwrap_or_default();
    let mut all = vec![uri.to_owned()];
    for part in [whole, bare] {
        all.push(spelling(part, is_unreserved));
        all.push(spelling(part, |_| true));
    }
    all.dedup();
    all
}

fn without_fragment(uri: &str) -> &str {
    uri.split('#').next().unwrap_or_default()
}

/// Returns a URI in lower case, without the percent-encoding of the bytes that `decodes` admits, without dot segments, and
/// without slashes at the end of its path.
fn spelling(uri: &str, decodes: impl Fn(u8) -> bool) -> String {
    let plain = decoded(uri, decodes).to_ascii_lowercase();
    let (path, query) = plain.split_once('?').map_or((&*plain, None), |(path, query)| (path, Some(query)));
    let path = without_dot_segments(path);
    let path = path.trim_end_matches('/');
    query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
}

fn decoded(uri: &str, decodes: impl Fn(u8) -> bool) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(uri.len()), uri.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = escaped.filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|byte| decodes(*byte)) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// RFC 3986, 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// RFC 3986, 5.2.4. The scheme and the authority are no segments.
fn without_dot_segments(uri: &str) -> String {
    let segments: Vec<_> = uri.split('/').collect();
    let has_authority = matches!(segments.as_slice(), [scheme, "", _, ..] if scheme.ends_with(':'));
    let fixed = if has_authority { 3 } else { 1 };
    let mut kept: Vec<&str> = Vec::with_capacity(segments.len());
    for segment in segments {
        match segment {
            "." if kept.len() >= fixed => {}
            ".." if kept.len() >= fixed => kept.truncate((kept.len() - 1).max(fixed)),
            _ => kept.push(segment),
        }
    }
    kept.join("/")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::raw::to_raw;

    fn hidden(kind: ItemKind, names: &[&str]) -> HiddenUris {
        let mut hidden = HiddenUris::default();
        for name in names {
            let definition = to_raw(&json!({kind.name_member(): name, "name": "x"}));
            hidden.hide(0, &Item::parse(kind, &definition).unwrap());
        }
        hidden
    }

    #[test]
    fn a_resource_is_found_in_each_of_its_spellings() {
        for (own, uri, is_found) in [
            ("mem://r1", "mem://r1", true),
            ("mem://r1", "MEM://R1", true),
            ("mem://r1", "mem://r1/", true),
            ("mem://r1", "mem://%721", true),
            ("mem://r1", "mem://r1#x", true),
            ("mem://r1", "mem://r1?x=1", true),
            ("mem://r1", "mem://r1/./a/..", true),
            ("mem://r1?x=1", "mem://r1?X=1", true),
            ("mem://r1?x=1", "mem://r1?x=2", false),
            ("mem://r1", "mem://r2", false),
            ("mem://r1", "mem://r1/a", false),
            ("mem://r1", "mem://r1%", false),
            ("file:///A%2Fb", "file:///a/b", true),
            ("file:///a/b", "file:///a%2fb", true),
            ("file:///\u{fc}", "file:///%C3%BC", true),
            ("file:///a", "file:///b/../a", true),
            ("file:///a", "file:///../../a", true),
            ("mem://a/b", "mem://../a/b", false),
            ("urn:a:b", "URN:a:%62", true),
        ] {
            let found = hidden(ItemKind::Resource, &[own]);
            assert_eq!(found.find(0, uri), is_found.then_some((ItemKind::Resource, own)), "{own} {uri}");
            assert!(found.find(1, uri).is_none());
        }
    }

    #[test]
    fn a_template_fits_each_spelling_of_what_it_expands_to() {
        for (own, uri, is_found) in [
            ("mem://t/{id}", "mem://t/1", true),
            ("mem://t/{id}", "MEM://T/1/", true),
            ("mem://t/{id}", "mem://%74/1", true),
            ("mem://t/{id}", "mem://%74/a%2Fb", true),
            ("mem://t/{id}", "mem://t/1#x", true),
            ("mem://t/{id}", "mem://t/1?x", true),
            ("mem://t/{id}", "mem://t/x/../1", true),
            ("mem://t/{id}", "mem://t/{id}", true),
            ("mem://t/{id}", "mem://t/1/2", false),
            ("mem://t/{id}", "mem://u/1", false),
            ("mem://%74/{id}/", "mem://t/1", true),
            ("mem://t/{+path}", "mem://t//", true),
            ("mem://t/{+path}", "mem://t/a\nb", true),
            ("{+anything}", "mem://t/1", true),
            ("mem://t/{unclosed", "mem://t/1/2", true),
            ("mem://t/{unclosed", "mem://u/1", false),
        ] {
            let found = hidden(ItemKind::Template, &[own]);
            assert_eq!(found.find(0, uri), is_found.then_some((ItemKind::Template, own)), "{own} {uri}");
        }
    }

    #[test]
    fn templates_beyond_the_room_for_them_hide_what_begins_as_they_do() {
        let names: Vec<_> = (0..=MAX_OF_ONE_UPSTREAM).map(|n| format!("db{n}://t/{{row}}")).collect();
        let found = hidden(ItemKind::Template, &names.iter().map(String::as_str).collect::<Vec<_>>());
        let last = &names[MAX_OF_ONE_UPSTREAM];
        assert_eq!(found.find(0, &last.replace("{row}", "1/2")), Some((ItemKind::Template, last.as_str())));
        assert_eq!(found.find(0, "db0://t/1/2"), None);
    }
}
