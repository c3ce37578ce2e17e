//! Which names an expression reads, and how deep its macros nest.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};

/// What a walk over an expression finds.
#[derive(Default)]
pub(super) struct ExpressionWalk {
    /// Names that macros bind around the place.
    bound: Vec<String>,
    /// Names that are read and not bound.
    pub(super) free: BTreeSet<String>,
    /// How deep macros nest.
    pub(super) loops: usize,
    /// Names that are read as a whole, or of which this member is, each with none or that member.
    pub(super) members: BTreeSet<(String, Option<String>)>,
}

impl ExpressionWalk {
    /// The recursion is bounded by `check_bounds`.
    pub(super) fn visit(&mut self, expr: &IdedExpr, depth: usize) {
        match &expr.expr {
            Expr::Call(call) => {
                call.target.iter().for_each(|target| self.visit(target, depth));
                call.args.iter().for_each(|arg| self.visit(arg, depth));
            }
            Expr::Comprehension(c) => {
                self.loops = self.loops.max(depth + 1);
                self.visit(&c.iter_range, depth + 1);
                // It is evaluated outside, as the range is.
                self.visit(&c.accu_init, depth + 1);
                let bound = self.bound.len();
                self.bound.extend([c.iter_var.clone(), c.accu_var.clone()]);
                self.bound.extend(c.iter_var2.clone());
                for inner in [&c.loop_cond, &c.loop_step, &c.result] {
                    self.visit(inner, depth + 1);
                }
                self.bound.truncate(bound);
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.visit(element, depth)),
            Expr::Map(map) => self.visit_entries(&map.entries, depth),
            Expr::Struct(structure) => self.visit_entries(&structure.entries, depth),
            Expr::Select(select) => match &select.operand.expr {
                Expr::Ident(name) => self.read(name, Some(&select.field)),
                _ => self.visit(&select.operand, depth),
            },
            Expr::Ident(name) => self.read(name, None),
            Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    /// Whether `member` of the variable `name` may be read: there are more ways to write that than `name.member`, so that
    /// it counts as read wherever the variable stands for itself.
    pub(super) fn reads(&self, name: &str, member: &str) -> bool {
        self.members.iter().any(|(of, read)| of == name && read.as_deref().is_none_or(|read| read == member))
    }

    fn read(&mut self, name: &str, member: Option<&str>) {
        if !self.bound.iter().any(|bound| bound == name) {
            self.free.insert(name.to_owned());
            self.members.insert((name.to_owned(), member.map(str::to_owned)));
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
