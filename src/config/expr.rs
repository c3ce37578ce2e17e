//! CEL texts that users write, under bounds: parsed when a plan is made, evaluated on calls.
//!
//! The engine is the one that CRD rules are checked with (`kube_cel::cel`), so admission and data plane agree. A text is
//! scanned before it is parsed, because the parser's stack is not bounded by itself.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};
use kube_cel::cel::{Context, Program, Value};
use serde::Serialize;

use super::variables::Variables;

/// The longest text, in bytes.
pub const MAX_TEXT: usize = 1024;
/// The deepest nesting of brackets.
const MAX_NESTING: usize = 24;
/// The most operators: each may deepen the parser's stack by one.
const MAX_OPERATORS: usize = 128;
/// The most elements that a list or map may have where the expression iterates.
const MAX_ELEMENTS: usize = 1000;

static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

/// A compiled expression that yields a boolean.
pub struct Expression {
    program: Program,
    iterates: bool,
    uses: Uses,
}

/// Which variables an expression reads, so that only those are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct Uses {
    /// `call`
    pub call: bool,
    /// `call.arguments`, which costs a parse
    pub arguments: bool,
    /// `tool`
    pub tool: bool,
    /// `upstream`
    pub upstream: bool,
    /// `identity`
    pub identity: bool,
    /// `content`
    pub content: bool,
}

impl Expression {
    /// Compiles `text`.
    ///
    /// # Errors
    /// What is wrong and where: over a bound, no CEL, or a variable that there is not.
    pub fn compile(text: &str) -> Result<Self, String> {
        check_bounds(text)?;
        // The parser panics on some texts that are no CEL.
        let program = catch_unwind(|| Program::compile(text)).map_err(|_| "it is no CEL expression".to_owned())?;
        let program = program.map_err(|e| describe(&e))?;
        let mut walk = Walk::default();
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
        let reads = |name: &str| walk.free.contains(name);
        let uses = Uses {
            call: reads("call"),
            arguments: reads("call") && text.contains("arguments"),
            tool: reads("tool"),
            upstream: reads("upstream"),
            identity: reads("identity"),
            content: reads("content"),
        };
        Ok(Self { program, iterates: walk.loops > 0, uses })
    }

    /// Which variables it reads.
    pub fn uses(&self) -> Uses {
        self.uses
    }

    /// Evaluates it.
    ///
    /// # Errors
    /// What went wrong, such as a missing key, or a result that is no boolean. Holds no content.
    pub fn evaluate(&self, variables: &Variables<'_>) -> Result<bool, String> {
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
        let result = catch_unwind(AssertUnwindSafe(|| self.program.execute(&context)));
        match result.map_err(|_| "it cannot be evaluated on this call".to_owned())? {
            Ok(Value::Bool(value)) => Ok(value),
            Ok(other) => Err(format!("it yields {}, not a boolean", other.type_of())),
            Err(kube_cel::cel::ExecutionError::NoSuchKey(key)) => Err(format!("no such key: {key}")),
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
        Some(error) => format!("line {}, column {}: {}", error.pos.0, error.pos.1, error.msg),
        None => "it is no CEL expression".into(),
    }
}

/// Refuses what could overflow the parser's stack, before it is parsed.
fn check_bounds(text: &str) -> Result<(), String> {
    if text.len() > MAX_TEXT {
        return Err(format!("it has {} bytes, {MAX_TEXT} are allowed", text.len()));
    }
    let (mut depth, mut operators, mut quote, mut escaped) = (0usize, 0usize, None, false);
    for byte in text.bytes() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if byte == b'\\' => escaped = true,
            Some(q) if byte == q => quote = None,
            Some(_) => {}
            None => match byte {
                b'"' | b'\'' => quote = Some(byte),
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                b'+' | b'-' | b'*' | b'/' | b'%' | b'!' | b'<' | b'>' | b'=' | b'&' | b'|' | b'?' | b'.' => {
                    operators += 1;
                }
                _ => {}
            },
        }
        if depth > MAX_NESTING {
            return Err(format!("its brackets nest deeper than {MAX_NESTING}"));
        }
        if operators > MAX_OPERATORS {
            return Err(format!("it has more than {MAX_OPERATORS} operators"));
        }
    }
    Ok(())
}

