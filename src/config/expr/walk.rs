//! Finds the names that an expression reads, and how deeply its macros nest.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};

/// The findings of a walk over an expression.
#[derive(Default)]
pub(super) struct ExpressionWalk {
    /// Names that the enclosing macros bind.
    bound: Vec<String>,
    /// Names that are read and not bound by a macro.
    pub(super) free: BTreeSet<String>,
    /// Maximum nesting of macros.
    pub(super) loops: usize,
    /// Unbound names that are read, each with the member that is read, or with `None` if the whole variable is read.
    pub(super) members: BTreeSet<(String, Option<String>)>,
}

impl ExpressionWalk {
    /// Walks `expr`, which is inside `depth` macros. `check_bounds` limits the recursion.
    pub(super) fn visit(&mut self, expr: &IdedExpr, depth: usize) {
        match &expr.expr {
            Expr::Call(call) => {
                call.target.iter().for_each(|target| self.visit(target, depth));
                call.args.iter().for_each(|arg| self.visit(arg, depth));
            }
            Expr::Comprehension(c) => {
                self.loops = self.loops.max(depth + 1);
                self.visit(&c.iter_range, depth + 1);
                // Like the range, this is evaluated outside the scope of the bound names.
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

    /// Whether the expression might read `member` of the variable `name`. A member can also be read in other ways than
    /// `name.member`, so every use of the whole variable counts.
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
