//! What checks of arguments find, what they cost, and what they say.

use super::super::check_places::CheckPlaces;
use super::room::MAX_PATTERNS;
use super::*;
use crate::domain::schema::{MAX_COMPILING, MAX_DEPTH, MAX_LINE};

fn of(schema: &str) -> Arc<Arguments> {
    let schema = RawValue::from_string(schema.into()).unwrap();
    Arguments::reuse_or_compile(Some(&schema.into()), true, None, &mut Room::default())
}

/// Checks arguments as those of the only client.
async fn checked(compiled: &Arc<Arguments>, arguments: &str) -> Result<(), String> {
    let (places, client) = (CheckPlaces::new(&Arc::default()), Arc::default());
    compiled.check(arguments, places.of(&client)).await
}

fn check(schema: &str, arguments: &str) -> Result<(), String> {
    of(schema).check_at_once(arguments)
}

#[test]
fn names_each_place() {
    let schema = r#"{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"string"}},"required":["c"]}"#;
    let error = check(schema, r#"{"a":"x","b":1}"#).unwrap_err();
    for place in ["arguments/a", "arguments/b", "\"c\" is a required property"] {
        assert!(error.contains(place), "{error}");
    }
    assert_eq!(check(schema, r#"{"c":1}"#), Ok(()));
}

#[tokio::test]
async fn what_json_has_and_no_value_can_hold_is_named() {
    let schema = r#"{"type":"object","properties":{"x":{"type":"array"}}}"#;
    let long = format!(r#"{{"x":["{}","\ud83c"]}}"#, "y".repeat(SMALL));
    for (arguments, said) in [
        (r#"{"x":["\ud83d\ude00",{"secret":"a\ud83c"}]}"#, "arguments/x/1/*: a surrogate without its pair ("),
        (r#"{"x":[],"\udc00":1}"#, "arguments/*: a surrogate without its pair ("),
        (r#"{"x":[1e400]}"#, "arguments: they cannot be read: number out of range at line 1"),
        (&long, "arguments/x/1: a surrogate without its pair ("),
    ] {
        let error = checked(&of(schema), arguments).await.unwrap_err();
        assert!(error.starts_with(said) && !error.contains("secret"), "{error}");
        let unchecked = Arguments::reuse_or_compile(None, true, None, &mut Room::default());
        assert_eq!(checked(&unchecked, arguments).await, Ok(()), "without a schema they are sent as they came");
    }
}

#[tokio::test]
async fn arguments_that_a_plugin_changed_are_not_quoted() {
    let schema = r#"{"type":"object","properties":{"token":{"type":"integer","maximum":5,"enum":[1],"const":1},
        "list":{"items":{"pattern":"^a$","maxLength":2,"format":"date"}},"map":{"additionalProperties":{"type":"null"}},
        "names":{"propertyNames":{"maxLength":3}},"one":{"oneOf":[{"type":"null"},{"type":"boolean"}]}},
        "additionalProperties":false,"required":["there"]}"#;
    let changed =
        r#"{"token":"sk-1","list":["sk-2"],"map":{"sk-3":"sk-4"},"names":{"sk-5":"sk-6"},"one":"sk-7","sk-8":1}"#;
    let (compiled, places, client) = (of(schema), CheckPlaces::new(&Arc::default()), Arc::default());
    let places = places.of(&client);
    let (own, error) = (
        compiled.check(changed, places).await.unwrap_err(),
        compiled.check_changed(changed, places).await.unwrap_err(),
    );
    assert!(own.contains("sk-1") && !error.contains("sk-"), "{error}");
    for place in ["arguments/token: ", "arguments/list/0: ", "arguments/map/*: ", "\"there\" is a required", "integer"]
    {
        assert!(error.contains(place), "{place}: {error}");
    }
}

#[test]
fn a_schema_that_unfolds_without_end_is_not_enforced() {
    let mut definitions = serde_json::Map::new();
    for n in 0..40 {
        let next = serde_json::json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), serde_json::json!({"allOf": [next, next]}));
    }
    definitions.insert("d40".into(), serde_json::json!({"type": "string"}));
    let bomb = serde_json::json!({"$defs": definitions, "properties": {"x": {"$ref": "#/$defs/d0"}}});
    let arguments = of(&bomb.to_string());
    assert!(arguments.not_enforced.as_ref().is_some_and(|why| why.contains("unfold")));
    assert_eq!(arguments.check_at_once(r#"{"x":"a"}"#), Ok(()));
    let tree =
        r##"{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}}}"##;
    assert!(check(tree, r#"{"next":{"next":{}}}"#).is_ok() && check(tree, r#"{"next":{"next":1}}"#).is_err());
}

#[test]
fn a_chain_of_references_is_followed_to_a_depth() {
    let chain = |links: usize| {
        let next = |n: usize| serde_json::json!({"$ref": format!("#/$defs/d{n}")});
        let mut definitions: serde_json::Map<_, _> = (0..links).map(|n| (format!("d{n}"), next(n + 1))).collect();
        definitions.insert(format!("d{links}"), serde_json::json!({"type": "object"}));
        let schema = serde_json::json!({"$defs": definitions, "$ref": "#/$defs/d0"});
        of(&schema.to_string()).not_enforced.clone()
    };
    assert_eq!(chain(100), None);
    assert!(chain(MAX_DEPTH + 1).is_some_and(|why| why.contains("unfold")));
}

#[test]
fn an_invalid_schema_is_not_enforced_and_says_so() {
    for schema in [r#"{"type":"strin"}"#, r#"{"$ref":"https://example.com/schema.json"}"#] {
        let arguments = of(schema);
        assert!(arguments.not_enforced.is_some(), "{schema}");
        assert_eq!(arguments.check_at_once("{}"), Ok(()));
    }
}

/// What must not be said of arguments that fit or do not: that the check was too much.
fn is_too_much(checked: &Result<(), String>) -> bool {
    checked.as_ref().is_err_and(|why| why.contains("to be checked against the input schema"))
}

fn nested(levels: usize, inner: &str) -> String {
    format!("{}{inner}{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
}

#[test]
fn counters_change_no_meaning_and_no_message() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/F",
        "definitions": {"F": {"type": "object", "additionalProperties": false, "properties": {
            "a": {"type": "string"}, "b": {"$ref": "#/definitions/F/properties/a"}, "x/y": {"items": [{"type": "null"}, true]},
            "z": {"$ref": "#/definitions/F/properties/x~1y/items/0"}, "again": {"$ref": "#"}}}}
    });
    let schema = schema.to_string();
    assert_eq!(check(&schema, r#"{"a":"","b":"","x/y":[null,1],"z":null,"again":{"a":""}}"#), Ok(()));
    let said = check(&schema, r#"{"a":1,"b":2,"z":3,"again":{"again":4},"c":5}"#).unwrap_err();
    for line in [
        "arguments/a: 1 is not of type \"string\"",
        "arguments/b: 2 is not of type \"string\"",
        "arguments/z: 3 is not of type \"null\"",
        "arguments/again/again: 4 is not of type \"object\"",
        "arguments: Additional properties are not allowed ('c' was unexpected)",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    let seen = r#"{"allOf":[{"properties":{"a":true}}],"properties":{"b":{}},"unevaluatedProperties":false}"#;
    assert_eq!(check(seen, r#"{"a":1,"b":2}"#), Ok(()));
    assert!(check(seen, r#"{"a":1,"c":2}"#).unwrap_err().contains("'c' was unexpected"));
}

/// Of each keyword: a schema with it, a value that does not fit, and one that does.
fn keywords() -> Vec<(Value, Value, Value)> {
    let mut all = keywords_of_one_value();
    all.extend(keywords_with_schemas());
    all
}

fn keywords_of_one_value() -> Vec<(Value, Value, Value)> {
    vec![
        (json!({"type": "string"}), json!(1), json!("")),
        (json!({"type": ["string", "null"]}), json!(1), json!(null)),
        (json!({"enum": [1, {"b": 2}]}), json!(2), json!({"b": 2})),
        (json!({"const": {"b": 2}}), json!(2), json!({"b": 2})),
        (json!({"minimum": 2}), json!(1), json!(2)),
        (json!({"maximum": 2}), json!(3), json!(2)),
        (json!({"exclusiveMinimum": 2}), json!(2), json!(3)),
        (json!({"exclusiveMaximum": 2}), json!(2), json!(1)),
        (json!({"multipleOf": 2}), json!(3), json!(4)),
        (json!({"minLength": 2}), json!("a"), json!("ab")),
        (json!({"maxLength": 2}), json!("abc"), json!("ab")),
        (json!({"pattern": "^a"}), json!("b"), json!("a")),
        (json!({"pattern": "^(?=a)"}), json!("b"), json!("a")),
        (json!({"minItems": 2}), json!([1]), json!([1, 2])),
        (json!({"maxItems": 2}), json!([1, 2, 3]), json!([1, 2])),
        (json!({"uniqueItems": true}), json!([1, {"b": 2}, 1.0]), json!([1, true])),
        (json!({"minProperties": 2}), json!({"b": 1}), json!({"b": 1, "c": 2})),
        (json!({"maxProperties": 1}), json!({"b": 1, "c": 2}), json!({"b": 1})),
        (json!({"required": ["b", "c"]}), json!({"b": 1}), json!({"b": 1, "c": 1})),
        (json!({"dependentRequired": {"b": ["c"]}}), json!({"b": 1}), json!({"c": 1})),
    ]
}

fn keywords_with_schemas() -> Vec<(Value, Value, Value)> {
    let nil = json!({"type": "null"});
    vec![
        (json!({"properties": {"b/c": nil}}), json!({"b/c": 1}), json!({"b": 1})),
        (json!({"patternProperties": {"^b": nil}}), json!({"bc": 1}), json!({"c": 1})),
        (json!({"additionalProperties": false, "properties": {"b": {}}}), json!({"c": 1}), json!({"b": 1})),
        (json!({"additionalProperties": nil, "patternProperties": {"b": {}}}), json!({"c": 1}), json!({"b": 1})),
        (json!({"propertyNames": {"maxLength": 2}}), json!({"bcd": 1}), json!({"b": 1})),
        (json!({"items": nil}), json!([null, 1]), json!([null])),
        (json!({"prefixItems": [nil, {"type": "string"}], "items": false}), json!([1, 2, 3]), json!([null])),
        (json!({"contains": nil}), json!([1]), json!([1, null])),
        (json!({"contains": nil, "minContains": 2, "maxContains": 3}), json!([null]), json!([null, null])),
        (json!({"allOf": [{}, nil]}), json!(1), json!(null)),
        (json!({"anyOf": [nil, {"type": "string"}]}), json!(1), json!("")),
        (json!({"oneOf": [nil, {"type": "string"}]}), json!(1), json!("")),
        (json!({"oneOf": [{"type": "number"}, {"type": "integer"}]}), json!(1), json!(1.5)),
        (json!({"if": nil, "then": false, "else": {"minimum": 2}}), json!(null), json!(2)),
        (json!({"if": nil, "else": {"minimum": 2}}), json!(1), json!(null)),
        (json!({"dependentSchemas": {"b": {"required": ["c"]}}}), json!({"b": 1}), json!({"c": 1})),
        (
            json!({"allOf": [{"properties": {"b": {}}}], "unevaluatedProperties": false}),
            json!({"c": 1}),
            json!({"b": 1}),
        ),
        (json!({"allOf": [{"prefixItems": [{}]}], "unevaluatedItems": false}), json!([1, 2]), json!([1])),
        (json!({"$ref": "#/$defs/null"}), json!(1), json!(null)),
    ]
}

/// What the library says of the schema as it is.
fn library_says(schema: &Value, value: &Value) -> Vec<String> {
    let schema = jsonschema::validator_for(schema).unwrap();
    schema.iter_errors(value).map(|error| format!("arguments{}: {error}", error.instance_path())).collect()
}

#[test]
fn counters_change_no_message_of_any_keyword() {
    let in_a = |schema: Value| json!({"properties": {"a": schema}, "$defs": {"null": {"type": "null"}}});
    let all = keywords().into_iter().map(|(schema, bad, good)| (in_a(schema), bad, good));
    let old =
        |schema: Value| json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": schema}});
    let encoded = json!({"contentEncoding": "base64", "contentMediaType": "application/json"});
    let all_old = [
        (json!({"items": [{}], "additionalItems": {"type": "null"}}), json!([1, 2]), json!([1, null])),
        (json!({"items": [{}], "additionalItems": false}), json!([1, 2]), json!([1])),
        (json!({"dependencies": {"b": ["c"], "d": {"required": ["e"]}}}), json!({"b": 1, "d": 1}), json!({"c": 1})),
        (json!({"format": "date"}), json!("x"), json!("2026-11-26")),
        (json!({"contentMediaType": "application/json"}), json!("{"), json!("{}")),
        (json!({"contentEncoding": "base64"}), json!("*"), json!("e30=")),
        (encoded, json!("e3s="), json!("e30=")),
    ];
    let all_old = all_old.into_iter().map(|(schema, bad, good)| (old(schema), bad, good));
    for (schema, bad, good) in all.chain(all_old) {
        assert_eq!(check(&schema.to_string(), &json!({"a": good}).to_string()), Ok(()), "{schema}");
        let (expected, bad) = (library_says(&schema, &json!({"a": bad})), json!({"a": bad}).to_string());
        let said = check(&schema.to_string(), &bad).unwrap_err();
        assert_eq!(said.lines().collect::<Vec<_>>(), expected, "{schema}");
    }
}

#[test]
fn what_is_said_of_not_repeats_no_counters() {
    let schema = r#"{"properties":{"a":{"not":{"type":"string"}},"b":{"propertyNames":{"not":{"const":"c"}}}}}"#;
    let said = check(schema, r#"{"a":"x","b":{"c":1}}"#).unwrap_err();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "arguments/a: \"x\" must not fit the schema of \"not\"",
            "arguments/b: \"c\" must not fit the schema of \"not\""
        ]
    );
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(1_000));
    assert_eq!(check(schema, &long).unwrap_err(), "arguments/a: value must not fit the schema of \"not\"");
}

#[tokio::test]
async fn a_check_is_ended_where_alternatives_multiply() {
    // Each level of the arguments doubles what is to be said of them, twice.
    let x = json!({"properties": {"a": {"$ref": "#/$defs/n"}}, "minProperties": 1});
    let recursive = json!({"type": "object", "$defs": {"n": {"anyOf": [x, x]}}, "$ref": "#/$defs/n"});
    let said = checked(&of(&recursive.to_string()), &nested(40, "{}")).await.unwrap_err();
    assert!(said.contains("was not looked for"), "{said}");
    let constants: Vec<_> = (0..8_000).map(|n| json!({"const": n})).collect();
    let flat = of(&json!({"properties": {"list": {"items": {"anyOf": constants}}}}).to_string());
    let list = |item: &str| format!(r#"{{"list":[{}],"other":1}}"#, vec![item; 10_000].join(","));
    let said = checked(&flat, &list("7999")).await;
    assert!(is_too_much(&said) && said.unwrap_err().starts_with("arguments/list: "));
    assert!(checked(&flat, &list("-1")).await.unwrap_err().contains("was not looked for"));
    assert_eq!(checked(&flat, &list("3")).await, Ok(()));
    assert_eq!(checked(&flat, r#"{"list":[7999]}"#).await, Ok(()));
}

#[tokio::test]
async fn ordinary_arguments_are_checked_however_large() {
    let schema = r#"{"properties":{"rows":{"items":{"anyOf":[{"type":"string"},{"type":"null"},{"type":"integer"}]}},
        "text":{"type":"string","maxLength":9000000}}}"#;
    let rows = |last: &str| format!(r#"{{"rows":[{}{last}],"text":"{}"}}"#, "1,".repeat(200_000), "x".repeat(1 << 20));
    assert_eq!(checked(&of(schema), &rows("1")).await, Ok(()));
    assert!(checked(&of(schema), &rows("{}")).await.unwrap_err().contains("was not looked for"));
}

#[test]
fn a_check_takes_a_bounded_part_of_the_stack() {
    let mut inner = json!({"properties": {"a": {"$ref": "#/$defs/n"}}});
    for _ in 0..58 {
        inner = json!({"allOf": [inner]});
    }
    let schema = json!({"$defs": {"n": inner}, "$ref": "#/$defs/n"}).to_string();
    assert_eq!(of(&schema).not_enforced, None);
    assert_eq!(check(&schema, &nested(2, "1")), Ok(()));
    let said = check(&schema, &nested(125, "1"));
    assert!(said == Ok(()) || said.unwrap_err().contains("nest too deep"));
}

#[test]
fn the_schemas_of_a_server_share_the_steps_of_compiling_them() {
    let schema: Arc<RawValue> = RawValue::from_string(nested_not(20).to_string()).unwrap().into();
    let compile =
        |old: Option<&Arc<Arguments>>, room: &mut Room| Arguments::reuse_or_compile(Some(&schema), true, old, room);
    let mut room = Room::default();
    let one = compile(None, &mut room);
    let taken = Room::default().steps - room.steps;
    assert!(one.not_enforced.is_none() && taken > 20 * 900, "{taken}");
    // Two and a half: the third one lacks room, and so does each after it.
    let few = Room { steps: taken * 5 / 2, ..Room::default() };
    let list = |old: Option<&[Arc<Arguments>]>, room: Room| {
        let mut room = room;
        (0..4).map(|n| compile(old.map(|old| &old[n]), &mut room)).collect::<Vec<_>>()
    };
    let first = list(None, few);
    let are_enforced = |list: &[Arc<Arguments>]| list.iter().map(|it| it.not_enforced.is_none()).collect::<Vec<_>>();
    assert_eq!(are_enforced(&first), [true, true, false, false]);
    let why = first[2].not_enforced.as_deref().unwrap_or_default();
    assert!(why.contains("the schemas of its server take more than 200000000 steps to compile"), "{why}");
    let second = list(Some(&first), few);
    assert!(first.iter().zip(&second).all(|(one, other)| Arc::ptr_eq(one, other)), "nothing is compiled twice");
    assert_eq!(are_enforced(&list(Some(&second), Room::default())), [true; 4], "there is room again");
}

#[test]
fn a_schema_that_takes_too_long_to_compile_takes_its_share_of_the_room_and_no_more() {
    let many = RawValue::from_string(json!({"anyOf": vec![nested_not(100); 10]}).to_string()).unwrap().into();
    let mut room = Room::default();
    let long = Arguments::reuse_or_compile(Some(&many), true, None, &mut room);
    let why = long.not_enforced.as_deref().unwrap_or_default();
    assert!(why.contains(&format!("more than {MAX_COMPILING} steps to compile")), "{why}");
    assert_eq!(room, Room { steps: Room::default().steps - MAX_COMPILING, ..Room::default() });
    let again = Arguments::reuse_or_compile(Some(&many), true, Some(&long), &mut room);
    assert!(Arc::ptr_eq(&long, &again));
}

fn nested_not(levels: usize) -> Value {
    (0..levels).fold(json!({}), |schema, _| json!({"not": schema}))
}

#[test]
fn patterns_are_bounded_in_size_and_number() {
    let with = |patterns: Vec<String>| {
        let properties =
            patterns.into_iter().enumerate().map(|(n, pattern)| (format!("p{n}"), json!({"pattern": pattern})));
        json!({"properties": serde_json::Map::from_iter(properties)}).to_string()
    };
    let large = of(&with(vec![r"^\p{L}{100}x1$".into()]));
    assert!(large.not_enforced.as_ref().is_some_and(|why| why.contains("bytes when it is compiled")));
    let many = of(&with((0..=MAX_PATTERNS).map(|n| format!("^a{n}$")).collect()));
    assert!(many.not_enforced.as_ref().is_some_and(|why| why.contains("more than 500 patterns")));
    for good in [
        r"^[a-z0-9_-]{1,64}$",
        r"^.{1,50}$",
        r"^(?!\.)(?!.*\.\.)[A-Za-z0-9_+.-]*@([A-Za-z0-9][A-Za-z0-9-]*\.)+[A-Za-z]{2,}$",
        r"^\p{L}+$",
    ] {
        assert_eq!(of(&with(vec![good.into()])).not_enforced, None, "{good}");
    }
    let one = RawValue::from_string(with(vec!["^a$".into()])).unwrap().into();
    let mut room = Room { patterns: 1, ..Room::default() };
    let first = Arguments::reuse_or_compile(Some(&one), true, None, &mut room);
    assert_eq!((first.not_enforced.is_none(), room.patterns), (true, 0));
    let second = Arguments::reuse_or_compile(Some(&one), true, None, &mut room);
    assert!(second.not_enforced.is_some());
    let again = Arguments::reuse_or_compile(Some(&one), true, Some(&second), &mut Room::default());
    assert_eq!(again.not_enforced, None, "there is room again");
    // Backtracking is counted, so that many strings are not many times the bound of one.
    let slow = of(r#"{"items":{"pattern":"^((a+)\\2?)+$"}}"#);
    let strings = format!("[{}]", vec![format!("\"{}c\"", "a".repeat(40)); 1_000].join(","));
    assert!(is_too_much(&slow.check_at_once(&strings)));
}

#[tokio::test]
async fn of_a_schema_that_clients_do_not_see_only_places_are_told() {
    let own = of(r#"{"properties":{"q":{"enum":["IGNORE ALL"]},"key":{"type":"null"}},"not":{"required":["key"]}}"#);
    let seen = of(r#"{"properties":{"q":{"type":"string"}}}"#);
    let (places, client) = (CheckPlaces::new(&Arc::default()), Arc::default());
    let places = places.of(&client);
    let said = own.check_completed(r#"{"q":"x","key":1}"#, places, Some(&seen), |_| false).await.unwrap_err();
    assert!(said.contains("arguments/q: ") && said.contains("arguments/*: ") && said.contains("arguments: "), "{said}");
    assert!(!said.contains("IGNORE") && !said.contains("key"), "{said}");
    let said =
        own.check_completed(r#"{"q":"x","key":1}"#, places, Some(&seen), |name| name == "key").await.unwrap_err();
    assert!(said.contains("an argument that the gateway sets") && !said.contains("key"), "{said}");
}

#[test]
fn long_values_and_names_are_not_repeated() {
    let schema = r#"{"type":"object","properties":{"a":{"type":"string","maxLength":9}},"additionalProperties":false}"#;
    let long = "x".repeat(100_000);
    assert!(check(schema, r#"{"a":"ten letters"}"#).unwrap_err().contains("ten letters"));
    let error = check(schema, &format!(r#"{{"a":"{long}"}}"#)).unwrap_err();
    assert_eq!(error, "arguments/a: value is longer than 9 characters");
    let error = check(schema, &format!(r#"{{"{long}":1}}"#)).unwrap_err();
    assert!(error.len() < MAX_LINE + 9, "{}", error.len());
}
