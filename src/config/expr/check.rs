//! Checks an expression before it is ever evaluated, and has `functions` evaluate what it calls.
//!
//! The limits here bound the time and the memory of an evaluation, together with those on what it reads. While it is
//! evaluated, nothing is counted.

use std::collections::BTreeSet;

use cel::common::ast::operators as op;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};
use regex::Regex;

use super::kind::{Kind, Member};
use super::{functions, re2};

/// Maximum number of operators, function calls and macros. Each can copy a string of the call.
pub(super) const MAX_OPERATORS: usize = 64;
/// Maximum nesting, because evaluation is recursive.
pub(super) const MAX_DEPTH: usize = 32;

/// The keys of members of variables, each with the variable and the member.
#[derive(Debug, Default)]
pub(super) struct Keys {
    read: BTreeSet<[String; 3]>,
    tested: BTreeSet<[String; 3]>,
}

impl Keys {
    /// Notes `key` of the expression `of`, if that is a member of a variable.
    fn note(&mut self, of: &Expr, key: &str, is_test: bool) {
        let Expr::Select(SelectExpr { operand, field, .. }) = of else { return };
        if let Expr::Ident(variable) = &operand.expr {
            let keys = if is_test { &mut self.tested } else { &mut self.read };
            keys.insert([variable.as_str(), field.as_str(), key].map(str::to_owned));
        }
    }

    fn note_literal(&mut self, of: &Expr, key: &Expr, is_test: bool) {
        if let Expr::Literal(LiteralValue::String(key)) = key {
            self.note(of, key.inner(), is_test);
        }
    }

    /// The keys of this member that are read, without those that are tested somewhere in the expression.
    pub(super) fn untested<'a>(&'a self, variable: &'a str, member: &'a str) -> impl Iterator<Item = &'a str> {
        let untested = self.read.difference(&self.tested).filter(move |[v, m, _]| v == variable && m == member);
        untested.map(|[_, _, key]| key.as_str())
    }
}

/// The findings of a check.
pub(super) struct Checker<'v> {
    variables: &'v [Member],
    /// The name of the elements of the enclosing macro.
    element: Option<String>,
    operators: usize,
    /// The variables that the expression reads, each with the member, or with `None` if it reads the whole variable.
    pub(super) reads: BTreeSet<(String, Option<String>)>,
    /// The keys of members of variables, as `path` of `call.arguments.path`: those that are read, and those of which the
    /// expression tests whether they are there.
    pub(super) keys: Keys,
    pub(super) patterns: Vec<Regex>,
    pub(super) has_macro: bool,
}

impl<'v> Checker<'v> {
    pub(super) fn new(variables: &'v [Member]) -> Self {
        let (reads, keys, patterns) = (BTreeSet::new(), Keys::default(), Vec::new());
        Self { variables, element: None, operators: 0, reads, keys, patterns, has_macro: false }
    }

