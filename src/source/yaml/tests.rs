//! Tests of the YAML reader.

use serde_json::{Value, json};

use super::*;

fn one(text: &str) -> Document {
    let mut documents = read(text).unwrap();
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0)
}

fn value(text: &str) -> Value {
    one(text).value
}

fn error(text: &str) -> (u32, u32, String) {
    let error = read(text).unwrap_err();
    (error.place.line, error.place.column, error.message)
}

#[test]
fn scalars_are_those_of_yaml_1_2() {
    let text =
        "[true, False, null, ~, , 1, -2, +3, 0x1F, 0o17, 1.5, 1e3, .5, 18446744073709551615, a, '1', \"t\\n\", 1.2.3]";
    let expected = json!([
        true,
        false,
        null,
        null,
        1,
        -2,
        3,
        31,
        15,
        1.5,
        1000.0,
        0.5,
        18_446_744_073_709_551_615_u64,
        "a",
        "1",
        "t\n",
        "1.2.3"
    ]);
    assert_eq!(value(&text.replace(", ,", ",")), expected);
}

#[test]
fn old_booleans_are_strings_and_that_is_said() {
    let document = one("a: yes\nb: Off\nc: \"on\"\nd: 010\ne: fine\n");
    assert_eq!(document.value, json!({"a": "yes", "b": "Off", "c": "on", "d": 10, "e": "fine"}));
    let said: Vec<_> = document.ambiguous.iter().map(|(place, message)| (place.line, message.as_str())).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(said[0].0, 1);
    assert!(said[0].1.starts_with("yes is a string here, and true to kubectl"), "{}", said[0].1);
    assert!(said[1].1.starts_with("Off is a string here, and false to kubectl"), "{}", said[1].1);
    assert!(said[2].1.starts_with("this is a decimal number here, and an octal number to kubectl"), "{}", said[2].1);
}

#[test]
fn places_are_those_of_keys_and_items() {
    let text = "# comment\nspec:\n  entries:\n  - name: a\n    when: x\n  - name: b\nlabels: {a.b/c: 1, a: {b/c: 2}}\n";
    let places = one(text).places;
    let at = |field: &str| {
        let place = places.find(field);
        (place.line, place.column)
    };
    assert_eq!(at("spec"), (2, 1));
    assert_eq!(at("spec.entries[0].when"), (5, 5));
    assert_eq!(at("spec.entries[1]"), (6, 5));
    assert_eq!(at("spec.entries[1].when"), (6, 5));
    assert_eq!(at("spec.entries[7].when"), (3, 3));
    assert_eq!(at("labels.a.b/c"), (7, 10));
    assert_eq!(at("nothing"), (2, 1));
}

#[test]
fn several_documents_and_empty_ones() {
    let documents = read("---\na: 1\n---\n# nothing\n---\nb: 2\n...\n").unwrap();
    let values: Vec<_> = documents.iter().map(|d| d.value.clone()).collect();
    assert_eq!(values, [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(documents[1].places.find("b").line, 6);
    assert!(read("").unwrap().is_empty());
}

#[test]
fn what_is_no_yaml_says_where() {
    let (line, _, message) = error("a: 1\nb: [1, 2\nc: 3\n");
    assert!((2..=4).contains(&line), "{line}");
    assert!(message.starts_with("it is not YAML: "), "{message}");
    assert_eq!(error("a: 1\nb: 2\na: 3\n"), (3, 1, "the key a stands here twice; it is in line 1 too".into()));
    assert_eq!(error("x: .nan\n").0, 1);
    assert!(error("x: !!binary aGk=\n").2.contains("tag"));
    for text in ["when: !call.arguments.t\n", "when: !!x\n"] {
        assert!(error(text).2.contains("put the text in quotes"), "{text}");
    }
    assert!(error("x: !thing {a: 1}\n").2.contains("tags"));
    assert!(error("? [a]\n: 1\n").2.contains("key"));
    assert!(error("x: {<<: {a: 1}}\n").2.contains("merge"));
}

#[test]
fn anchors_are_copies() {
    let document = one("a: &x {k: [1, 2]}\nb: *x\n");
    assert_eq!(document.value, json!({"a": {"k": [1, 2]}, "b": {"k": [1, 2]}}));
    assert_eq!(document.places.find("b.k[1]").line, 1);
    assert_eq!(document.places.find("b").line, 2);
    assert!(error("a: &x [*x]\n").2.contains("inside"));
}

#[test]
fn hostile_texts_are_refused() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let inner = format!("*a{}, ", level - 1).repeat(9);
        laughs.push_str(&format!("a{level}: &a{level} [{}]\n", inner.trim_end_matches(", ")));
    }
    assert!(error(&laughs).2.contains("more than 200000 values"));
    assert!(error(&"[".repeat(10_000)).2.contains("recursion limit"));
    assert!(error(&"[".repeat(200)).2.contains("more than 128 levels"));
    assert!(error(&"{a: ".repeat(10_000)).2.contains("recursion limit"));
    assert!(error(&"{a: ".repeat(200)).2.contains("more than 128 levels"));
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a,".repeat(100));
    assert!(error(&long).2.contains("more than 200000 values"));
    assert!(error(&format!("[{}]", "1,".repeat(MAX_NODES + 1))).2.contains("more than 200000 values"));
    let deepest = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    assert!(read(&deepest).is_ok());
}

#[test]
fn json_is_yaml() {
    let text = "{\n\t\"a\": [1, \"x\\u00e9\\/\"],\n\t\"b\": null\n}\n";
    assert_eq!(value(text), json!({"a": [1, "xé/"], "b": null}));
}
