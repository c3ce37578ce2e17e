//! Objects that are nearly right: accepted ones with a few parts changed at random. The same seed gives the same.

use serde_json::{Map, Value, json};

/// An endless sequence of objects.
pub struct Generator {
    random: Random,
    objects: Vec<Value>,
}

impl Generator {
    /// `objects` are those that are changed.
    pub fn new(seed: u64, objects: Vec<Value>) -> Self {
        Self { random: Random(seed), objects }
    }
}

impl Iterator for Generator {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let mut object = self.random.one_of(&self.objects).clone();
        let kind = object["kind"].clone();
        let others: Vec<_> = self.objects.iter().filter(|other| other["kind"] == kind).cloned().collect();
        for _ in 0..=self.random.below(2) {
            let other = self.random.one_of(&others);
            self.change(&mut object, other);
        }
        Some(object)
    }
}

impl Generator {
    fn change(&mut self, object: &mut Value, other: &Value) {
        if self.random.below(20) == 0 {
            return self.change_metadata(&mut object["metadata"]);
        }
        let mut pointers = Vec::new();
        collect("/spec", &object["spec"], &mut pointers);
        let pointer = self.random.one_of(&pointers).clone();
        let part = other.pointer(&pointer).cloned();
        let Some(place) = object.pointer_mut(&pointer) else { return };
        match place {
            Value::Object(members) => self.change_members(members, part),
            Value::Array(items) => self.change_items(items),
            Value::String(text) => {
                let wrong = self.text(text);
                *text = wrong;
            }
            Value::Number(_) => *place = self.number(),
            Value::Bool(_) | Value::Null => *place = self.anything(),
        }
    }

    /// Names and labels are checked by other code than the rest.
    fn change_metadata(&mut self, metadata: &mut Value) {
        let (field, value) = match self.random.below(4) {
            0 => ("name", json!("x".repeat(60))),
            1 => ("labels", json!({"team": "a b"})),
            2 => ("labels", json!({"team": "x".repeat(64)})),
            _ => ("labels", json!({"team": "ok", "empty": ""})),
        };
        metadata[field] = value;
    }

    fn change_members(&mut self, members: &mut Map<String, Value>, other: Option<Value>) {
        let names: Vec<_> = members.keys().cloned().collect();
        match self.random.below(5) {
            0 if !names.is_empty() => drop(members.remove(self.random.one_of(&names))),
            1 if !names.is_empty() => {
                let value = self.anything();
                members.insert(self.random.one_of(&names).clone(), value);
            }
            2 => drop(members.insert("unheardOf".to_owned(), json!(1))),
            // Another object's part on top: two of what there may be one of.
            3 => members.extend(other.as_ref().and_then(Value::as_object).cloned().unwrap_or_default()),
            _ if !names.is_empty() => {
                let value = members.remove(self.random.one_of(&names)).unwrap_or_default();
                members.insert("misspelt".to_owned(), value);
            }
            _ => {}
        }
    }

    fn change_items(&mut self, items: &mut Vec<Value>) {
        let first = items.first().cloned().unwrap_or_default();
        match self.random.below(5) {
            0 => items.clear(),
            1 => items.push(first),
            2 => items.resize(34, first),
            3 => items.push(self.anything()),
            _ => drop(items.pop()),
        }
    }

    fn text(&mut self, text: &str) -> String {
        match self.random.below(8) {
            0 => String::new(),
            1 => "x".repeat(300),
            2 => "ä".repeat(5000),
            3 => format!("{text} and more"),
            4 => text.to_uppercase(),
            5 => format!("/{text}"),
            6 => format!("{text}x"),
            _ => "..".to_owned(),
        }
    }

    fn number(&mut self) -> Value {
        let numbers = [
            json!(-1),
            json!(0),
            json!(1),
            json!(2.0),
            json!(1.5),
            json!(65_536),
            json!(u32::MAX),
            json!(i64::MAX),
            json!(1e30),
        ];
        self.random.one_of(&numbers).clone()
    }

    fn anything(&mut self) -> Value {
        let values = [
            json!(7),
            json!(-7),
            json!(1.5),
            json!(true),
            json!("text"),
            json!(""),
            json!([]),
            json!({}),
            json!([1]),
            json!(["a", "a"]),
            json!([{}]),
            json!({"a": 1}),
            json!(null),
            json!("7"),
        ];
        self.random.one_of(&values).clone()
    }
}

/// The pointers of `value` and all in it.
fn collect(pointer: &str, value: &Value, pointers: &mut Vec<String>) {
    pointers.push(pointer.to_owned());
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(&format!("{pointer}/{name}"), member, pointers);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| collect(&format!("{pointer}/{i}"), item, pointers));
        }
        _ => {}
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
