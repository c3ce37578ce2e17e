//! The results of `cel-go` for about a thousand expressions, each with some fifty values.

use cel::common::types::{CelBool, CelDouble, CelInt, CelString, CelUInt};
use cel::common::value::Val;
use serde::Deserialize;

use super::*;
use crate::config::expr::condition::{Condition, EvaluateParts, Outcomes};

const VARIABLES: &[Member] = &[("x", Kind::Any)];
const GOLDEN: &str = include_str!("../../../../tests/fixtures/cel/golden.jsonl");
/// The expressions that have a result with `cel-go`, and are refused here or fail on some value.
const STRICTER: &str = include_str!("../../../../tests/fixtures/cel/stricter.jsonl");

#[derive(Deserialize)]
struct Line {
    expr: String,
    is: Results,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Results {
    Letters(String),
    Values(Vec<String>),
}

/// Which expressions have a result with `cel-go` and are refused here, fail on some value, or have another result.
#[derive(Default)]
struct Differences {
    refused: Vec<String>,
    failing: Vec<String>,
    other: Vec<String>,
}

fn shown(value: &dyn Val) -> String {
    if let Some(value) = value.downcast_ref::<CelBool>() {
        return if *value.inner() { "T" } else { "F" }.to_owned();
    }
    if let Some(value) = value.downcast_ref::<CelInt>() {
        return format!("int {}", value.inner());
    }
    if let Some(value) = value.downcast_ref::<CelUInt>() {
        return format!("uint {}", value.inner());
    }
    if let Some(value) = value.downcast_ref::<CelDouble>() {
        return format!("double {:016x}", value.inner().to_bits());
    }
    value
        .downcast_ref::<CelString<'_>>()
        .map_or_else(|| "other".to_owned(), |value| format!("string {}", value.inner()))
}

fn result(expression: &Expression, x: &str) -> String {
    let x = serde_json::from_str(x).unwrap();
    let shown =
        |context: &Context<'_, 'static>| Value::resolve_val(&expression.tree, context).map(|value| shown(&*value));
    expression.with_variables(vec![("x", x)], MAX_ELEMENTS, shown).unwrap_or_else(|_| "E".to_owned())
}

/// Evaluates the parts of a condition with a value.
struct With<'a>(&'a str);

impl EvaluateParts for With<'_> {
    fn outcomes(&self, _: usize, part: &Expression) -> Outcomes {
        match &*result(part, self.0) {
            "T" => Outcomes::TRUE,
            "F" => Outcomes::FALSE,
            _ => Outcomes::FAILED,
        }
    }

    fn cost(&self, index: usize, _: &Expression) -> u8 {
        // The order of the parts does not matter.
        u8::from(index.is_multiple_of(2))
    }
}

fn compare(line: Line, values: &[String], differences: &mut Differences) {
    let expected = match line.is {
        Results::Letters(letters) => letters.chars().map(String::from).collect(),
        Results::Values(values) => values,
    };
    let is_answer = |result: &String| result != "R" && result != "E";
    let Ok((expression, _)) = Expression::compile_any(&line.expr, VARIABLES) else {
        if expected.iter().any(is_answer) {
            differences.refused.push(line.expr);
        }
        return;
    };
    let condition = Condition::compile(&line.expr, VARIABLES, "x").ok();
    let mut is_failing = false;
    for (expected, x) in expected.iter().zip(values) {
        let found = result(&expression, x);
        if found != "E" && found != *expected {
            differences.other.push(format!("{:?} of {x} is {expected:?}, not {found:?}", line.expr));
        }
        if let Some(condition) = &condition {
            let whole = match &*found {
                "T" => Outcomes::TRUE,
                "F" => Outcomes::FALSE,
                _ => Outcomes::FAILED,
            };
            assert_eq!(condition.outcomes(&With(x)), whole, "the parts of {:?} of {x}", line.expr);
        }
        is_failing |= found != *expected && is_answer(expected);
    }
    if is_failing {
        differences.failing.push(line.expr);
    }
}

#[test]
fn no_expression_is_answered_otherwise_than_by_cel_go() {
    let mut lines = GOLDEN.lines();
    let values: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    let values: Vec<String> = serde_json::from_value(values["values"].clone()).unwrap();
    let mut differences = Differences::default();
    for line in lines {
        compare(serde_json::from_str(line).unwrap(), &values, &mut differences);
    }
    assert_eq!(differences.other, [""; 0]);
    let refused = differences.refused.iter().map(|expr| json!({"refused": expr}));
    let failing = differences.failing.iter().map(|expr| json!({"fails": expr}));
    let found: String = refused.chain(failing).map(|line| format!("{line}\n")).collect();
    assert!(found == STRICTER, "tests/fixtures/cel/stricter.jsonl is to be:\n{found}");
}
