//! An object for each bound of each field that accepted objects have: it breaks that one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Objects that each break one bound of a schema. A bound is broken once, whichever objects have the field.
pub fn broken(objects: &[Value]) -> Vec<Value> {
    let mut found = BTreeMap::new();
    for definition in hawsepipe::api::crds() {
        let definition = serde_json::to_value(&definition).unwrap();
        let kind = &definition["spec"]["names"]["kind"];
        let spec = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        for object in objects.iter().filter(|object| object["kind"] == *kind) {
            let mut walk = Walk { object, found: &mut found };
            walk.place(spec, &object["spec"], "/spec", &format!("{kind} spec"));
        }
    }
    found.into_values().collect()
}

struct Walk<'a> {
    object: &'a Value,
    found: &'a mut BTreeMap<String, Value>,
}

impl Walk<'_> {
    /// The bounds of `value`, which stands at `pointer`; `path` is that of its schema.
    fn place(&mut self, schema: &Value, value: &Value, pointer: &str, path: &str) {
        let own = wrong_texts(schema).into_iter().chain(wrong_numbers(schema)).chain(wrong_lists(schema, value));
        for (bound, wrong) in own.chain(wrong_members(schema, value)).chain(wrong_type(schema)) {
            let mut object = self.object.clone();
            *object.pointer_mut(pointer).unwrap() = wrong;
            self.found.entry(format!("{path} {bound}")).or_insert(object);
        }
        for (name, member) in value.as_object().into_iter().flatten() {
            let below = match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Null, values) => (values, format!("{path}{{}}")),
                (property, _) => (property, format!("{path}.{name}")),
            };
            let name = name.replace('~', "~0").replace('/', "~1");
            self.place(below.0, member, &format!("{pointer}/{name}"), &below.1);
        }
        for (i, item) in value.as_array().into_iter().flatten().enumerate() {
            self.place(&schema["items"], item, &format!("{pointer}/{i}"), &format!("{path}[]"));
        }
    }
}

type Wrong = Vec<(String, Value)>;

fn bound(name: &str, wrong: Value) -> (String, Value) {
    (name.to_owned(), wrong)
}

fn wrong_texts(schema: &Value) -> Wrong {
    let mut wrong = Vec::new();
    let length = |name: &str| schema[name].as_u64().map(|n| usize::try_from(n).unwrap());
    wrong.extend(length("maxLength").map(|most| bound("maxLength", json!("x".repeat(most + 1)))));
    wrong.extend(length("minLength").filter(|least| *least > 0).map(|_| bound("minLength", json!(""))));
    wrong.extend(schema["pattern"].is_string().then(|| bound("pattern", json!(" !"))));
    wrong.extend(schema["enum"].is_array().then(|| bound("enum", json!("Unheard"))));
    wrong
}

fn wrong_numbers(schema: &Value) -> Wrong {
    let number = |name: &str, by: f64| schema[name].as_f64().map(|bound| (name.to_owned(), json!(bound + by)));
    number("minimum", -1.0).into_iter().chain(number("maximum", 1.0)).collect()
}

fn wrong_lists(schema: &Value, value: &Value) -> Wrong {
    let mut wrong = Vec::new();
    let Some(first) = value.as_array().and_then(|items| items.first()) else { return wrong };
    let repeated = |times| Value::from(vec![first.clone(); times]);
    let most = schema["maxItems"].as_u64().map(|n| usize::try_from(n).unwrap());
    wrong.extend(most.map(|most| bound("maxItems", repeated(most + 1))));
    wrong.extend(schema["minItems"].as_u64().map(|_| bound("minItems", json!([]))));
    wrong.push(bound("twice", repeated(2)));
    wrong
}

fn wrong_members(schema: &Value, value: &Value) -> Wrong {
    let Some(members) = value.as_object() else { return Vec::new() };
    let mut wrong = Vec::new();
    let mut more = members.clone();
    more.insert("unheardOf".to_owned(), json!(1));
    wrong.push(bound("unknown", Value::Object(more)));
    wrong.extend(schema["minProperties"].as_u64().map(|_| bound("minProperties", json!({}))));
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let mut fewer = members.clone();
        fewer.remove(name);
        wrong.push((format!("required {name}"), Value::Object(fewer)));
    }
    wrong
}

fn wrong_type(schema: &Value) -> Wrong {
    let wrong = |value: Value| vec![bound("type", value), bound("null", Value::Null)];
    match schema["type"].as_str() {
        Some("string" | "array") => wrong(json!(true)),
        Some("object" | "boolean" | "integer" | "number") => wrong(json!("text")),
        _ => Vec::new(),
    }
}
