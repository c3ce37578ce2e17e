//! Which patterns are refused, and that the others find what RE2 finds.

use super::*;
use crate::config::expr::tests::evaluate;

#[track_caller]
fn check_refused(patterns: &[(&str, &str)]) {
    for (pattern, part) in patterns {
        let error = translate(pattern).unwrap_err();
        assert!(error.contains(part), "{pattern}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn what_re2_reads_otherwise_is_refused() {
    check_refused(&[
        (r"[;&&||]", "write `&` once"),
        (r"[;|&&]", "write `&` once"),
        (r"\<\/script\>", "write `<`"),
        (r"\>$", "write `>`"),
        ("[~~/]root", "write `~` once"),
        ("[+--]", r"write `\-`"),
        ("[--/]", r"write `\-`"),
        ("[^--/]", r"write `\-`"),
        ("[]-a]", r"write `\]`"),
        ("[^]-a]", r"write `\]`"),
        ("x[a[b]]", r"write `\[`"),
        ("[[:nothing:]]", r"write `\[`"),
        ("^[a-z0-9._--]+$", r"write `\-`"),
        ("a[_--b]b", r"write `\-`"),
    ]);
}

#[test]
fn what_re2_does_not_read_is_refused() {
    check_refused(&[
        ("a++", "`+` repeats a repetition"),
        ("a**", "`*` repeats a repetition"),
        ("a{2}{3}", "`{3}` repeats a repetition"),
        ("(?x) a", "no flag `x`"),
        ("(?i-u:a)", "no flag `u`"),
        ("(?R)a", "no flag `R`"),
        (r"h\u00e9", r"write `\x{e9}`"),
        (r"[a\u{e9}]", r"write `\x{e9}`"),
        (r"[a-\U000000e9]", r"write `\x{e9}`"),
        (r"\b{start}a", r"write `\b`"),
        ("a{1001}", "more than 1000 times"),
        ("(a{100}){11}", "more than 1000 times"),
        ("a{ 2 }", "no repetition to CEL"),
        ("a{02}", "no repetition to CEL"),
        ("a{,5}", "write `\\{`"),
        ("a{", "write `\\{`"),
        (r"\p{Alphabetic}", "write a category"),
        (r"[\p{gc=L}]", "write a category"),
        (r"\pC", "write a category"),
        ("(?<ä>a)", "write the name"),
        ("(?=h)", "look-around"),
        ("[", "unclosed character class"),
        (r"[a\s-b]", "write a `-` that is no range last"),
        (r"(h)\1", "backreferences are not supported"),
        (r"[\<]", "without the backslash"),
        (r"\e", "unrecognized escape"),
        ("*", "missing expression"),
    ]);
}

#[test]
fn what_both_read_alike_stays_as_it_is() {
    for pattern in [
        "",
        "a||b",
        "[;&|]",
        "[~/]root",
        "[+-]",
        "[-a]",
        "[--]",
        "[]a]",
        "[^]a]",
        "[]-]",
        "[[:alpha:][:^digit:]]",
        r"[\[\]\-&~]",
        "(?i)a(?s-m:.)(?U)b+",
        "(?P<a_1>a)(?<b>b)",
        r"\x41\x{1f431}\a\f\t\n\r\v\A\z\.\/\-\ ",
        "a{2}?b{2,}c{0,1000}",
        "a+?b*?c??",
        "(?:a+)+",
        "(a{100}){10}",
        r"\p{Greek}\P{Lu}\pL[\p{Nd}]",
        "^$|<script>",
        "a-b&&c~~d--e",
    ] {
        assert_eq!(translate(pattern).as_deref(), Ok(pattern));
    }
}

#[test]
fn classes_of_words_digits_and_blanks_are_of_ascii() {
    for (pattern, expected) in [
        (r"^\d+\D$", "^[0-9]+[^0-9]$"),
        (r"[\d.\w-]\\d", r"[[0-9].[0-9A-Za-z_]-]\\d"),
        (r"[^\s]", r"[^[\t\n\f\r ]]"),
        (r"[a\W]", "[a[^0-9A-Za-z_]]"),
        (r"\bä\B", r"(?-u:\b)ä(?-u:\B)"),
    ] {
        assert_eq!(translate(pattern).as_deref(), Ok(expected));
    }
    for (text, expected) in [
        (r#"!"١٢".matches(r'^\d+$')"#, true),
        ("'1\u{a0}2'.matches(r'^\\S+$')", true),
        (r"'é'.matches(r'\W') && 'é'.matches(r'[a\W]') && !'é'.matches(r'[^a\W]')", true),
        (r"'éa'.matches(r'é\ba') && 'é'.matches(r'\B')", true),
        (r"'\v'.matches(r'\s')", false),
        (r"matches('é', r'\w')", false),
        (r"'é1'.find(r'\w') == '1' && 'é1ü2'.findAll(r'\w') == ['1', '2']", true),
        (r"['é', '1'].filter(x, x.matches(r'\w')) == ['1']", true),
        (r"'a1'.matches(r'^[\d\D]+$') && '-'.matches(r'[\w-]') && 'K'.matches(r'(?i)\w')", true),
    ] {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }
}