    /// Checks `expr`, which is at this depth, and returns its type.
    pub(super) fn check(&mut self, expr: &mut IdedExpr, depth: usize) -> Result<Kind, String> {
        if depth > MAX_DEPTH {
            return Err(format!("it nests deeper than {MAX_DEPTH} levels"));
        }
        match &mut expr.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.variable(name, None),
            Expr::Select(select) => self.select(select, depth + 1),
            Expr::Call(call) => self.call(call, depth + 1),
            Expr::Comprehension(all) => self.comprehension(all, depth + 1),
            Expr::List(list) => {
                list.elements.iter_mut().try_for_each(|element| self.element(element, depth + 1))?;
                Ok(Kind::List)
            }
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    let EntryExpr::MapEntry(entry) = &mut entry.expr else { return Err(NO_MESSAGES.into()) };
                    self.check(&mut entry.key, depth + 1)?;
                    self.element(&mut entry.value, depth + 1)?;
                }
                Ok(Kind::Map)
            }
            Expr::Struct(_) | Expr::Unspecified => Err(NO_MESSAGES.into()),
        }
    }

    fn count(&mut self) -> Result<(), String> {
        self.operators += 1;
        match self.operators > MAX_OPERATORS {
            true => Err(format!("it has more than {MAX_OPERATORS} operators and calls of functions")),
            false => Ok(()),
        }
    }

    fn variable(&mut self, name: &str, member: Option<&str>) -> Result<Kind, String> {
        if self.element.as_deref() == Some(name) {
            return Ok(Kind::Any);
        }
        match self.variables.iter().find(|(known, _)| *known == name) {
            Some((_, kind)) => {
                self.reads.insert((name.to_owned(), member.map(str::to_owned)));
                Ok(*kind)
            }
            None => Err(format!("there is no variable {name:?}; known are {}", names(self.variables))),
        }
    }

    fn select(&mut self, select: &mut SelectExpr, depth: usize) -> Result<Kind, String> {
        let field = select.field.as_str();
        self.keys.note(&select.operand.expr, field, select.test);
        let of = match &mut select.operand.expr {
            Expr::Ident(name) => self.variable(name, Some(field))?,
            _ => self.check(&mut select.operand, depth)?,
        };
        let kind = match of {
            Kind::Any | Kind::Map => Kind::Any,
            Kind::Members(members) => {
                let known = members.iter().find(|(member, _)| *member == field);
                known
                    .map(|(_, kind)| *kind)
                    .ok_or_else(|| format!("there is no member {field:?}; there are {}", names(members)))?
            }
            _ => return Err(format!("{} has no members, and so no {field:?}", of.words())),
        };
        // The parser sets `test` for `has(a.b)`.
        Ok(if select.test { Kind::Boolean } else { kind })
    }

    /// Checks an element of a list or map that is written out. It can hold no list of the call: copies would multiply it.
    fn element(&mut self, element: &mut IdedExpr, depth: usize) -> Result<(), String> {
        self.check(element, depth)?;
        if !matches!(element.expr, Expr::Literal(_) | Expr::List(_) | Expr::Map(_)) {
            self.count()?;
            wrap(functions::ELEMENT, element);
        }
        Ok(())
    }

    /// Checks `all` and `exists`, which the parser has turned into a comprehension.
    fn comprehension(&mut self, all: &mut ComprehensionExpr, depth: usize) -> Result<Kind, String> {
        self.count()?;
        self.has_macro = true;
        let is_allowed =
            matches!(all.accu_init.expr, Expr::Literal(LiteralValue::Boolean(_))) && all.iter_var2.is_none();
        let Expr::Call(CallExpr { args, .. }) = &mut all.loop_step.expr else { return Err(NO_OTHER_MACROS.into()) };
        let ([_, body], true) = (&mut args[..], is_allowed) else { return Err(NO_OTHER_MACROS.into()) };
        if self.element.is_some() {
            return Err("a macro inside another is not allowed: its cost has no bound".into());
        }
        self.check(&mut all.iter_range, depth)?;
        let most = Expr::Ident(functions::ELEMENTS.to_owned());
        let most = IdedExpr { id: all.iter_range.id, expr: most };
        wrap(functions::RANGE, &mut all.iter_range);
        if let Expr::Call(range) = &mut all.iter_range.expr {
            range.args.push(most);
        }
        if self.variables.iter().any(|(name, _)| *name == all.iter_var) {
            return Err(format!("{:?} is a variable: give the elements another name", all.iter_var));
        }
        self.element = Some(all.iter_var.clone());
        let kind = self.check(body, depth);
        self.element = None;
        boolean(kind?, "all and exists take a condition")
    }

    fn call(&mut self, call: &mut CallExpr, depth: usize) -> Result<Kind, String> {
        self.count()?;
        let is_word = call.func_name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_word { self.function(call, depth) } else { self.operator(call, depth) }
    }

    fn operator(&mut self, call: &mut CallExpr, depth: usize) -> Result<Kind, String> {
        match (call.func_name.as_str(), &call.args[..]) {
            (op::INDEX, [of, key]) => self.keys.note_literal(&of.expr, &key.expr, false),
            (op::IN, [key, of]) => self.keys.note_literal(&of.expr, &key.expr, true),
            _ => {}
        }
        let kinds = call.args.iter_mut().map(|argument| self.check(argument, depth)).collect::<Result<Vec<_>, _>>()?;
        let kind = |place: usize| kinds.get(place).copied().unwrap_or(Kind::Any);
        match call.func_name.as_str() {
            op::LOGICAL_AND | op::LOGICAL_OR | op::LOGICAL_NOT => {
                kinds.iter().try_for_each(|kind| boolean(*kind, "`!`, `&&` and `||` take booleans").map(drop))?;
                Ok(Kind::Boolean)
            }
            op::CONDITIONAL => {
                boolean(kind(0), "a condition stands before `?`")?;
                Ok(if kind(1) == kind(2) { kind(1) } else { Kind::Any })
            }
            op::EQUALS | op::NOT_EQUALS | op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS | op::IN => {
                Ok(Kind::Boolean)
            }
            op::ADD if kinds.contains(&Kind::List) => Err("lists are not added: test each of them".into()),
            op::ADD => {
                call.func_name = functions::ADD.to_owned();
                Ok(if kinds.contains(&Kind::Text) { Kind::Text } else { Kind::Number })
            }
            op::SUBSTRACT | op::MULTIPLY | op::DIVIDE | op::MODULO | op::NEGATE => Ok(Kind::Number),
            op::INDEX => Ok(Kind::Any),
            other => Err(format!("the operator {other:?} is not allowed")),
        }
    }

    fn function(&mut self, call: &mut CallExpr, depth: usize) -> Result<Kind, String> {
        let function = functions::find(&call.func_name)?;
        let is_allowed = if call.target.is_some() { function.is_method } else { function.is_global };
        if let Some(target) = call.target.take().filter(|_| is_allowed) {
            call.args.insert(0, *target);
        }
        if !is_allowed || call.args.len() != function.arguments {
            return Err(format!("`{}` has another form: write {}", function.name, function.written));
        }
        let kinds = call.args.iter_mut().map(|argument| self.check(argument, depth)).collect::<Result<Vec<_>, _>>()?;
        let takes_text = function.is_method && function.name != "size";
        if let Some(kind) = kinds.iter().find(|kind| takes_text && !matches!(kind, Kind::Any | Kind::Text)) {
            let hint = if function.name == "contains" { ": of a list or a map, write `value in it`" } else { "" };
            return Err(format!("`{}` takes strings, not {}{hint}", function.name, kind.words()));
        }
        if function.name == "matches" {
            self.pattern(call)?;
        } else {
            call.func_name = format!("@{}", function.name);
        }
        Ok(function.kind)
    }

    fn pattern(&mut self, call: &mut CallExpr) -> Result<(), String> {
        let Some(Expr::Literal(LiteralValue::String(pattern))) = call.args.pop().map(|pattern| pattern.expr) else {
            return Err("a pattern is written out as one string: it is checked before calls".into());
        };
        call.func_name = functions::matches(self.patterns.len());
        self.patterns.push(re2::compile(pattern.inner())?);
        Ok(())
    }
}

