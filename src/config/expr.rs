//! CEL expressions that users write. They are compiled, within limits, when a plan is made, and evaluated during calls.
//!
//! The crate `cel` parses and evaluates them. `check` allows only some operators, macros and functions. If `cel` differs
//! from the reference implementation `cel-go`, an expression is refused or its evaluation fails: it never yields the other
//! value. `tests/fixtures/cel/golden.jsonl` has the results of `cel-go`.

mod check;
pub mod condition;
mod functions;
mod kind;
mod re2;
mod values;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use cel::common::types::CelBool;
use cel::common::value::CowVal;
pub use cel::common::value::Val;
use cel::context::VariableResolver;
use cel::parser::Parser;
use cel::{Context, ExecutionError, IdedExpr, ParseErrors, Value};

use self::check::{Checker, Keys};
use self::functions::{ELEMENTS, MAX_ELEMENTS, MAX_READ};
pub use self::kind::{Kind, Member};
pub use self::re2::compile as compile_pattern;

/// Maximum length of an expression in bytes.
pub const MAX_TEXT: usize = 1024;
/// Maximum size in bytes of the JSON and the texts that an expression with a macro reads: once for each element.
const MAX_READ_BY_MACRO: usize = 256 << 10;
/// Maximum size in bytes of what a macro reads for all its elements together: for each, it can read everything.
const MAX_READ_IN_ALL: usize = 4 << 20;

/// The values of variables, by name.
pub type Values = Vec<(&'static str, serde_json::Value)>;

/// Variables that several expressions read. Each value is made when an expression first reads it.
pub trait SharedVariables: Send + Sync {
    /// Returns the value of a variable; `None` if it cannot be made.
    fn variable(&self, name: &str) -> Option<&dyn Val>;
}

/// The value of such a variable.
#[derive(Default)]
pub struct SharedValue(OnceLock<Option<Box<dyn Val>>>);

impl SharedValue {
    /// Returns the value, which `make` makes the first time; `None` if it cannot.
    pub fn get_or_make(&self, make: impl FnOnce() -> Result<serde_json::Value, String>) -> Option<&dyn Val> {
        self.0.get_or_init(|| make().ok().map(values::from_json)).as_deref()
    }
}

struct Resolver<'a>(&'a dyn SharedVariables);

impl VariableResolver for Resolver<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        self.0.variable(variable).map(CowVal::Borrowed)
    }
}

/// A compiled expression that yields a boolean.
pub struct Expression {
    text: String,
    tree: IdedExpr,
    context: Context<'static, 'static>,
    reads: BTreeSet<(String, Option<String>)>,
    keys: Keys,
    has_macro: bool,
}

impl Expression {
    /// Compiles `text`, which can read `variables`.
    ///
    /// # Errors
    /// Returns a message that describes the fault: a limit is exceeded, the text is not CEL, a function or macro is not
    /// allowed, a variable or one of its members does not exist, or the result cannot be a boolean.
    pub fn compile(text: &str, variables: &[Member]) -> Result<Self, String> {
        let (expression, kind) = Self::compile_any(text, variables)?;
        match kind {
            Kind::Any | Kind::Boolean => Ok(expression),
            _ => Err(format!("it yields {}, not a boolean: compare it with something", kind.words())),
        }
    }

    fn compile_any(text: &str, variables: &[Member]) -> Result<(Self, Kind), String> {
        Self::of_tree(text, parse(text)?, variables)
    }

    /// Checks a tree that is the expression `text` or a part of it.
    fn of_tree(text: &str, mut tree: IdedExpr, variables: &[Member]) -> Result<(Self, Kind), String> {
        let mut checker = Checker::new(variables);
        let kind = checker.check(&mut tree, 0)?;
        let Checker { reads, keys, has_macro, patterns, .. } = checker;
        let context = functions::context(patterns)?;
        Ok((Self { text: text.to_owned(), tree, context, reads, keys, has_macro }, kind))
    }

    /// The variables that the expression reads, each with the member, or with `None` if it reads the whole variable.
    pub fn all_reads(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.reads.iter().map(|(variable, member)| (variable.as_str(), member.as_deref()))
    }

    /// Whether a macro goes through the elements of a list or a map, which takes longer than all else.
    pub fn has_macro(&self) -> bool {
        self.has_macro
    }

    /// Whether the expression might read this variable.
    pub fn reads(&self, variable: &str) -> bool {
        self.reads.iter().any(|(read, _)| read == variable)
    }

    /// Whether the expression might read this member. A member can also be read in other ways than `variable.member`, so
    /// every use of the whole variable counts.
    pub fn reads_member(&self, variable: &str, member: &str) -> bool {
        self.reads.iter().any(|(of, read)| of == variable && read.as_deref().is_none_or(|read| read == member))
    }

