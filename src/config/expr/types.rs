//! Infers the type of an expression, as far as it is known without a call.
//!
//! CEL is typed. A `when` that yields a number fails on each call, and if a `when` fails, the entry runs. So an
//! expression that can never yield a boolean is refused when it is written.

use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::keys;

/// Type of a part of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CelType {
    /// A type that is known only during a call.
    Unknown,
    Boolean,
    Number,
    Text,
    /// Another type, with the name that error messages use for it.
    Other(&'static str),
    /// A map from strings to strings.
    Labels,
    /// A variable, or a part of a variable, whose members are known. The fields are its path, and the members with
    /// their types.
    Members(&'static str, &'static [(&'static str, CelType)]),
}

const HINTS: &[(&str, CelType)] = &[
    ("readOnlyHint", CelType::Boolean),
    ("destructiveHint", CelType::Boolean),
    ("idempotentHint", CelType::Boolean),
    ("openWorldHint", CelType::Boolean),
];

/// The variables and the types of their members.
pub(super) const VARIABLES: &[(&str, CelType)] = &[
    (
        "call",
        CelType::Members(
            "call",
            &[
                ("method", CelType::Text),
                ("name", CelType::Text),
                ("arguments", CelType::Unknown),
                ("userQuery", CelType::Text),
                ("maxTokens", CelType::Number),
                ("session", CelType::Text),
            ],
        ),
    ),
    (
        "tool",
        CelType::Members(
            "tool",
            &[
                ("name", CelType::Text),
                ("upstreamName", CelType::Text),
                ("annotations", CelType::Members("tool.annotations", HINTS)),
                ("_meta", CelType::Unknown),
            ],
        ),
    ),
    (
        "upstream",
        CelType::Members(
            "upstream",
            &[("name", CelType::Text), ("namespace", CelType::Text), ("labels", CelType::Labels)],
        ),
    ),
    (
        "identity",
        CelType::Members(
            "identity",
            &[
                ("method", CelType::Text),
                ("subject", CelType::Text),
                ("groups", CelType::Other("a list")),
                ("claims", CelType::Unknown),
                ("scopes", CelType::Other("a list")),
            ],
        ),
    ),
    (
        "content",
        CelType::Members("content", &[("text", CelType::Text), ("type", CelType::Text), ("size", CelType::Number)]),
    ),
];

/// What `first()` and `last()` of a list return.
const OPTIONAL: CelType = CelType::Other("an optional value");

impl CelType {
    fn words(self) -> &'static str {
        match self {
            Self::Unknown => "a value",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Text => "a string",
            Self::Other(words) => words,
            Self::Labels | Self::Members(..) => "a map",
        }
    }

    fn may_be_text(self) -> bool {
        matches!(self, Self::Unknown | Self::Text)
    }

    fn may_be_boolean(self) -> bool {
        matches!(self, Self::Unknown | Self::Boolean)
    }
}

/// Refuses an expression that cannot yield a boolean.
pub(super) fn check(expr: &IdedExpr) -> Result<(), String> {
    let found = BoundNames::default().type_of(expr)?;
    if found.may_be_boolean() {
        return Ok(());
    }
    Err(format!("it yields {}, not a boolean: compare it with something", found.words()))
}

/// Names that the enclosing macros bind, with their types.
#[derive(Default)]
struct BoundNames(Vec<(String, CelType)>);

impl BoundNames {
    /// Returns the type of an expression. The recursion is limited by `check_bounds`, which scans the text before it is
    /// parsed.
    fn type_of(&mut self, expr: &IdedExpr) -> Result<CelType, String> {
        Ok(match &expr.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::List(list) => {
                list.elements.iter().try_for_each(|element| self.of_value(element).map(drop))?;
                CelType::Other("a list")
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.of_value(&entry.key)?;
                        self.of_value(&entry.value)?;
                    }
                }
                keys::check(&map.entries)?;
                CelType::Other("a map")
            }
            Expr::Struct(_) => CelType::Other("a map"),
            Expr::Ident(name) => self.named(name),
            Expr::Select(select) => self.of_select(select)?,
            Expr::Call(call) => self.of_call(call)?,
            Expr::Comprehension(comprehension) => self.of_comprehension(comprehension)?,
            Expr::Unspecified => CelType::Unknown,
        })
    }

    fn named(&self, name: &str) -> CelType {
        let bound = self.0.iter().rev().find(|(bound, _)| bound == name).map(|(_, found)| *found);
        let variable = || VARIABLES.iter().find(|(known, _)| *known == name).map(|(_, found)| *found);
        bound.or_else(variable).unwrap_or(CelType::Unknown)
    }

    /// Returns the type of what must not be an optional value. Of a member of one the engine makes an optional without a
    /// value, whatever is wrong with it, and nobody could tell whether a member of a list or a map is one.
    fn of_value(&mut self, expr: &IdedExpr) -> Result<CelType, String> {
        match self.type_of(expr)? {
            found if found == OPTIONAL => Err(
                "what first() or last() returns is an optional value: write `.value()` after it, or an index such as `x[0]`".into(),
            ),
            found => Ok(found),
        }
    }

    fn of_select(&mut self, select: &SelectExpr) -> Result<CelType, String> {
        let found = match self.of_value(&select.operand)? {
            CelType::Members(name, members) => {
                let member = members.iter().find(|(member, _)| *member == select.field);
                member.map(|(_, found)| *found).ok_or_else(|| {
                    let known: Vec<_> = members.iter().map(|(member, _)| *member).collect();
                    format!("{name} has no member {:?}; there are {}", select.field, known.join(", "))
                })?
            }
            CelType::Labels => CelType::Text,
            _ => CelType::Unknown,
        };
        // The parser sets `test` for `has(a.b)`.
        Ok(if select.test { CelType::Boolean } else { found })
    }

    fn of_call(&mut self, call: &CallExpr) -> Result<CelType, String> {
        let name = call.func_name.as_str();
        let takes_optional = ["value", "hasValue", "or", "orValue"].contains(&name);
        let target = call.target.as_deref().map(|target| match takes_optional {
            true => self.type_of(target),
            false => self.of_value(target),
        });
        let target = target.transpose()?;
        let arguments = call.args.iter().map(|argument| match name {
            "or" | op::EQUALS | op::NOT_EQUALS | op::CONDITIONAL => self.type_of(argument),
            _ => self.of_value(argument),
        });
        let arguments: Vec<_> = arguments.collect::<Result<_, _>>()?;
        let boolean = |place: usize, what: &str| match arguments.get(place) {
            Some(found) if !found.may_be_boolean() => {
                Err(format!("{what} takes booleans, and one side is {}", found.words()))
            }
            _ => Ok(()),
        };
        match name {
            op::LOGICAL_NOT => boolean(0, "!")?,
            op::LOGICAL_AND => boolean(0, "&&").and(boolean(1, "&&"))?,
            op::LOGICAL_OR => boolean(0, "||").and(boolean(1, "||"))?,
            op::CONDITIONAL => boolean(0, "?:")?,
            _ => {}
        }
        let text = target.or_else(|| arguments.first().copied());
        if let Some(found) = text.filter(|found| name == "contains" && !found.may_be_text()) {
            return Err(format!(
                "`contains` takes a text, not {}: of a list or a map, write `value in it`",
                found.words()
            ));
        }
        Ok(of_function(name, target, &arguments))
    }

    /// Returns the type of a comprehension. The parser turns macros into comprehensions.
    fn of_comprehension(&mut self, all: &ComprehensionExpr) -> Result<CelType, String> {
        self.of_value(&all.iter_range)?;
        let found = self.of_value(&all.accu_init)?;
        let outside = self.0.len();
        self.0.push((all.iter_var.clone(), CelType::Unknown));
        self.0.extend(all.iter_var2.clone().map(|name| (name, CelType::Unknown)));
        self.0.push((all.accu_var.clone(), found));
        let inner = self.of_value(&all.loop_step).and_then(|_| self.of_value(&all.result));
        self.0.truncate(outside);
        inner
    }
}

