//! Which names an expression reads, and how deep its macros nest.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};

/// What a walk over an expression finds.
#[derive(Default)]
pub(super) struct Walk {
    /// Names that macros bind around the place.
    bound: Vec<String>,
    /// Names that are read and not bound.
    pub(super) free: BTreeSet<String>,
    /// How deep macros nest.
    pub(super) loops: usize,
}

impl Walk {
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
