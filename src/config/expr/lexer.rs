//! Reads the tokens of an expression as the engine's lexer does (`CEL.g4` of cel 0.13).
//!
//! The engine's lexer skips what it cannot read and goes on, so that a quote which opens a text here opens none there. So
//! whatever is no token is refused before the engine sees it, as is each text whose value would be another one than CEL's.

/// Symbols, longer ones first. A lone `=`, `&` or `|` is none.
const OPERATORS: [&str; 16] = ["==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", "."];

/// A token that is neither white space nor a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a keyword other than `in`.
    Word,
    /// A number, text or bytes.
    Literal,
    /// A bracket.
    Open(char),
    Close(char),
    /// An operator, also `.` and `in`.
    Operator(&'static str),
    /// `,` or `:`.
    Separator,
}

/// What is wrong, and how many bytes after the beginning of the token.
type Fault = (usize, String);

/// The tokens of an expression. After an error there are no more that mean anything.
pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// Where the last token begins.
    last: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0, last: 0 }
    }

    /// Returns `what` with the place of the last token.
    pub(super) fn wrong(&self, what: &str) -> String {
        self.wrong_at(self.last, what)
    }

    fn wrong_at(&self, at: usize, what: &str) -> String {
        let before = &self.text[..at];
        let line = before.rsplit('\n').next().unwrap_or_default();
        format!("line {}, column {}: {what}", before.matches('\n').count() + 1, line.chars().count() + 1)
    }

    fn skip_blanks(&mut self) -> Result<(), String> {
        loop {
            let rest = self.text[self.at..].trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']);
            self.at = self.text.len() - rest.len();
            if !rest.starts_with("//") {
                return Ok(());
            }
            let comment = rest.split_once('\n').map_or(rest, |(line, _)| line);
            let is_last = comment.len() == rest.len();
            let line = if is_last { comment } else { comment.strip_suffix('\r').unwrap_or(comment) };
            // It ends the comment in CEL, and not to the engine.
            if let Some(lone) = line.find('\r') {
                let what = "a carriage return in a comment is not read without a line feed after it";
                return Err(self.wrong_at(self.at + lone, what));
            }
            self.at += comment.len();
        }
    }
}

impl<'t> Iterator for Lexer<'t> {
    type Item = Result<Token, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(wrong) = self.skip_blanks() {
            return Some(Err(wrong));
        }
        self.last = self.at;
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return None;
        }
        Some(match token(rest) {
            Ok((token, len)) => {
                self.at += len;
                Ok(token)
            }
            Err((after, what)) => Err(self.wrong_at(self.at + after, &what)),
        })
    }
}

/// Returns the token with which `rest` begins, and its length.
fn token(rest: &str) -> Result<(Token, usize), Fault> {
    if let Some(quotes) = Quotes::of(rest) {
        return Ok((Token::Literal, quotes.end(rest)?));
    }
    let word = count(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_fraction = rest.starts_with('.') && count(&rest[1..], |byte| byte.is_ascii_digit()) > 0;
    Ok(match rest.chars().next().unwrap_or_default() {
        '0'..='9' => (Token::Literal, number(rest)),
        '.' if is_fraction => (Token::Literal, number(rest)),
        '_' | 'a'..='z' | 'A'..='Z' if &rest[..word] == "in" => (Token::Operator("in"), word),
        '_' | 'a'..='z' | 'A'..='Z' => (Token::Word, word),
        c @ ('(' | '[' | '{') => (Token::Open(c), 1),
        c @ (')' | ']' | '}') => (Token::Close(c), 1),
        ',' | ':' => (Token::Separator, 1),
        c => match OPERATORS.into_iter().find(|operator| rest.starts_with(operator)) {
            Some(operator) => (Token::Operator(operator), operator.len()),
            None => return Err((0, no_token(c))),
        },
    })
}

fn no_token(c: char) -> String {
    match c {
        '=' | '&' | '|' => format!("CEL has `{c}{c}`, and no `{c}`"),
        // The engine keeps the quotes in the name, and so finds no member.
        '`' => "a name in back quotes is not read: write x[\"a-b\"], or \"a-b\" in x instead of has".into(),
        _ => format!("CEL has no {c:?} outside of texts"),
    }
}

fn count(text: &str, is_part: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| is_part(*byte)).count()
}

/// Returns the length of the longest number.
fn number(text: &str) -> usize {
    let digits = |from: usize| text.get(from..).map_or(0, |rest| count(rest, |byte| byte.is_ascii_digit()));
    let is = |at: usize, any: &[u8]| text.as_bytes().get(at).is_some_and(|byte| any.contains(byte));
    let hexadecimal = text.strip_prefix("0x").map_or(0, |rest| count(rest, |byte| byte.is_ascii_hexdigit()));
    if hexadecimal > 0 {
        let end = 2 + hexadecimal;
        return end + usize::from(is(end, b"uU"));
    }
    let whole = digits(0);
    let mut end = whole;
    if is(end, b".") && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    if is(end, b"eE") {
        let exponent = end + 1 + usize::from(is(end + 1, b"+-"));
        end = if digits(exponent) > 0 { exponent + digits(exponent) } else { end };
    }
    end + usize::from(end == whole && is(end, b"uU"))
}

