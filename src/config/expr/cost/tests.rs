//! Which expressions are evaluated on how much, and which never are.

use super::super::Expression;
use super::*;

fn check(expression: &str, bytes: usize, values: usize) -> Result<(), String> {
    let mut reads = Reads::default();
    reads.add_text(&"x".repeat(bytes));
    reads.add_values(values);
    let expression = Expression::compile(expression)?;
    expression.cost.check(expression.program.expression(), reads)
}

#[test]
fn what_is_ordinary_is_evaluated_on_what_is_large() {
    for (expression, bytes, values) in [
        ("call.arguments.path.startsWith(\"/etc\")", 4 << 20, 90_000),
        (
            "content.text.contains(\"a\") || content.text.contains(\"b\") || content.text.lowerAscii() == \"c\"",
            16 << 20,
            0,
        ),
        ("[\"a\", \"b\", \"c\"].exists(word, content.text.contains(word))", 16 << 20, 0),
        ("content.text.matches(\"(?i)password\\\\s*=\")", 16 << 20, 0),
        ("content.text.matches(\"^[a-z]+@\")", 16 << 20, 0),
        ("content.text.matches(\"\\\\bpassword\\\\b\")", 1 << 20, 0),
        ("content.text.matches(\"\\\\w+@\")", 20 << 10, 0),
        ("content.text.findAll(\"[0-9]{13,16}\").size() > 3", 1 << 10, 0),
        ("call.arguments.text == \"\" || \"path\" in call.arguments", 1 << 20, 10_000),
        ("call.arguments.path.matches(\"^[a-z]+@\")", 1 << 20, 10_000),
        ("call.arguments.paths.exists(path, path.startsWith(\"/etc\"))", 1 << 20, 1000),
        ("call.arguments.paths.all(path, path.contains(\"a\") && path != \"b\" && size(path) < 10)", 1 << 20, 1000),
        ("call.arguments.paths.exists(path, path.startsWith(\"/etc\"))", 50 << 10, 1000),
        ("call.arguments.paths.filter(path, path != \"\").size() > 0", 10 << 10, 300),
        ("call.arguments.paths.exists(path, path.matches(\"^/(etc|root)/\"))", 10 << 10, 900),
        ("call.arguments.paths.exists(path, path.matches(\"^[a-z]{1,8}=[0-9]+\"))", 50 << 10, 1000),
        ("call.arguments.path.replace(\"//\", \"/\").split(\"/\").exists(part, part == \"..\")", 400, 20),
        ("upstream.labels.exists(name, name == \"tier\")", 0, 60),
        ("call.arguments.path.split(\"/\").exists(part, part == \"..\")", 20_000, 200),
    ] {
        assert_eq!(check(expression, bytes, values), Ok(()), "{expression}");
    }
}

#[test]
fn what_multiplies_is_not_evaluated_on_what_is_large() {
    for (expression, bytes, values) in [
        ("call.arguments.list.all(x, call.arguments == call.arguments)", 1 << 20, 60_000),
        ("call.arguments.list.map(x, call.arguments.text + x).size() > 0", 1 << 20, 1000),
        ("[1, 1, 1, 1, 1, 1, 1, 1, 1, 1].map(x, content.text + \"a\").size() > 0", 16 << 20, 0),
        ("content.text.replace(\"\", content.text) == \"\"", 1 << 20, 0),
        ("content.text.replace(\"x\", \"xx\").replace(\"x\", \"xx\") == \"\"", 16 << 20, 0),
        ("content.text.split(\"\").join(\"--\").split(\"\").join(\"--\") == \"\"", 4 << 10, 0),
        ("replace(content.text, \"\", content.text) == \"\"", 1 << 20, 0),
        ("content.text.split(\"\").exists(x, content.text.contains(x))", 1 << 20, 0),
        // A list that grows is copied at each element.
        ("call.arguments.list.map(x, call.arguments.text).size() < 0", 60 << 10, 900),
        ("call.arguments.list.filter(x, true).size() < 0", 4 << 20, 1000),
        // More states than the library keeps.
        ("content.text.matches(\"([ab]{0,30}a){0,15}c\")", 200 << 10, 0),
        ("content.text.find(\"(a|b)*a(a|b){12}c\") == \"\"", 4 << 20, 0),
        ("content.text.findAll(\".*[^A-Z]|[A-Z]\").size() < 0", 64 << 10, 0),
        // A value for each byte.
        ("content.text.split(\"\").size() < 0", 1 << 20, 0),
        ("content.text.findAll(\"\").size() < 0", 1 << 20, 0),
        ("url(\"http://h/?\" + content.text).getQuery() == {}", 1 << 20, 0),
        ("[[content.text], [\"a\"]][0].all(x, content.text.contains(x))", 1 << 20, 1000),
        ("call.arguments.a == 1", 300_000, 100_001),
    ] {
        assert!(check(expression, bytes, values).is_err(), "{expression}");
    }
    let sums = format!("{} == \"\"", vec!["content.text"; 60].join(" + "));
    assert!(check(&sums, 16 << 20, 0).is_err() && check(&sums, 256 << 10, 0).is_ok());
}

#[test]
fn lists_and_texts_of_any_length_are_refused() {
    for expression in [
        "lists.range(4000000000).size() > 0",
        "[1].all(lists, lists.range(4000000000).size() > 0)",
        "[1].all(strings, strings.quote(call.name) == \"\")",
        "\"%.2000000000f\".format([1.0]) == \"\"",
        "call.name.format([1.0]) == \"\"",
    ] {
        assert!(Expression::compile(expression).is_err(), "{expression}");
    }
    assert_eq!(check("\"%.2f %s\".format([1.0, call.name]) == \"\"", 100, 0), Ok(()));
}

#[test]
fn patterns_are_written_out_and_not_too_large() {
    for (expression, part) in [
        ("content.text.matches(call.name)", "written out"),
        ("[\"a\"].exists(pattern, content.text.find(pattern) != \"\")", "written out"),
        ("content.text.matches(\"[ab\")", "not a regular expression"),
        ("content.text.matches(\"([ab]{0,300}a){0,200}c\")", "more than"),
    ] {
        let error = Expression::compile(expression).unwrap_err();
        assert!(error.contains(part), "{expression}: {error}");
    }
}

#[test]
fn functions_whose_cost_is_not_known_are_refused() {
    for name in ["bytes", "quote", "range", "nothing", "my_own"] {
        let error = Expression::compile(&format!("{name}(call.name) == 1")).unwrap_err();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn what_is_evaluated_twice_at_each_level_is_counted_twice() {
    let nested = |levels: usize| format!("{}call.name{} == \"\"", "string(".repeat(levels), ")".repeat(levels));
    assert_eq!(check(&nested(6), 100, 0), Ok(()));
    assert!(Expression::compile(&nested(20)).unwrap_err().contains("costs too much"));
}

#[test]
fn values_are_never_counted_too_low() {
    for json in ["1", "[]", "[1,2,[3],{\"a\":{},\"b\":[[]]}]", "{\"a\":[1,{}],\"b\":\"x,y\"}"] {
        fn values(value: &serde_json::Value) -> u64 {
            match value {
                serde_json::Value::Array(all) => 1 + all.iter().map(values).sum::<u64>(),
                serde_json::Value::Object(all) => 1 + all.values().map(values).sum::<u64>(),
                _ => 1,
            }
        }
        let mut reads = Reads::default();
        reads.add_json(json);
        assert!(reads.values >= values(&serde_json::from_str(json).unwrap()), "{json}");
    }
}
