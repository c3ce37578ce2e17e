//! Templates of the URIs of resources (RFC 6570), and which upstream has the template that a URI fits.

use std::collections::HashMap;
use std::sync::Arc;

use regex::{Regex, RegexBuilder, escape};

use crate::domain::item::ItemKind;
use crate::domain::route::Route;

/// The maximum length of a template that is matched, in bytes.
const MAX_LENGTH: usize = 512;
/// The maximum number of expressions in a template that is matched.
const MAX_EXPRESSIONS: usize = 8;
/// The maximum number of templates of all upstreams that are matched. They are small: each has few expressions.
const MAX_TEMPLATES: usize = 1000;
/// The maximum size of a compiled template, in bytes.
const MAX_COMPILED: usize = 32 << 10;

/// A template and the upstream that lists it.
struct Template {
    text: String,
    /// The length of what stands before the first expression.
    literal: usize,
    pattern: Arc<Regex>,
    upstream: usize,
}

/// The templates of all upstreams.
#[derive(Default)]
pub(crate) struct Templates(Vec<Template>);

impl Templates {
    /// Collects the templates of these routes. Those of `previous` are not compiled again. A template fits no URI if it
    /// is none, is too large, or does not begin with a scheme: it would fit the URIs of any upstream.
    pub(crate) fn of(routes: &[Arc<Route>], previous: &Self) -> Self {
        let known: HashMap<_, _> = previous.0.iter().map(|known| (&*known.text, &known.pattern)).collect();
        let listed = routes.iter().filter(|route| route.item.kind == ItemKind::Template && route.public.is_some());
        let templates = listed.filter_map(|route| {
            let text = &route.item.name;
            let pattern = known.get(&**text).map(|pattern| Arc::clone(pattern));
            let pattern = pattern.or_else(|| pattern_of(text).map(Arc::new))?;
            let literal = text.find('{').unwrap_or(text.len());
            Some(Template { text: text.clone(), literal, pattern, upstream: route.upstream })
        });
        let mut templates: Vec<_> = templates.take(MAX_TEMPLATES).collect();
        // The sort is stable, so of equals the first of the list comes first.
        templates.sort_by_key(|template| std::cmp::Reverse(template.literal));
        Self(templates)
    }

    /// Returns the index of the upstream with the template that the URI fits; of several, with the one whose text before
    /// the first expression is the longest.
    pub(crate) fn find(&self, uri: &str) -> Option<usize> {
        let fits = |template: &&Template| {
            uri.get(..template.literal) == template.text.get(..template.literal) && template.pattern.is_match(uri)
        };
        self.0.iter().find(fits).map(|template| template.upstream)
    }
}

/// Returns a pattern of the URIs that a template can expand to.
fn pattern_of(template: &str) -> Option<Regex> {
    let is_small = template.len() <= MAX_LENGTH && template.matches('{').count() <= MAX_EXPRESSIONS;
    if !is_small || !begins_with_scheme(template) {
        return None;
    }
    let (mut pattern, mut rest) = (String::from("^"), template);
    while let Some((literal, after)) = rest.split_once('{') {
        let (expression, after) = after.split_once('}')?;
        pattern.push_str(&escape(literal));
        pattern.push_str(expanded(expression)?);
        rest = after;
    }
    pattern.push_str(&escape(rest));
    pattern.push('$');
    RegexBuilder::new(&pattern).size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).build().ok()
}

/// Whether the text begins with the scheme of a URI, such as `file:`.
fn begins_with_scheme(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Returns a pattern of what an expression can expand to, by its operator (RFC 6570, 3.2).
fn expanded(expression: &str) -> Option<&'static str> {
    Some(match expression.chars().next()? {
        '+' => ".+",
        '#' => "(?:#.*)?",
        '.' => r"(?:\.[^/?#]+)?",
        '/' => "(?:/[^?#]*)?",
        ';' => "(?:;[^/?#]*)?",
        '?' => r"(?:\?[^#]*)?",
        '&' => "(?:&[^#]*)?",
        _ => "[^/?#]+",
    })
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::domain::item::Item;
    use crate::domain::plan::PrefixMode;
    use crate::domain::route::{Offer, Routes};

    #[test]
    fn a_template_fits_what_it_expands_to() {
        for (template, uri, fits) in [
            ("file:///{name}", "file:///a.txt", true),
            ("file:///{name}", "file:///\u{fc}.txt", true),
            ("file:///{name}", "file:///a/b", false),
            ("file:///{name}", "file:///", false),
            ("file:///{+path}", "file:///a/b", true),
            ("a.b:{x}", "aXb:1", false),
            ("db://{table}/rows{?limit,offset}", "db://t/rows", true),
            ("db://{table}/rows{?limit,offset}", "db://t/rows?limit=2", true),
            ("db://{table}/rows{?limit,offset}", "db://t/columns", false),
            ("x:{/path*}", "x:/a/b", true),
            ("x:{unclosed", "x:{unclosed", false),
            ("x:{}", "x:", false),
            ("{+anything}", "x:y", false),
            ("{scheme}://a", "x://a", false),
        ] {
            assert_eq!(pattern_of(template).is_some_and(|pattern| pattern.is_match(uri)), fits, "{template} {uri}");
        }
        assert!(pattern_of(&format!("x:{}", "{a}".repeat(9))).is_none());
    }

    #[test]
    fn the_most_literal_template_has_the_uri_and_nothing_is_compiled_twice() {
        let template = |text: &str| {
            let definition = format!(r#"{{"uriTemplate":"{text}"}}"#);
            Item::parse(ItemKind::Template, &RawValue::from_string(definition).unwrap()).unwrap()
        };
        let (all, some, same) = (template("file:{+path}"), template("file:///b/{name}"), template("file:///b/{n}"));
        let none = Default::default();
        let offer = |upstream, items| Offer { upstream, items, overrides: &[], ever_seen: &none };
        let offers = [offer("a", vec![&all]), offer("b", vec![&some]), offer("c", vec![&same])];
        let routes = Routes::build(PrefixMode::Always, &offers);
        let templates = Templates::of(routes.all(), &Templates::default());
        assert_eq!([templates.find("file:///a"), templates.find("file:///b/c")], [Some(0), Some(1)]);
        assert_eq!(templates.find("x:y"), None);
        let again = Templates::of(routes.all(), &templates);
        assert!(again.0.iter().zip(&templates.0).all(|(new, old)| Arc::ptr_eq(&new.pattern, &old.pattern)));
    }
}
