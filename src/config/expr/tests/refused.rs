//! Calls and maps that the engine would evaluate and CEL does not.

use super::*;

#[test]
fn a_function_that_is_called_otherwise_than_cel_calls_it_is_refused() {
    for (text, part) in [
        ("call.arguments.path.startsWith('/', '~')", "write x.startsWith(a) || x.startsWith(b)"),
        ("call.arguments.path.contains('..', '~')", "`contains` takes one argument, and has 2"),
        ("call.name.startsWith('fs_', 'x__')", "`startsWith` takes one argument, and has 2"),
        ("call.arguments.s.size(1) == 3", "`size` takes no argument, and has 1"),
        ("size(call.arguments.s, 1) == 3", "`size` takes one argument, and has 2"),
        ("call.arguments.s.matches('z', 'h')", "`matches` takes one argument"),
        ("call.arguments.s.endsWith('z', 'a')", "`endsWith` takes one argument"),
        ("string(call.arguments.n, 2) == '3'", "`string` takes one argument"),
        ("int(call.arguments.n, 3) == 3", "`int` takes one argument"),
        ("size() == 1", "`size` takes one argument, and has 0"),
        ("call.arguments.s.startsWith()", "`startsWith` takes one argument, and has 0"),
        ("call.arguments.s.matches()", "`matches` takes one argument, and has 0"),
        ("int() == 1", "`int` takes one argument"),
        ("'a'.substring() == ''", "`substring` takes 1 to 2 arguments, and has 0"),
        ("'a'.replace('a', 'b', 1, 2) == ''", "`replace` takes 2 to 3 arguments, and has 4"),
        ("'a'.split('a', 1, 2) == []", "`split` takes 1 to 2 arguments"),
        ("['a'].join('a', 'b') == ''", "`join` takes 0 to 1 arguments"),
        ("timestamp('2026-01-01T00:00:00Z').getHours('Europe/Berlin') == 1", "time zones are not read"),
        ("startsWith('/', call.arguments.s)", "`startsWith` is called on a value: write x.startsWith(...)"),
        ("contains(call.arguments.x, 'a')", "`contains` is called on a value"),
        ("replace('a', 'b', 'c') == ''", "`replace` is called on a value"),
        ("call.arguments.s.int() == 3", "`int` is not called on a value: write int(x)"),
        ("'a'.isIP('10.0.0.1')", "`isIP` is not called on a value"),
        ("min(1) == 1", "`min` takes at least 2 arguments, and has 1"),
    ] {
        let error = Expression::compile(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn functions_with_each_number_of_their_arguments_are_evaluated() {
    for text in [
        "'abc'.indexOf('b') == 1 && 'abcb'.indexOf('b', 2) == 3 && 'abcb'.lastIndexOf('b') == 3",
        "'aa'.replace('a', 'b') == 'bb' && 'aa'.replace('a', 'b', 1) == 'ba'",
        "'a,b'.split(',') == ['a', 'b'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b' && [[1]].flatten() == [1]",
        "'abc'.substring(1) == 'bc' && 'abc'.substring(1, 2) == 'b' && 'abc'.charAt(1) == 'b' && 'ab'.reverse() == 'ba'",
        "string(3) == '3' && int('3') == 3 && uint(3) == 3u && double('3') == 3.0 && size('abc') == 3",
        "[3, 1].min() == 1 && max(3, 1) == 3 && [1, 2].sum() == 3 && [1, 2, 3].slice(1, 2) == [2]",
        "timestamp('2026-01-01T05:00:00Z').getHours() == 5 && duration('60s').getMinutes() == 1",
        "isIP('10.0.0.1') && ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.0.0.1')",
        "cidr('10.0.0.0/8').ip().string() == '10.0.0.0' && url('https://a.b/c').getHost() == 'a.b'",
        "quantity('1k').isGreaterThan(quantity('2')) && semver('1.2.3').major() == 1 && isSemver('v1.2', true)",
        "'%s'.format(['a']) == 'a' && matches('a', 'a') && 'ab1'.findAll('[a-z]', 1) == ['a']",
    ] {
        assert_eq!(evaluate(text), Ok(true), "{text}");
    }
}

#[test]
fn a_map_has_each_key_once() {
    for (text, part) in [
        ("{'a': 1, 'a': 2}.size() == 2", "a map has the key \"a\" twice"),
        ("{1: 1, 1u: 2}.size() == 2", "a map has the key 1 twice"),
        ("{true: 1, true: 2}.size() == 2", "a map has the key true twice"),
        ("{call.arguments.k: 1, call.arguments.k2: 2}.size() == 2", "write the keys of a map as literals"),
        ("{1.5: 1}.size() == 2", "a text, an integer or a boolean"),
    ] {
        let error = Expression::compile(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert_eq!(evaluate("{'a': 1, 'true': 2, true: 3, '1': 4, 1: 5, -1: 6}.size() == 6"), Ok(true));
}

#[test]
fn an_argument_that_can_be_left_out_has_its_type() {
    for text in [
        "'abcb'.indexOf('b', 2.0) == 1",
        "'abcb'.lastIndexOf('b', '2') == 3",
        "call.arguments.list.indexOf(1, 1) == 0",
        "'aa'.replace('a', 'b', '1') == 'bb'",
        "'a,b'.split(',', 1u) == ['a', 'b']",
        "'abc'.substring(0, 1.0) == 'abc'",
        "'ab'.findAll('[a-z]', 1u) == ['a', 'b']",
        "['a', 'b'].join(1) == 'ab'",
        "isSemver('v1.2', 'true')",
        "'/etc'.replace('/', '', -1) == 'etc'",
        "'/x'.split('') == ['/', 'x']",
        "'a/b'.indexOf('/', 'a/b'.indexOf('@')) == 1",
        "['kill', 1].join(' ') == 'kill 1'",
        "['kill', 1].join() == 'kill1'",
        "size('abc').max() == 3",
        "string(timestamp('2026-01-01T00:00:00Z')) == '2026-01-01T00:00:00Z'",
        "string(1e21) == '1e+21'",
        "'3'.string() == '3'",
        "'10.0.0.1'.ip() == ip('10.0.0.1')",
    ] {
        let failed = Err("it cannot be evaluated on this call".to_owned());
        assert_eq!(evaluate(text), failed, "{text}");
        assert_eq!(evaluate(&format!("!({text})")), failed, "{text}");
    }
    for text in [
        "'abcb'.indexOf('b', size('ab')) == 3 && 'abc'.substring(0, size(content.text) - 4) == 'a'",
        "[1, 2].indexOf(2) == 1 && ['a', 'b'].join(content.text.charAt(0)) == 'ahb' && isSemver('v1.2', 1 == 1)",
    ] {
        assert_eq!(evaluate(text), Ok(true), "{text}");
    }
}
