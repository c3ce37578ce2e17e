//! Which patterns are translated, and which are refused. The golden file has what they match.

use super::*;

#[test]
fn what_both_read_alike_stays_as_it_is() {
    for pattern in [
        "",
        "a||b",
        "[;&|]",
        "[~/]root",
        "[-a]",
        "[]a]",
        "[^]a]",
        "[[:alpha:][:^digit:]]",
        r"[\[\]\-&~]",
        "(?i)a(?s-m:.)(?U)b+",
        "(?P<a_1>a)(?<b>b)",
        r"\x41\x{1f431}\a\f\t\n\r\v\A\z\.\/\-",
        "a{2}?b{2,}c{0,1000}",
        "a+?b*?c??",
        "(?:a+)+",
        "(a{100}){10}",
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
        (r"\bä\B", r"(?-u:\b)ä(?-u:\B)"),
    ] {
        assert_eq!(translate(pattern).as_deref(), Ok(expected));
    }
}

#[test]
fn what_re2_reads_otherwise_is_refused_with_advice() {
    for (pattern, part) in [
        ("[a&&b]", "write a backslash"),
        ("[[a]b]", r"write `\[`"),
        (r"\<a", "for the character"),
        (r"\b{start}a", r"write `\b`"),
        (r"\u00e9", r"`\u00e9` is not read as CEL reads it: write `\x{e9}`"),
        (r"\p{Greek}", "the ranges"),
        (r"[\pL]", "the ranges"),
        ("(?x)a", "the flags other than i, m, s and U"),
        ("a++", "as in `(?:a+)+`"),
        ("(a{100}){11}", "at most 1000"),
        ("a{ 2 }", "without blanks"),
        ("a{02}", "without blanks and zeros"),
        ("[--/]", r"write `\-`"),
        ("(?<ä>a)", "write A-Z"),
        ("(?=h)", "look-around"),
        ("[", "unclosed character class"),
        (r"(h)\1", "backreferences are not supported"),
    ] {
        let error = translate(pattern).unwrap_err();
        assert!(error.contains(part), "{pattern}: {error}");
    }
}