const NO_MESSAGES: &str = "it has a message such as `T{a: 1}`: write a map such as `{\"a\": 1}`";
const NO_OTHER_MACROS: &str = "of the macros only has, all and exists are allowed: write x.exists(e, e > 0)";

fn names(members: &[Member]) -> String {
    members.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn boolean(kind: Kind, otherwise: &str) -> Result<Kind, String> {
    match kind {
        Kind::Any | Kind::Boolean => Ok(Kind::Boolean),
        _ => Err(format!("{otherwise}, not {}", kind.words())),
    }
}

fn of_literal(literal: &LiteralValue) -> Result<Kind, String> {
    match literal {
        LiteralValue::Boolean(_) => Ok(Kind::Boolean),
        LiteralValue::Double(number) if !number.inner().is_finite() => Err("it has a number that is too large".into()),
        LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => Ok(Kind::Number),
        LiteralValue::String(_) => Ok(Kind::Text),
        LiteralValue::Null => Ok(Kind::Any),
        LiteralValue::Bytes(_) => Err("bytes (`b\"...\"`) are not allowed: write a string".into()),
    }
}

fn wrap(function: &str, expr: &mut IdedExpr) {
    let id = expr.id;
    let args = vec![IdedExpr { id, expr: std::mem::take(&mut expr.expr) }];
    expr.expr = Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args });
}