/// What a walk over an expression finds.
#[derive(Default)]
struct Walk {
    /// Names that macros bind around the place.
    bound: Vec<String>,
    /// Names that are read and not bound.
    free: BTreeSet<String>,
    /// How deep macros nest.
    loops: usize,
}

impl Walk {
    /// The recursion is bounded by [`check_bounds`].
    fn visit(&mut self, expr: &IdedExpr, depth: usize) {
        match &expr.expr {
            Expr::Call(call) => {
                call.target.iter().for_each(|target| self.visit(target, depth));
                call.args.iter().for_each(|arg| self.visit(arg, depth));
            }
            Expr::Comprehension(c) => {
                self.loops = self.loops.max(depth + 1);
                self.visit(&c.iter_range, depth + 1);
                let bound = self.bound.len();
                self.bound.extend([c.iter_var.clone(), c.accu_var.clone()]);
                self.bound.extend(c.iter_var2.clone());
                for inner in [&c.accu_init, &c.loop_cond, &c.loop_step, &c.result] {
                    self.visit(inner, depth + 1);
                }
                self.bound.truncate(bound);
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.visit(element, depth)),
            Expr::Map(map) => self.visit_entries(&map.entries, depth),
            Expr::Struct(structure) => self.visit_entries(&structure.entries, depth),
            Expr::Select(select) => self.visit(&select.operand, depth),
            Expr::Ident(name) if !self.bound.contains(name) => {
                self.free.insert(name.clone());
            }
            Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    fn visit_entries(&mut self, entries: &[IdedEntryExpr], depth: usize) {
        for entry in entries {
            match &entry.expr {
                EntryExpr::StructField(field) => self.visit(&field.value, depth),
                EntryExpr::MapEntry(entry) => {
                    self.visit(&entry.key, depth);
                    self.visit(&entry.value, depth);
                }
            }
        }
    }
}

/// The size of the largest list or map in `value`.
fn largest(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => items.iter().map(largest).max().unwrap_or(0).max(items.len()),
        serde_json::Value::Object(members) => members.values().map(largest).max().unwrap_or(0).max(members.len()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::variables::{Call, Content, Upstream};
    use super::*;

    fn evaluate(text: &str) -> Result<bool, String> {
        let labels = BTreeMap::from([("tier".to_owned(), "internal".to_owned())]);
        Expression::compile(text)?.evaluate(&Variables {
            call: Some(Call {
                method: "tools/call",
                name: "a__b",
                arguments: serde_json::json!({"n": 3, "list": [1, 2]}),
                user_query: "",
                max_tokens: 0,
                session: "",
            }),
            upstream: Some(Upstream { name: "a", namespace: "default", labels: &labels }),
            content: Some(Content { text: "hello", kind: "text", size: 5 }),
            ..Variables::default()
        })
    }

    #[test]
    fn reads_the_call() {
        for (text, expected) in [
            (r#"content.size > 3 && call.userQuery == """#, true),
            (r#"upstream.labels["tier"] == "internal""#, true),
            ("call.arguments.n == 3", true),
            ("call.arguments.list.exists(x, x == 2)", true),
            (r#"content.text.startsWith("x")"#, false),
            (r#"call.name.lowerAscii() == "a__b""#, true),
        ] {
            assert_eq!(evaluate(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, part) in [
            ("content.size >", "column"),
            ("contents.size > 1", "no variable \"contents\""),
            ("content.size", "not a boolean"),
            ("call.arguments.missing == 1", "no such key"),
            ("call.arguments.list.all(x, call.arguments.list.all(y, x == y))", "inside another"),
        ] {
            let error = evaluate(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn hostile_texts_are_refused_or_survived_on_a_small_stack() {
        let texts = [
            "(".repeat(1000),
            "[".repeat(1000),
            "!".repeat(1000),
            "-".repeat(1000),
            format!("{}1", "1+".repeat(511)),
            format!("{}1", "1+".repeat(MAX_OPERATORS)),
            format!("{}true", "true?true:".repeat(100)),
            format!("a{}", ".b".repeat(500)),
            format!("{}1{}", "(".repeat(MAX_NESTING), ")".repeat(MAX_NESTING)),
            format!("{}1{}", "[".repeat(MAX_NESTING), "]".repeat(MAX_NESTING)),
            "a ".repeat(500),
            "\"".repeat(999),
            "+".repeat(10_240),
        ];
        let run = move || texts.iter().for_each(|text| drop(Expression::compile(text)));
        std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
    }
}