    /// Returns the keys of this member that the expression reads without a test of whether they are there: `path` of
    /// `call.arguments.path`, but not of `has(call.arguments.path) && call.arguments.path == "a"`.
    pub fn untested_keys<'a>(&'a self, variable: &'a str, member: &'a str) -> impl Iterator<Item = &'a str> {
        self.keys.untested(variable, member)
    }

    /// Evaluates the expression. `size` is the number of bytes of the JSON and of the texts that it reads. `variables` is
    /// called only if that is within the limits, and must return each variable that the expression [reads](Self::reads), or
    /// the reason why it cannot.
    ///
    /// # Errors
    /// Returns the reason why there is no result, such as a missing key. The message contains no data of the call: a key is
    /// named only if the expression itself spells it out.
    pub fn evaluate(&self, size: usize, variables: impl FnOnce() -> Result<Values, String>) -> Result<bool, String> {
        let elements = self.elements(size)?;
        self.with_variables(variables()?, elements, |context| self.resolve(context))?.ok_or_else(no_boolean)
    }

    /// Like [`Self::evaluate`], with variables that other expressions read too. A value that is not needed for the result is not
    /// made: of `a && b` only that of `a`, if `a` is false.
    ///
    /// # Errors
    /// As of [`Self::evaluate`].
    pub fn evaluate_shared(&self, size: usize, variables: &dyn SharedVariables) -> Result<bool, String> {
        #[cfg(test)]
        EVALUATIONS.with(|count| count.set(count.get() + 1));
        let (elements, resolver) = (self.elements(size)?, Resolver(variables));
        let root: &Context<'_, '_> = &self.context;
        let mut context = root.new_inner_scope();
        context.add_variable_as_val(ELEMENTS, values::from_json(elements.into()));
        context.set_variable_resolver(&resolver);
        self.outcome(|| self.resolve(&context))?.ok_or_else(no_boolean)
    }

    /// Returns how many elements macros may visit, if what the expression reads has this size.
    fn elements(&self, size: usize) -> Result<usize, String> {
        let limit = if self.has_macro { MAX_READ_BY_MACRO } else { MAX_READ };
        if size > limit {
            return Err(format!("it reads more than {limit} bytes"));
        }
        Ok((MAX_READ_IN_ALL / size.max(1)).min(MAX_ELEMENTS))
    }

    fn resolve(&self, context: &Context<'_, '_>) -> Result<Option<bool>, ExecutionError> {
        let value = Value::resolve_val(&self.tree, context)?;
        Ok(value.downcast_ref::<CelBool>().map(|value| *value.inner()))
    }

    fn with_variables<T>(
        &self,
        variables: Values,
        elements: usize,
        evaluate: impl FnOnce(&Context<'_, 'static>) -> Result<T, ExecutionError>,
    ) -> Result<T, String> {
        let mut context = self.context.new_inner_scope();
        context.add_variable_as_val(ELEMENTS, values::from_json(elements.into()));
        for (name, value) in variables {
            context.add_variable_as_val(name, values::from_json(value));
        }
        self.outcome(|| evaluate(&context))
    }

    fn outcome<T>(&self, evaluate: impl FnOnce() -> Result<T, ExecutionError>) -> Result<T, String> {
        let failed = || "it cannot be evaluated on this call".to_owned();
        match catch_unwind(AssertUnwindSafe(evaluate)).map_err(|_| failed())? {
            Ok(value) => Ok(value),
            Err(ExecutionError::NoSuchKey(key)) if self.text.contains(key.as_str()) => Err(format!("no key {key}")),
            Err(_) => Err(failed()),
        }
    }
}

fn parse(text: &str) -> Result<IdedExpr, String> {
    if text.len() > MAX_TEXT {
        return Err(format!("it has {} bytes, {MAX_TEXT} are allowed", text.len()));
    }
    let parsed = catch_unwind(|| Parser::new().parse(text)).map_err(|_| "it is not a CEL expression".to_owned())?;
    parsed.map_err(|errors| describe(&errors))
}

fn no_boolean() -> String {
    "it does not yield a boolean".to_owned()
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expression").field("reads", &self.reads).finish_non_exhaustive()
    }
}

fn describe(errors: &ParseErrors) -> String {
    match errors.errors.first() {
        Some(error) => format!("line {}, column {}: {}", error.pos.0, error.pos.1, error.msg),
        None => "it is not a CEL expression".into(),
    }
}

#[cfg(test)]
thread_local!(static EVALUATIONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });

/// How many expressions were evaluated with shared variables on this thread.
#[cfg(test)]
pub fn evaluations() -> usize {
    EVALUATIONS.with(std::cell::Cell::get)
}

#[cfg(test)]
mod tests;
