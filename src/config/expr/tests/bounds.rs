//! The limits on an expression, and hostile expressions.

use super::check::{MAX_DEPTH, MAX_OPERATORS};
use super::functions::MAX_ELEMENTS;
use super::*;

fn compile(text: &str) -> Result<Expression, String> {
    Expression::compile(text, OF_ENTRIES)
}

/// Evaluates an expression on these arguments.
fn with_arguments(text: &str, arguments: &serde_json::Value) -> Result<bool, String> {
    compile(text)?.evaluate(0, || Ok(vec![("call", json!({"arguments": arguments}))]))
}

#[test]
fn an_expression_is_refused_from_one_beyond_each_limit() {
    let padded = |length: usize| format!("true{}", " ".repeat(length - 4));
    assert!(compile(&padded(MAX_TEXT)).is_ok());
    assert!(compile(&padded(MAX_TEXT + 1)).unwrap_err().contains("bytes"));
    let terms = |operators: usize| format!("{}true", "true&&".repeat(operators));
    assert!(compile(&terms(MAX_OPERATORS)).is_ok());
    for beyond in [
        terms(MAX_OPERATORS + 1),
        format!("{}true", "size('')==1||".repeat(MAX_OPERATORS / 3 + 1)),
        format!("[{}] == []", vec!["call.name"; MAX_OPERATORS].join(",")),
    ] {
        let error = compile(&beyond).err().unwrap_or_default();
        assert!(error.contains("operators"), "{beyond}: {error}");
    }
    let sums = |depth: usize| format!("{}1 == 1", "1+".repeat(depth));
    assert!(compile(&sums(MAX_DEPTH - 2)).is_ok());
    assert!(compile(&sums(MAX_DEPTH)).unwrap_err().contains("nests deeper"));
    let members = |depth: usize| format!("call.arguments{} == 1", ".a".repeat(depth));
    assert!(compile(&members(MAX_DEPTH - 3)).is_ok());
    assert!(compile(&members(MAX_DEPTH)).unwrap_err().contains("nests deeper"));
}

#[test]
fn an_evaluation_that_reads_too_much_fails() {
    let at = |text: &str, size| compile(text).unwrap().evaluate(size, || Ok(vec![("content", json!({"text": ""}))]));
    assert_eq!(at("content.text == ''", MAX_READ), Ok(true));
    assert!(at("content.text == ''", MAX_READ + 1).unwrap_err().contains("reads more than"));
    assert_eq!(at("[1].all(x, content.text == '')", MAX_READ_BY_MACRO), Ok(true));
    assert!(at("[1].all(x, content.text == '')", MAX_READ_BY_MACRO + 1).unwrap_err().contains("reads more than"));
}

#[test]
fn large_values_of_a_call_fail() {
    let list = |length: usize| json!({"list": vec![1; length]});
    assert_eq!(with_arguments("call.arguments.list.all(x, x == 1)", &list(MAX_ELEMENTS)), Ok(true));
    assert!(with_arguments("call.arguments.list.all(x, x == 1)", &list(MAX_ELEMENTS + 1)).is_err());
    assert_eq!(with_arguments("1 in call.arguments.list", &list(MAX_ELEMENTS + 1)), Ok(true));
    let text = |length: usize| json!({"text": "a".repeat(length)});
    for test in ["contains('a')", "startsWith('a')", "endsWith('a')", "matches('a')"] {
        let test = format!("call.arguments.text.{test}");
        assert_eq!(with_arguments(&test, &text(MAX_READ)), Ok(true));
        assert!(with_arguments(&test, &text(MAX_READ + 1)).is_err(), "{test}");
    }
    assert!(with_arguments("call.arguments.text + call.arguments.text == ''", &text(MAX_READ / 2 + 1)).is_err());
}

/// If the states of a pattern do not fit into the cache of the automaton, a text of 256 KiB takes a second.
#[test]
fn patterns_with_many_states_are_refused() {
    for pattern in
        ["(a|b)*a(a|b){14}[^ab]", "([ab]{0,30}a){0,8}[^ab]", "([ab]{0,15}a){20}[^ab]", "[ab]{1,150}[^a]{1,20}[^ab]"]
    {
        let error = compile(&format!("content.text.matches('{pattern}')")).unwrap_err();
        assert!(error.contains("too many states"), "{pattern}: {error}");
    }
    for pattern in ["(?i)drop\\\\s+table", "^[a-z0-9-]{1,63}$", "^.*secret.*$", "\\\\b(rm|mv) -[a-z]*f", "[^é]{2,10}"]
    {
        assert!(compile(&format!("content.text.matches('{pattern}')")).is_ok(), "{pattern}");
    }
}

