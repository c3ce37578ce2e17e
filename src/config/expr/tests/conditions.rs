//! Conditions of parts that are not all known.

use super::*;
use crate::config::expr::condition::{Condition, EvaluateParts, Outcomes};

const VARIABLES: &[Member] =
    &[("id", Kind::Members(&[("groups", Kind::List), ("claims", Kind::Map)])), ("x", Kind::Any)];

/// Parts that are known by their texts: `x.t` is true, `x.f` false, `x.e` fails, and others are open.
struct ByName;

impl EvaluateParts for ByName {
    fn outcomes(&self, _: usize, part: &Expression) -> Outcomes {
        let reads = |member: &str| part.reads.contains(&("x".to_owned(), Some(member.to_owned())));
        match (reads("t"), reads("f"), reads("e")) {
            (true, ..) => Outcomes::TRUE,
            (_, true, _) => Outcomes::FALSE,
            (.., true) => Outcomes::FAILED,
            _ => Outcomes::OPEN,
        }
    }

    fn cost(&self, _: usize, _: &Expression) -> u8 {
        0
    }
}

/// The letters of the results that a condition can have.
fn results(text: &str) -> String {
    let outcomes = Condition::compile(text, VARIABLES, "id").unwrap().outcomes(&ByName);
    let all = [("T", Outcomes::TRUE), ("F", Outcomes::FALSE), ("E", Outcomes::FAILED)];
    all.into_iter().filter(|(_, result)| outcomes.include(*result)).map(|(letter, _)| letter).collect()
}

#[test]
fn what_is_open_matters_only_where_it_can_decide() {
    for (text, expected) in [
        ("x.u", "TFE"),
        ("!x.u", "TFE"),
        ("x.f && x.u", "F"),
        ("x.u && x.f", "F"),
        ("x.t && x.u", "TFE"),
        ("x.t || x.u", "T"),
        ("x.u || x.t", "T"),
        ("x.f || x.u", "TFE"),
        ("x.e && x.u", "FE"),
        ("x.e || x.u", "TE"),
        ("x.e && x.f", "F"),
        ("x.e || x.t", "T"),
        ("x.e && x.t", "E"),
        ("x.e || x.e", "E"),
        ("!(x.f || x.u) && x.f", "F"),
        ("!x.t", "F"),
        ("!x.e", "E"),
        ("x.u && !x.f && (x.u || x.f) && x.f", "F"),
        ("x.t ? x.f : x.u", "T"),
    ] {
        assert_eq!(results(text), expected, "{text}");
    }
}

#[test]
fn what_is_read_of_a_variable_is_known_to_the_key() {
    for (text, expected) in [
        ("'a' in id.groups", "groups"),
        ("id.groups.exists(g, g == id.claims.team) && x.t", "claims.team groups"),
        ("has(id.claims.a.b.c) || id.claims['d'] == 1", "claims.a claims.d"),
        ("'a' in id.claims", "claims"),
        ("id.claims[x.key] == 1", "claims"),
        ("[id.claims.a].exists(e, {'k': id.claims.b} == e)", "claims.a claims.b"),
        ("id == x", ""),
        ("id.groups.size() > 1 ? x.t : id.claims.a", "claims.a groups"),
    ] {
        let condition = Condition::compile(text, VARIABLES, "id").unwrap();
        let paths: Vec<_> = condition.paths().iter().map(|path| path.join(".")).collect();
        assert_eq!(paths.join(" "), expected, "{text}");
    }
    assert!(Condition::compile("x.t", VARIABLES, "id").unwrap().paths().is_empty());
}

#[test]
fn a_condition_is_refused_as_a_whole() {
    let many = vec!["x.t"; 100].join(" && ");
    for text in ["x.t &&", "id.other == 1", "1 + 1", &many] {
        let found = Condition::compile(text, VARIABLES, "id").map(drop);
        assert_eq!(found, Expression::compile(text, VARIABLES).map(drop), "{text}");
        assert!(found.is_err(), "{text}");
    }
}
