//! Expressions that are refused, with the advice.

use super::*;

fn refused(cases: &[(&str, &str)]) {
    for (text, part) in cases {
        let error = Expression::compile(text, OF_ENTRIES).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn faults_are_named() {
    refused(&[
        ("content.size >", "column"),
        ("contents.size > 1", "no variable \"contents\"; known are call, tool"),
        ("call.argument.n > 1", "no member \"argument\"; there are method, name, arguments"),
        ("tool.annotations.readonly", "there are readOnlyHint"),
        ("call.name.first == 'a'", "a string has no members"),
        ("content.size", "it yields a number, not a boolean"),
        ("call.name && true", "take booleans, not a string"),
        ("content.size ? true : false", "before `?`, not a number"),
        ("call.arguments.list.all(x, 1)", "all and exists take a condition, not a number"),
        (
            "[\"deploy\"].contains(tool.name)",
            "`contains` takes strings, not a list: of a list or a map, write `value in it`",
        ),
        ("upstream.labels.contains(\"tier\")", "write `value in it`"),
        ("b\"a\" == b\"a\"", "bytes"),
        ("T{a: 1} == T{a: 1}", "message"),
        ("1e400 > 1.0", "invalid double"),
        ("['a'] + ['b'] == []", "lists are not added"),
    ]);
}

#[test]
fn functions_that_are_not_allowed_are_refused_with_an_alternative() {
    refused(&[
        ("call.arguments.list.map(x, x) == []", "only has, all and exists"),
        ("call.arguments.list.filter(x, x > 1) == []", "write x.exists(e, e > 0)"),
        ("call.arguments.list.exists_one(x, x > 1)", "write x.exists(e, e > 0)"),
        ("call.arguments.list.first() == 1", "`first` is not allowed here: write x.exists"),
        ("call.name.split('_') == []", "write x.matches(pattern)"),
        ("call.name.substring(1) == ''", "write x.startsWith(text)"),
        ("call.name.indexOf('a') == 1", "write x.contains(text)"),
        ("max(1, 2) == 2", "a comparison"),
        ("type(call.name) == string", "string(x), or a comparison"),
        ("call.name.lowerASCII() == ''", "write x.lowerAscii()"),
        ("call.name.startswith('a')", "write x.startsWith(text)"),
        ("timestamp('2026-01-01T00:00:00Z') == 1", "allowed are has, all, exists, size"),
        ("lists.range(4000000000).size() > 0", "`range` is not allowed"),
        ("optional.of(1).hasValue()", "not allowed"),
        ("has(call)", "invalid argument to has()"),
        ("{}.?a == 1", "unsupported syntax"),
    ]);
}

#[test]
fn a_function_in_another_form_is_refused() {
    refused(&[
        ("call.arguments.path.startsWith('/', '~')", "`startsWith` has another form: write x.startsWith(text)"),
        ("startsWith('/', call.arguments.s)", "write x.startsWith(text)"),
        ("call.arguments.s.size(1) == 3", "write size(x) or x.size()"),
        ("size() == 1", "write size(x) or x.size()"),
        ("call.arguments.s.int() == 3", "write int(x)"),
        ("string(1, 2) == ''", "write string(x)"),
        ("matches(call.name, 'a')", "write x.matches(pattern)"),
        ("call.arguments.list.exists(x)", "write x.exists(e, e > 0)"),
    ]);
}

#[test]
fn patterns_are_written_out_and_small() {
    refused(&[
        ("content.text.matches(call.name)", "written out"),
        ("content.text.matches('a' + 'b')", "written out"),
        ("[\"a\"].exists(pattern, content.text.matches(pattern))", "written out"),
        ("content.text.matches(\"[ab\")", "not a regular expression"),
        ("content.text.matches(\"([ab]{0,30}a){0,30}c\")", "too many states"),
        (r"content.text.matches(r'[a&&b]')", "write a backslash"),
    ]);
}

#[test]
fn macros_are_not_nested_and_hide_no_variable() {
    refused(&[
        ("call.arguments.list.all(x, call.arguments.list.all(y, x == y))", "inside another"),
        ("call.arguments.list.all(call, call == 1)", "give the elements another name"),
        ("call.arguments.list.all(x, x == y)", "no variable \"y\""),
        ("call.arguments.list.all(x, x == 1) && x == 1", "no variable \"x\""),
    ]);
}
