//! CEL expressions: what they read, which results they have, and which are refused.

mod bounds;
mod conditions;
mod golden;
mod refused;

use serde_json::json;

use super::*;
use crate::config::variables::OF_ENTRIES;

/// Evaluates an expression on one call.
fn evaluate(text: &str) -> Result<bool, String> {
    Expression::compile(text, OF_ENTRIES)?.evaluate(0, || {
        Ok(vec![
            (
                "call",
                json!({"method": "tools/call", "name": "a__b", "arguments": {"n": 3, "list": [1, 2]}, "userQuery": ""}),
            ),
            ("tool", json!({"name": "a__b", "annotations": {"readOnlyHint": true}, "_meta": {"n": 3}})),
            ("upstream", json!({"name": "a", "namespace": "default", "labels": {"tier": "internal"}})),
            ("content", json!({"text": "hello", "type": "text", "size": 5})),
        ])
    })
}

#[test]
fn reads_the_call() {
    for (text, expected) in [
        (r#"content.size > 3 && call.userQuery == """#, true),
        (r#"upstream.labels["tier"] == "internal" && upstream.labels.tier == "internal""#, true),
        (r#""tier" in upstream.labels && !("rank" in upstream.labels)"#, true),
        ("call.arguments.n == 3 && call.arguments.n + 1 == tool._meta.n + 1", true),
        ("call.arguments.list.exists(x, x == 2) || call.arguments.list.all(x, x == 1)", true),
        (r#"content.text.startsWith("x")"#, false),
        (r#"content.text.matches(r"^h\w+$") // (a comment)"#, true),
        (r#"call.name.lowerAscii() == "a__b""#, true),
        ("tool.annotations.readOnlyHint", true),
        ("has(call.arguments.n) && !has(call.arguments.missing)", true),
        (r#"call["argument\u0073"].n == 3"#, true),
    ] {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }
}

#[test]
fn arguments_are_read_however_they_are_named() {
    for (text, expected) in [
        ("call.arguments.n == 3", true),
        (r#"call["argument\u0073"] != null"#, true),
        (r#"call["argu" + "ments"] != null"#, true),
        ("has(call.arguments)", true),
        ("[1].exists(c, call[string(c)] == 1)", true),
        ("call == call", true),
        ("[1].exists(e, e == 1) && call.arguments != null", true),
        ("call.name == \"arguments\"", false),
        ("[{\"arguments\": 1}].exists(e, e.arguments == 1) && tool.name != \"\"", false),
        ("tool.name == call.session", false),
    ] {
        assert_eq!(
            Expression::compile(text, OF_ENTRIES).unwrap().reads_member("call", "arguments"),
            expected,
            "{text}"
        );
    }
}

#[test]
fn keys_of_arguments_are_known_unless_the_expression_tests_them() {
    for (text, expected) in [
        ("call.arguments.a == 1 || call.arguments[\"b\"] == 2", &["a", "b"][..]),
        ("has(call.arguments.a) && call.arguments.a.startsWith('x')", &[]),
        ("'a' in call.arguments && call.arguments.a == 1 && call.arguments.b.c == 2", &["b"]),
        ("tool._meta.a == 1 && upstream.labels.b == 'c'", &[]),
    ] {
        let expression = Expression::compile(text, OF_ENTRIES).unwrap();
        let keys: Vec<_> = expression.untested_keys("call", "arguments").collect();
        assert_eq!(keys, expected, "{text}");
    }
}

#[test]
fn a_missing_key_that_comes_from_the_call_is_not_named() {
    let error = evaluate("upstream.labels[call.name] == \"internal\"").unwrap_err();
    assert_eq!(error, "it cannot be evaluated on this call");
    assert_eq!(evaluate("upstream.labels[\"rank\"] == \"1\"").unwrap_err(), "no key rank");
    assert_eq!(evaluate("call.arguments.missing == 1").unwrap_err(), "no key missing");
}

#[test]
fn a_result_that_is_no_boolean_is_an_error() {
    assert_eq!(evaluate("call.arguments.n").unwrap_err(), "it does not yield a boolean");
    assert_eq!(evaluate("call.arguments.n || true"), Ok(true));
}

#[test]
fn variables_are_those_of_the_caller() {
    const RUN: &[Member] = &[("run", Kind::Members(&[("depth", Kind::Number), ("plan", Kind::Any)]))];
    let expression = Expression::compile("run.depth > 2 && run.plan.steps.exists(s, s == 'end')", RUN).unwrap();
    let value = json!({"depth": 3, "plan": {"steps": ["begin", "end"]}});
    assert_eq!(expression.evaluate(0, || Ok(vec![("run", value)])), Ok(true));
    assert!(Expression::compile("call.name == ''", RUN).unwrap_err().contains("known are run"));
    assert!(Expression::compile("run.deep > 2", RUN).unwrap_err().contains("there are depth, plan"));
}
