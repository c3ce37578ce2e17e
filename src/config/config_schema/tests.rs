//! What checks of configurations find, and that none of them is endless.

use serde_json::json;

use super::*;

fn check(schema: &Value, config: &str) -> Result<(), ConfigFault> {
    ConfigChecks::new(&ConfigVerdicts::default()).check("ns", &ConfigSchema::of(schema), config)
}

fn of_schema(schema: &Value, config: &str) -> String {
    match check(schema, config) {
        Err(ConfigFault::Schema(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn of_config(schema: &Value, config: &str) -> String {
    match check(schema, config) {
        Err(ConfigFault::Config(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// A schema whose definitions each refer to the next one twice.
fn doubling(definitions: usize) -> Value {
    let next = |n: usize| json!({"$ref": format!("#/$defs/d{n}")});
    let mut all: serde_json::Map<_, _> =
        (0..definitions).map(|n| (format!("d{n}"), json!({"allOf": [next(n + 1), next(n + 1)]}))).collect();
    all.insert(format!("d{definitions}"), json!({"type": "string"}));
    json!({"$defs": all, "properties": {"x": {"$ref": "#/$defs/d0"}}})
}

/// A schema of many alternatives for each element of a list.
fn alternatives() -> Value {
    let constants: Vec<_> = (0..4_900).map(|n| json!({"const": n})).collect();
    json!({"items": {"anyOf": constants}})
}

/// A list of so many elements.
fn list(elements: u64, each: &str) -> String {
    format!("[{}]", vec![each; elements as usize].join(","))
}

#[test]
fn configurations_fit_or_are_told_where_they_do_not() {
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "required": ["n"],
        "properties": {"n": {"type": "number"}, "host": {"pattern": "^[a-z0-9.-]{1,63}$", "format": "hostname"}}});
    assert_eq!(check(&schema, r#"{"n":1,"host":"a.example"}"#), Ok(()));
    assert_eq!(
        of_config(&schema, r#"{"n":"x"}"#),
        "it does not fit configSchema at \"/n\": \"x\" is not of type \"number\""
    );
    assert!(of_config(&schema, "{}").contains("\"n\" is a required property"));
    assert!(of_config(&schema, r#"{"n":1,"host":"A"}"#).contains("at \"/host\": \"A\" does not match"));
    let long = of_config(&json!({"enum": vec!["x".repeat(900); 9]}), &format!("{:?}", "y".repeat(9_000)));
    assert!(long.len() < 3_000 && !long.contains("yyy"), "{long}");
}

#[test]
fn a_schema_that_unfolds_or_is_recursive_is_not_accepted() {
    let recursive = json!({"properties": {"a": {"$ref": "#"}}});
    for schema in [doubling(40), recursive] {
        let why = of_schema(&schema, r#"{"x":"a"}"#);
        assert!(why.contains("more than 10000 places") && why.contains("make it smaller and flatter"), "{why}");
    }
    assert_eq!(check(&doubling(9), r#"{"x":"a"}"#), Ok(()));
    let wide = json!({"properties": Value::Object((0..60_000).map(|n| (format!("{n}"), json!(true))).collect())});
    assert!(wide.to_string().len() > 256 << 10 && of_schema(&wide, "{}").contains("more than 262144 bytes"));
}

#[test]
fn a_check_of_many_values_and_alternatives_is_refused() {
    assert_eq!(check(&alternatives(), &list(500, "4899")), Ok(()));
    let why = of_config(&alternatives(), &list(2_000, "0"));
    assert!(why.contains("are more than 10000000: make one of them smaller"), "{why}");
    assert!(of_config(&alternatives(), &list(2, "-1")).starts_with("it does not fit configSchema at \"/0\""));
    assert!(of_config(&alternatives(), &list(500, "-1")).ends_with("it has too many values to say where"));
}

#[test]
fn patterns_are_matched_in_linear_time() {
    let with = |patterns: Vec<String>| {
        let each = patterns.into_iter().enumerate().map(|(n, it)| (format!("p{n}"), json!({"pattern": it})));
        json!({"properties": serde_json::Map::from_iter(each)})
    };
    for pattern in ["^(a{1000}){1000}$", r"^\p{L}{400}$", "(", r"^((a+)\2?)+$"] {
        let why = of_schema(&with(vec![pattern.into()]), "{}");
        assert!(
            why.contains("cannot be matched in linear time") && why.ends_with("make it simpler"),
            "{pattern}: {why}"
        );
    }
    assert_eq!(check(&with((0..100).map(|n| format!("^x-{n}[a-z]+$")).collect()), r#"{"p3":"x-3a"}"#), Ok(()));
}

#[test]
fn nothing_is_fetched() {
    for schema in [
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}),
        json!({"$defs": {"a": {"$anchor": "here"}}, "$ref": "#here"}),
    ] {
        let why = of_schema(&schema, "{}");
        assert!(why.contains("a reference to \"") && why.contains("such as \"#/$defs/name\""), "{why}");
    }
    assert!(of_schema(&json!({"$dynamicRef": "#a"}), "{}").contains("it has \"$dynamicRef\", which is not followed"));
    let data = json!({"properties": {"a": {"$ref": "#/title"}}, "title": "no schema"});
    assert!(of_schema(&data, "{}").contains("not a JSON Schema"));
}

#[test]
fn a_namespace_has_a_share_and_others_have_theirs() {
    let verdicts = ConfigVerdicts::default();
    let mut checks = ConfigChecks::new(&verdicts);
    let (long, short) = (ConfigSchema::of(&alternatives()), ConfigSchema::of(&json!({"type": "object"})));
    for elements in 700..=709 {
        let found = checks.check("mean", &long, &list(elements, "4899"));
        assert_eq!(found.is_ok(), elements < 706, "{elements}");
    }
    let refused = checks.check("mean", &short, "{}");
    assert!(matches!(refused, Err(ConfigFault::Config(why)) if why.contains("configurations of namespace mean")));
    assert_eq!(checks.check("other", &short, "{}"), Ok(()));
    // What was checked is known, whoever asks.
    assert_eq!(checks.check("mean", &short, "{}"), Ok(()));
    assert_eq!(ConfigChecks::new(&verdicts).check("mean", &short, "{}"), Ok(()), "each compilation has its own share");
}

#[test]
fn verdicts_are_kept_as_long_as_they_are_asked_for() {
    let (verdicts, schema) = (ConfigVerdicts::default(), ConfigSchema::of(&json!({"type": "object"})));
    let known = || verdicts.0.lock().unwrap().len();
    for config in ["{}", r#"{"a":1}"#] {
        assert_eq!(ConfigChecks::new(&verdicts).check("ns", &schema, config), Ok(()));
    }
    verdicts.forget_unused();
    assert_eq!((known(), ConfigChecks::new(&verdicts).check("ns", &schema, "{}")), (2, Ok(())));
    verdicts.forget_unused();
    assert_eq!(known(), 1);
    verdicts.forget_unused();
    assert_eq!(known(), 0);
}
