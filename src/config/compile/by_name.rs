//! Counts the upstreams that a chain covers.

use globset::{Glob, GlobMatcher};

use crate::domain::plan::{ChainPlan, UpstreamPlan};

/// The upstreams of a plan, sorted by name. A plan can have hundreds of chains and thousands of upstreams, so the
/// upstreams that match a glob are looked up by the glob's literal beginning.
pub struct ByName<'p>(Vec<&'p UpstreamPlan>);

impl<'p> ByName<'p> {
    /// Creates the sorted list from the upstreams of a plan.
    pub fn new(upstreams: &'p [UpstreamPlan]) -> Self {
        let mut sorted: Vec<_> = upstreams.iter().collect();
        sorted.sort_unstable_by(|a, b| a.key.name.cmp(&b.key.name));
        Self(sorted)
    }

    /// Returns how many upstreams a chain covers, but at most `most`. Globs that do not compile match nothing; a chain
    /// with such globs was not accepted.
    pub fn covered(&self, chain: &ChainPlan, most: usize) -> usize {
        let scope = &chain.upstreams;
        let in_reach = |upstream: &&&UpstreamPlan| is_in_reach(chain, upstream);
        if scope.all {
            return self.0.iter().filter(in_reach).take(most).count();
        }
        let globs: Vec<_> = scope.names.iter().filter_map(|glob| NameGlob::new(glob)).collect();
        if let Some(selector) = &scope.selector {
            let covers = |upstream: &&&UpstreamPlan| {
                selector.matches(&upstream.labels) || globs.iter().any(|glob| glob.matches(&upstream.key.name))
            };
            return self.0.iter().filter(in_reach).filter(covers).take(most).count();
        }
        let globs = &globs;
        let named = globs.iter().enumerate().flat_map(|(place, glob)| {
            let is_new = move |name: &str| !globs[..place].iter().any(|before| before.matches(name));
            self.beginning_with(glob.literal)
                .iter()
                .filter(move |upstream| glob.matches(&upstream.key.name) && is_new(&upstream.key.name))
        });
        named.filter(in_reach).take(most).count()
    }

    /// Whether a chain covers an upstream whose name one of these globs matches. Globs that do not compile match nothing.
    pub fn covers_named(&self, chain: &ChainPlan, globs: &[String]) -> bool {
        let scope = &chain.upstreams;
        let names: Vec<_> = scope.names.iter().filter_map(|glob| NameGlob::new(glob)).collect();
        let covers = |upstream: &UpstreamPlan| {
            let labelled = || scope.selector.as_ref().is_some_and(|selector| selector.matches(&upstream.labels));
            is_in_reach(chain, upstream)
                && (scope.all || names.iter().any(|glob| glob.matches(&upstream.key.name)) || labelled())
        };
        globs.iter().filter_map(|glob| NameGlob::new(glob)).any(|glob| {
            let mut candidates = self.beginning_with(glob.literal).iter();
            candidates.any(|upstream| glob.matches(&upstream.key.name) && covers(upstream))
        })
    }

    /// Returns the names of the upstreams that a chain can cover.
    pub fn in_reach<'s>(&'s self, chain: &'s ChainPlan) -> impl Iterator<Item = &'p str> + 's {
        self.0.iter().filter(move |upstream| is_in_reach(chain, upstream)).map(|upstream| upstream.key.name.as_str())
    }

    /// Whether a chain can cover an upstream with exactly this name.
    pub fn reaches(&self, chain: &ChainPlan, name: &str) -> bool {
        let named = self.beginning_with(name).iter().take_while(|upstream| upstream.key.name == name);
        named.into_iter().any(|upstream| is_in_reach(chain, upstream))
    }

    fn beginning_with(&self, beginning: &str) -> &[&'p UpstreamPlan] {
        let from = self.0.partition_point(|upstream| upstream.key.name.as_str() < beginning);
        let rest = &self.0[from..];
        &rest[..rest.partition_point(|upstream| upstream.key.name.starts_with(beginning))]
    }
}

/// Whether the chain can cover the upstream, as far as its namespace is concerned.
fn is_in_reach(chain: &ChainPlan, upstream: &UpstreamPlan) -> bool {
    chain.upstreams.namespace.as_ref().is_none_or(|namespace| *namespace == upstream.key.namespace)
}

/// A glob over names, split into its literal beginning and the rest. Most globs are a literal name, or a literal
/// beginning followed by `*`.
struct NameGlob<'g> {
    literal: &'g str,
    rest: GlobTail,
}

/// The part of a glob after its literal beginning.
enum GlobTail {
    Nothing,
    Anything,
    Pattern(GlobMatcher),
}

impl<'g> NameGlob<'g> {
    fn new(glob: &'g str) -> Option<Self> {
        let end = glob.find(['?', '*', '[', ']', '{', '}', '\\']).unwrap_or(glob.len());
        let (literal, rest) = glob.split_at(end);
        let rest = match rest {
            "" => GlobTail::Nothing,
            "*" => GlobTail::Anything,
            _ => GlobTail::Pattern(Glob::new(glob).ok()?.compile_matcher()),
        };
        Some(Self { literal, rest })
    }

    fn matches(&self, name: &str) -> bool {
        match &self.rest {
            GlobTail::Nothing => name == self.literal,
            GlobTail::Anything => name.starts_with(self.literal),
            GlobTail::Pattern(glob) => name.starts_with(self.literal) && glob.is_match(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NameGlob;

    #[test]
    fn a_literal_beginning_decides_nothing_that_the_glob_would_not() {
        for (glob, name, expected) in [
            ("up-1*", "up-12", true),
            ("up-1*", "up-2", false),
            ("up", "up", true),
            ("up", "upper", false),
            ("{a,b}-x", "b-x", true),
            ("a\\*", "a*", true),
            ("[ab]c", "bc", true),
            ("?b", "ab", true),
            ("*", "", true),
            ("up-*", "up-", true),
            ("up", "", false),
            ("a]b", "a]b", true),
            ("a,b*", "a,bc", true),
            ("!a*", "!ab", true),
        ] {
            let matches = NameGlob::new(glob).unwrap().matches(name);
            assert_eq!(matches, expected, "{glob} {name}");
            assert_eq!(matches, globset::Glob::new(glob).unwrap().compile_matcher().is_match(name), "{glob} {name}");
        }
        assert!(NameGlob::new("[").is_none());
    }
}
