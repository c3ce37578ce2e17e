//! Schemas that take too much: to compile, to let go of, and to check a value.

use serde_json::{Value, json};

use super::*;

/// The steps of the longest checks.
const STEPS: u64 = 50_000_000;

fn compiled(schema: &Value) -> Result<BoundedSchema, Unusable> {
    PreparedSchema::parse(&schema.to_string())?.compile(&mut STEPS.clone())
}

fn is_valid(schema: &Value, value: &Value) -> Result<bool, Ended> {
    compiled(schema).unwrap().is_valid(value, &mut STEPS.clone())
}

/// Returns a schema in so many others.
fn within(levels: usize, inner: Value) -> Value {
    (0..levels).fold(inner, |schema, _| json!({"not": schema}))
}

fn reference(n: usize) -> Value {
    json!({"$ref": format!("#/$defs/d{n}")})
}

/// Returns definitions that each lead to the one before, `levels` deep, and are entered at the last.
fn chain(links: usize, levels: usize) -> Value {
    let link = |n: usize| if n == 0 { json!({"type": "object"}) } else { reference(n - 1) };
    let definitions: serde_json::Map<_, _> = (0..links).map(|n| (format!("d{n}"), within(levels, link(n)))).collect();
    // The first ones first: each is known when the next one leads to it.
    let all: Vec<_> = (0..links).map(reference).collect();
    json!({"$defs": definitions, "anyOf": all, "not": reference(links - 1)})
}

#[test]
fn a_schema_nests_no_deeper_in_whatever_order_its_references_are_followed() {
    assert!(compiled(&chain(10, 9)).is_ok());
    assert_eq!(compiled(&chain(5, 100)).err(), Some(Unusable::Unfolds));
    assert_eq!(compiled(&chain(14, 9)).err(), Some(Unusable::Unfolds));
    let forwards: Vec<_> = (0..5).rev().map(reference).collect();
    let mut schema = chain(5, 100);
    schema["anyOf"] = json!(forwards);
    assert_eq!(compiled(&schema).err(), Some(Unusable::Unfolds));
}

/// Runs this on a thread with half of the stack that threads of the runtime have.
fn on_half_a_stack(run: impl FnOnce() + Send + 'static) {
    let small = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
    assert!(small.join().is_ok());
}

#[test]
fn what_is_compiled_takes_a_bounded_part_of_the_stack() {
    // Definitions that lead to one another in both directions, so that a way through all of them is long, although each is
    // near the first that is followed.
    fn add(from: usize, to: usize, leads: &mut [Vec<usize>]) -> Option<usize> {
        let middle = usize::midpoint(from, to);
        if from >= to {
            return None;
        }
        let (before, after) = (add(from, middle, leads), add(middle + 1, to, leads));
        leads[middle].extend(before.into_iter().chain(after));
        Some(middle)
    }
    let count = 300;
    let mut leads = vec![Vec::new(); count];
    let first = add(0, count, &mut leads).unwrap();
    let mut definitions = serde_json::Map::new();
    for (n, leads) in leads.iter().enumerate() {
        let near = [n.checked_sub(1), (n + 1 < count).then_some(n + 1)];
        let near = near.into_iter().flatten().filter(|other| !leads.contains(other));
        let all: Vec<_> = leads.iter().copied().chain(near).map(|n| within(4, reference(n))).collect();
        definitions.insert(format!("d{n}"), json!({"anyOf": all}));
    }
    let schema = json!({"$defs": definitions, "allOf": [reference(first)], "anyOf": [reference(0)]});
    on_half_a_stack(move || drop(compiled(&schema)));
}

/// Puts a schema into another one.
type Way = fn(Value) -> Value;

/// Ways to put a schema into another one, and the levels that these are.
fn ways() -> Vec<(usize, Way)> {
    vec![
        (1, |it| json!({"not": it})),
        (1, |it| json!({"items": it})),
        (1, |it| json!({"contains": it})),
        (1, |it| json!({"if": true, "then": it, "else": false})),
        (1, |it| json!({"additionalProperties": it, "patternProperties": {"b": true}})),
        (1, |it| json!({"propertyNames": it})),
        (2, |it| json!({"allOf": [it]})),
        (2, |it| json!({"oneOf": [it, true]})),
        (2, |it| json!({"prefixItems": [it]})),
        (2, |it| json!({"dependentSchemas": {"a": it}})),
        (2, |it| json!({"properties": {"a": it}, "required": ["a"], "additionalProperties": false})),
    ]
}

