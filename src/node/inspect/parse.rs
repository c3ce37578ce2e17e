//! Extracts facts from a plugin's code. The parser can overflow its stack, so this must run in a separate process.

use std::collections::BTreeSet;

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    AssignmentExpression, BindingPattern, Expression, MemberExpression, ObjectPropertyKind, VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_parser::{ParseOptions, Parser, ParserReturn};
use oxc_span::SourceType;

use crate::domain::ports::{CodeFacts, SyntaxProblem};

/// The maximum number of names of each kind that are reported.
const MAX_NAMES: usize = 256;
/// The maximum number of characters of a name. Longer ones are cut off.
const MAX_NAME: usize = 128;
const MAX_MESSAGE: usize = 200;

/// Returns the facts about `code`. The ending of its file name decides how it is parsed: `.mjs` as a module, `.ts` and
/// `.mts` as a module in TypeScript, `.cjs` as a script, and any other as a module if it uses the syntax of modules, else
/// as a script.
pub fn facts(code: &str, file_name: &str) -> CodeFacts {
    let ending = file_name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let allocator = Allocator::default();
    let parse = |kind| {
        let options = ParseOptions { parse_regular_expression: true, ..ParseOptions::default() };
        Parser::new(&allocator, code, kind).with_options(options).parse()
    };
    let first = match ending {
        "mjs" => parse(SourceType::mjs()),
        "cjs" => parse(SourceType::cjs()),
        "ts" | "mts" => parse(SourceType::ts()),
        _ => parse(SourceType::unambiguous()),
    };
    let Some(problem) = problem(&first, code) else { return look(&first) };
    if !matches!(ending, "mjs" | "cjs" | "ts" | "mts") {
        // Node.js wraps a script in a function, so a script can use `return`. Code that is not a valid script is run as
        // a module.
        for kind in [SourceType::cjs(), SourceType::mjs()] {
            let parsed = parse(kind);
            if self::problem(&parsed, code).is_none() {
                return look(&parsed);
            }
        }
    }
    CodeFacts { error: Some(problem), ..CodeFacts::default() }
}

fn problem(parsed: &ParserReturn<'_>, code: &str) -> Option<SyntaxProblem> {
    if !parsed.panicked && !parsed.diagnostics.has_errors() {
        // An editor can leave a file empty for a moment before it writes it. Empty code would run as a script that
        // never answers.
        if parsed.program.body.is_empty() {
            return Some(SyntaxProblem { line: 0, column: 0, message: "there is no code in it".into() });
        }
        // The parser allows `import` and `export` in CommonJS; Node.js does not.
        let mixed = parsed.program.source_type.is_commonjs() && parsed.module_record.has_module_syntax;
        let message = "`import` and `export` need a file whose name ends in .mjs or .js".to_owned();
        return mixed.then_some(SyntaxProblem { line: 0, column: 0, message });
    }
    let Some(error) = parsed.diagnostics.errors().next() else {
        return Some(SyntaxProblem { line: 0, column: 0, message: "cannot be parsed".into() });
    };
    let (line, column) = error.labels.first().map_or((0, 0), |label| place(code, label.offset()));
    let message = error.message.lines().next().unwrap_or_default().chars().take(MAX_MESSAGE).collect();
    Some(SyntaxProblem { line, column, message })
}

/// Returns the line and the column of the byte at `offset`. Both count from 1, columns in characters.
fn place(code: &str, offset: u32) -> (u32, u32) {
    let before = code.as_bytes().get(..offset as usize).unwrap_or(code.as_bytes());
    let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(before.get(start..).unwrap_or_default()).chars().count();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (number(memchr::memchr_iter(b'\n', before).count() + 1), number(column + 1))
}

fn look(parsed: &ParserReturn<'_>) -> CodeFacts {
    let mut names = ModuleNames { is_module: parsed.program.source_type.is_module(), ..ModuleNames::default() };
    let record = &parsed.module_record;
    if record.local_export_entries.iter().any(|entry| entry.export_name.is_default()) {
        names.export("default");
    }
    for name in record.exported_bindings.keys() {
        names.export(name.as_str());
    }
    if !record.star_export_entries.is_empty() {
        names.export("*");
    }
    names.visit_program(&parsed.program);
    CodeFacts {
        error: None,
        is_module: names.is_module,
        exports: names.exports.into_iter().take(MAX_NAMES).collect(),
        reads_env: names.reads_env.into_iter().take(MAX_NAMES).collect(),
    }
}

#[derive(Default)]
struct ModuleNames {
    is_module: bool,
    exports: BTreeSet<String>,
    reads_env: BTreeSet<String>,
}

impl ModuleNames {
    fn export(&mut self, name: &str) {
        self.exports.insert(name.chars().take(MAX_NAME).collect());
    }

    fn read(&mut self, name: &str) {
        self.reads_env.insert(name.chars().take(MAX_NAME).collect());
    }

    /// Handles `module.exports = value`: the exports are the keys of an object literal, or `default` for any other
    /// value.
    fn export_all(&mut self, value: &Expression<'_>) {
        let Expression::ObjectExpression(object) = value.get_inner_expression() else { return self.export("default") };
        for property in &object.properties {
            if let ObjectPropertyKind::ObjectProperty(property) = property
                && let Some(name) = property.key.static_name()
            {
                self.export(&name);
            }
        }
    }
}

