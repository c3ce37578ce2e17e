//! A structural schema in a form that can be walked together with a document.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;
use serde_json::Value;

/// The schema of one value.
#[derive(Default)]
pub struct SchemaNode {
    pub kind: SchemaType,
    /// Allowed values of a string; empty if any value is allowed.
    pub words: Vec<String>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    /// Minimum and maximum number of characters, items or members.
    pub size: (Option<i64>, Option<i64>),
    pub pattern: Option<Regex>,
    pub properties: BTreeMap<String, SchemaNode>,
    pub required: Vec<String>,
    /// Schema of the members that are not in `properties`; `None` if no other members are allowed.
    pub values: Option<Box<SchemaNode>>,
    pub items: Option<Box<SchemaNode>>,
    /// What must be unique among the items of a list.
    pub unique: Unique,
}

impl SchemaNode {
    /// Returns the schema of the member with this name, or `None` if the member is not allowed.
    pub fn member(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(self.values.as_deref())
    }

    /// Returns `value` without null members, which an API server treats as absent. Members without a schema are kept as
    /// they are.
    pub fn without_nulls(&self, value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let kept = members.iter().filter_map(|(name, value)| match self.member(name) {
                    Some(_) if value.is_null() => None,
                    Some(child) => Some((name.clone(), child.without_nulls(value))),
                    None => Some((name.clone(), value.clone())),
                });
                Value::Object(kept.collect())
            }
            Value::Array(items) => {
                let item =
                    |value: &Value| self.items.as_ref().map_or_else(|| value.clone(), |i| i.without_nulls(value));
                items.iter().map(item).collect()
            }
            other => other.clone(),
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum SchemaType {
    #[default]
    Any,
    /// An object with any members.
    AnyObject,
    Object,
    Array,
    String,
    Boolean,
    Integer,
    Number,
    IntOrString,
}

/// What must be unique among the items of a list.
#[derive(Default)]
pub enum Unique {
    /// Nothing; items can repeat.
    #[default]
    No,
    /// The items themselves.
    Item,
    /// The combination of the members with these names.
    Keys(Vec<String>),
}

/// Returns the schema of a whole object: `props`, and the members `apiVersion`, `kind` and `metadata`.
pub fn root(props: &JSONSchemaProps) -> SchemaNode {
    let mut root = node(props);
    let text = || SchemaNode { kind: SchemaType::String, ..SchemaNode::default() };
    root.properties.insert("apiVersion".into(), text());
    root.properties.insert("kind".into(), text());
    root.properties.insert("metadata".into(), metadata());
    root
}

/// Returns the schema of `metadata`. The members in `ADDED`, most of which an API server sets, can have any value.
fn metadata() -> SchemaNode {
    const ADDED: [&str; 11] = [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    ];
    let text = |size, pattern: &str| SchemaNode {
        kind: SchemaType::String,
        size,
        pattern: Regex::new(pattern).ok(),
        ..SchemaNode::default()
    };
    let map = |values| SchemaNode { kind: SchemaType::Object, values: Some(Box::new(values)), ..SchemaNode::default() };
    let label = text((None, None), crate::api::values::LABEL_VALUE);
    let mut properties: BTreeMap<_, _> = ADDED.iter().map(|name| ((*name).to_owned(), SchemaNode::default())).collect();
    // The name has no pattern here, because each kind has its own rule for names.
    properties.insert("name".into(), text((Some(1), None), ""));
    properties.insert("namespace".into(), text((Some(1), Some(63)), crate::api::values::DNS_LABEL));
    properties.insert("labels".into(), map(label));
    properties.insert("annotations".into(), map(text((None, Some(262_144)), "")));
    SchemaNode { kind: SchemaType::Object, properties, required: vec!["name".into()], ..SchemaNode::default() }
}

fn node(props: &JSONSchemaProps) -> SchemaNode {
    let properties = props.properties.iter().flatten();
    SchemaNode {
        kind: kind(props),
        words: props.enum_.iter().flatten().filter_map(|word| word.0.as_str().map(Into::into)).collect(),
        minimum: props.minimum,
        maximum: props.maximum,
        size: (
            props.min_length.or(props.min_items).or(props.min_properties),
            props.max_length.or(props.max_items).or(props.max_properties),
        ),
        pattern: props.pattern.as_deref().and_then(|pattern| Regex::new(pattern).ok()),
        properties: properties.map(|(name, child)| (name.clone(), node(child))).collect(),
        required: props.required.clone().unwrap_or_default(),
        values: match &props.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(values)) => Some(Box::new(node(values))),
            _ => None,
        },
        items: match &props.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) => Some(Box::new(node(items))),
            _ => None,
        },
        unique: match props.x_kubernetes_list_type.as_deref() {
            Some("set") => Unique::Item,
            Some("map") => Unique::Keys(props.x_kubernetes_list_map_keys.clone().unwrap_or_default()),
            _ => Unique::No,
        },
    }
}

fn kind(props: &JSONSchemaProps) -> SchemaType {
    let free = props.x_kubernetes_preserve_unknown_fields == Some(true);
    match props.type_.as_deref() {
        Some("object") if free => SchemaType::AnyObject,
        Some("object") => SchemaType::Object,
        Some("array") => SchemaType::Array,
        Some("string") => SchemaType::String,
        Some("boolean") => SchemaType::Boolean,
        Some("integer") => SchemaType::Integer,
        Some("number") => SchemaType::Number,
        _ if props.x_kubernetes_int_or_string == Some(true) => SchemaType::IntOrString,
        _ => SchemaType::Any,
    }
}