#[test]
fn the_deepest_schemas_are_compiled_checked_and_let_go_of_on_half_a_stack() {
    for (levels, way) in ways() {
        let schema = (0..(MAX_DEPTH - 4) / levels).fold(json!({"type": "object"}), |schema, _| way(schema));
        on_half_a_stack(move || {
            let prepared = PreparedSchema::parse(&schema.to_string()).unwrap();
            let schema = prepared.compile(&mut STEPS.clone()).unwrap();
            drop(prepared);
            let value = (0..50).fold(json!({}), |value, _| json!({"a": value}));
            for value in [value, (0..50).fold(json!([]), |value, _| json!([value]))] {
                let _ = schema.is_valid(&value, &mut STEPS.clone());
                let _ = schema.mismatches(&value, &mut STEPS.clone(), |all| all.count());
            }
        });
    }
}

fn takes_too_long(schema: &Value) -> bool {
    let mut steps = u64::MAX;
    let ended = PreparedSchema::parse(&schema.to_string()).unwrap().compile(&mut steps).err();
    ended == Some(Unusable::TooLong(MAX_COMPILING)) && steps == u64::MAX - MAX_COMPILING
}

#[test]
fn what_takes_long_to_compile_is_ended() {
    // Each level is copied for each that it is in.
    assert!(takes_too_long(&json!({"anyOf": vec![within(100, json!({})); 5]})));
    // The name is a part of each place behind it, and the URI too.
    let empty: Value = (0..3_000).map(|n| (n.to_string(), json!({}))).collect::<serde_json::Map<_, _>>().into();
    assert!(takes_too_long(&json!({"properties": {"a".repeat(20_000): {"properties": empty}}})));
    assert!(takes_too_long(&json!({"$id": format!("https://a.example/{}", "a".repeat(20_000)), "properties": empty})));
    // What is evaluated is found out again at each level, and where each reference is.
    let unevaluated = |of: Value| json!({"allOf": of, "unevaluatedProperties": false});
    assert!(takes_too_long(&(0..50).fold(json!({"properties": empty}), |schema, _| unevaluated(json!([schema])))));
    let all: Vec<_> = (0..7).map(reference).collect();
    let each: serde_json::Map<_, _> = (0..7).map(|n| (format!("d{n}"), unevaluated(json!(all)))).collect();
    assert!(takes_too_long(&json!({"$defs": each, "allOf": all})));
    // Lists of the same elements in other structures are compared with one another.
    let structures: Vec<_> = (0..2_000).map(|n| json!([vec![0; n % 50], vec![0; n / 50]])).collect();
    assert!(takes_too_long(&json!({"$schema": "http://json-schema.org/draft-07/schema#", "enum": structures})));
}

#[test]
fn large_schemas_that_are_flat_take_a_part_of_the_steps_of_compiling() {
    let one = json!({"type": "string", "description": "Which one of them it is, as the page of the service has it.",
        "enum": ["first", "second", "third"]});
    let within = |inner: &Value| {
        let properties: serde_json::Map<_, _> = (0..6).map(|n| (format!("property{n}"), inner.clone())).collect();
        json!({"type": "object", "properties": properties, "required": ["property1"], "additionalProperties": false})
    };
    let schema = (0..4).fold(one, |schema, _| within(&schema));
    assert!(schema.to_string().len() > MAX_SCHEMA / 2);
    let mut steps = MAX_COMPILING / 4;
    assert!(PreparedSchema::parse(&schema.to_string()).unwrap().compile(&mut steps).is_ok());
}

#[test]
fn a_reference_leads_to_its_schema_however_deep_that_is() {
    let schema = json!({"$defs": {"a/b~": {"prefixItems": [true, {"not": {"items": {"type": "null"}}}]}},
        "properties": {"a": {"$ref": "#/$defs/a~1b~0/prefixItems/1/not/items"}, "b": {"$ref": "#"}}});
    assert_eq!(is_valid(&schema, &json!({"a": null, "b": {"a": null}})), Ok(true));
    assert_eq!(is_valid(&schema, &json!({"b": {"a": 1}})), Ok(false));
    for nowhere in ["#/$defs", "#/$defs/a~1b~0/prefixItems", "#/properties/a/$ref", "#/$defs/a~1b~0/prefixItems/01"] {
        assert!(matches!(
            compiled(&json!({"$defs": schema["$defs"], "$ref": nowhere})).err(),
            Some(Unusable::Unfollowed(_))
        ));
    }
}

#[test]
fn a_reference_counts_only_where_a_schema_is() {
    let data = json!({"$ref": "https://example.com/"});
    let schema = json!({"properties": {"$ref": {"type": "string"}}, "default": data, "enum": [data, {"$ref": "x"}]});
    assert_eq!(is_valid(&schema, &json!({"$ref": "x"})), Ok(true));
    assert_eq!(is_valid(&schema, &json!({"$ref": 1})), Ok(false));
    let unfollowed = compiled(&json!({"properties": {"a": data}})).err();
    assert!(unfollowed.is_some_and(|why| why.to_string().contains("https://example.com/")));
}

