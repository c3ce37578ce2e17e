//! CEL expressions: what they read, which are refused, and that hostile ones do no harm.

use std::collections::BTreeMap;

use super::*;
use crate::config::variables::{CallVariable, ContentVariable, UpstreamVariable};

fn evaluate(text: &str) -> Result<bool, String> {
    let labels = BTreeMap::from([("tier".to_owned(), "internal".to_owned())]);
    Expression::compile(text)?.evaluate(Reads::default(), || Variables {
        call: Some(CallVariable {
            method: "tools/call",
            name: "a__b",
            arguments: serde_json::json!({"n": 3, "list": [1, 2]}),
            user_query: "",
            max_tokens: 0,
            session: "",
        }),
        upstream: Some(UpstreamVariable { name: "a", namespace: "default", labels: &labels }),
        content: Some(ContentVariable { text: "hello", kind: "text", size: 5 }),
        ..Variables::default()
    })
}

#[test]
fn reads_the_call() {
    for (text, expected) in [
        (r#"content.size > 3 && call.userQuery == """#, true),
        (r#"upstream.labels["tier"] == "internal""#, true),
        ("call.arguments.n == 3", true),
        ("call.arguments.list.exists(x, x == 2)", true),
        (r#"content.text.startsWith("x")"#, false),
        (r#"call.name.lowerAscii() == "a__b""#, true),
    ] {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }
}

#[test]
fn arguments_are_used_however_they_are_named() {
    for (text, expected) in [
        ("call.arguments.n == 3", true),
        (r#"call["argument\u0073"] != null"#, true),
        (r#"call["argu" + "ments"] != null"#, true),
        ("has(call.arguments)", true),
        ("[call].exists(c, c.name == \"\")", true),
        ("call == call", true),
        ("[1].exists(call, call == 1) && call.arguments != null", true),
        ("call.name == \"arguments\"", false),
        ("[1].exists(call, call == 1) && tool.name != \"\"", false),
        ("tool.name == call.session", false),
    ] {
        assert_eq!(Expression::compile(text).unwrap().uses().arguments, expected, "{text}");
    }
    assert_eq!(evaluate(r#"call["argument\u0073"] != null"#), Ok(true));
}

#[test]
fn says_what_is_wrong() {
    for (text, part) in [
        ("content.size >", "column"),
        ("contents.size > 1", "no variable \"contents\""),
        ("content.size", "not a boolean"),
        ("call.arguments.missing == 1", "no such key"),
        ("call.arguments.list.all(x, call.arguments.list.all(y, x == y))", "inside another"),
    ] {
        let error = evaluate(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_missing_key_that_comes_from_the_call_is_not_named() {
    let error = evaluate("upstream.labels[call.name] == \"internal\"").unwrap_err();
    assert!(!error.contains("a__b"), "{error}");
    assert_eq!(evaluate("upstream.labels[\"rank\"] == \"1\"").unwrap_err(), "no such key: rank");
}

#[test]
fn a_text_is_refused_from_one_beyond_each_bound() {
    let is_refused = |text: &str, why: &str| check_bounds(text).is_err_and(|error| error.contains(why));
    assert_eq!(check_bounds(&"a".repeat(MAX_TEXT)), Ok(()));
    assert!(is_refused(&"a".repeat(MAX_TEXT + 1), "bytes"));
    for (open, close) in [("(", ")"), ("[", "]"), ("{", "}")] {
        assert_eq!(check_bounds(&open.repeat(MAX_NESTING)), Ok(()));
        assert!(is_refused(&open.repeat(MAX_NESTING + 1), "nest deeper"), "{open}");
        assert_eq!(check_bounds(&format!("{open}{close}").repeat(MAX_NESTING + 1)), Ok(()), "what ends is not deep");
    }
    for operator in ["+", "-", "*", "/", "%", "!", "<", ">", "=", "&", "|", "?", "."] {
        assert_eq!(check_bounds(&operator.repeat(MAX_OPERATORS)), Ok(()));
        assert!(is_refused(&operator.repeat(MAX_OPERATORS + 1), "operators"), "{operator}");
    }
}

#[test]
fn what_is_quoted_is_neither_a_bracket_nor_an_operator() {
    let brackets = "(".repeat(MAX_NESTING + 1);
    for quoted in [format!("\"{brackets}\""), format!("'{brackets}'"), format!("\"\\\"{brackets}\"")] {
        assert_eq!(check_bounds(&quoted), Ok(()), "{quoted}");
    }
    for not_quoted in [format!("'a'{brackets}"), format!("'\"'{brackets}"), format!("'\\\\'{brackets}")] {
        assert!(check_bounds(&not_quoted).is_err(), "{not_quoted}");
    }
}

#[test]
fn hostile_texts_are_refused_or_survived_on_a_small_stack() {
    let texts = [
        "(".repeat(1000),
        "[".repeat(1000),
        "!".repeat(1000),
        "-".repeat(1000),
        format!("{}1", "1+".repeat(511)),
        format!("{}1", "1+".repeat(MAX_OPERATORS)),
        format!("{}true", "true?true:".repeat(100)),
        format!("a{}", ".b".repeat(500)),
        format!("{}1{}", "(".repeat(MAX_NESTING), ")".repeat(MAX_NESTING)),
        format!("{}1{}", "[".repeat(MAX_NESTING), "]".repeat(MAX_NESTING)),
        "a ".repeat(500),
        "\"".repeat(999),
        "+".repeat(10_240),
    ];
    let run = move || texts.iter().for_each(|text| drop(Expression::compile(text)));
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}