fn of_literal(literal: &LiteralValue) -> CelType {
    match literal {
        LiteralValue::Boolean(_) => CelType::Boolean,
        LiteralValue::Bytes(_) => CelType::Other("bytes"),
        LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => CelType::Number,
        LiteralValue::Null => CelType::Other("null"),
        LiteralValue::String(_) => CelType::Text,
    }
}

/// Returns the type of the result of a function or operator.
fn of_function(name: &str, target: Option<CelType>, arguments: &[CelType]) -> CelType {
    let argument = |place: usize| arguments.get(place).copied().unwrap_or(CelType::Unknown);
    let first = target.unwrap_or_else(|| argument(0));
    match name {
        op::LOGICAL_NOT
        | op::LOGICAL_AND
        | op::LOGICAL_OR
        | op::EQUALS
        | op::NOT_EQUALS
        | op::GREATER
        | op::GREATER_EQUALS
        | op::LESS
        | op::LESS_EQUALS
        | op::IN
        | "startsWith"
        | "endsWith"
        | "contains"
        | "matches" => CelType::Boolean,
        // No overload of these operators yields a boolean.
        op::ADD | op::SUBSTRACT | op::MULTIPLY | op::DIVIDE | op::MODULO | op::NEGATE => match (first, argument(1)) {
            (CelType::Unknown | CelType::Boolean, CelType::Unknown | CelType::Boolean) => {
                CelType::Other("a sum or the like")
            }
            (CelType::Unknown, known) | (known, _) => known,
        },
        op::CONDITIONAL => match (argument(1), argument(2)) {
            (OPTIONAL, _) | (_, OPTIONAL) => OPTIONAL,
            (one, other) if one != other && (one.may_be_boolean() || other.may_be_boolean()) => CelType::Unknown,
            (one, _) => one,
        },
        op::INDEX if first == CelType::Labels => CelType::Text,
        "size" | "int" | "uint" | "double" | "indexOf" | "lastIndexOf" => CelType::Number,
        "string" | "lowerAscii" | "upperAscii" | "trim" | "replace" | "substring" | "join" | "charAt" => CelType::Text,
        "first" | "last" | "or" => OPTIONAL,
        "timestamp" => CelType::Other("a moment"),
        "duration" => CelType::Other("a duration"),
        _ => CelType::Unknown,
    }
}

#[cfg(test)]
mod tests;
