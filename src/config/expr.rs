//! CEL expressions that users write. They are compiled, within limits, when a plan is made, and evaluated during calls.
//!
//! The CEL engine (`kube_cel::cel`) is the one that evaluates the rules of the CRDs, so both interpret an expression in
//! the same way, except where the engine departs from CEL (`exact`). A text is scanned before it is parsed, because nothing
//! else limits the parser's recursion.

mod checked;
mod cost;
mod exact;
mod keys;
mod lexer;
mod re2;
mod stack;
mod types;
mod walk;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use kube_cel::KubeCelExt;
use kube_cel::cel::{Context, IdedExpr, Program, Value};
use serde::Serialize;

pub use self::cost::Reads;
use self::cost::{Cost, MAX_ELEMENTS};
use self::lexer::{Lexer, Token};
use self::walk::ExpressionWalk;
use super::variables::Variables;

/// Maximum length of an expression in bytes.
pub const MAX_TEXT: usize = 1024;
/// Maximum nesting of brackets.
const MAX_NESTING: usize = 24;
/// Maximum number of operators, each of which can deepen the parser's recursion by one level.
const MAX_OPERATORS: usize = 128;

static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    exact::add_functions(&mut context);
    checked::add_functions(&mut context);
    context
});

/// A compiled expression that yields a boolean.
pub struct Expression {
    text: String,
    /// The expression as it is written, of which the cost is estimated.
    program: Program,
    /// The expression as it is evaluated, which costs no more.
    exact: IdedExpr,
    iterates: bool,
    uses: Uses,
    cost: Cost,
}

/// The variables that an expression reads. Other variables are not computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Uses {
    /// Whether the expression reads `call`.
    pub call: bool,
    /// Whether the expression might read `call.arguments`. The arguments are parsed only in this case.
    pub arguments: bool,
    /// Whether the expression reads `tool`.
    pub tool: bool,
    /// Whether the expression reads `upstream`.
    pub upstream: bool,
    /// Whether the expression reads `identity`.
    pub identity: bool,
    /// Whether the expression reads `content`.
    pub content: bool,
}

impl Expression {
    /// Compiles `text`.
    ///
    /// # Errors
    /// Returns a message that describes the fault: a limit is exceeded, the text is not CEL, a macro is inside another
    /// macro, a variable or one of its members does not exist, or the result cannot be a boolean.
    pub fn compile(text: &str) -> Result<Self, String> {
        check_bounds(text)?;
        // The parser panics on some texts that are not CEL.
        let program = catch_unwind(|| Program::compile(text)).map_err(|_| "it is not a CEL expression".to_owned())?;
        let program = program.map_err(|e| describe(&e))?;
        let mut walk = ExpressionWalk::default();
        walk.visit(program.expression(), 0);
        if walk.loops > 1 {
            return Err(
                "a macro (all, exists, filter, map) inside another is not allowed: its cost has no bound".into()
            );
        }
        let names = ["call", "tool", "upstream", "identity", "content"];
        if let Some(unknown) = walk.free.iter().find(|name| !names.contains(&name.as_str())) {
            return Err(format!("there is no variable {unknown:?}; known are {}", names.join(", ")));
        }
        types::check(program.expression())?;
        let cost = Cost::of(program.expression())?;
        let reads = |name: &str| walk.free.contains(name);
        let uses = Uses {
            call: reads("call"),
            arguments: walk.reads("call", "arguments"),
            tool: reads("tool"),
            upstream: reads("upstream"),
            identity: reads("identity"),
            content: reads("content"),
        };
        let mut exact = program.expression().clone();
        exact::rewrite(&mut exact);
        Ok(Self { text: text.to_owned(), program, exact, iterates: walk.loops > 0, uses, cost })
    }

    /// Returns the variables that the expression reads.
    pub fn uses(&self) -> Uses {
        self.uses
    }

