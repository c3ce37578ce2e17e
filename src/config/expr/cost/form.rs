//! How functions are called: on a value or not, and with how many arguments.

use kube_cel::cel::common::ast::CallExpr;

/// The least and the most arguments.
type Range = (usize, usize);

/// How a function may be called. The engine ignores arguments too many, and calls a method with its first argument as the value
/// if it has none, so that `startsWith("/", path)` would be false; in CEL both fail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    on_value: Option<Range>,
    alone: Option<Range>,
}

impl Form {
    /// `x.f(a)`.
    pub(super) const fn method(least: usize, most: usize) -> Self {
        Self { on_value: Some((least, most)), alone: None }
    }

    /// `f(a)`.
    pub(super) const fn function(least: usize, most: usize) -> Self {
        Self { on_value: None, alone: Some((least, most)) }
    }

    /// `x.f(a)` and `f(x, a)`.
    pub(super) const fn both(arguments: usize) -> Self {
        Self { on_value: Some((arguments, arguments)), alone: Some((arguments + 1, arguments + 1)) }
    }

    /// Adds `f(a)` to a method.
    pub(super) const fn or_function(self, least: usize, most: usize) -> Self {
        Self { alone: Some((least, most)), ..self }
    }

    /// Refuses a call in another form.
    pub(super) fn check(self, call: &CallExpr) -> Result<(), String> {
        let (name, given) = (&call.func_name, call.args.len());
        let (range, other) = match call.target {
            Some(_) => (self.on_value, format!("`{name}` is not called on a value: write {name}(x)")),
            None => (self.alone, format!("`{name}` is called on a value: write x.{name}(...)")),
        };
        let (least, most) = range.ok_or(other)?;
        if (least..=most).contains(&given) {
            return Ok(());
        }
        let takes = match (least, most) {
            (0, 0) => "no argument".to_owned(),
            (1, 1) => "one argument".to_owned(),
            (_, usize::MAX) => format!("at least {least} arguments"),
            _ if least == most => format!("{least} arguments"),
            _ => format!("{least} to {most} arguments"),
        };
        let hint = match name.as_str() {
            "startsWith" | "endsWith" | "contains" if given > 1 => {
                format!(": write x.{name}(a) || x.{name}(b) for any of several")
            }
            "getFullYear" | "getMonth" | "getDayOfYear" | "getDayOfMonth" | "getDate" | "getDayOfWeek" | "getHours"
            | "getMinutes" | "getSeconds" | "getMilliseconds" => ": time zones are not read".to_owned(),
            _ => String::new(),
        };
        Err(format!("`{name}` takes {takes}, and has {given}{hint}"))
    }
}
