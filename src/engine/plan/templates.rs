//! Templates of the URIs of resources (RFC 6570), and which upstream has the template that a URI fits.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use regex::{Regex, RegexBuilder, escape};

use crate::domain::item::ItemKind;
use crate::domain::route::Route;

/// The maximum length of a template that is matched, in bytes.
pub(super) const MAX_LENGTH: usize = 512;
/// The maximum number of expressions in a template that is matched.
pub(super) const MAX_EXPRESSIONS: usize = 8;
/// The maximum number of templates of one upstream that are matched.
pub(super) const MAX_OF_ONE_UPSTREAM: usize = 64;
/// The maximum number of templates of all upstreams that are matched. They are small: each has few expressions.
pub(super) const MAX_TEMPLATES: usize = 1000;
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

/// The upstreams with a template that a URI fits, by their indexes in the plan.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fit {
    None,
    One(usize),
    /// The first two of several upstreams.
    Several(usize, usize),
}

/// The templates of all upstreams.
#[derive(Default)]
pub(crate) struct Templates {
    matched: Vec<Template>,
    /// The number of templates of each upstream that are not matched, where there are any.
    unmatched: BTreeMap<usize, usize>,
}

impl Templates {
    /// Collects the templates of these routes, of the upstreams that are open. Those of `previous` are not compiled again. A template
    /// fits no URI if it is none, is too large, or does not begin with a scheme: it would fit the URIs of any upstream. Of two
    /// upstreams with the same template, only the first has a public name for it.
    pub(crate) fn of(routes: &[Arc<Route>], is_open: impl Fn(usize) -> bool, previous: &Self) -> Self {
        let known: HashMap<_, _> = previous.matched.iter().map(|known| (&*known.text, &known.pattern)).collect();
        let mut templates = Self::default();
        let mut counts: HashMap<usize, usize> = HashMap::new();
        let is_template = |route: &&Arc<Route>| route.item.kind == ItemKind::Template && route.public.is_some();
        for route in routes.iter().filter(is_template).filter(|route| is_open(route.upstream)) {
            let (text, upstream) = (&route.item.name, route.upstream);
            let count = counts.entry(upstream).or_default();
            let has_room = *count < MAX_OF_ONE_UPSTREAM && templates.matched.len() < MAX_TEMPLATES;
            let pattern = known.get(&**text).map(|pattern| Arc::clone(pattern));
            let pattern = if has_room { pattern.or_else(|| pattern_of(text).map(Arc::new)) } else { None };
            let Some(pattern) = pattern else {
                *templates.unmatched.entry(upstream).or_default() += 1;
                continue;
            };
            *count += 1;
            let literal = text.find('{').unwrap_or(text.len());
            templates.matched.push(Template { text: text.clone(), literal, pattern, upstream });
        }
        templates
    }

    /// Returns which upstreams have a template that the URI fits.
    pub(super) fn find(&self, uri: &str) -> Fit {
        let fits = |template: &&Template| {
            uri.get(..template.literal) == template.text.get(..template.literal) && template.pattern.is_match(uri)
        };
        let mut fitting = self.matched.iter().filter(fits).map(|template| template.upstream);
        let Some(first) = fitting.next() else { return Fit::None };
        fitting.find(|other| *other != first).map_or(Fit::One(first), |second| Fit::Several(first, second))
    }

    /// The number of templates of each upstream that are not matched, where there are any.
    pub(super) fn unmatched(&self) -> &BTreeMap<usize, usize> {
        &self.unmatched
    }
}

/// Returns a pattern of the URIs that a template can expand to.
fn pattern_of(template: &str) -> Option<Regex> {
    RegexBuilder::new(&format!("^{}$", pattern_text(template)?))
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .build()
        .ok()
}

/// Returns the text of the pattern of a template; `None` if the template is not matched.
fn pattern_text(template: &str) -> Option<String> {
    let is_small = template.len() <= MAX_LENGTH && template.matches('{').count() <= MAX_EXPRESSIONS;
    if !is_small || !begins_with_scheme(template) {
        return None;
    }
    let (mut pattern, mut rest) = (String::new(), template);
    while let Some((part, after)) = rest.split_once('{') {
        let (expression, after) = after.split_once('}')?;
        pattern.push_str(&escape(part));
        pattern.push_str(expanded(expression)?);
        rest = after;
    }
    pattern.push_str(&escape(rest));
    Some(pattern)
}

/// Whether the text begins with the scheme of a URI, such as `file:`.
pub(super) fn begins_with_scheme(text: &str) -> bool {
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

    fn template(text: &str) -> Item {
        let definition = format!(r#"{{"uriTemplate":"{text}"}}"#);
        Item::parse(ItemKind::Template, &RawValue::from_string(definition).unwrap()).unwrap()
    }

    /// Returns the templates of upstreams that list these.
    fn templates(upstreams: &[&[Item]], previous: &Templates) -> Templates {
        let none = Default::default();
        let offers: Vec<_> = upstreams
            .iter()
            .map(|items| Offer {
                keeps_names: false,
                upstream: "a",
                items: items.iter().collect(),
                overrides: &[],
                filtered: std::collections::HashMap::new(),
                ever_seen: &none,
            })
            .collect();
        Templates::of(Routes::build(PrefixMode::Always, &[], &offers).all(), |_| true, previous)
    }

    #[test]
    fn no_upstream_takes_the_uris_of_another_and_nothing_is_compiled_twice() {
        let (all, some) = (template("file:{+path}"), template("file:///b/{name}"));
        let (rows, same) = (template("db:{row}"), template("db:{row}"));
        let upstreams: [&[Item]; 3] = [&[all], &[some, rows], &[same]];
        let known = templates(&upstreams, &Templates::default());
        let fits = ["file:///a", "file:///b/c", "db:1", "x:y"].map(|uri| known.find(uri));
        // Of the same template twice, the first upstream has it, as it has a URI that both list.
        assert_eq!(fits, [Fit::One(0), Fit::Several(0, 1), Fit::One(1), Fit::None]);
        let again = templates(&upstreams, &known);
        assert!(again.matched.iter().zip(&known.matched).all(|(new, old)| Arc::ptr_eq(&new.pattern, &old.pattern)));
        assert!(known.unmatched().is_empty());
    }

    #[test]
    fn templates_are_bounded_by_upstream_and_those_left_are_counted() {
        let many: Vec<_> = (0..MAX_OF_ONE_UPSTREAM + 3).map(|n| template(&format!("db{n}:{{row}}"))).collect();
        let some = [template("file:///{name}"), template("{+anything}")];
        let known = templates(&[&many, &some], &Templates::default());
        assert_eq!(known.find("db0:1"), Fit::One(0));
        assert_eq!(known.find(&format!("db{MAX_OF_ONE_UPSTREAM}:1")), Fit::None);
        assert_eq!(known.find("file:///a"), Fit::One(1), "the templates of one upstream take no room from others");
        assert_eq!(known.unmatched().iter().collect::<Vec<_>>(), [(&0, &3), (&1, &1)]);
    }
}