impl<'a> Visit<'a> for ModuleNames {
    fn visit_member_expression(&mut self, member: &MemberExpression<'a>) {
        if member.object().is_specific_member_access("process", "env")
            && let Some(name) = member.static_property_name()
        {
            self.read(name);
        }
        walk::walk_member_expression(self, member);
    }

    fn visit_variable_declarator(&mut self, declarator: &VariableDeclarator<'a>) {
        if let BindingPattern::ObjectPattern(pattern) = &declarator.id
            && declarator.init.as_ref().is_some_and(|init| init.is_specific_member_access("process", "env"))
        {
            for property in &pattern.properties {
                if let Some(name) = property.key.static_name() {
                    self.read(&name);
                }
            }
        }
        walk::walk_variable_declarator(self, declarator);
    }

    fn visit_assignment_expression(&mut self, assignment: &AssignmentExpression<'a>) {
        if !self.is_module
            && let Some(target) = assignment.left.as_member_expression()
            && let Some(name) = target.static_property_name()
        {
            let object = target.object();
            if object.is_specific_id("module") && name == "exports" {
                self.export_all(&assignment.right);
            } else if object.is_specific_id("exports") || object.is_specific_member_access("module", "exports") {
                self.export(name);
            }
        }
        walk::walk_assignment_expression(self, assignment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exports(code: &str, file_name: &str) -> (bool, Vec<String>) {
        let facts = facts(code, file_name);
        assert_eq!(facts.error, None, "{code}");
        (facts.is_module, facts.exports)
    }

    #[test]
    fn finds_what_a_module_exports() {
        let code = "export default 1; export const a = 1, b = 2; function f() {} export { f as onRequest };
            export { x as y } from './x.mjs'; export * as ns from './z.mjs'; export * from './w.mjs';";
        let names = ["*", "a", "b", "default", "ns", "onRequest", "y"].map(String::from).to_vec();
        assert_eq!(exports(code, "p.mjs"), (true, names.clone()));
        assert_eq!(exports(code, "p.js"), (true, names));
        assert_eq!(exports("export default async (input) => input", "p.js").1, ["default"]);
    }

    #[test]
    fn finds_what_typescript_exports() {
        let code = "import type { Input } from './types.d.ts'; const a = process.env.A as string;
            export const onRequest = async (input: Input): Promise<string> => a;";
        for file_name in ["p.ts", "p.mts"] {
            assert_eq!(exports(code, file_name), (true, vec!["onRequest".into()]));
            assert_eq!(facts(code, file_name).reads_env, ["A"]);
        }
        assert!(facts(code, "p.mjs").error.is_some());
        assert!(facts("const a: = 1", "p.ts").error.is_some());
    }

    #[test]
    fn a_file_without_code_is_no_plugin() {
        for (code, file_name) in
            [("", "p.mjs"), (" \n", "p.js"), ("// one\n/* two */", "p.cjs"), ("'use strict'", "p.js")]
        {
            let message = facts(code, file_name).error.map(|error| error.message);
            assert_eq!(message.as_deref(), Some("there is no code in it"), "{code:?} {file_name}");
        }
    }

    #[test]
    fn finds_what_commonjs_assigns() {
        assert_eq!(exports("module.exports = async () => {}", "p.cjs"), (false, vec!["default".into()]));
        let code = "module.exports = { onRequest, 'onResponse': 1, [x]: 2, ...y }; exports.more = 1";
        assert_eq!(exports(code, "p.js"), (false, vec!["more".into(), "onRequest".into(), "onResponse".into()]));
        assert_eq!(exports("module.exports.default = 1; module['exports'].a = 1", "p.cjs").1, ["a", "default"]);
        assert_eq!(exports("exports.a = 1; export {}", "p.mjs"), (true, vec![]));
    }

    #[test]
    fn tells_a_script_from_a_module() {
        for (code, is_module) in [
            ("const x = JSON.parse(await read())", true),
            ("import 'x'", true),
            ("import.meta.url", true),
            ("import('x')", false),
            ("require('x'); if (1) { return }", false),
            ("async function f() { await 1 }", false),
            ("for await (const c of process.stdin) {}", true),
        ] {
            assert_eq!(exports(code, "p.js").0, is_module, "{code}");
        }
    }

    #[test]
    fn finds_the_variables_that_it_reads() {
        let code = "process.env.A; process.env['B']; process?.env?.C; process.env[`D`]; process.env[x];
            const { E, F: g, ...rest } = process.env; f({ k: process.env.A }); other.env.Z; process.env";
        assert_eq!(facts(code, "p.cjs").reads_env, ["A", "B", "C", "D", "E", "F"]);
    }

    #[test]
    fn says_where_it_does_not_parse_and_not_what_is_written_there() {
        for file_name in ["p.mjs", "p.cjs", "p.js"] {
            let error = facts("const a = 1;\nlet ä = 's3cret' 's3cret2';", file_name).error.unwrap();
            assert_eq!((error.line, error.column), (2, 17), "{file_name} {}", error.message);
            assert!(!error.message.contains("s3cret"), "{}", error.message);
        }
        assert!(facts("return 1", "p.mjs").error.is_some());
        assert!(facts("import 'x'", "p.cjs").error.is_some());
        assert!(facts("/(/", "p.js").error.is_some());
    }
}