#[test]
fn a_macro_goes_through_fewer_elements_the_more_it_reads() {
    let list = || Ok(vec![("call", json!({"arguments": {"list": vec![1; 64]}}))]);
    let condition = compile("call.arguments.list.all(x, x == 1)").unwrap();
    assert_eq!(condition.evaluate(MAX_READ_IN_ALL / 64, list), Ok(true));
    assert!(condition.evaluate(MAX_READ_IN_ALL / 64 + 1024, list).is_err());
}

/// Each copy would be as large as what a call has.
#[test]
fn lists_of_a_call_are_not_multiplied() {
    let arguments = json!({"list": [1, 2], "map": {"a": 1}, "n": 1});
    for text in [
        "[call.arguments.list] == []",
        "[call.arguments] == []",
        "{'a': call.arguments.map} == {}",
        "call.arguments.list + call.arguments.list == []",
        "[call] == []",
    ] {
        assert!(with_arguments(text, &arguments).is_err(), "{text}");
    }
    assert_eq!(with_arguments("[call.arguments.n, 2] == call.arguments.list", &arguments), Ok(true));
    assert_eq!(with_arguments("[[1, 2], {'a': 1}][0] == call.arguments.list", &arguments), Ok(true));
}

#[test]
fn the_deepest_expressions_are_evaluated_on_a_small_stack() {
    let nested = |before: &str, within: &str, after: &str, depth: usize| {
        format!("{}{within}{}", before.repeat(depth), after.repeat(depth))
    };
    let depth = MAX_DEPTH - 2;
    let texts = [
        (format!("{}true", "true<".repeat(depth)), true),
        (format!("{}false", "true==".repeat(depth)), !depth.is_multiple_of(2)),
        (nested("!(", "true", ")", depth), depth.is_multiple_of(2)),
        (nested("-(", "1", ")", depth - 2) + " == 1", depth.is_multiple_of(2)),
        (nested("[", "", "]", depth - 1) + " == []", false),
        (nested("string(", "'a'", ")", depth - 2) + " == 'a'", true),
        (format!("{}true", "false?true:".repeat(depth)), true),
        (format!("call{} == 1", ".arguments".repeat(depth - 2)), false),
        (format!("has(call{})", ".arguments".repeat(depth - 2)), false),
    ];
    let run = move || {
        for (text, expected) in texts {
            let found = evaluate(&text);
            assert!(found == Ok(expected) || found.is_err_and(|error| error.contains("no key")), "{text}");
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn hostile_expressions_end_soon_on_a_small_stack() {
    let texts = [
        "(".repeat(1000),
        "[".repeat(1000),
        "{".repeat(1000),
        "!".repeat(1000),
        "-".repeat(1000),
        format!("{}1", "1+".repeat(511)),
        format!("{}true", "true?true:".repeat(100)),
        format!("{}true", "true?".repeat(200)),
        format!("a{}", ".b".repeat(500)),
        format!("{}1{}", "(".repeat(500), ")".repeat(500)),
        format!("{}1{}", "[".repeat(500), "]".repeat(500)),
        format!("{}1{}", "a(".repeat(300), ")".repeat(300)),
        format!("{}1{}", "{1:".repeat(250), "}".repeat(250)),
        "a ".repeat(500),
        "\"".repeat(999),
        "+".repeat(1000),
        "()".repeat(500),
        "(]".repeat(500),
        "[]{}".repeat(200),
        format!("{}true{}", "!!(".repeat(250), ")".repeat(250)),
        format!("{}1{} == 1", "--(".repeat(250), ")".repeat(250)),
        "!,!(".repeat(250),
        "()--".repeat(250),
        "x.all(x,".repeat(120),
        "\\".repeat(1000),
        "\u{1f431}".repeat(250),
    ];
    let run = move || texts.iter().for_each(|text| assert!(compile(text).is_err(), "{text}"));
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}
