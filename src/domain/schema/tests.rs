//! Which schemas are used, and that none of those makes a check or a compilation long.

use serde_json::{Value, json};

use super::*;

/// Checks a value, if the schema is used.
fn check(schema: &Value, value: &Value) -> Result<bool, Unusable> {
    Ok(PreparedSchema::parse(&schema.to_string())?.compile()?.is_valid(value))
}

fn why_unused(schema: &Value) -> String {
    check(schema, &json!({})).unwrap_err().to_string()
}

/// Returns a schema in so many others.
fn nested(levels: usize, inner: Value, way: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(inner, |schema, _| way(schema))
}

fn reference(n: usize) -> Value {
    json!({"$ref": format!("#/$defs/d{n}")})
}

/// Returns a schema of so many definitions that each have `link` of the next one.
fn chain(links: usize, link: impl Fn(Value) -> Value) -> Value {
    let each = |n: usize| (format!("d{n}"), if n == 0 { json!({"type": "object"}) } else { link(reference(n - 1)) });
    let definitions: serde_json::Map<_, _> = (0..links).map(each).collect();
    json!({"$defs": definitions, "$ref": format!("#/$defs/d{}", links - 1)})
}

#[test]
fn recursive_large_and_deep_schemas_are_not_used() {
    let tree = json!({"$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}, "$ref": "#/$defs/node"});
    let twice = |it: Value| json!({"allOf": [it, it]});
    let flat: Value = (0..MAX_PLACES).map(|n| (n.to_string(), json!({}))).collect::<serde_json::Map<_, _>>().into();
    let long = json!({"properties": {"a".repeat(100_000): {"required": vec!["b"; 30]}}});
    let not = |it: Value| json!({"not": it});
    let lists: Vec<_> = (0..200).map(|n| json!([vec![0; n]])).collect();
    for schema in [
        tree,
        json!({"items": {"$ref": "#"}}),
        chain(40, twice),
        chain(MAX_DEPTH + 2, |it| it),
        nested(MAX_DEPTH + 1, json!({}), not),
        json!({"properties": flat}),
        nested(40, json!({"properties": {"a": vec![0; 2_000]}}), not),
        nested(9, json!({"required": vec!["a"; 9_000]}), not),
        long,
        json!({"enum": lists}),
        json!({"$defs": {"a": {"enum": lists}}}),
    ] {
        assert_eq!(check(&schema, &json!({})), Err(Unusable::Unfolds), "{:.200}", schema.to_string());
    }
    assert_eq!(check(&chain(8, twice), &json!({})), Ok(true));
    assert_eq!(check(&chain(MAX_DEPTH - 1, |it| it), &json!({})), Ok(true));
    assert_eq!(
        check(&json!({"$defs": {"a": {"$ref": "#/$defs/a"}}, "type": "object"}), &json!({})),
        Ok(true),
        "unused"
    );
    let wide = json!({"description": "x".repeat(MAX_SCHEMA)});
    assert_eq!(check(&wide, &json!({})), Err(Unusable::TooLarge));
}

#[test]
fn keywords_and_references_that_are_not_followed_are_named() {
    let draft_4 = json!({"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"id": "#a"}}});
    for (schema, named) in [
        (json!({"$dynamicRef": "#a"}), "$dynamicRef"),
        (json!({"allOf": [{"$recursiveRef": "#"}]}), "$recursiveRef"),
        (json!({"unevaluatedProperties": false}), "unevaluatedProperties"),
        (json!({"items": {"unevaluatedItems": false}}), "unevaluatedItems"),
        (json!({"$ref": "https://example.com/schema.json"}), "https://example.com/schema.json"),
        (json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "file:///etc/passwd"),
        (json!({"$defs": {"a": {"$anchor": "here"}}, "$ref": "#here"}), "#here"),
        (json!({"$defs": {"ab": {}, "a%62": {}}, "$ref": "#/$defs/a%62"}), "a%62"),
        (json!({"properties": {"a": {}}, "$ref": "#/properties/b"}), "#/properties/b"),
        (json!({"unknown": {"$id": "https://example.com/", "a": {}}, "$ref": "#/unknown/a"}), "$id"),
        (json!({"properties": {"a": {"$schema": "http://json-schema.org/draft-04/schema#"}}}), "$schema"),
        (draft_4, "id"),
    ] {
        let why = why_unused(&schema);
        assert!(why.contains(named) && why.ends_with("which is not followed here"), "{why}");
    }
    let data = json!({"$ref": "https://example.com/", "unevaluatedItems": 1});
    let schema = json!({"$id": "https://example.com/a", "properties": {"$ref": {"type": "string"}, "id": {"const": "x"}},
        "default": data, "enum": [data, {"$ref": "x", "id": "x"}]});
    assert_eq!(check(&schema, &json!({"$ref": "x", "id": "x"})), Ok(true));
    assert_eq!(check(&schema, &json!({"$ref": 1})), Ok(false));
}

#[test]
fn a_reference_leads_to_its_schema_however_deep_that_is() {
    let schema = json!({"$defs": {"a/b~": {"prefixItems": [true, {"not": {"items": {"type": "null"}}}]}},
        "properties": {"a": {"$ref": "#/$defs/a~1b~0/prefixItems/1/not/items"}}});
    assert_eq!(check(&schema, &json!({"a": null})), Ok(true));
    assert_eq!(check(&schema, &json!({"a": 1})), Ok(false));
    let nowhere = json!({"title": "no schema", "properties": {"a": {"$ref": "#/title"}}});
    assert!(why_unused(&nowhere).contains("not a JSON Schema"));
}

#[test]
fn patterns_are_used_if_they_are_matched_in_linear_time() {
    let is_used = |pattern: &str| {
        let of_text = check(&json!({"pattern": pattern}), &json!("")).is_ok();
        assert_eq!(of_text, check(&json!({"patternProperties": {pattern: true}}), &json!({})).is_ok());
        of_text
    };
    for good in [
        r"^[a-z0-9_-]{1,64}$",
        r"^.{1,50}$",
        r"^\p{Lu}",
        r"\S",
        r"^[A-Za-z0-9_+.-]*@([A-Za-z0-9][A-Za-z0-9-]*\.)+[A-Za-z]{2,}$",
        r"^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12})$",
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?$",
        r"^arn:aws[a-z-]*:[a-z0-9-]*:[a-z0-9-]*:\d{12}:[\w+=,.@/-]{1,255}$",
    ] {
        assert!(is_used(good), "{good}");
    }
    for bad in [
        "(",
        r"^(?!\s*$).+",
        r"^((a+)\2?)+$",
        "^(a{1000}){1000}$",
        r"^\p{L}{100}x1$",
        "([ab]{0,30}a){0,15}c",
        "[ab]*a[ab]{20}$",
        "^c[ab]{20}a[ab]*$",
        &"a".repeat(1_001),
        r"\bword\b",
        r"^\p{L}+$",
    ] {
        assert!(!is_used(bad), "{bad}");
    }
    let why = why_unused(&json!({"properties": {"a": {"pattern": "^(?=a)b"}}}));
    assert!(why.starts_with("the pattern \"^(?=a)b\" is not valid, is too large, or cannot be matched"), "{why}");
}

#[test]
fn long_patterns_are_not_read() {
    // The library reads these too, and takes quadratic time for many groups.
    let groups: String = (0..200).map(|n| format!("(?<a{n}>)")).collect();
    for data in [json!({"a": {"pattern": groups}}), json!([{"patternProperties": {&groups: true}}])] {
        assert!(why_unused(&json!({"definitions": data})).starts_with("the pattern"), "{data}");
    }
    let draft = json!({"$schema": "http://json-schema.org/draft-07/schema#", "format": "regex"});
    for (text, fits) in [("(?<a>b)", true), ("(", false), (&*groups, false)] {
        assert_eq!(check(&draft, &json!(text)), Ok(fits), "{text:.20}");
    }
}

/// Runs this on a thread with half of the stack that threads of the runtime have.
fn on_half_a_stack(run: impl FnOnce() + Send + 'static) {
    let small = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
    assert!(small.join().is_ok());
}

/// Puts a schema into another one.
type Way = fn(Value) -> Value;

const WAYS: [Way; 11] = [
    |it| json!({"not": it}),
    |it| json!({"items": it}),
    |it| json!({"contains": it}),
    |it| json!({"if": true, "then": it, "else": false}),
    |it| json!({"additionalProperties": it, "properties": {"b": true}}),
    |it| json!({"propertyNames": it}),
    |it| json!({"allOf": [it]}),
    |it| json!({"oneOf": [it, true]}),
    |it| json!({"prefixItems": [it]}),
    |it| json!({"dependentSchemas": {"a": it}}),
    |it| json!({"properties": {"a": it}, "required": ["a"], "additionalProperties": false}),
];

#[test]
fn the_deepest_schemas_are_compiled_checked_and_let_go_of_on_half_a_stack() {
    for way in WAYS {
        let deep = nested(MAX_DEPTH - 1, json!({"type": "object"}), way);
        let links = chain(MAX_DEPTH / 2, |it| if it["$ref"] == "#/$defs/d0" { it } else { way(it) });
        on_half_a_stack(move || {
            for schema in [deep, links] {
                let schema = match PreparedSchema::parse(&schema.to_string()) {
                    Ok(prepared) => prepared.compile().unwrap(),
                    Err(why) => panic!("{why}: {schema}"),
                };
                let value = (0..50).fold(json!({}), |value, _| json!({"a": value}));
                for value in [value, (0..50).fold(json!([]), |value, _| json!([value]))] {
                    let _ = schema.is_valid(&value);
                    let _ = schema.mismatches(&value).count();
                }
            }
        });
    }
}
