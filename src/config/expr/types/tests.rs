//! Tests that the types match the variables, and that only expressions that can yield a boolean are accepted.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::config::expr::Expression;
use crate::config::variables::{
    AnnotationsVariable, CallVariable, ContentVariable, IdentityVariable, ToolVariable, UpstreamVariable,
};

/// Asserts that `value` has exactly the members that `known` declares, with their types.
fn same(name: &str, value: &Value, known: CelType) {
    match known {
        CelType::Members(_, members) => {
            let members: BTreeMap<_, _> = members.iter().copied().collect();
            let object = value.as_object().unwrap();
            assert_eq!(object.keys().collect::<Vec<_>>(), members.keys().collect::<Vec<_>>(), "{name}");
            members.iter().for_each(|(member, known)| same(member, &object[*member], *known));
        }
        CelType::Boolean => assert!(value.is_boolean(), "{name}"),
        CelType::Number => assert!(value.is_number(), "{name}"),
        CelType::Text => assert!(value.is_string(), "{name}"),
        CelType::Other(_) => assert!(value.is_array(), "{name}"),
        CelType::Labels => assert!(value.is_object(), "{name}"),
        CelType::Unknown => assert!(["arguments", "_meta", "claims"].contains(&name), "{name}"),
    }
}

#[test]
fn the_members_are_those_of_the_variables() {
    let (labels, none) = (BTreeMap::new(), Value::Null);
    let annotations = AnnotationsVariable {
        read_only_hint: true,
        destructive_hint: true,
        idempotent_hint: true,
        open_world_hint: true,
    };
    let (method, name, arguments) = ("", "", none.clone());
    let values = json!({
        "call": CallVariable { method, name, arguments, user_query: "", max_tokens: 0, session: "" },
        "tool": ToolVariable { name, upstream_name: "", annotations, meta: none.clone() },
        "upstream": UpstreamVariable { name, namespace: "", labels: &labels },
        "identity": IdentityVariable { method, subject: "", groups: &[], claims: none, scopes: &[] },
        "content": ContentVariable { text: "", kind: "", size: 0 },
    });
    same("variables", &values, CelType::Members("variables", VARIABLES));
}

#[test]
fn what_cannot_be_a_boolean_is_refused() {
    for (text, words) in [
        ("1 + 1", "yields a number"),
        ("content.size", "yields a number"),
        ("content.size + 1", "yields a number"),
        ("-call.arguments.n", "yields a sum"),
        ("call.name", "yields a string"),
        ("upstream.labels['tier']", "yields a string"),
        ("'true'", "yields a string"),
        ("null", "yields null"),
        ("[true]", "yields a list"),
        ("{'a': true}", "yields a map"),
        ("content", "yields a map"),
        ("call.arguments.list.map(x, x == 1)", "yields a list"),
        ("content.size > 1 ? 'a' : 'b'", "yields a string"),
        ("size(content.text)", "yields a number"),
        ("content.size && true", "&& takes booleans, and one side is a number"),
        ("true || call.name", "|| takes booleans"),
        ("!content.text", "! takes booleans"),
        ("call.arguments.list.exists(x, content.size && x)", "&& takes booleans"),
        ("content.sizes > 1", "content has no member \"sizes\"; there are text, type, size"),
    ] {
        let refused = Expression::compile(text).unwrap_err();
        assert!(refused.contains(words), "{text}: {refused}");
    }
}

#[test]
fn what_may_be_a_boolean_is_taken() {
    for text in [
        "true",
        "call.arguments.flag",
        "call.arguments['flag']",
        "has(call.arguments.flag) && call.arguments.flag",
        "tool.annotations.readOnlyHint",
        "!tool.annotations.readOnlyHint || content.size > 10 * 1024",
        "content.size > 1 ? call.arguments.a : true",
        "call.arguments.list.all(x, x)",
        "call.arguments.list.exists_one(x, x == 1)",
        "call.arguments.list.filter(x, x > 1).size() > 0",
        "'admins' in identity.groups",
        "upstream.labels.tier == 'internal'",
        "call.name.lowerAscii().matches('a.*')",
        "identity.claims.verified",
    ] {
        assert!(Expression::compile(text).is_ok(), "{text}: {:?}", Expression::compile(text).err());
    }
}
