//! URIs that clients may not use because chains over lists keep from clients the resource that they name, or the template
//! that they fit.
//!
//! A server can take several URIs for the same resource, so they are compared in several [spellings](spellings). It is better
//! to refuse too many of the URIs that no list names than too few.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use regex::Regex;

use super::templates::{MAX_EXPRESSIONS, MAX_LENGTH, MAX_OF_ONE_UPSTREAM, broad_pattern_of};
use super::uri_spelling::{decoded, is_unreserved, plainest, spelling, spellings, standard};
use crate::domain::item::ItemKind;

/// The hidden URIs.
#[derive(Default)]
pub(crate) struct HiddenUris {
    /// By the index of the upstream in the plan.
    of: HashMap<usize, OfUpstream>,
    /// All templates, by their texts.
    templates: HashMap<String, Arc<HiddenTemplate>>,
}

#[derive(Default)]
struct OfUpstream {
    /// The URIs of resources as their server lists them, by their plainest spellings.
    resources: HashMap<String, String>,
    templates: Vec<Arc<HiddenTemplate>>,
}

/// A template that is kept from clients.
struct HiddenTemplate {
    text: String,
    /// What stands before the first expression and the query, as [`spelling`] has it, and the same of its standard form.
    starts: Vec<String>,
    /// Compiled when it is first needed; `None` if the template cannot be matched.
    pattern: OnceLock<Option<Regex>>,
}

impl HiddenUris {
    /// Hides the URIs of a resource or a template of this upstream. Items of other kinds have none. Templates of `previous`
    /// are not compiled again.
    pub(super) fn hide(&mut self, upstream: usize, kind: ItemKind, name: &str, previous: &Self) {
        match kind {
            ItemKind::Resource => {
                let resources = &mut self.of.entry(upstream).or_default().resources;
                let forms = standard(name).into_iter().chain([name.to_owned()]);
                resources.extend(forms.map(|form| (plainest(&form), name.to_owned())));
            }
            ItemKind::Template => {
                let known = self.templates.get(name).or_else(|| previous.templates.get(name)).map(Arc::clone);
                let template = known.unwrap_or_else(|| Arc::new(HiddenTemplate::new(name.to_owned())));
                self.templates.insert(name.to_owned(), Arc::clone(&template));
                self.of.entry(upstream).or_default().templates.push(template);
            }
            ItemKind::Tool | ItemKind::Prompt => {}
        }
    }

    /// Returns the hidden resource or template of this upstream that a URI may lead to, by its kind and name.
    pub(crate) fn find(&self, upstream: usize, uri: &str) -> Option<(ItemKind, &str)> {
        let hidden = self.of.get(&upstream)?;
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
        let start = path_of(&text).split('{').next().unwrap_or_default();
        let forms = standard(start).into_iter().chain([start.to_owned()]);
        let starts = forms.map(|form| spelling(&form, is_unreserved)).collect();
        Self { starts, text, pattern: OnceLock::new() }
    }

    /// Whether one of the spellings fits. A template that cannot be matched, or for which there is no room, fits every URI
    /// that begins as it does.
    fn fits(&self, spellings: &[String], has_room: bool) -> bool {
        let pattern = if has_room { self.pattern.get_or_init(|| self.compiled()).as_ref() } else { None };
        let fits = |spelling: &String| match pattern {
            Some(pattern) => pattern.is_match(spelling),
            None => self.starts.iter().any(|start| spelling.starts_with(start)),
        };
        spellings.iter().any(fits)
    }

    /// Compiles the template without its query: a server can read a query in any order, and with more in it. Of a template that
    /// is too large to be matched nothing is compiled: servers write templates of any length.
    fn compiled(&self) -> Option<Regex> {
        let path = path_of(&self.text);
        if path.len() > MAX_LENGTH || path.matches('{').count() > MAX_EXPRESSIONS {
            return None;
        }
        let forms = [Some(decoded(path, is_unreserved)), standard_template(path)];
        let forms: Vec<_> = forms.iter().flatten().map(|form| form.trim_end_matches('/')).collect();
        broad_pattern_of(&forms)
    }
}

