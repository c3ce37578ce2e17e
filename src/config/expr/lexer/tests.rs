//! What the tokens of an expression are, and which texts are refused since the engine reads them otherwise than CEL.

use super::*;
use crate::config::expr::tests::evaluate;

/// Returns the tokens as they are written, with spaces between.
fn tokens(text: &str) -> Result<String, String> {
    let mut lexer = Lexer::new(text);
    let mut found = Vec::new();
    while let Some(token) = lexer.next() {
        token?;
        found.push(&text[lexer.last..lexer.at]);
    }
    Ok(found.join(" "))
}

#[test]
fn a_token_is_the_longest_that_fits() {
    for (text, expected) in [
        ("1.e5", "1 . e5"),
        ("1.5e-3+1e+2-1E5", "1.5e-3 + 1e+2 - 1E5"),
        ("1e-a", "1 e - a"),
        (".5.5 a.b.1", ".5 .5 a . b .1"),
        ("0x1e-5 0xFu 0xg 0X1", "0x1e - 5 0xFu 0 xg 0 X1"),
        ("1u 1U 1.5u", "1u 1U 1.5 u"),
        ("a<=b!=c>d", "a <= b != c > d"),
        ("!=!=", "!= !="),
        ("x in inner", "x in inner"),
        ("rb'a' bR b'a'", "rb 'a' bR b'a'"),
        ("''+\"\"+''''''+''", "'' + \"\" + '''''' + ''"),
        ("'\\'' '''a'''r\"\\d\"", "'\\'' '''a''' r\"\\d\""),
        ("a//b\n/c\t/\r\u{c}d // e", "a / c / d"),
        ("a // b\r\n && //\r\n c", "a && c"),
        ("a[?b.?c,{}]", "a [ ? b . ? c , { } ]"),
    ] {
        assert_eq!(tokens(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_no_token_is_refused_with_its_place() {
    for (text, expected) in [
        ("a = b", "line 1, column 3: CEL has `==`, and no `=`"),
        ("a\n & b", "line 2, column 2: CEL has `&&`, and no `&`"),
        ("'ä' | b", "line 1, column 5: CEL has `||`, and no `|`"),
        ("a # b", "line 1, column 3: CEL has no '#' outside"),
        ("a\u{a0}+ b", "line 1, column 2: CEL has no"),
        ("has(call.`a-b`)", "column 10: a name in back quotes is not read"),
        ("1 + 'a", "line 1, column 5: this text has no ' at its end"),
        ("'''a", "this text has no ''' at its end"),
        ("'a\n'", "this text does not end in its line"),
        ("r'a\r'", "this text does not end in its line"),
        ("'\\d'", "line 1, column 2: a backslash stands before what it cannot escape"),
        ("'\\", "a backslash stands before"),
    ] {
        let error = tokens(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_text_has_the_value_that_cel_gives_it_or_is_refused() {
    for text in [
        r#""\x41\101\u0041\U00000041" == 'AAAA'"#,
        r#""\xe9\351\u00e9\U0001f431" == "ééé🐱""#,
        r#""\?\`\"" == '?`"'"#,
        r#"'\'' == "'" && '"' == "\"""#,
        r#"r"\d\\" == "\\d\\\\" && r'\"' == "\\\"" && R"a'b" == 'a\'b'"#,
        r#""""a\"b'c""" == "a\"b'c" && '''a"b''' == "a\"b""#,
        r#"r'''a"\d''' == "a\"\\d" && """""" == ''"#,
        r#"b"\xc3\251" == b"é" && B'"' == b'\x22'"#,
    ] {
        assert_eq!(evaluate(text), Ok(true), "{text}");
    }
    for (text, part) in [
        (r#""it\'s" == """#, "column 4: write ' without the backslash"),
        (r#"'\"' == """#, "write \" without the backslash"),
        (r#""""it\'s""" == """#, "write ' without the backslash"),
        (r#"r"C:\" == """#, "column 5: a backslash before the quote is not read"),
        (r"r'\' == ''", "a backslash before the quote is not read"),
        (r#"r"""a\"b""" == """#, "a backslash before the quote is not read"),
        (r#"r"""a\""" == """#, "a backslash before the quote is not read"),
        (r#""""a"b""" == """#, "a \" in a text of three \" is not read: write \\\""),
        (r#""""a""b""" == """#, "a \" in a text of three \" is not read"),
        ("r'''a'b''' == ''", "write the text in other quotes"),
        ("'''a\r\nb''' == ''", "line 1, column 5: a carriage return in a text is not read: write \\r"),
        (r#"br"a" == b"a""#, "bytes that are raw"),
        (r#"b'''a''' == b"a""#, "bytes that are raw"),
        (r#""\X41" == "A""#, "column 2: write \\x with a small x"),
        (r#""\400" == """#, "a backslash stands before"),
        (r#""\u00g0" == """#, "a backslash stands before"),
        (r#""\x4é" == """#, "a backslash stands before"),
        (r"'\ud83d' == ''", "column 2: U+D83D is half of a character"),
        (r"'\U00110000' == ''", "there is no character U+110000"),
        ("false // a\r|| true", "line 1, column 11: a carriage return in a comment"),
        ("true // a\r", "a carriage return in a comment"),
        ("-0xA < 0", "write it in decimal"),
        (r#"b"\n" == b"""#, "invalid bytes literal"),
    ] {
        let error = evaluate(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn the_engine_finds_no_other_tokens() {
    #[rustfmt::skip]
    let parts = [
        "a", "in", "r", "b", "u", "1", "0x", "e", "+", "-", "*", "//", "\n", "\r", "\t", "\"", "\"", "'", "'", "\"\"\"",
        "'''", "\\", "\\\\", "\\\"", "\\'", "\\x4", "\\u00e", "\\101", "\\n", "(", ")", "[", "]", "{", "}", ".", "?",
        ":", ",", "!", "<", "=", "==", "&&", "||", "&", "|", "é", "🐱", " ", "`", "\u{c}", "true", "r'", "b\"",
    ];
    let mut random = 88_172_645_463_325_252_usize;
    let mut below = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    let mut accepted = 0;
    for _ in 0..20_000 {
        let text: String = (0..=below(12)).map(|_| parts[below(parts.len())]).collect();
        if tokens(&text).is_ok() {
            accepted += 1;
            // The parser may refuse it, or panic.
            if let Ok(Err(refused)) = std::panic::catch_unwind(|| kube_cel::cel::Program::compile(&text)) {
                let is_of_lexer = |error: &kube_cel::cel::ParseError| error.msg.contains("token recognition error");
                assert!(!refused.errors.iter().any(is_of_lexer), "{text:?}: {refused}");
            }
        }
    }
    assert!(accepted > 1000, "{accepted} texts say little");
}
