//! The keys of maps that are written out.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, LiteralValue};

/// Refuses keys of a map that are, or could be, the same: with these CEL fails, and the engine keeps one of them.
pub(super) fn check(entries: &[IdedEntryExpr]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for entry in entries {
        let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
        let key = match &entry.key.expr {
            Expr::Literal(LiteralValue::String(text)) => format!("{:?}", text.inner()),
            // `1` and `1u` are one key.
            Expr::Literal(LiteralValue::Int(number)) => number.inner().to_string(),
            Expr::Literal(LiteralValue::UInt(number)) => number.inner().to_string(),
            Expr::Literal(LiteralValue::Boolean(value)) => value.inner().to_string(),
            Expr::Literal(_) => return Err("a key of a map is a text, an integer or a boolean".to_owned()),
            _ => return Err("a key of a map is computed: write the keys of a map as literals".to_owned()),
        };
        if seen.contains(&key) {
            return Err(format!("a map has the key {key} twice"));
        }
        seen.insert(key);
    }
    Ok(())
}