#[test]
fn a_schema_has_no_counter_of_its_own() {
    let schema = json!({"hawsepipe.dev/counter": {"values": u64::MAX}, "properties": {"a":
        {"type": "null", "hawsepipe.dev/counter": {"values": u64::MAX}}}});
    assert_eq!(is_valid(&schema, &json!({"a": null})), Ok(true));
    assert_eq!(is_valid(&schema, &json!({"a": 1})), Ok(false));
}

#[test]
fn what_is_wrong_with_a_schema_is_said_without_counters() {
    for schema in [json!({"items": [{"type": "null"}]}), json!({"properties": [{"not": {}}]}), json!({"not": 1})] {
        let why = compiled(&schema).err().unwrap().to_string();
        assert!(why.contains("not a JSON Schema") && !why.contains("counter"), "{why}");
    }
}

#[test]
fn elements_are_compared_in_counted_steps() {
    let unique = json!({"uniqueItems": true});
    let list: Vec<_> = (0..15).map(|n| json!([vec![0; 2_100], n])).collect();
    assert_eq!(is_valid(&unique, &json!(list)), Ok(true));
    assert_eq!(is_valid(&json!({"allOf": vec![unique.clone(); 100]}), &json!(list)), Err(Ended::TooLong));
    assert_eq!(is_valid(&unique, &json!((0..100_000).collect::<Vec<_>>())), Ok(true));
    assert_eq!(is_valid(&unique, &json!([[1], {}, [1.0]])), Ok(false));
    assert_eq!(is_valid(&json!({"uniqueItems": false}), &json!([1, 1])), Ok(true));
    let said = |schema: &Value| {
        let value = json!({"a": [1, 1]});
        let (schema, mut steps) = (compiled(schema).unwrap(), STEPS);
        schema
            .mismatches(&value, &mut steps, |mut all| all.next().map(|it| (with_value(&it), without_value(&it))))
            .unwrap()
    };
    let (with, without) = said(&json!({"properties": {"a": unique}})).unwrap();
    assert_eq!((&*with, &*without), ("[1,1] has non-unique elements", "value has non-unique elements"));
}

#[test]
fn patterns_that_try_many_ways_are_counted_with_the_text_that_they_read() {
    let pattern = |pattern: &str| json!({"items": {"pattern": pattern}});
    let ways = pattern("(?=[a-z]*1)b");
    assert_eq!(is_valid(&ways, &json!(["a".repeat(50_000)])), Err(Ended::TooLong));
    assert_eq!(is_valid(&ways, &json!(["b", "ab1"])).ok(), Some(false));
    // Ordinary patterns try few, also on long texts.
    assert_eq!(is_valid(&pattern(r"^(?!\s*$).+"), &json!(["a".repeat(20_000)])), Ok(true));
    let email = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$";
    assert_eq!(is_valid(&pattern(email), &json!(vec!["somebody.else@mail.example.com"; 300])), Ok(true));
    let slow_parts = pattern("^(?=([ab]{0,30}a){0,15}c)b");
    assert_eq!(is_valid(&slow_parts, &json!(["a".repeat(50_000)])), Err(Ended::TooLong));
    let names = json!({"patternProperties": {"(?=[a-z]*1)b": false}});
    assert_eq!(is_valid(&names, &json!({"a".repeat(50_000): 1})), Err(Ended::TooLong));
}

#[test]
fn a_pattern_whose_states_are_too_many_counts_its_places_at_each_byte() {
    let mut state = 1u64;
    let text = (0..200_000).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if state >> 63 == 0 { 'a' } else { 'b' }
    });
    let text: String = text.collect();
    let pattern = |pattern: &str| json!({"items": {"pattern": pattern}});
    assert_eq!(is_valid(&pattern("([ab]{0,30}a){0,15}c"), &json!([text])), Err(Ended::TooLong));
    assert_eq!(is_valid(&pattern("^[ab]+$"), &json!(vec![text; 5])), Ok(true));
    assert_eq!(is_valid(&pattern("^[a-z0-9_-]{1,64}$"), &json!(vec!["some-identifier_1234"; 10_000])), Ok(true));
}

#[test]
fn texts_that_are_decoded_are_counted() {
    let all = |of: Value| json!({"$schema": "http://json-schema.org/draft-07/schema#", "allOf": vec![of; 300]});
    let json = json!(format!("[{}1]", "[],".repeat(20_000)));
    assert_eq!(is_valid(&all(json!({"contentMediaType": "application/json"})), &json), Err(Ended::TooLong));
    let encoded = json!("abcd".repeat(100_000));
    assert_eq!(is_valid(&all(json!({"contentEncoding": "base64"})), &encoded), Err(Ended::TooLong));
    assert_eq!(is_valid(&json!({"contentEncoding": "base64"}), &encoded), Ok(true));
}
