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
