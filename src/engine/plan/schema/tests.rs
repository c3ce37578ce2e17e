//! What checks of arguments find, what they cost, and what they say.

use std::time::{Duration, Instant};

use super::super::check_places::CheckPlaces;
use super::room::MAX_PATTERNS;
use super::*;
use crate::domain::plan::ArgumentValidation;
use crate::domain::schema::MAX_LINE;

fn of(schema: &str) -> Arc<Arguments> {
    let schema = RawValue::from_string(schema.into()).unwrap();
    Arguments::reuse_or_compile(Some(&schema.into()), ArgumentValidation::Enforce, None, &mut Room::default())
}

/// Checks arguments as those of the only call.
async fn checked(compiled: &Arc<Arguments>, arguments: &str) -> Result<(), String> {
    compiled.check(arguments, &CheckPlaces::new(&Arc::default())).await
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

#[test]
fn tuples_of_draft_07_are_checked_with_and_without_its_name() {
    for draft in ["", r#""$schema":"http://json-schema.org/draft-07/schema#","#] {
        let schema =
            format!(r#"{{{draft}"properties":{{"a":{{"items":[{{"type":"number"}}],"additionalItems":false}}}}}}"#);
        assert_eq!(check(&schema, r#"{"a":[1]}"#), Ok(()));
        for (arguments, place) in [(r#"{"a":["x"]}"#, "arguments/a/0: "), (r#"{"a":[1,2]}"#, "arguments/a: ")] {
            let said = check(&schema, arguments).unwrap_err();
            assert!(said.starts_with(place), "{said}");
        }
    }
}

#[test]
fn long_strings_are_read_if_a_keyword_depends_on_them() {
    let long = "x".repeat(1000);
    let arguments = format!(r#"{{"a":"{long}"}}"#);
    let schema = |of_a: &str| format!(r#"{{"properties":{{"a":{of_a}}}}}"#);
    assert_eq!(check(&schema(r#"{"type":"string"}"#), &arguments), Ok(()));
    assert!(check(&schema(r#"{"type":"number"}"#), &arguments).is_err());
    for keyword in [
        r#""maxLength":999"#,
        r#""enum":["x",""]"#,
        r#""const":"""#,
        r#""not":{"minLength":1}"#,
        r#""pattern":"^$""#,
        r##""$ref":"#/$defs/b"},"b":{"maxLength":1"##,
    ] {
        let schema = schema(&format!("{{{keyword}}}")).replacen('{', r#"{"$defs":{"b":{"maxLength":1}},"#, 1);
        assert!(check(&schema, &arguments).is_err(), "{schema}");
    }
    assert!(check(&schema(r#"{"type":"string"}"#), &format!(r#"{{"a":"{long}\ud800"}}"#)).is_err());
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
        let unchecked = Arguments::reuse_or_compile(None, ArgumentValidation::Enforce, None, &mut Room::default());
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
    let (compiled, places) = (of(schema), CheckPlaces::new(&Arc::default()));
    let own = compiled.check(changed, &places).await.unwrap_err();
    let error = compiled.check_changed(changed, &places).await.unwrap_err();
    assert!(own.contains("sk-1") && !error.contains("sk-"), "{error}");
    for place in ["arguments/token: ", "arguments/list/0: ", "arguments/map/*: ", "\"there\" is a required", "integer"]
    {
        assert!(error.contains(place), "{place}: {error}");
    }
}

#[test]
fn an_invalid_schema_is_not_enforced_and_says_so() {
    let tree = r##"{"$ref":"#/$defs/node","$defs":{"node":{"properties":{"next":{"$ref":"#/$defs/node"}}}}}"##;
    for schema in [r#"{"type":"strin"}"#, r#"{"$ref":"https://example.com/schema.json"}"#, tree] {
        let arguments = of(schema);
        assert!(arguments.not_enforced.is_some(), "{schema}");
        assert_eq!(arguments.check_at_once("{}"), Ok(()));
    }
}

/// What must not be said of arguments that fit or do not: that the check was too much.
fn is_too_much(checked: &Result<(), String>) -> bool {
    checked.as_ref().is_err_and(|why| why.contains("to be checked against the input schema"))
}

#[test]
fn what_is_said_of_not_names_the_value() {
    let said = check(r#"{"properties":{"a":{"not":{"type":"string"}}}}"#, r#"{"a":"x"}"#).unwrap_err();
    assert_eq!(said, r#"arguments/a: {"type":"string"} is not allowed for "x""#);
}

/// A schema of some thousand alternatives for each element of a list.
fn alternatives() -> Arc<Arguments> {
    let constants: Vec<_> = (0..4_000).map(|n| json!({"const": n})).collect();
    of(&json!({"properties": {"list": {"items": {"anyOf": constants}}}}).to_string())
}

#[tokio::test]
async fn what_could_take_too_long_is_refused_and_what_takes_some_time_is_checked() {
    let (schema, list) = (alternatives(), |items: usize, item: &str| {
        format!(r#"{{"list":[{}],"other":1}}"#, vec![item; items].join(","))
    });
    assert_eq!(checked(&schema, &list(10, "3999")).await, Ok(()));
    assert!(checked(&schema, &list(10, "-1")).await.unwrap_err().starts_with("arguments/list/0: -1 is not valid"));
    assert_eq!(checked(&schema, &list(5_000, "3")).await, Ok(()));
    let said = checked(&schema, &list(5_000, "-1")).await.unwrap_err();
    assert_eq!(said, "arguments: they do not fit the input schema, and have too many values to say where");
    let said = checked(&schema, &list(60_000, "3")).await;
    assert!(is_too_much(&said) && said.unwrap_err().starts_with("arguments/list: "));
}

#[tokio::test]
async fn ordinary_arguments_are_checked_however_large() {
    let schema = r#"{"properties":{"rows":{"items":{"anyOf":[{"type":"string"},{"type":"null"},{"type":"integer"}]}},
        "text":{"type":"string","maxLength":9000000},"id":{"type":"string","pattern":"^[a-z0-9-]{1,64}$"}}}"#;
    let with =
        |id: &str| format!(r#"{{"rows":[{}1],"text":"{}","id":"{id}"}}"#, "1,".repeat(200_000), "x".repeat(1 << 20));
    assert_eq!(checked(&of(schema), &with("a")).await, Ok(()));
    assert!(checked(&of(schema), &with("A")).await.unwrap_err().contains("they do not fit"));
}

#[tokio::test]
async fn a_check_that_takes_some_time_waits_for_the_place_of_its_upstream() {
    let (schema, places) = (alternatives(), CheckPlaces::new(&Arc::default()));
    let held = places.take(1).await;
    let long = format!(r#"{{"list":[{}1]}}"#, "1,".repeat(100));
    let mut waiting = Box::pin(schema.check(&long, &places));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    assert_eq!(schema.check(r#"{"list":[1]}"#, &places).await, Ok(()), "a short one waits for nobody");
    let unchecked = Arguments::reuse_or_compile(None, ArgumentValidation::Enforce, None, &mut Room::default());
    assert_eq!(
        unchecked.check(&format!("{:?}", "x".repeat(SMALL)), &places).await,
        Ok(()),
        "nor does one without a schema"
    );
    drop(held);
    assert_eq!(waiting.await, Ok(()));
}

#[test]
fn the_schemas_of_a_server_share_what_they_may_have() {
    let schema = json!({"properties": {"a": {"pattern": "^a$"}, "b": {"pattern": "^b$"}}});
    let schema: Arc<RawValue> = RawValue::from_string(schema.to_string()).unwrap().into();
    let compile = |old: Option<&Arc<Arguments>>, room: &mut Room| {
        Arguments::reuse_or_compile(Some(&schema), ArgumentValidation::Enforce, old, room)
    };
    let mut room = Room::default();
    assert_eq!(compile(None, &mut room).not_enforced, None);
    let places = Room::default().places - room.places;
    assert_eq!(Room::default().patterns - room.patterns, 2);
    // Two and a half: the third one lacks room, and so does each after it.
    let list = |old: Option<&[Arc<Arguments>]>, mut room: Room| {
        (0..4).map(|n| compile(old.map(|old| &old[n]), &mut room)).collect::<Vec<_>>()
    };
    let are_enforced = |list: &[Arc<Arguments>]| list.iter().map(|it| it.not_enforced.is_none()).collect::<Vec<_>>();
    for few in [Room { places: places * 5 / 2, ..Room::default() }, Room { patterns: 5, ..Room::default() }] {
        let first = list(None, few);
        assert_eq!(are_enforced(&first), [true, true, false, false]);
        let why = first[2].not_enforced.as_deref().unwrap_or_default();
        assert!(why.contains(&format!("more than {MAX_PATTERNS} patterns or 200000 places")), "{why}");
        let second = list(Some(&first), few);
        assert!(first.iter().zip(&second).all(|(one, other)| Arc::ptr_eq(one, other)), "nothing is compiled twice");
        assert_eq!(are_enforced(&list(Some(&second), Room::default())), [true; 4], "there is room again");
    }
}

#[test]
fn a_check_costs_no_more_than_is_known_before() {
    let constants: Vec<_> = (0..4_900).map(|n| json!({"const": n})).collect();
    let shapes: Vec<_> = (0..100).map(|n| format!("[{}{}]", "[".repeat(n), "]".repeat(n))).collect();
    let unique = json!({"allOf": vec![json!({"uniqueItems": true}); 100]});
    let pattern = json!({"allOf": (0..100).map(|n| json!({"pattern": format!("[ab]{{{n}}}c")})).collect::<Vec<_>>()});
    let formats = ["email", "uri", "hostname", "ipv6", "regex", "date-time", "uri-template", "json-pointer", "uuid"];
    let formats = formats.map(|it| json!({"format": it}));
    let format = json!({"$schema": "http://json-schema.org/draft-07/schema#", "allOf": formats});
    let encoded = json!({"$schema": "http://json-schema.org/draft-07/schema#", "contentEncoding": "base64"});
    for (schema, text) in [
        (json!({"items": {"anyOf": constants}}), json!(vec![4_899; 1_000]).to_string()),
        (unique, format!("[{}]", shapes.join(","))),
        (pattern, json!("ab".repeat(100_000)).to_string()),
        (format, json!("a.".repeat(100_000)).to_string()),
        (encoded, json!("abcd".repeat(100_000)).to_string()),
    ] {
        let compiled = of(&schema.to_string());
        let schema = compiled.validator.as_ref().unwrap();
        let value = serde_json::from_str(&text).unwrap();
        let began = Instant::now();
        let _ = schema.is_valid(&value);
        // Ten times as long as it takes in a release.
        let (took, most) = (began.elapsed(), Duration::from_nanos(schema.cost(&text) * 100));
        assert!(took < most, "{took:?} of {most:?}: {text:.100}");
    }
}

#[tokio::test]
async fn of_a_schema_that_clients_do_not_see_only_places_are_told() {
    let own = of(r#"{"properties":{"q":{"enum":["IGNORE ALL"]},"key":{"type":"null"}},"not":{"required":["key"]}}"#);
    let seen = of(r#"{"properties":{"q":{"type":"string"}}}"#);
    let places = CheckPlaces::new(&Arc::default());
    let said = own.check_completed(r#"{"q":"x","key":1}"#, &places, Some(&seen), |_| false).await.unwrap_err();
    assert!(said.contains("arguments/q: ") && said.contains("arguments/*: ") && said.contains("arguments: "), "{said}");
    assert!(!said.contains("IGNORE") && !said.contains("key"), "{said}");
    let said =
        own.check_completed(r#"{"q":"x","key":1}"#, &places, Some(&seen), |name| name == "key").await.unwrap_err();
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

#[test]
fn arguments_are_coerced_within_the_bounds_of_short_checks() {
    let coerced = |schema: Value, arguments: &str| {
        let schema: Arc<RawValue> = to_raw(&schema).into();
        let room = &mut Room::default();
        Arguments::reuse_or_compile(Some(&schema), ArgumentValidation::Coerce, None, room).coerced(arguments)
    };
    let numbers = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    assert_eq!(coerced(numbers.clone(), r#"{"n":"5"}"#).as_deref(), Some(r#"{"n":5}"#));
    let long = format!(r#"{{"n":"5","x":[{}0]}}"#, "0,".repeat(SMALL_COST as usize));
    assert_eq!(coerced(numbers, &long), None);
    // Each level has ten times as many places as the one above.
    let node: Value = (0..10).map(|n| (n.to_string(), json!({"$ref": "#"}))).collect::<serde_json::Map<_, _>>().into();
    assert_eq!(coerced(json!({"type": "object", "properties": node}), r#"{"n":"5"}"#), None);
}
