//! Bounds what one evaluation of an expression can cost, from its text and from the size of what it reads.
//!
//! The CEL engine counts nothing while it evaluates. It copies what an expression names, and keeps all that it makes: a
//! macro over a thousand elements can copy all arguments a thousand times, and `replace` can multiply two texts. So the
//! cost is estimated before, in bytes that are read or written, and never too low by more than a small factor.

use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use regex::RegexBuilder;

/// Maximum number of elements of any list or map in the call's arguments, for expressions with a macro that iterates.
pub(super) const MAX_ELEMENTS: usize = 1000;
/// The most that one evaluation may cost, in bytes that are read: about a second, at most.
const MAX_COST: u64 = 1 << 30;
/// The maximum number of values that an expression may read from JSON. Each takes about 100 bytes, and as much time as
/// copying them.
const MAX_VALUES: u64 = 100_000;
/// The cost of a value, beside its text.
const OF_VALUE: u64 = 32;
/// The factor of what is made anew instead of being read.
const ANEW: u64 = 8;
/// The factor of what makes a list of the parts of a text.
const PARTS: u64 = 256;
/// The cost of compiling a pattern that is written out and not larger than [`SMALL_PATTERN`].
const OF_PATTERN: u64 = 512 << 10;
/// The cost of compiling any other pattern.
const OF_LARGE_PATTERN: u64 = 64 << 20;
/// The size of a compiled pattern that is not large, in bytes.
const SMALL_PATTERN: usize = 256 << 10;
/// The number of bytes of a text that can be looked for as it is.
const SHORT: usize = 32;
/// Libraries of functions: `lists.range(n)` makes a list of any length. They are no variables, so that expressions
/// cannot use them, unless a macro gives one of these names to its elements.
const LIBRARIES: [&str; 8] = ["base64", "format", "ip", "jsonpatch", "lists", "math", "sets", "strings"];
/// More members than a variable has, beside those of the call.
const OF_VARIABLE: u64 = 16;
/// The factor of a format: how often it can name what it is given.
const OF_FORMAT: u64 = 512;
/// The maximum number of digits of a precision in a format.
const MAX_DIGITS: usize = 2;

/// The size of what an expression reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reads {
    bytes: u64,
    values: u64,
}

impl Reads {
    /// Adds a text.
    pub fn add_text(&mut self, text: &str) {
        self.bytes += text.len() as u64;
    }

    /// Adds a JSON text, which is not parsed: the number of its values is estimated, and never too low.
    pub fn add_json(&mut self, text: &str) {
        self.add_text(text);
        let begins = |byte: &&u8| matches!(byte, b',' | b'[' | b'{');
        self.add_values(1 + text.as_bytes().iter().filter(begins).count());
    }

    /// Adds values.
    pub fn add_values(&mut self, number: usize) {
        self.values += number as u64;
    }
}

/// The cost of a part of an expression that is evaluated once, or once for each element of a macro.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// How often everything that the expression reads is read.
    scans: u64,
    /// The cost of the patterns that are compiled.
    patterns: u64,
}

/// What an evaluation of an expression costs, by the size of what it reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// The number of bytes of its text, which may have lists and texts in it.
    own: u64,
    once: Part,
    each: Part,
    /// How often one thing that it reads is multiplied by another.
    products: u32,
    /// The largest number of elements of the lists in the expression that a macro iterates over.
    elements: u64,
    /// Whether a macro iterates over anything else.
    iterates: bool,
    /// Whether it makes lists of the parts of a text.
    has_parts: bool,
}

impl Cost {
    /// Estimates an expression with this text. The recursion is limited by `check_bounds`.
    ///
    /// # Errors
    /// If it makes a list or a text whose length nothing bounds.
    pub(super) fn of(expr: &IdedExpr, text: &str) -> Result<Self, String> {
        let mut cost = Self { own: text.len() as u64, ..Self::default() };
        cost.once.scans = 1;
        cost.add(expr, false)?;
        Ok(cost)
    }

    /// Checks that an evaluation on what is read does not cost too much.
    ///
    /// # Errors
    /// What is too much.
    pub(super) fn check(&self, reads: Reads) -> Result<(), String> {
        if reads.values > MAX_VALUES {
            return Err(format!("what it reads has more than {MAX_VALUES} values"));
        }
        let bytes = reads.bytes + self.own;
        let size = (bytes + reads.values * OF_VALUE).saturating_pow(1 + self.products);
        let elements = match (self.iterates, self.has_parts) {
            (false, _) => self.elements,
            (true, false) => self.elements.max(reads.values),
            (true, true) => self.elements.max(bytes),
        };
        let of = |part: Part| size.saturating_mul(part.scans).saturating_add(part.patterns);
        if of(self.once).saturating_add(of(self.each).saturating_mul(elements)) > MAX_COST {
            return Err("it would cost too much, since what it reads is too large for it".to_owned());
        }
        Ok(())
    }

