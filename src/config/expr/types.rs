//! What an expression yields, as far as that can be known before there is a call.
//!
//! CEL is typed. A `when` that yields a number errs on each call, and an entry whose `when` errs runs: so what can never
//! be a boolean is refused when it is written.

use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

/// The type of a part of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Only a call shows it.
    Unknown,
    /// true or false.
    Boolean,
    /// A number.
    Number,
    /// Text.
    Text,
    /// Another type, by what people call it.
    Other(&'static str),
    /// A map from text to text.
    Labels,
    /// One of the variables, or a part of one whose members are known.
    Members(&'static str, &'static [(&'static str, Type)]),
}

const HINTS: &[(&str, Type)] = &[
    ("readOnlyHint", Type::Boolean),
    ("destructiveHint", Type::Boolean),
    ("idempotentHint", Type::Boolean),
    ("openWorldHint", Type::Boolean),
];

/// The variables, member by member.
pub(super) const VARIABLES: &[(&str, Type)] = &[
    (
        "call",
        Type::Members(
            "call",
            &[
                ("method", Type::Text),
                ("name", Type::Text),
                ("arguments", Type::Unknown),
                ("userQuery", Type::Text),
                ("maxTokens", Type::Number),
                ("session", Type::Text),
            ],
        ),
    ),
    (
        "tool",
        Type::Members(
            "tool",
            &[
                ("name", Type::Text),
                ("upstreamName", Type::Text),
                ("annotations", Type::Members("tool.annotations", HINTS)),
                ("_meta", Type::Unknown),
            ],
        ),
    ),
    (
        "upstream",
        Type::Members("upstream", &[("name", Type::Text), ("namespace", Type::Text), ("labels", Type::Labels)]),
    ),
    (
        "identity",
        Type::Members(
            "identity",
            &[
                ("method", Type::Text),
                ("subject", Type::Text),
                ("groups", Type::Other("a list")),
                ("claims", Type::Unknown),
                ("scopes", Type::Other("a list")),
            ],
        ),
    ),
    ("content", Type::Members("content", &[("text", Type::Text), ("type", Type::Text), ("size", Type::Number)])),
];

impl Type {
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

    fn may_be_boolean(self) -> bool {
        matches!(self, Self::Unknown | Self::Boolean)
    }
}

/// Refuses an expression that cannot yield a boolean.
pub(super) fn check(expr: &IdedExpr) -> Result<(), String> {
    let found = Scope::default().type_of(expr)?;
    if found.may_be_boolean() {
        return Ok(());
    }
    Err(format!("it yields {}, not a boolean: compare it with something", found.words()))
}

/// Names that macros bind around a place.
#[derive(Default)]
struct Scope(Vec<(String, Type)>);

impl Scope {
    /// The recursion is bounded as that of the parser is, by the scan before it.
    fn type_of(&mut self, expr: &IdedExpr) -> Result<Type, String> {
        Ok(match &expr.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::List(list) => {
                list.elements.iter().try_for_each(|element| self.type_of(element).map(drop))?;
                Type::Other("a list")
            }
            Expr::Map(_) | Expr::Struct(_) => Type::Other("a map"),
            Expr::Ident(name) => self.named(name),
            Expr::Select(select) => self.of_select(select)?,
            Expr::Call(call) => self.of_call(call)?,
            Expr::Comprehension(comprehension) => self.of_comprehension(comprehension)?,
            Expr::Unspecified => Type::Unknown,
        })
    }

    fn named(&self, name: &str) -> Type {
        let bound = self.0.iter().rev().find(|(bound, _)| bound == name).map(|(_, found)| *found);
        let variable = || VARIABLES.iter().find(|(known, _)| *known == name).map(|(_, found)| *found);
        bound.or_else(variable).unwrap_or(Type::Unknown)
    }

    fn of_select(&mut self, select: &SelectExpr) -> Result<Type, String> {
        let found = match self.type_of(&select.operand)? {
            Type::Members(name, members) => {
                let member = members.iter().find(|(member, _)| *member == select.field);
                member.map(|(_, found)| *found).ok_or_else(|| {
                    let known: Vec<_> = members.iter().map(|(member, _)| *member).collect();
                    format!("{name} has no member {:?}; there are {}", select.field, known.join(", "))
                })?
            }
            Type::Labels => Type::Text,
            _ => Type::Unknown,
        };
        // `has(a.b)`
        Ok(if select.test { Type::Boolean } else { found })
    }

    fn of_call(&mut self, call: &CallExpr) -> Result<Type, String> {
        let target = call.target.as_ref().map(|target| self.type_of(target)).transpose()?;
        let arguments: Vec<_> = call.args.iter().map(|argument| self.type_of(argument)).collect::<Result<_, _>>()?;
        let boolean = |place: usize, what: &str| match arguments.get(place) {
            Some(found) if !found.may_be_boolean() => {
                Err(format!("{what} takes booleans, and one side is {}", found.words()))
            }
            _ => Ok(()),
        };
        match call.func_name.as_str() {
            op::LOGICAL_NOT => boolean(0, "!")?,
            op::LOGICAL_AND => boolean(0, "&&").and(boolean(1, "&&"))?,
            op::LOGICAL_OR => boolean(0, "||").and(boolean(1, "||"))?,
            op::CONDITIONAL => boolean(0, "?:")?,
            _ => {}
        }
        Ok(of_function(&call.func_name, target, &arguments))
    }

    /// What the macros become.
    fn of_comprehension(&mut self, all: &ComprehensionExpr) -> Result<Type, String> {
        self.type_of(&all.iter_range)?;
        let found = self.type_of(&all.accu_init)?;
        let outside = self.0.len();
        self.0.push((all.iter_var.clone(), Type::Unknown));
        self.0.extend(all.iter_var2.clone().map(|name| (name, Type::Unknown)));
        self.0.push((all.accu_var.clone(), found));
        let inner = self.type_of(&all.loop_step).and_then(|_| self.type_of(&all.result));
        self.0.truncate(outside);
        inner
    }
}

fn of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Boolean,
        LiteralValue::Bytes(_) => Type::Other("bytes"),
        LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => Type::Number,
        LiteralValue::Null => Type::Other("null"),
        LiteralValue::String(_) => Type::Text,
    }
}

/// What a function or an operator yields.
fn of_function(name: &str, target: Option<Type>, arguments: &[Type]) -> Type {
    let argument = |place: usize| arguments.get(place).copied().unwrap_or(Type::Unknown);
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
        | "matches" => Type::Boolean,
        // No overload of these yields a boolean.
        op::ADD | op::SUBSTRACT | op::MULTIPLY | op::DIVIDE | op::MODULO | op::NEGATE => match (first, argument(1)) {
            (Type::Unknown | Type::Boolean, Type::Unknown | Type::Boolean) => Type::Other("a sum or the like"),
            (Type::Unknown, known) | (known, _) => known,
        },
        op::CONDITIONAL => match (argument(1), argument(2)) {
            (one, other) if one.may_be_boolean() || other.may_be_boolean() => {
                if one == other {
                    one
                } else {
                    Type::Unknown
                }
            }
            (one, _) => one,
        },
        op::INDEX if first == Type::Labels => Type::Text,
        "size" | "int" | "uint" | "double" | "indexOf" | "lastIndexOf" => Type::Number,
        "string" | "lowerAscii" | "upperAscii" | "trim" | "replace" | "substring" | "join" | "charAt" => Type::Text,
        "timestamp" => Type::Other("a moment"),
        "duration" => Type::Other("a duration"),
        _ => Type::Unknown,
    }
}

#[cfg(test)]
mod tests;
