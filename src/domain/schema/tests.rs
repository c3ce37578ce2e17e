//! Schemas that take too much: to compile, to let go of, and to check a value.

use serde_json::{Value, json};

use super::*;

/// The steps of the longest checks.
const STEPS: u64 = 50_000_000;

fn compiled(schema: &Value) -> Result<BoundedSchema, Unusable> {
    PreparedSchema::parse(&schema.to_string())?.compile()
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

#[test]
fn what_is_compiled_takes_no_stack_of_who_compiles_it() {
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
    let deep = within(100, json!({"type": "object"}));
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let ended = small.spawn(move || [schema, deep].map(|schema| drop(compiled(&schema)))).unwrap().join();
    assert!(ended.is_ok());
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
