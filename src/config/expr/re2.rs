//! Patterns as CEL reads them, which takes them to be RE2's.
//!
//! The crate `regex` reads some forms otherwise (`[a&&b]`, `\<`), and others that RE2 refuses (`a++`). These are refused.
//! `\d`, `\s`, `\w` and `\b` are of ASCII in RE2, and are translated.

use regex::Regex;
use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassPerlKind, ClassSetBinaryOp, ClassSetItem, Flag, FlagsItemKind, GroupKind,
    HexLiteralKind, LiteralKind, RepetitionKind, RepetitionRange, Span, Visitor,
};

use crate::domain::schema::has_few_states;

/// How often RE2 repeats a part at most, repetitions of repetitions multiplied.
const MAX_REPEATS: u32 = 1000;

/// Compiles a pattern.
///
/// # Errors
/// Returns a message if it is no pattern, has a form that RE2 reads otherwise or not at all, is too large, or takes more than
/// some nanoseconds for a byte.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern)?;
    let compiled = has_few_states(&translated).then(|| Regex::new(&translated).ok()).flatten();
    compiled.ok_or_else(|| {
        format!(
            "the pattern {pattern:?} is too large or has too many states: repeat fewer parts, or parts that differ more"
        )
    })
}

fn translate(pattern: &str) -> Result<String, String> {
    let ast = Parser::new()
        .parse(pattern)
        .map_err(|error| format!("{pattern:?} is not a regular expression: {}", error.kind()))?;
    let reader = Reader { pattern, edits: Vec::new(), repeats: vec![MAX_REPEATS] };
    let edits = ast::visit(&ast, reader).map_err(|(part, instead)| {
        format!("the pattern {pattern:?}: `{part}` is not read as CEL reads it: {instead}")
    })?;
    let (mut translated, mut at) = (String::new(), 0);
    for (span, instead) in edits {
        translated.push_str(&pattern[at..span.start.offset]);
        translated.push_str(instead);
        at = span.end.offset;
    }
    translated.push_str(&pattern[at..]);
    Ok(translated)
}

/// A part that is refused, and the advice.
type Refused<'p> = (&'p str, &'static str);

/// Reads the tree of a pattern from left to right.
struct Reader<'p> {
    pattern: &'p str,
    /// Parts of the pattern, with what stands there instead.
    edits: Vec<(Span, &'static str)>,
    /// How often the part inside of each open repetition may be repeated.
    repeats: Vec<u32>,
}

impl<'p> Reader<'p> {
    fn text(&self, span: &Span) -> &'p str {
        &self.pattern[span.start.offset..span.end.offset]
    }

    fn replace(&mut self, span: &Span, instead: &'static str) -> Result<(), &'static str> {
        self.edits.push((*span, instead));
        Ok(())
    }

    fn assertion(&mut self, span: &Span, kind: &AssertionKind) -> Result<(), &'static str> {
        match kind {
            AssertionKind::StartLine | AssertionKind::EndLine | AssertionKind::StartText | AssertionKind::EndText => {
                Ok(())
            }
            AssertionKind::WordBoundary => self.replace(span, r"(?-u:\b)"),
            AssertionKind::NotWordBoundary => self.replace(span, r"(?-u:\B)"),
            _ => Err("write `\\b` for the bound of a word, and `<` or `>` for the character"),
        }
    }

    /// In brackets too this is a class of its own: without brackets around it, a `-` after it could make a range.
    fn perl(&mut self, span: &Span, kind: &ClassPerlKind, is_negated: bool) -> Result<(), &'static str> {
        let instead = match (kind, is_negated) {
            (ClassPerlKind::Digit, false) => "[0-9]",
            (ClassPerlKind::Digit, true) => "[^0-9]",
            (ClassPerlKind::Space, false) => r"[\t\n\f\r ]",
            (ClassPerlKind::Space, true) => r"[^\t\n\f\r ]",
            (ClassPerlKind::Word, false) => "[0-9A-Za-z_]",
            (ClassPerlKind::Word, true) => "[^0-9A-Za-z_]",
        };
        self.replace(span, instead)
    }

    /// To RE2 `[--/]` and `[]-a]` are ranges, to `regex` each of their characters stands for itself.
    fn class(&self, span: &Span) -> Result<(), &'static str> {
        let text = self.text(span).strip_prefix('[').unwrap_or_default();
        let first = text.strip_prefix('^').unwrap_or(text);
        match ["--", "]-"].iter().any(|range| first.strip_prefix(range).is_some_and(|rest| !rest.starts_with(']'))) {
            true => Err("write `\\-` and `\\]` for the characters"),
            false => Ok(()),
        }
    }

    fn repetition(&mut self, span: &Span, kind: &RepetitionKind, of: &Ast) -> Result<(), &'static str> {
        if matches!(of, Ast::Repetition(_)) {
            return Err("write brackets, as in `(?:a+)+`");
        }
        let left = self.repeats.last().copied().unwrap_or(MAX_REPEATS);
        let times = match kind {
            // `{ 2 }` and `{02}` are characters to RE2.
            RepetitionKind::Range(_) if self.text(span).contains([' ', '\t', '\n']) || has_zero(self.text(span)) => {
                return Err("write it without blanks and zeros in front");
            }
            RepetitionKind::Range(RepetitionRange::Exactly(most) | RepetitionRange::AtLeast(most)) => *most,
            RepetitionKind::Range(RepetitionRange::Bounded(_, most)) => *most,
            _ => 1,
        };
        if times > left {
            return Err("a part is repeated at most 1000 times");
        }
        self.repeats.push(left / times.max(1));
        Ok(())
    }

    fn part(&mut self, part: &Ast) -> Result<(), &'static str> {
        match part {
            Ast::Literal(literal) => literal_is_read(&literal.kind),
            Ast::Assertion(assertion) => self.assertion(&assertion.span, &assertion.kind),
            Ast::Flags(set) => flags_are_read(&set.flags),
            Ast::ClassPerl(class) => self.perl(&class.span, &class.kind, class.negated),
            Ast::ClassUnicode(_) => Err(NO_PROPERTIES),
            Ast::ClassBracketed(class) => self.class(&class.span),
            Ast::Repetition(repetition) => self.repetition(&repetition.op.span, &repetition.op.kind, &repetition.ast),
            Ast::Group(group) => match &group.kind {
                GroupKind::NonCapturing(flags) => flags_are_read(flags),
                GroupKind::CaptureName { name, .. } if !name.name.bytes().all(is_of_name) => {
                    Err("write A-Z, a-z, 0-9 and _")
                }
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => Ok(()),
            },
            Ast::Empty(_) | Ast::Dot(_) | Ast::Alternation(_) | Ast::Concat(_) => Ok(()),
        }
    }
}

