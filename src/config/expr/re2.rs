//! Patterns as CEL reads them, which takes them to be RE2's.
//!
//! The engine has Rust's `regex`. It reads some forms otherwise (`[a&&b]`, `\<`), and others that RE2 refuses (`a++`). Either
//! way a condition could be false where in CEL it is true or fails, and a call pass by a Guard. So these forms are refused, and
//! `\d`, `\s`, `\w` and `\b`, which are of ASCII to RE2 and of all of Unicode to the engine, are translated.

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    self, Assertion, AssertionKind, Ast, ClassBracketed, ClassPerl, ClassPerlKind, ClassSetBinaryOp,
    ClassSetBinaryOpKind, ClassSetItem, ClassUnicode, ClassUnicodeKind, ErrorKind, Flag, Flags, FlagsItemKind, Group,
    GroupKind, HexLiteralKind, Literal, LiteralKind, Repetition, RepetitionKind, RepetitionRange, Span, Visitor,
};

/// How often RE2 repeats a part at most, repetitions of repetitions multiplied.
const MAX_REPEATS: u32 = 1000;

/// The names that both libraries know, of categories and of the scripts in use. `C` is missing: to Rust's `regex` it has the
/// characters that are not assigned too.
#[rustfmt::skip]
const PROPERTIES: &[&str] = &[
    "Any", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf",
    "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs", "Cc", "Cf", "Co", "Arabic", "Armenian",
    "Bengali", "Common", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi", "Han",
    "Hangul", "Hebrew", "Hiragana", "Inherited", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Tamil",
    "Telugu", "Thai", "Tibetan",
];

/// A part of a pattern, from one byte to another, and what stands there instead.
type Edit = (usize, usize, &'static str);

/// Returns the pattern with which the engine finds what RE2 finds.
///
/// # Errors
/// If it is no pattern, or has a form that RE2 reads otherwise or not at all.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let ast = Parser::new()
        .parse(pattern)
        .map_err(|e| format!("{pattern:?} is not a regular expression: {}", reason(e.kind())))?;
    let reader = Reader { pattern, edits: Vec::new(), repeats: vec![MAX_REPEATS] };
    let edits = ast::visit(&ast, reader).map_err(|what| format!("the pattern {pattern:?}: {what}"))?;
    let (mut translated, mut at) = (String::new(), 0);
    for (start, end, instead) in edits {
        translated.push_str(&pattern[at..start]);
        translated.push_str(instead);
        at = end;
    }
    translated.push_str(&pattern[at..]);
    Ok(translated)
}

fn reason(kind: &ErrorKind) -> String {
    let hint = match kind {
        ErrorKind::ClassEscapeInvalid => ": write the character without the backslash",
        ErrorKind::ClassRangeLiteral => ": write a `-` that is no range last",
        ErrorKind::RepetitionCountDecimalEmpty | ErrorKind::RepetitionCountUnclosed => {
            ": write `\\{` for a brace, `{0,5}` for at most five"
        }
        _ => "",
    };
    format!("{kind}{hint}")
}

/// Reads the tree of a pattern from left to right.
struct Reader<'p> {
    pattern: &'p str,
    edits: Vec<Edit>,
    /// How often the part inside of each open repetition may be repeated.
    repeats: Vec<u32>,
}