/// How a text begins.
struct Quotes {
    is_raw: bool,
    is_bytes: bool,
    quote: char,
    /// One quote or three.
    fence: String,
    /// The length of all that is before the first character.
    begin: usize,
}

impl Quotes {
    fn of(text: &str) -> Option<Self> {
        let after_bytes = text.strip_prefix(['b', 'B']).unwrap_or(text);
        let after = after_bytes.strip_prefix(['r', 'R']).unwrap_or(after_bytes);
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let three = quote.to_string().repeat(3);
        let fence = if after.starts_with(&three) { three } else { quote.to_string() };
        Some(Self {
            is_raw: after.len() < after_bytes.len(),
            is_bytes: after_bytes.len() < text.len(),
            quote,
            begin: text.len() - after.len() + fence.len(),
            fence,
        })
    }

    /// Returns where the text ends.
    fn end(&self, text: &str) -> Result<usize, Fault> {
        let is_three = self.fence.len() > 1;
        if self.is_bytes && (self.is_raw || is_three) {
            return Err((0, "bytes that are raw, or in three quotes, are not read: write b\"...\"".into()));
        }
        let mut at = self.begin;
        loop {
            let rest = &text[at..];
            if rest.starts_with(&self.fence) {
                return Ok(at + self.fence.len());
            }
            at += match rest.chars().next() {
                None => return Err((0, format!("this text has no {} at its end", self.fence))),
                Some('\n' | '\r') if !is_three => return Err((0, "this text does not end in its line".into())),
                // CEL reads it as a line feed, the engine does not.
                Some('\r') => return Err((at, "a carriage return in a text is not read: write \\r".into())),
                Some('\\') => self.escape(rest).map_err(|what| (at, what))?,
                // The engine drops it.
                Some(c) if c == self.quote => return Err((at, self.lone_quote())),
                Some(c) => c.len_utf8(),
            };
        }
    }

    fn lone_quote(&self) -> String {
        let quote = self.quote;
        match self.is_raw {
            true => format!("a {quote} in a raw text of three {quote} is not read: write the text in other quotes"),
            false => format!("a {quote} in a text of three {quote} is not read: write \\{quote}"),
        }
    }

    /// Returns the length of an escape.
    fn escape(&self, text: &str) -> Result<usize, String> {
        let bytes = text.as_bytes();
        let escaped = bytes.get(1).copied().unwrap_or_default();
        let is_quote = char::from(escaped) == self.quote;
        if self.is_raw {
            // The engine drops a backslash before the quote, but for the second of two backslashes.
            return match escaped {
                _ if is_quote => Err("a backslash before the quote is not read in a raw text: leave out the r, and \
                     write \\\\ for a backslash"
                    .into()),
                b'\\' => Ok(2),
                _ => Ok(1),
            };
        }
        let digits = |number: usize, is_digit: fn(&u8) -> bool| {
            let found = bytes[2..].iter().take(number).take_while(|byte| is_digit(byte)).count();
            (found == number).then_some(2 + number)
        };
        let len = match escaped {
            // The engine keeps this backslash.
            b'"' | b'\'' if !is_quote => {
                return Err(format!("write {} without the backslash", char::from(escaped)));
            }
            b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'\\' | b'?' | b'`' | b'"' | b'\'' => Some(2),
            b'x' => digits(2, u8::is_ascii_hexdigit),
            b'u' => character(text, digits(4, u8::is_ascii_hexdigit))?,
            b'U' => character(text, digits(8, u8::is_ascii_hexdigit))?,
            b'X' => return Err("write \\x with a small x".to_owned()),
            b'0'..=b'3' => digits(2, |byte| matches!(byte, b'0'..=b'7')),
            _ => None,
        };
        len.ok_or_else(|| "a backslash stands before what it cannot escape: write \\\\ for one, or r\"...\"".to_owned())
    }
}

/// Returns the length of an escape if it stands for a character.
fn character(text: &str, len: Option<usize>) -> Result<Option<usize>, String> {
    let code = len.and_then(|len| u32::from_str_radix(&text[2..len], 16).ok());
    match code {
        Some(code @ 0xd800..=0xdfff) => Err(format!(
            "U+{code:X} is half of a character (a surrogate): write \\U and the eight digits of the whole one"
        )),
        Some(code) if char::from_u32(code).is_none() => Err(format!("there is no character U+{code:X}")),
        _ => Ok(len),
    }
}

#[cfg(test)]
mod tests;