/// The tables of Unicode are those of a version, which differ.
const NO_PROPERTIES: &str = "write the ranges of characters, as in `[a-zà-ÿ]`";

fn literal_is_read(kind: &LiteralKind) -> Result<(), &'static str> {
    match kind {
        LiteralKind::HexFixed(kind) | LiteralKind::HexBrace(kind) if *kind != HexLiteralKind::X => {
            Err("write `\\x{e9}`")
        }
        _ => Ok(()),
    }
}

fn flags_are_read(flags: &ast::Flags) -> Result<(), &'static str> {
    let is_known = |kind: &FlagsItemKind| {
        use Flag::{CaseInsensitive, DotMatchesNewLine, MultiLine, SwapGreed};
        matches!(
            kind,
            FlagsItemKind::Negation | FlagsItemKind::Flag(CaseInsensitive | MultiLine | DotMatchesNewLine | SwapGreed)
        )
    };
    let all_known = flags.items.iter().all(|item| is_known(&item.kind));
    if all_known { Ok(()) } else { Err("leave out the flags other than i, m, s and U") }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn has_zero(range: &str) -> bool {
    let numbers = range.trim_end_matches('?').trim_matches(['{', '}']);
    numbers.split(',').any(|number| number.len() > 1 && number.starts_with('0'))
}

impl<'p> Visitor for Reader<'p> {
    type Output = Vec<(Span, &'static str)>;
    type Err = Refused<'p>;

    fn finish(self) -> Result<Self::Output, Self::Err> {
        Ok(self.edits)
    }

    fn visit_pre(&mut self, part: &Ast) -> Result<(), Self::Err> {
        self.part(part).map_err(|instead| (self.text(part.span()), instead))
    }

    fn visit_post(&mut self, part: &Ast) -> Result<(), Self::Err> {
        if let Ast::Repetition(_) = part {
            self.repeats.pop();
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        let read = match item {
            ClassSetItem::Perl(class) => self.perl(&class.span, &class.kind, class.negated),
            ClassSetItem::Unicode(_) => Err(NO_PROPERTIES),
            ClassSetItem::Bracketed(_) => Err("write `\\[` for the character"),
            ClassSetItem::Literal(literal) => literal_is_read(&literal.kind),
            ClassSetItem::Range(range) => literal_is_read(&range.start.kind).and(literal_is_read(&range.end.kind)),
            _ => Ok(()),
        };
        read.map_err(|instead| (self.text(item.span()), instead))
    }

    fn visit_class_set_binary_op_pre(&mut self, operation: &ClassSetBinaryOp) -> Result<(), Self::Err> {
        Err((self.text(&operation.span), "write a backslash before `&`, `-` and `~`"))
    }
}

#[cfg(test)]
mod tests;
