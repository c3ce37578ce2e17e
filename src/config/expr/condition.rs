//! Conditions whose parts are evaluated one by one. A part that cannot be evaluated yet leaves the result open only if it
//! matters: `false && x` is false whatever `x` is.

use std::collections::BTreeSet;

use cel::IdedExpr;
use cel::common::ast::operators as op;
use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue};

use super::kind::Member;
use super::{Expression, parse};

/// The results that a condition can have: a set of true, false and failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcomes(u8);

impl Outcomes {
    /// The condition holds.
    pub const TRUE: Self = Self(1);
    /// The condition does not hold.
    pub const FALSE: Self = Self(2);
    /// The condition cannot be evaluated.
    pub const FAILED: Self = Self(4);
    /// It depends on something that is not known yet.
    pub const OPEN: Self = Self(7);

    /// Whether this result is one of them.
    pub fn include(self, result: Self) -> bool {
        self.0 & result.0 != 0
    }

    /// The results of `!self`.
    #[must_use]
    pub fn negated(self) -> Self {
        Self(self.0 & Self::FAILED.0 | (self.0 & Self::TRUE.0) << 1 | (self.0 & Self::FALSE.0) >> 1)
    }

    /// The results of `self && other`, whose operands can stand in any order: one that is false decides, also beside one that fails.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let when = |holds: bool, result: Self| if holds { result.0 } else { 0 };
        let both = |one: Self, another: Self| {
            self.include(one) && other.include(another) || self.include(another) && other.include(one)
        };
        let is_false = self.include(Self::FALSE) || other.include(Self::FALSE);
        let is_failed = both(Self::FAILED, Self::TRUE) || both(Self::FAILED, Self::FAILED);
        Self(
            when(is_false, Self::FALSE)
                | when(both(Self::TRUE, Self::TRUE), Self::TRUE)
                | when(is_failed, Self::FAILED),
        )
    }

    /// The results of `self || other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.negated().and(other.negated()).negated()
    }
}

/// A compiled condition: the parts that `&&`, `||` and `!` combine.
#[derive(Debug)]
pub struct Condition {
    root: Node,
    parts: Vec<Expression>,
    paths: BTreeSet<Vec<String>>,
}

#[derive(Debug)]
enum Node {
    /// The part with this index.
    Part(usize),
    Not(Box<Node>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
}

/// Evaluates the parts of a condition.
pub trait EvaluateParts {
    /// Returns the results that the part with this index can have.
    fn outcomes(&self, index: usize, part: &Expression) -> Outcomes;

    /// How long the evaluation of the part takes, compared with others.
    fn cost(&self, index: usize, part: &Expression) -> u8;
}

impl Condition {
    /// Compiles `text`, which can read `variables`. The keys of the members of `of` that the condition reads are noted.
    ///
    /// # Errors
    /// As of [`Expression::compile`]: the limits are those of the whole.
    pub fn compile(text: &str, variables: &[Member], of: &str) -> Result<Self, String> {
        Expression::compile(text, variables)?;
        let (mut trees, mut paths, tree) = (Vec::new(), BTreeSet::new(), parse(text)?);
        note_paths(&tree.expr, of, &mut paths);
        let root = split(tree, &mut trees);
        let compile = |tree| Expression::of_tree(text, tree, variables).map(|(part, _)| part);
        let parts = trees.into_iter().map(compile).collect::<Result<_, _>>()?;
        Ok(Self { root, parts, paths })
    }

    /// The parts, which are evaluated one by one.
    pub fn parts(&self) -> &[Expression] {
        &self.parts
    }

    /// What the condition reads of the variable: names of members, each with the key of it that is read, if that is written out.
    /// Empty names stand for all of the variable.
    pub fn paths(&self) -> &BTreeSet<Vec<String>> {
        &self.paths
    }

    /// Returns the results that the condition can have. Parts that cannot change them are not evaluated, and those that take
    /// longer come last.
    pub fn outcomes(&self, parts: &impl EvaluateParts) -> Outcomes {
        self.of_node(&self.root, parts)
    }

