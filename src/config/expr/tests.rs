//! CEL expressions: what they read, what they yield, and which are refused.

mod bounds;
mod refused;

use std::collections::BTreeMap;

use super::*;
use crate::config::variables::{AnnotationsVariable, CallVariable, ContentVariable, ToolVariable, UpstreamVariable};

pub(super) fn evaluate(text: &str) -> Result<bool, String> {
    evaluate_on(text, r#"{"n": 3, "list": [1, 2]}"#)
}

/// Evaluates an expression on a call with these arguments.
fn evaluate_on(text: &str, arguments: &str) -> Result<bool, String> {
    let labels = BTreeMap::from([("tier".to_owned(), "internal".to_owned())]);
    Expression::compile(text)?.evaluate(Reads::default(), || Variables {
        call: Some(CallVariable {
            method: "tools/call",
            name: "a__b",
            arguments: serde_json::from_str(arguments).unwrap(),
            user_query: "",
            max_tokens: 0,
            session: "",
        }),
        tool: Some(ToolVariable {
            name: "a__b",
            upstream_name: "b",
            annotations: AnnotationsVariable {
                read_only_hint: true,
                destructive_hint: false,
                idempotent_hint: false,
                open_world_hint: false,
            },
            meta: serde_json::json!({"n": 3}),
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
        ("[\"deploy\"].contains(tool.name)", "`contains` takes a text, not a list"),
        ("upstream.labels.contains(\"tier\")", "write `value in it`"),
        (r#"content.text.matches("\d+")"#, "a backslash stands before what it cannot escape"),
        ("call.arguments.list.first().y.orValue(1) == 1", "what first() or last() returns is an optional value"),
        ("call.arguments.list.last()[\"y\"].orValue(1) == 1", "what first() or last() returns"),
        ("call.arguments.a.first().or(call.arguments.b.first()).y.orValue(1) == 1", "what first() or last() returns"),
        ("(true ? call.arguments.a.first() : call.arguments.b).y.orValue(1) == 1", "what first() or last() returns"),
        ("[call.arguments.a.first()][0].y.orValue(1) == 1", "what first() or last() returns"),
        ("{\"a\": call.arguments.a.first()}.a.y.orValue(1) == 1", "what first() or last() returns"),
        ("call.arguments.a.map(x, x.first())[0].y.orValue(1) == 1", "what first() or last() returns"),
        ("call.arguments.a.first().orValue(call.arguments.b.first()).y.orValue(1) == 1", "what first() or last()"),
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

/// Evaluates `text` with each of these values as the argument `x`.
fn on_each(text: &str, values: &[&str], expected: &Result<bool, String>) {
    for value in values {
        assert_eq!(&evaluate_on(text, &format!("{{\"x\": {value}}}")), expected, "{text} of {value}");
    }
}

#[test]
fn numbers_are_compared_by_value_whatever_their_type_and_spelling() {
    for (text, same, other) in [
        (
            "call.arguments.x == 1",
            &["1", "1.0", "1e0", "10e-1"][..],
            &["2", "1.5", "-1", "\"1\"", "true", "null", "[1]"][..],
        ),
        ("call.arguments.x == 1.0", &["1", "1.0"], &["2", "1.5", "\"1.0\""]),
        ("1u == call.arguments.x", &["1", "1.0"], &["2", "-1", "1.5"]),
        ("call.arguments.x == 0", &["0", "-0", "0.0", "-0.0", "0e9"], &["1", "\"\"", "null", "false", "[]"]),
        ("!(call.arguments.x != 1)", &["1", "1.0"], &["2", "0.5", "\"1\""]),
        ("call.arguments.x in [1, 2]", &["1", "2.0", "1e0"], &["3", "1.5", "\"1\"", "[1]"]),
        ("call.arguments.x in {1: true, 2u: true}", &["1", "1.0", "2", "2.0"], &["3", "1.5", "-1", "1e300", "\"1\""]),
        (
            "call.arguments.x == [1, {\"a\": 0}]",
            &["[1.0, {\"a\": -0}]"],
            &["[1]", "[1, {\"a\": 0, \"b\": 0}]", "[1, {\"b\": 0}]"],
        ),
        ("{1: 1} == {1u: call.arguments.x}", &["1", "1.0"], &["2"]),
        ("call.arguments == {\"x\": 1}", &["1", "1.0"], &["2"]),
        ("[1, 2].exists(a, a == call.arguments.x)", &["1", "2.0"], &["3", "\"1\""]),
        ("call.arguments.x.exists_one(a, a == 1)", &["[1.0]", "[2, 1e0]"], &["[1, 1.0]", "[]"]),
        ("call.arguments.x == tool._meta.n", &["3", "3.0"], &["4"]),
        ("call.arguments.x == tool._meta.n + 1", &["4", "4.0"], &["3"]),
        (
            "call.arguments.x == 18446744073709551615u",
            &["18446744073709551615"],
            &["18446744073709551614", "36893488147419103232"],
        ),
        ("call.arguments.x == 9007199254740993", &["9007199254740993"], &["9007199254740992", "9007199254740995.0"]),
    ] {
        on_each(text, same, &Ok(true));
        on_each(text, other, &Ok(false));
    }
    assert_eq!(evaluate("double('NaN') == double('NaN') || double('NaN') in [1, double('NaN')]"), Ok(false));
}

#[test]
fn of_a_double_that_was_rounded_when_it_was_read_nothing_is_known() {
    // JavaScript reads each of them as it reads the integer.
    let spelled =
        ["1234567890123456789.0", "1.234567890123456789e18", "1234567890123456789e0", "1234567890123456768.0"];
    for test in ["== ID", "!= ID", "<= ID", "in [1, ID]", "in {ID: true}"] {
        let test = format!("call.arguments.x {}", test.replace("ID", "1234567890123456789"));
        on_each(&test, &spelled, &Err("it cannot be evaluated on this call".to_owned()));
        on_each(&test, &["-1e300"], &Ok(test.contains("!=") || test.contains("<=")));
    }
    on_each("call.arguments.x in {1: true}", &["1e300", "-1e20"], &Ok(false));
    on_each("call.arguments.x == 9007199254740991", &["9007199254740991.0"], &Ok(true));
    assert!(evaluate_on("call.arguments.x == 18446744073709551615u", r#"{"x": 18446744073709551616}"#).is_err());
    assert!(evaluate_on("call.arguments.x > 9007199254740992.0", r#"{"x": 9007199254740992}"#).is_err());
}

#[test]
fn numbers_are_ordered_by_value_and_not_rounded() {
    for (text, so, not_so) in [
        (
            "call.arguments.x > 9007199254740992.0",
            &["9007199254740994", "1e300"][..],
            &["9007199254740991", "-1e300"][..],
        ),
        (
            "call.arguments.x <= 9007199254740992",
            &["9007199254740992", "-1.5", "-1e300"],
            &["9007199254740993", "9007199254740994.0", "1e300"],
        ),
        ("call.arguments.x < 1", &["0", "0.9", "-1.5", "-1e300"], &["1", "1.0", "1.1", "18446744073709551615"]),
        ("call.arguments.x >= -1", &["-1.0", "-0.5", "1"], &["-1.5", "-2"]),
    ] {
        on_each(text, so, &Ok(true));
        on_each(text, not_so, &Ok(false));
    }
    assert!(evaluate("double('NaN') < 1").is_err());
}

#[test]
fn what_is_no_map_has_no_members_and_what_is_no_text_contains_nothing() {
    let failed = Err("it cannot be evaluated on this call".to_owned());
    let missing = Err("no such key: y".to_owned());
    let no_maps = ["\"{\\\"y\\\":\\\"z\\\"}\"", "[{\"y\":\"z\"}]", "[\"y\"]", "true", "null", "5", "6.5"];
    for text in [
        "call.arguments.x.y == \"z\"",
        "call.arguments.x[\"y\"] == \"z\"",
        "call.arguments.x.y != \"ok\"",
        "call.arguments.x.y in [\"z\"]",
        "call.arguments.x.y.contains(\"z\")",
        "call.arguments.x.y == \"z\" || call.arguments.x.y == \"w\"",
        "call.arguments.x.y",
    ] {
        on_each(text, &no_maps, &failed);
        on_each(text, &["{}", "{\"w\":1}"], &missing);
    }
    on_each("call.arguments.x.y == \"z\"", &["{\"y\":\"z\"}"], &Ok(true));
    on_each("call.arguments.x.y.w == \"z\"", &["{\"y\":\"z\"}", "{\"y\":[]}"], &failed);
    on_each("has(call.arguments.x.y)", &no_maps, &failed);
    on_each("has(call.arguments.x.y)", &["{\"y\":null}", "{\"y\":{}}"], &Ok(true));
    on_each("has(call.arguments.x.y)", &["{}", "{\"w\":1}"], &Ok(false));
    on_each("has(call.arguments.x.y.w)", &["{\"y\":1}"], &failed);
    on_each("call.arguments.x.exists(a, a.y == \"z\")", &["[\"z\"]", "[{\"y\":\"w\"}, 1]"], &failed);
    let text = "call.arguments.x.contains(\"SECRET\")";
    on_each(text, &["\"a SECRET\""], &Ok(true));
    on_each(text, &["\"a\""], &Ok(false));
    on_each(text, &["[\"SECRET\"]", "[\"a SECRET\"]", "{\"SECRET\":1}", "true", "null", "5"], &failed);
    on_each("\"a1\".contains(call.arguments.x)", &["1", "null", "[\"1\"]"], &failed);
}

#[test]
fn a_part_that_fails_does_not_count_where_the_other_decides() {
    for (text, expected) in [
        ("call.arguments.n.y == 1 || true", true),
        ("true || call.arguments.n.y == 1", true),
        ("call.arguments.n.y == 1 && false", false),
        ("false && call.arguments.n.y == 1", false),
        ("call.arguments.n == 3 ? true : call.arguments.n.y == 1", true),
        ("[1, 2].exists(a, a == 1 || a.y == 1)", true),
        ("[{\"a\": [content.text]}][0].a[0] == \"hello\"", true),
        ("{\"a\": {\"b\": 1}}.a == {\"b\": 1.0}", true),
        ("[{\"b\": 1}, {\"b\": 2}].filter(a, a.b == 2.0).size() == 1", true),
        ("null == null && b\"a\" != b\"b\" && \"a\" < \"b\" && false < true", true),
        ("duration(\"1m\") == duration(\"60s\") && duration(\"1m\") < duration(\"61s\")", true),
        ("\"tier\" in upstream.labels && !(\"rank\" in upstream.labels)", true),
        ("call.arguments.list.first() == call.arguments.list.first()", true),
        ("call.arguments.list.first().value() == 1.0", true),
        ("call.arguments.list.filter(x, x > 2).first().or(call.arguments.list.last()).value() == 2", true),
        ("call.arguments.list.filter(x, x > 2).first().orValue(9) == 9", true),
        ("call.arguments.list.first().hasValue()", true),
    ] {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }
    for text in [
        "call.arguments.n.y == 1 || false",
        "call.arguments.n in \"3\"",
        "null in {\"a\": 1}",
        "call.arguments.n < \"4\"",
        "call.arguments.list.first() == 1",
        "1 in [call.arguments.list.first()]",
        "call.arguments.list.first().y == 1",
        "has(call.arguments.list.first().y)",
    ] {
        assert!(evaluate(text).is_err(), "{text}");
    }
}

#[test]
fn the_size_of_a_text_is_the_number_of_its_characters() {
    let two = ["\"漢字\"", "\"ab\"", "\"🐱é\"", "[\"漢字\", 2]", "{\"漢字\": 1, \"b\": 2}"];
    on_each("size(call.arguments.x) == 2", &two, &Ok(true));
    on_each("call.arguments.x.size() == 2", &two, &Ok(true));
    on_each("call.arguments.x.size() == 0", &["\"\"", "[]", "{}"], &Ok(true));
    on_each("size(call.arguments.x) <= 10", &["\"漢字漢字漢字漢\""], &Ok(true));
    let failed = Err("it cannot be evaluated on this call".to_owned());
    on_each("size(call.arguments.x) <= 10", &["1", "1.5", "true", "null"], &failed);
    assert_eq!(evaluate(r#"size(b"\xff\xfe") == 2 && b"é".size() == 2"#), Ok(true));
}
