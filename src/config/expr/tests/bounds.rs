//! What bounds the size of an expression, and that hostile ones do no harm.

use super::*;

#[test]
fn what_is_deep_is_evaluated_on_a_small_stack() {
    let failed = |why: &str| Err(why.to_owned());
    let bracketed = |before: &str, within: &str| {
        format!("{}{within}{}", format!("{before}(").repeat(MAX_NESTING), ")".repeat(MAX_NESTING))
    };
    let texts = [
        (format!("{}true", "true<".repeat(MAX_OPERATORS)), Ok(true)),
        (format!("{}false", "true==".repeat(MAX_OPERATORS)), Ok(false)),
        (format!("{}[]", "[]in".repeat(MAX_OPERATORS)), Ok(false)),
        (
            format!("call.arguments.list{} == 1", "[0]".repeat(MAX_OPERATORS - 3)),
            failed("it cannot be evaluated on this call"),
        ),
        (format!("call{} == 1", ".arguments".repeat(MAX_OPERATORS / 2)), failed("no such key: arguments")),
        (format!("has(call{})", ".arguments".repeat(MAX_OPERATORS / 2)), failed("no such key: arguments")),
        (bracketed("!", "true"), Ok(true)),
        (bracketed("-", "1") + " == 1", Ok(true)),
        (format!("{}true", "true&&".repeat(MAX_OPERATORS)), Ok(true)),
        (format!("{}false", "true&&".repeat(MAX_OPERATORS)), Ok(false)),
    ];
    let run = move || texts.iter().for_each(|(text, expected)| assert_eq!(&evaluate(text), expected, "{text}"));
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn an_operator_before_a_value_stands_once() {
    for (text, part) in [
        ("!!true", "line 1, column 2: `!` stands twice"),
        ("! ! true", "column 3: `!` stands twice"),
        ("! // one\n !true", "line 2, column 2: `!` stands twice"),
        ("!!!true", "`!` stands twice"),
        ("!!has(call.arguments.n)", "`!` stands twice"),
        ("--call.arguments.n == -3", "`-` stands twice"),
        ("- -1 == 1", "`-` stands twice"),
        ("1 - - -1 == 0", "`-` stands twice"),
        ("4--4 == 8", "column 3: `-` stands twice"),
        ("!-1 == 1", "a value must stand after `!`"),
        ("-!true", "a value must stand after `-`"),
        ("!,!true", "a value must stand after `!`"),
        ("(!)", "a value must stand after `!`"),
        ("(1 + )", "a value must stand between `+` and `)`"),
        ("(]--1", "`]` closes nothing"),
        ("())", "`)` closes nothing"),
    ] {
        let error = check_bounds(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    for (text, expected) in [
        ("!(!true)", true),
        ("!call.arguments.list.exists(x, x == 3) && !(false)", true),
        ("-call.arguments.n == -3", true),
        ("4-4 == 0 && 1 - (-1) == 2 && 1 + -1 == 0 && -(-1) == 1 && -.5 < 0.0", true),
        ("true || !false // !!", true),
    ] {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }
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
    let operators =
        ["+", "*", "/", "%", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "?", ".", "in", "-1", "!a", "a[]"];
    for operator in operators.map(|operator| format!("{operator} ")) {
        assert_eq!(check_bounds(&operator.repeat(MAX_OPERATORS)), Ok(()));
        assert!(is_refused(&operator.repeat(MAX_OPERATORS + 1), "operators"), "{operator}");
    }
    let chain = |indices: usize| format!("call.arguments.list{} == 1", "[0]".repeat(indices));
    assert!(check_bounds(&chain(MAX_OPERATORS - 3)).is_ok() && check_bounds(&chain(MAX_OPERATORS - 2)).is_err());
}

#[test]
fn what_is_quoted_is_neither_a_bracket_nor_an_operator() {
    let brackets = "(".repeat(MAX_NESTING + 1);
    for quoted in [
        "\"B\"",
        "'B'",
        "\"\\\"B\"",
        "r'\\dB'",
        "'''\nB'''",
        "bar('B')",
        "b'B'",
        "'\\x41B'",
        "'http://B'",
        "1 // it's B\\d",
    ] {
        let quoted = quoted.replace('B', &brackets);
        assert_eq!(check_bounds(&quoted), Ok(()), "{quoted}");
    }
    for not_quoted in [format!("'a'{brackets}"), format!("'\"'{brackets}"), format!("'\\\\'{brackets}")] {
        assert!(check_bounds(&not_quoted).is_err(), "{not_quoted}");
    }
}

#[test]
fn what_might_be_a_comment_or_a_raw_string_hides_nothing() {
    let brackets = "(".repeat(MAX_NESTING + 1);
    let operators = "+".repeat(MAX_OPERATORS + 1);
    for hiding in [
        "r\"\\\" + ",
        "R'\\' + ",
        "br'\\' + ",
        "1r'\\' + ",
        "\"\"\" \" \"\"\" + ",
        "call.`//` + ",
        "\"\n + ",
        "\"\r + ",
        "är'\\' + ",
        "\"\\x\" + ",
        "\"\\d\" + ",
        "=\"",
        "a=\"",
        "===\"",
        "&'",
        "&&&'",
        "|\"",
        "a=//",
        "&//",
        "|//",
    ] {
        for hidden in [&brackets, &operators] {
            assert!(check_bounds(&format!("{hiding}{hidden}")).is_err(), "{hiding}{hidden}");
        }
    }
    for shown in ["// \"\n", "// '\\\n", "1 / 2 // '\n", "''' \" ''' + ", "r'\\\\' + ", "b\"'\" + ", "'\\101' + "] {
        for (hidden, why) in [(&brackets, "nest deeper"), (&operators, "operators")] {
            let refused = check_bounds(&format!("{shown}{hidden}")).unwrap_err();
            assert!(refused.contains(why), "{shown}{hidden}: {refused}");
        }
    }
}

#[test]
fn comments_and_raw_strings_are_read() {
    for (text, expected) in [
        ("content.text.matches(r'^h\\w+$') // (a comment)", true),
        ("content.text == '''hello''' && content.type == r\"text\"", true),
        ("true // names match \\d+, not \"\\", true),
    ] {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
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
        format!("=\"{}", "(".repeat(500)),
        format!("a=\"{}", ".a".repeat(500)),
        format!("&'{}", "+1".repeat(500)),
        format!("a=//{}", "[0]".repeat(300)),
        "()".repeat(500),
        "(]".repeat(500),
        "[]{}".repeat(200),
        // Were they parsed, each level would double the time.
        format!("{}true{}", "!!(".repeat(MAX_NESTING), ")".repeat(MAX_NESTING)),
        format!("{}1{} == 1", "--(".repeat(MAX_NESTING), ")".repeat(MAX_NESTING)),
        "!,!(".repeat(MAX_NESTING),
        "()--".repeat(60),
        "(]--".repeat(60),
    ];
    let refused = |text: &String| assert!(Expression::compile(text).is_err(), "{text}");
    let run = move || texts.iter().for_each(refused);
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}