impl<'p> Reader<'p> {
    fn text(&self, span: &Span) -> &'p str {
        &self.pattern[span.start.offset..span.end.offset]
    }

    fn replace(&mut self, span: &Span, instead: &'static str) {
        self.edits.push((span.start.offset, span.end.offset, instead));
    }

    fn literal(&self, literal: &Literal) -> Result<(), String> {
        match &literal.kind {
            LiteralKind::HexFixed(kind) | LiteralKind::HexBrace(kind) if *kind != HexLiteralKind::X => {
                let code = u32::from(literal.c);
                Err(format!("CEL has no `{}` in patterns: write `\\x{{{code:x}}}`", self.text(&literal.span)))
            }
            _ => Ok(()),
        }
    }

    fn assertion(&mut self, assertion: &Assertion) -> Result<(), String> {
        let text = self.text(&assertion.span);
        match assertion.kind {
            AssertionKind::StartLine | AssertionKind::EndLine | AssertionKind::StartText | AssertionKind::EndText => {}
            AssertionKind::WordBoundary => self.replace(&assertion.span, r"(?-u:\b)"),
            AssertionKind::NotWordBoundary => self.replace(&assertion.span, r"(?-u:\B)"),
            AssertionKind::WordBoundaryStartAngle | AssertionKind::WordBoundaryEndAngle => {
                let plain = text.trim_start_matches('\\');
                return Err(format!("`{text}` would be a bound of a word, to CEL it is a character: write `{plain}`"));
            }
            _ => return Err(format!("CEL has no `{text}` in patterns: write `\\b`")),
        }
        Ok(())
    }

    fn flags(&self, flags: &Flags) -> Result<(), String> {
        let is_known = |flag: &Flag| {
            matches!(flag, Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed)
        };
        let mut items = flags.items.iter();
        match items.find(|item| matches!(&item.kind, FlagsItemKind::Flag(flag) if !is_known(flag))) {
            Some(item) => {
                Err(format!("CEL has no flag `{}` in patterns, but i, m, s and U: leave it out", self.text(&item.span)))
            }
            None => Ok(()),
        }
    }

    fn group(&self, group: &Group) -> Result<(), String> {
        match &group.kind {
            GroupKind::CaptureIndex(_) => Ok(()),
            GroupKind::NonCapturing(flags) => self.flags(flags),
            GroupKind::CaptureName { name, .. } => {
                let is_plain = name.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                is_plain.then_some(()).ok_or_else(|| format!("write the name {:?} with A-Z, a-z, 0-9 and _", name.name))
            }
        }
    }

    /// In brackets too this is a class of its own: without brackets around it, a `-` after it could make a range.
    fn perl(&mut self, class: &ClassPerl) {
        let instead = match (&class.kind, class.negated) {
            (ClassPerlKind::Digit, false) => "[0-9]",
            (ClassPerlKind::Digit, true) => "[^0-9]",
            (ClassPerlKind::Space, false) => r"[\t\n\f\r ]",
            (ClassPerlKind::Space, true) => r"[^\t\n\f\r ]",
            (ClassPerlKind::Word, false) => "[0-9A-Za-z_]",
            (ClassPerlKind::Word, true) => "[^0-9A-Za-z_]",
        };
        self.replace(&class.span, instead);
    }

    fn property(&self, class: &ClassUnicode) -> Result<(), String> {
        let is_known = match &class.kind {
            ClassUnicodeKind::OneLetter(letter) => PROPERTIES.contains(&letter.to_string().as_str()),
            ClassUnicodeKind::Named(name) => PROPERTIES.contains(&name.as_str()),
            ClassUnicodeKind::NamedValue { .. } => false,
        };
        is_known.then_some(()).ok_or_else(|| {
            let text = self.text(&class.span);
            format!("`{text}` is not read: write a category such as `\\p{{Lu}}`, or a script such as `\\p{{Greek}}`")
        })
    }

    /// To RE2 `[--/]` and `[]-a]` are ranges, to the engine each of their characters stands for itself.
    fn class(&self, class: &ClassBracketed) -> Result<(), String> {
        let text = self.text(&class.span).strip_prefix('[').unwrap_or_default();
        let first = text.strip_prefix('^').unwrap_or(text);
        for (range, instead) in [("--", "\\-"), ("]-", "\\]")] {
            if first.strip_prefix(range).is_some_and(|rest| !rest.starts_with(']')) {
                return Err(format!("a range from `{}` on is not read: write `{instead}`", &range[..1]));
            }
        }
        Ok(())
    }

    fn repetition(&mut self, repetition: &Repetition) -> Result<(), String> {
        let text = self.text(&repetition.op.span);
        if matches!(*repetition.ast, Ast::Repetition(_)) {
            return Err(format!("`{text}` repeats a repetition: leave it out, or write `(?:a+)+`"));
        }
        let left = self.repeats.last().copied().unwrap_or(MAX_REPEATS);
        let times = match &repetition.op.kind {
            RepetitionKind::Range(range) if is_plain(text) => match *range {
                RepetitionRange::Exactly(most) | RepetitionRange::AtLeast(most) => most,
                RepetitionRange::Bounded(_, most) => most,
            },
            RepetitionKind::Range(_) => {
                return Err(format!("`{text}` is no repetition to CEL: write it without blanks and zeros in front"));
            }
            _ => 1,
        };
        if times > left {
            return Err(format!("`{text}` repeats a part more than {MAX_REPEATS} times"));
        }
        self.repeats.push(left / times.max(1));
        Ok(())
    }
}

/// Whether RE2 too reads this as a repetition: `{ 2 }` and `{02}` are characters to it.
fn is_plain(range: &str) -> bool {
    let numbers = range.trim_end_matches('?').trim_matches(['{', '}']);
    numbers.split(',').all(|number| {
        number.bytes().all(|byte| byte.is_ascii_digit()) && (number.len() < 2 || !number.starts_with('0'))
    })
}

impl Visitor for Reader<'_> {
    type Output = Vec<Edit>;
    type Err = String;

    fn finish(self) -> Result<Vec<Edit>, String> {
        Ok(self.edits)
    }

    fn visit_pre(&mut self, part: &Ast) -> Result<(), String> {
        match part {
            Ast::Literal(literal) => self.literal(literal),
            Ast::Assertion(assertion) => self.assertion(assertion),
            Ast::Flags(set) => self.flags(&set.flags),
            Ast::ClassPerl(class) => {
                self.perl(class);
                Ok(())
            }
            Ast::ClassUnicode(class) => self.property(class),
            Ast::ClassBracketed(class) => self.class(class),
            Ast::Repetition(repetition) => self.repetition(repetition),
            Ast::Group(group) => self.group(group),
            Ast::Empty(_) | Ast::Dot(_) | Ast::Alternation(_) | Ast::Concat(_) => Ok(()),
        }
    }

    fn visit_post(&mut self, part: &Ast) -> Result<(), String> {
        if let Ast::Repetition(_) = part {
            self.repeats.pop();
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), String> {
        match item {
            ClassSetItem::Literal(literal) => self.literal(literal),
            ClassSetItem::Range(range) => self.literal(&range.start).and_then(|()| self.literal(&range.end)),
            ClassSetItem::Unicode(class) => self.property(class),
            ClassSetItem::Perl(class) => {
                self.perl(class);
                Ok(())
            }
            ClassSetItem::Bracketed(_) => Err("a `[` in brackets would open others: write `\\[`".to_owned()),
            ClassSetItem::Ascii(_) | ClassSetItem::Empty(_) | ClassSetItem::Union(_) => Ok(()),
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, operation: &ClassSetBinaryOp) -> Result<(), String> {
        Err(match operation.kind {
            ClassSetBinaryOpKind::Intersection => "`&&` in brackets would be an operator: write `&` once",
            ClassSetBinaryOpKind::Difference => "`--` in brackets would be an operator: write `\\-`",
            ClassSetBinaryOpKind::SymmetricDifference => "`~~` in brackets would be an operator: write `~` once",
        }
        .to_owned())
    }
}

#[cfg(test)]
mod tests;