    fn of_node(&self, node: &Node, parts: &impl EvaluateParts) -> Outcomes {
        let in_order = |nodes: &[Node; 2], decides: Outcomes, combine: fn(Outcomes, Outcomes) -> Outcomes| {
            let [one, other] = nodes;
            let is_slower = self.cost(one, parts) > self.cost(other, parts);
            let (first, second) = if is_slower { (other, one) } else { (one, other) };
            let outcomes = self.of_node(first, parts);
            if outcomes == decides { outcomes } else { combine(outcomes, self.of_node(second, parts)) }
        };
        match node {
            Node::Part(index) => parts.outcomes(*index, &self.parts[*index]),
            Node::Not(node) => self.of_node(node, parts).negated(),
            Node::And(nodes) => in_order(nodes, Outcomes::FALSE, Outcomes::and),
            Node::Or(nodes) => in_order(nodes, Outcomes::TRUE, Outcomes::or),
        }
    }

    fn cost(&self, node: &Node, parts: &impl EvaluateParts) -> u8 {
        match node {
            Node::Part(index) => parts.cost(*index, &self.parts[*index]),
            Node::Not(node) => self.cost(node, parts),
            Node::And(nodes) | Node::Or(nodes) => nodes.iter().map(|node| self.cost(node, parts)).max().unwrap_or(0),
        }
    }
}

/// Splits a tree into its parts.
fn split(tree: IdedExpr, parts: &mut Vec<IdedExpr>) -> Node {
    let IdedExpr { id, expr } = tree;
    let expr = match expr {
        Expr::Call(CallExpr { func_name, target: None, args }) => {
            match (func_name.as_str(), <[_; 2]>::try_from(args)) {
                (op::LOGICAL_AND, Ok(args)) => return Node::And(Box::new(args.map(|tree| split(tree, parts)))),
                (op::LOGICAL_OR, Ok(args)) => return Node::Or(Box::new(args.map(|tree| split(tree, parts)))),
                (op::LOGICAL_NOT, Err(mut args)) if args.len() == 1 => {
                    return Node::Not(Box::new(split(args.remove(0), parts)));
                }
                (_, args) => {
                    let args = args.map_or_else(|args| args, Vec::from);
                    Expr::Call(CallExpr { func_name, target: None, args })
                }
            }
        }
        other => other,
    };
    parts.push(IdedExpr { id, expr });
    Node::Part(parts.len() - 1)
}

/// Notes what an expression reads of a variable.
fn note_paths(expr: &Expr, variable: &str, paths: &mut BTreeSet<Vec<String>>) {
    if let Some(mut path) = path_of(expr, variable) {
        // A key of a key is not enough: whether the first has a value of another type matters too.
        path.truncate(2);
        paths.insert(path);
        return;
    }
    let mut note = |tree: &IdedExpr| note_paths(&tree.expr, variable, paths);
    match expr {
        Expr::Select(select) => note(&select.operand),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).for_each(note),
        Expr::Comprehension(all) => {
            [&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result].into_iter().for_each(note);
        }
        Expr::List(list) => list.elements.iter().for_each(note),
        Expr::Map(map) => map.entries.iter().for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => [&entry.key, &entry.value].into_iter().for_each(&mut note),
            EntryExpr::StructField(field) => note(&field.value),
        }),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
}

/// Returns the members, one of the other, that an expression reads of a variable; `None` if it is something else.
fn path_of(expr: &Expr, variable: &str) -> Option<Vec<String>> {
    let (of, member) = match expr {
        Expr::Ident(name) => return (name == variable).then(Vec::new),
        Expr::Select(select) => (&*select.operand, select.field.clone()),
        Expr::Call(CallExpr { func_name, args, .. }) if func_name == op::INDEX => {
            let [of, key] = &args[..] else { return None };
            let Expr::Literal(LiteralValue::String(key)) = &key.expr else { return None };
            (of, key.inner().to_owned())
        }
        _ => return None,
    };
    let mut path = path_of(&of.expr, variable)?;
    path.push(member);
    Some(path)
}