    /// Adds a part of the expression, which is evaluated for each element of a macro if `is_each`.
    fn add(&mut self, expr: &IdedExpr, is_each: bool) -> Result<(), String> {
        match &expr.expr {
            Expr::Literal(_) | Expr::Ident(_) | Expr::Unspecified => {}
            Expr::List(list) => {
                self.part(is_each).scans += list.elements.len() as u64;
                list.elements.iter().try_for_each(|element| self.add(element, is_each))?;
            }
            Expr::Map(map) => {
                self.part(is_each).scans += map.entries.len() as u64;
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        [&entry.key, &entry.value].into_iter().try_for_each(|part| self.add(part, is_each))?;
                    }
                }
            }
            // The engine has none, and panics.
            Expr::Struct(_) => return Err("it makes an object of a type, and there are no types".to_owned()),
            Expr::Select(select) => {
                self.part(is_each).scans += 1;
                self.add(&select.operand, is_each)?;
            }
            Expr::Call(call) => self.add_call(call, is_each)?,
            Expr::Comprehension(all) => {
                let mut names = [Some(&all.iter_var), all.iter_var2.as_ref()].into_iter().flatten();
                if let Some(name) = names.find(|name| LIBRARIES.contains(&name.as_str())) {
                    return Err(format!("a macro cannot call its elements {name:?}, which is a library of functions"));
                }
                match &all.iter_range.expr {
                    Expr::List(list) => self.elements = self.elements.max(list.elements.len() as u64),
                    // A list that is put together of others in the text.
                    Expr::Call(_) => (self.iterates, self.elements) = (true, self.elements.max(MAX_ELEMENTS as u64)),
                    _ => (self.iterates, self.elements) = (true, self.elements.max(OF_VARIABLE)),
                }
                [&all.iter_range, &all.accu_init].into_iter().try_for_each(|part| self.add(part, is_each))?;
                let each = [&all.loop_cond, &all.loop_step, &all.result];
                each.into_iter().try_for_each(|part| self.add(part, true))?;
            }
        }
        Ok(())
    }

    fn part(&mut self, is_each: bool) -> &mut Part {
        if is_each { &mut self.each } else { &mut self.once }
    }

    fn add_call(&mut self, call: &CallExpr, is_each: bool) -> Result<(), String> {
        // `a.f(b)` is `f(a, b)`.
        let all: Vec<&IdedExpr> = call.target.iter().map(|target| &**target).chain(&call.args).collect();
        all.iter().try_for_each(|argument| self.add(argument, is_each))?;
        let text_at = |place: usize| all.get(place).and_then(|argument| text(argument));
        let part = self.part(is_each);
        match call.func_name.as_str() {
            op::LOGICAL_AND | op::LOGICAL_OR | op::LOGICAL_NOT | op::NOT_STRICTLY_FALSE => {}
            op::EQUALS
            | op::NOT_EQUALS
            | op::LESS
            | op::LESS_EQUALS
            | op::GREATER
            | op::GREATER_EQUALS
            | op::IN
            | op::INDEX
            | op::CONDITIONAL
            | "contains"
            | "startsWith"
            | "endsWith"
            | "size" => part.scans += 1,
            name @ ("matches" | "find" | "findAll") => {
                let is_small = text_at(1).is_some_and(is_small_pattern);
                part.patterns += if is_small { OF_PATTERN } else { OF_LARGE_PATTERN };
                part.scans += ANEW;
                if name == "findAll" {
                    self.add_parts(is_each);
                }
            }
            "split" => self.add_parts(is_each),
            "format" => {
                let format = text_at(0).filter(|format| has_short_precisions(format));
                format.ok_or("format takes a text that is written out, with precisions of at most two digits")?;
                part.scans += OF_FORMAT;
            }
            name if multiplies(name, &all) => self.products += 1,
            _ => part.scans += ANEW,
        }
        Ok(())
    }

    fn add_parts(&mut self, is_each: bool) {
        self.has_parts = true;
        self.part(is_each).scans += PARTS;
    }
}

/// Whether a function multiplies one of its arguments by another, or, where that is called on what it makes, could do so
/// again and again.
fn multiplies(name: &str, all: &[&IdedExpr]) -> bool {
    let text_at = |place: usize| all.get(place).and_then(|argument| text(argument));
    match name {
        "replace" => !text_at(1).zip(text_at(2)).is_some_and(|(old, new)| !old.is_empty() && new.len() <= old.len()),
        "join" => all.len() > 1 && text_at(1) != Some(""),
        "indexOf" | "lastIndexOf" => text_at(1).is_none_or(|part| part.len() > SHORT),
        "distinct" | "bytes" | "sum" => true,
        _ => false,
    }
}