    /// Evaluates the expression, for which `variables` is asked if what it reads is not too large.
    ///
    /// # Errors
    /// Returns what went wrong, such as a missing key or a result that is not a boolean. The message contains no data of
    /// the call: a key is named only if the expression itself spells it out.
    pub fn evaluate<'v>(&self, reads: Reads, variables: impl FnOnce() -> Variables<'v>) -> Result<bool, String> {
        self.cost.check(self.program.expression(), reads)?;
        let variables = variables();
        let mut context = FUNCTIONS.new_inner_scope();
        if let Some(call) = &variables.call {
            if self.iterates && largest(&call.arguments) > MAX_ELEMENTS {
                return Err(format!("it iterates, and the arguments have a list of more than {MAX_ELEMENTS} elements"));
            }
            add(&mut context, "call", call)?;
        }
        if let Some(tool) = &variables.tool {
            add(&mut context, "tool", tool)?;
        }
        if let Some(upstream) = &variables.upstream {
            add(&mut context, "upstream", upstream)?;
        }
        if let Some(identity) = &variables.identity {
            add(&mut context, "identity", identity)?;
        }
        if let Some(content) = &variables.content {
            add(&mut context, "content", content)?;
        }
        drop(variables);
        let result = catch_unwind(AssertUnwindSafe(|| exact::evaluate(&self.exact, &context)));
        match result.map_err(|_| "it cannot be evaluated on this call".to_owned())? {
            Ok(Value::Bool(value)) => Ok(value),
            Ok(other) => Err(format!("it yields {}, not a boolean", other.type_of())),
            Err(kube_cel::cel::ExecutionError::NoSuchKey(key)) if self.text.contains(key.as_str()) => {
                Err(format!("no such key: {key}"))
            }
            Err(_) => Err("it cannot be evaluated on this call".into()),
        }
    }
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expression").field("uses", &self.uses).finish_non_exhaustive()
    }
}

fn add(context: &mut Context<'_>, name: &str, value: impl Serialize) -> Result<(), String> {
    context.add_variable(name, value).map_err(|_| format!("{name} cannot be read by CEL"))
}

fn describe(errors: &kube_cel::cel::ParseErrors) -> String {
    match errors.errors.first() {
        Some(error) => {
            // The engine cannot read `-0xA`.
            let hint = if error.msg.contains("invalid int literal") {
                ": write it in decimal, in at most 64 bits"
            } else {
                ""
            };
            format!("line {}, column {}: {}{hint}", error.pos.0, error.pos.1, error.msg)
        }
        None => "it is not a CEL expression".into(),
    }
}

/// Refuses a text that could overflow the parser's stack, or that the engine reads otherwise than CEL.
fn check_bounds(text: &str) -> Result<(), String> {
    if text.len() > MAX_TEXT {
        return Err(format!("it has {} bytes, {MAX_TEXT} are allowed", text.len()));
    }
    let (mut open, mut operators, mut before) = (Vec::new(), 0, None);
    let mut lexer = Lexer::new(text);
    while let Some(token) = lexer.next() {
        let token = token?;
        check_after(before, token).map_err(|what| lexer.wrong(&what))?;
        let is_after_value = matches!(before, Some(Token::Word | Token::Literal | Token::Close(_)));
        match token {
            Token::Open(bracket) => {
                // An index deepens the recursion as an operator does.
                operators += usize::from(bracket == '[' && is_after_value);
                open.push(bracket);
            }
            Token::Close(bracket) if open.pop().is_none_or(|open| closing(open) != bracket) => {
                return Err(lexer.wrong(&format!("`{bracket}` closes nothing")));
            }
            Token::Operator(_) => operators += 1,
            _ => {}
        }
        if open.len() > MAX_NESTING {
            return Err(format!("its brackets nest deeper than {MAX_NESTING}"));
        }
        if operators > MAX_OPERATORS {
            return Err(format!("it has more than {MAX_OPERATORS} operators"));
        }
        before = Some(token);
    }
    Ok(())
}

fn closing(open: char) -> char {
    match open {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

/// Refuses a token that cannot stand after the one before.
///
/// Of an even number of `!` or `-` the engine evaluates one (`visit_LogicalNot` and `visit_Negate` of cel 0.13), and visits
/// what follows twice, so that nested ones never end. To get at such a number its parser also drops tokens that it does not
/// expect: `!,!x`, and `()--x`, where the first `-` looks like a subtraction. So a value must follow each of them at once.
fn check_after(before: Option<Token>, token: Token) -> Result<(), String> {
    let is_value = matches!(token, Token::Word | Token::Literal | Token::Open(_) | Token::Operator("."));
    match (before, token) {
        (Some(Token::Operator("!")), Token::Operator("!")) => {
            Err("`!` stands twice in a row: leave both out, or write `!(!x)`".into())
        }
        (Some(Token::Operator("-")), Token::Operator("-")) => {
            Err("`-` stands twice in a row: write brackets, as in `1 - (-1)`".into())
        }
        (Some(Token::Operator(operator @ ("!" | "-"))), _) if !is_value => {
            Err(format!("a value must stand after `{operator}`"))
        }
        (Some(Token::Operator(operator)), Token::Close(bracket)) => {
            Err(format!("a value must stand between `{operator}` and `{bracket}`"))
        }
        _ => Ok(()),
    }
}

/// Returns the size of the largest list or map in `value`.
fn largest(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => items.iter().map(largest).max().unwrap_or(0).max(items.len()),
        serde_json::Value::Object(members) => members.values().map(largest).max().unwrap_or(0).max(members.len()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