/// Returns what stands before the query and the fragment of a template. An expression of a fragment is none: the TypeScript SDK
/// takes it for any text.
fn path_of(template: &str) -> &str {
    let fragment = template.match_indices('#').map(|(at, _)| at).find(|at| !template[..*at].ends_with('{'));
    let ends = [template.find('?'), template.find("{&"), fragment];
    let end = ends.into_iter().flatten().min().unwrap_or(template.len());
    template[..end].trim_end_matches('{')
}

/// Returns the form that the URL Standard gives the URIs of a template; `None` if it gives them none.
fn standard_template(template: &str) -> Option<String> {
    // Small letters and digits stay as they are wherever they stand in a URL.
    let word = |place: usize| format!("zq{place}qz");
    let (mut plain, mut rest, mut expressions) = (String::new(), template, Vec::new());
    while let Some((literal, after)) = rest.split_once('{') {
        let (expression, after) = after.split_once('}')?;
        plain += literal;
        plain += &word(expressions.len());
        expressions.push(expression);
        rest = after;
    }
    plain += rest;
    let restored =
        |form: String, (place, expression): (usize, &&str)| form.replace(&word(place), &format!("{{{expression}}}"));
    Some(expressions.iter().enumerate().fold(standard(&plain)?, restored))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(kind: ItemKind, names: &[&str]) -> HiddenUris {
        let mut hidden = HiddenUris::default();
        names.iter().for_each(|name| hidden.hide(0, kind, name, &HiddenUris::default()));
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
            ("mem://r1", "mem://r2", false),
            ("mem://r1", "mem://r1/a", false),
            ("mem://r1", "mem://r1%", false),
            ("file:///A%2Fb", "file:///a/b", true),
            ("file:///a/b", "file:///a%2fb", true),
            ("file:///\u{fc}", "file:///%C3%BC", true),
            ("file:///a", "file:///b/../a", true),
            ("file:///a", "file:///../../a", true),
            ("file:///a", "file:////a", true),
            ("file:///a/b", "file:///a//b", true),
            ("mem://a/b", "mem://../a/b", false),
            ("urn:a:b", "URN:a:%62", true),
        ] {
            let found = hidden(ItemKind::Resource, &[own]);
            assert_eq!(found.find(0, uri), is_found.then_some((ItemKind::Resource, own)), "{own} {uri}");
            assert!(found.find(1, uri).is_none());
        }
    }

    #[test]
    fn a_resource_is_found_by_what_the_url_standard_takes_for_the_same() {
        for (own, uris) in [
            (
                "file:///secret/a",
                [
                    "file:/secret/a",
                    "file:secret/a",
                    "file://localhost/secret/a",
                    "file:///secret\\a",
                    "file:\\\\\\secret\\a",
                    "file:///x/%2E%2e/secret/a",
                    " file:///secret/a ",
                    "file:///x%2Fy/../secret/a",
                ],
            ),
            (
                "http://example.com/secret",
                [
                    "http://example.com:80/secret",
                    "http:example.com/secret",
                    "http:///example.com/secret",
                    "http://example.com\\secret",
                    "http://ex%61mple.com/secret",
                    "http://\u{ff45}xample.com/secret",
                    "http://user:word@example.com/secret",
                    "http://EXAMPLE.com:080/./secret#x",
                ],
            ),
        ] {
            let found = hidden(ItemKind::Resource, &[own]);
            for uri in uris {
                assert_eq!(found.find(0, uri), Some((ItemKind::Resource, own)), "{uri}");
            }
        }
    }

    #[test]
    fn a_resource_with_another_spelling_is_found_by_its_usual_one() {
        for own in ["http://EXAMPLE.com:80/secret", "http://127.1:80/secret"] {
            let plain = own.to_lowercase().replace("127.1", "127.0.0.1").replace(":80", "");
            assert!(hidden(ItemKind::Resource, &[own]).find(0, &plain).is_some(), "{own}");
        }
        assert!(
            hidden(ItemKind::Resource, &["http://example.com/secret"])
                .find(0, "http://example.com:81/secret")
                .is_none()
        );
    }

    #[test]
    fn a_name_with_a_query_hides_its_path_whatever_is_asked_of_it() {
        for (kind, own, path) in [
            (ItemKind::Resource, "mem://s?x=1", "mem://s"),
            (ItemKind::Template, "db://secret?id={id}", "db://secret"),
            (ItemKind::Template, "db://secret{?id,x}", "db://secret"),
            (ItemKind::Template, "db://{table}/rows{?id}{&x}", "db://secret/rows"),
            (ItemKind::Template, "db://secret{&id}", "db://secret"),
            (ItemKind::Template, "db://secret#{id}", "db://secret"),
        ] {
            let found = hidden(kind, &[own]);
            for query in ["", "?x=1", "?x=1&", "?x=1&y=2", "?y=2&x=1", "?&id=4", "/?id=4", "#x", "?id=1/2", "%3Fid=4"] {
                assert!(found.find(0, &format!("{path}{query}")).is_some(), "{own} {path}{query}");
            }
            assert!(found.find(0, &format!("{path}x?x=1")).is_none(), "{own}");
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
            ("mem://t/{id}", "mem://t/1?x/y", true),
            // The SDKs' patterns of an expression admit a question mark and a number sign.
            ("mem://t/{id}", "mem://t/?x", true),
            ("mem://t/{id}", "mem://t/#x", true),
            ("mem://t/{id}/end", "mem://t/?x/end", true),
            ("mem://t/{id}", "mem://t/x/../1", true),
            ("mem://t/{id}", "mem://t//1", true),
            ("mem://t/{id}", "mem://t/{id}", true),
            ("mem://t/{id}", "mem://t/1/2", false),
            ("mem://t/{id}", "mem://u/1", false),
            ("mem://t/{id}", "mem://t", false),
            ("mem://t/{id*}", "mem://t/1/2", true),
            ("mem://t{/id}", "mem://t/1", true),
            ("mem://t{#id}", "mem://t#1", true),
            ("mem://t{#id}", "mem://t1", true),
            ("mem://t{;id}", "mem://t;id=1", true),
            ("mem://t{;id}", "mem://t1", true),
            ("mem://t/{name}.txt", "mem://t/a.txt", true),
            ("mem://t/{name}.txt", "mem://t/aXtxt", true),
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
    fn a_template_fits_what_the_url_standard_takes_for_the_same() {
        for (own, uri, is_found) in [
            ("file:///s/{id}", "file:s/1", true),
            ("file:///s/{id}", "file://localhost/s/1", true),
            ("file:///s/{id}", "file:///s\\1", true),
            ("http://example.com/s/{id}", "http:example.com:80\\s/1", true),
            ("HTTP://example.com:80/s/{id}", "http://example.com/s/1", true),
            ("http://example.com:80/s/{unclosed", "http:example.com/s/1", true),
            ("http://example.com/s/{id}", "http://example.com:81/s/1", false),
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

    #[test]
    fn a_template_of_any_length_takes_no_time() {
        for own in [format!("mem://t/{}", "{a}".repeat(1_000_000)), format!("mem://t/{{a}}{}", "b".repeat(4 << 20))] {
            let found = hidden(ItemKind::Template, &[&own]);
            assert!(found.find(0, "mem://t/1").is_some() && found.find(0, "mem://u/1").is_none());
        }
    }

    #[test]
    fn no_template_is_compiled_twice() {
        let before = hidden(ItemKind::Template, &["mem://t/{id}"]);
        assert!(before.find(0, "mem://t/1").is_some());
        let mut after = HiddenUris::default();
        for upstream in [3, 4] {
            after.hide(upstream, ItemKind::Template, "mem://t/{id}", &before);
            assert!(Arc::ptr_eq(&after.of[&upstream].templates[0], &before.of[&0].templates[0]));
        }
        assert!(after.find(4, "mem://t/1").is_some());
    }
}