fn text(expr: &IdedExpr) -> Option<&str> {
    match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

fn is_small_pattern(pattern: &str) -> bool {
    RegexBuilder::new(pattern).size_limit(SMALL_PATTERN).build().is_ok()
}

fn has_short_precisions(format: &str) -> bool {
    let digits = |rest: &str| rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    format.match_indices('.').all(|(at, point)| digits(&format[at + point.len()..]) <= MAX_DIGITS)
}

#[cfg(test)]
mod tests {
    use super::super::Expression;
    use super::*;

    fn check(expression: &str, bytes: usize, values: usize) -> Result<(), String> {
        let mut reads = Reads::default();
        reads.add_text(&"x".repeat(bytes));
        reads.add_values(values);
        Expression::compile(expression)?.cost.check(reads)
    }

    #[test]
    fn what_is_ordinary_is_evaluated_on_what_is_large() {
        for (expression, bytes, values) in [
            ("call.arguments.path.startsWith(\"/etc\")", 4 << 20, 90_000),
            (
                "content.text.contains(\"a\") || content.text.contains(\"b\") || content.text.lowerAscii() == \"c\"",
                16 << 20,
                0,
            ),
            ("[\"a\", \"b\", \"c\"].exists(word, content.text.contains(word))", 16 << 20, 0),
            ("content.text.matches(\"(?i)password\\\\s*=\")", 16 << 20, 0),
            ("call.arguments.paths.exists(path, path.startsWith(\"/etc\"))", 50 << 10, 1000),
            ("call.arguments.paths.filter(path, path != \"\").size() > 0", 10 << 10, 300),
            ("call.arguments.paths.exists(path, path.matches(\"^/(etc|root)/\"))", 10 << 10, 900),
            ("call.arguments.path.replace(\"//\", \"/\").split(\"/\").exists(part, part == \"..\")", 400, 20),
            ("upstream.labels.exists(name, name == \"tier\")", 0, 60),
            ("call.arguments.path.split(\"/\").exists(part, part == \"..\")", 20_000, 200),
        ] {
            assert_eq!(check(expression, bytes, values), Ok(()), "{expression}");
        }
    }

    #[test]
    fn what_multiplies_is_not_evaluated_on_what_is_large() {
        for (expression, bytes, values) in [
            ("call.arguments.list.all(x, call.arguments == call.arguments)", 1 << 20, 60_000),
            ("call.arguments.list.map(x, call.arguments.text + x).size() > 0", 1 << 20, 1000),
            ("[1, 1, 1, 1, 1, 1, 1, 1, 1, 1].map(x, content.text + \"a\").size() > 0", 16 << 20, 0),
            ("content.text.replace(\"\", content.text) == \"\"", 1 << 20, 0),
            ("content.text.replace(\"x\", \"xx\").replace(\"x\", \"xx\") == \"\"", 4 << 10, 0),
            ("content.text.split(\"\").join(\"--\").split(\"\").join(\"--\") == \"\"", 4 << 10, 0),
            ("replace(content.text, \"\", content.text) == \"\"", 1 << 20, 0),
            ("content.text.split(\"\").exists(x, content.text.contains(x))", 1 << 20, 0),
            (
                "content.text.matches(call.arguments.pattern) && [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1].all(x, \"\".matches(call.name))",
                0,
                0,
            ),
            ("call.arguments.a == 1", 300_000, 100_001),
        ] {
            assert!(check(expression, bytes, values).is_err(), "{expression}");
        }
        let sums = format!("{} == \"\"", vec!["content.text"; 60].join(" + "));
        assert!(check(&sums, 16 << 20, 0).is_err() && check(&sums, 1 << 20, 0).is_ok());
    }

    #[test]
    fn lists_and_texts_of_any_length_are_refused() {
        for expression in [
            "lists.range(4000000000).size() > 0",
            "[1].all(lists, lists.range(4000000000).size() > 0)",
            "[1].all(strings, strings.quote(call.name) == \"\")",
            "\"%.2000000000f\".format([1.0]) == \"\"",
            "call.name.format([1.0]) == \"\"",
        ] {
            assert!(Expression::compile(expression).is_err(), "{expression}");
        }
        assert_eq!(check("\"%.2f %s\".format([1.0, call.name]) == \"\"", 100, 0), Ok(()));
    }

    #[test]
    fn values_are_never_counted_too_low() {
        for json in ["1", "[]", "[1,2,[3],{\"a\":{},\"b\":[[]]}]", "{\"a\":[1,{}],\"b\":\"x,y\"}"] {
            fn values(value: &serde_json::Value) -> u64 {
                match value {
                    serde_json::Value::Array(all) => 1 + all.iter().map(values).sum::<u64>(),
                    serde_json::Value::Object(all) => 1 + all.values().map(values).sum::<u64>(),
                    _ => 1,
                }
            }
            let mut reads = Reads::default();
            reads.add_json(json);
            assert!(reads.values >= values(&serde_json::from_str(json).unwrap()), "{json}");
        }
    }
}
