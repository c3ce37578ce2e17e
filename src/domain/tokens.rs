//! The tokenizer of JSON: nothing else walks through raw JSON text.
//!
//! Most bytes of a large message are in strings. They are read in blocks of 64 bytes: one bit for each byte says whether it is a
//! quote, a backslash or a control character. So an escape takes no longer than other bytes. `simd-json` finds the ends of
//! strings in the same way ("Parsing Gigabytes of JSON per Second", section 3.1).

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, Error, MapDeserializer, StringDeserializer};
use serde_json::value::RawValue;
use wide::u8x16;

/// Maximum nesting depth of JSON that the gateway parses.
pub const MAX_DEPTH: usize = 128;

/// The number of bytes that are read at once.
const BLOCK: usize = 64;
const LANE: usize = 16;
/// The bits at even places.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// A token of a JSON text. Colons and commas are left out.
#[derive(Clone, Copy)]
pub enum JsonToken<'a> {
    /// The beginning of an object.
    Object,
    /// The beginning of an array.
    Array,
    /// The end of an object or array.
    Close,
    /// A string, including its quotes.
    String(&'a str),
    /// A number, `true`, `false` or `null`.
    Other(&'a str),
}

/// Iterates over the tokens of a valid JSON text. Holds what comes after the last one.
pub struct JsonTokens<'a>(pub &'a str);

impl JsonTokens<'_> {
    /// Whether a colon comes next: a string before it is the name of a member.
    pub(super) fn is_before_colon(&self) -> bool {
        self.0.bytes().find(|byte| !is_white(*byte)) == Some(b':')
    }
}

impl<'a> Iterator for JsonTokens<'a> {
    type Item = JsonToken<'a>;

    fn next(&mut self) -> Option<JsonToken<'a>> {
        let bytes = self.0.as_bytes();
        let start = bytes.iter().position(|byte| !is_between(*byte))?;
        let first = bytes[start];
        let length = match first {
            b'{' | b'}' | b'[' | b']' => 1,
            _ => length_of_first(&bytes[start..])?,
        };
        let token = self.0.get(start..start + length)?;
        self.0 = self.0.get(start + length..)?;
        Some(match first {
            b'{' => JsonToken::Object,
            b'[' => JsonToken::Array,
            b'}' | b']' => JsonToken::Close,
            b'"' => JsonToken::String(token),
            _ => JsonToken::Other(token),
        })
    }
}

/// Whether a byte may stand between two tokens.
pub(super) fn is_between(byte: u8) -> bool {
    is_white(byte) || matches!(byte, b',' | b':')
}

fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Returns the length in bytes of the value that `json` begins with, which is valid or breaks off: a string or a number then
/// has all that is left, and an array or object `None`.
pub(super) fn length_of_first(json: &[u8]) -> Option<usize> {
    let (first, mut rest) = json.split_first()?;
    match first {
        b'"' => return Some(json.len() - after_string(rest).len()),
        b'{' | b'[' => {}
        _ => {
            let is_end = |byte: &u8| is_between(*byte) || matches!(byte, b'}' | b']');
            return Some(json.iter().position(is_end).unwrap_or(json.len()));
        }
    }
    let mut depth = 1;
    while depth > 0 {
        let (byte, after) = rest.split_first()?;
        rest = if *byte == b'"' { after_string(after) } else { after };
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    Some(json.len() - rest.len())
}

/// Whether brackets nest deeper than [`MAX_DEPTH`]. Does not check the syntax.
pub fn too_deep(json: &[u8]) -> bool {
    deeper_than(MAX_DEPTH, json)
}

/// Whether brackets nest deeper than `most`.
pub fn deeper_than(most: usize, json: &[u8]) -> bool {
    let (mut depth, mut rest) = (0usize, json);
    while let Some((byte, after)) = rest.split_first() {
        rest = if *byte == b'"' { after_string(after) } else { after };
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > most {
            return true;
        }
    }
    false
}

/// Returns the bytes that follow a string, given the bytes after its opening quote. They are empty if the string breaks off.
fn after_string(rest: &[u8]) -> &[u8] {
    string_end::<false>(rest).and_then(|end| rest.get(end + 1..)).unwrap_or_default()
}

/// Returns the place of the closing quote of a string, given the bytes after its opening quote; `None` if there is none, or if
/// the string is not valid and `CHECKED` is set.
fn string_end<const CHECKED: bool>(rest: &[u8]) -> Option<usize> {
    // Most strings are short.
    if let Some(first) = rest.first_chunk::<LANE>() {
        let lane = u8x16::new(*first);
        let quotes = equal(lane, b'"');
        let others = equal(lane, b'\\') | if CHECKED { controls(lane) } else { 0 };
        let before_quote = (quotes & quotes.wrapping_neg()).wrapping_sub(1);
        if quotes != 0 && others & before_quote == 0 {
            return Some(quotes.trailing_zeros() as usize);
        }
    }
    let mut is_escaped = 0;
    for (number, bytes) in rest.chunks(BLOCK).enumerate() {
        let mut padded = [0; BLOCK];
        let block = bytes.first_chunk::<BLOCK>().unwrap_or_else(|| {
            padded[..bytes.len()].copy_from_slice(bytes);
            &padded
        });
        let (parts, _) = block.as_chunks::<LANE>();
        let lanes = [u8x16::new(parts[0]), u8x16::new(parts[1]), u8x16::new(parts[2]), u8x16::new(parts[3])];
        let (quotes, backslashes) = (bits(&lanes, |lane| equal(lane, b'"')), bits(&lanes, |lane| equal(lane, b'\\')));
        let escaped;
        (escaped, is_escaped) = escaped_by(backslashes, is_escaped);
        let ends = quotes & !escaped;
        let within = (ends & ends.wrapping_neg()).wrapping_sub(1);
        if CHECKED {
            let at = |place: u32| rest.get(number * BLOCK + place as usize + 1..);
            let is_valid = bits(&lanes, controls) & within & length_mask(bytes.len()) == 0
                && are_escapes(&lanes, escaped & within & length_mask(bytes.len()), quotes | backslashes, at);
            if !is_valid {
                return None;
            }
        }
        if ends != 0 {
            return Some(number * BLOCK + ends.trailing_zeros() as usize);
        }
    }
    None
}

fn length_mask(bytes: usize) -> u64 {
    if bytes < BLOCK { (1 << bytes) - 1 } else { u64::MAX }
}

/// Whether the characters at these places may follow a backslash (RFC 8259, section 7). `at` returns the text after a place.
fn are_escapes<'a>(
    lanes: &[u8x16; 4],
    escaped: u64,
    quotes_and_backslashes: u64,
    at: impl Fn(u32) -> Option<&'a [u8]>,
) -> bool {
    if escaped == 0 {
        return true;
    }
    let letters = |lane: u8x16| {
        // `b` and `f` differ in one bit, as do `t` and `u`.
        let (b_or_f, t_or_u) = (lane & u8x16::splat(!4), lane | u8x16::splat(1));
        equal(b_or_f, b'b') | equal(t_or_u, b'u') | equal(lane, b'n') | equal(lane, b'r') | equal(lane, b'/')
    };
    if escaped & !(quotes_and_backslashes | bits(lanes, letters)) != 0 {
        return false;
    }
    let mut unicode = escaped & bits(lanes, |lane| equal(lane, b'u'));
    while unicode != 0 {
        let digits = at(unicode.trailing_zeros()).and_then(|rest| rest.first_chunk::<4>());
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return false;
        }
        unicode &= unicode - 1;
    }
    true
}

fn equal(lane: u8x16, byte: u8) -> u32 {
    lane.simd_eq(u8x16::splat(byte)).to_bitmask()
}

/// The places of the characters that a string cannot have without an escape.
fn controls(lane: u8x16) -> u32 {
    equal(lane & u8x16::splat(0xe0), 0)
}

fn bits(lanes: &[u8x16; 4], of: impl Fn(u8x16) -> u32) -> u64 {
    let [first, second, third, fourth] = lanes.map(|lane| u64::from(of(lane)));
    first | second << LANE | third << (2 * LANE) | fourth << (3 * LANE)
}

/// Returns the places of the characters that follow a backslash which is not escaped itself. `is_escaped` is 1 if the previous
/// block ends in such a backslash; the second number says the same about this block.
fn escaped_by(backslashes: u64, is_escaped: u64) -> (u64, u64) {
    let backslashes = backslashes & !is_escaped;
    let followers = backslashes << 1 | is_escaped;
    // To add the start of a run to the run carries a bit to the place after it.
    let odd_starts = backslashes & !EVEN & !followers;
    let (even_runs, overflows) = odd_starts.overflowing_add(backslashes);
    ((EVEN ^ even_runs << 1) & followers, u64::from(overflows))
}

/// Returns a text as `str` if it is one JSON value (RFC 8259). It can nest as deep as it is long.
pub fn valid(text: &[u8]) -> Option<&str> {
    valid_part(text).ok()
}

/// Returns a text as `str` if it is one JSON value.
///
/// # Errors
/// Returns the text before the first fault: the beginning of a JSON value, or a value with white space after it.
pub(super) fn valid_part(text: &[u8]) -> Result<&str, &str> {
    let (readable, is_readable) = match std::str::from_utf8(text) {
        Ok(text) => (text, true),
        Err(error) => (std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(), false),
    };
    let mut reader = Reader { text: readable.as_bytes(), at: 0 };
    match reader.value().filter(|()| reader.skip_white().is_none()) {
        Some(()) if is_readable => Ok(readable),
        _ => Err(readable.get(..reader.at).unwrap_or_default()),
    }
}

/// The member in which `serde_json` hands a raw value to its visitor.
const NAME: &str = "$serde_json::private::RawValue";

/// Returns a text that [is valid](valid), without surrounding white space, as raw JSON: it is not read again.
pub(super) fn raw(valid: &str) -> Option<&RawValue> {
    let text = BorrowedStrDeserializer::<Error>::new(valid);
    <&RawValue>::deserialize(MapDeserializer::new(std::iter::once((NAME, text)))).ok()
}

/// Returns a text that [is valid](valid), without surrounding white space, as raw JSON of its own.
pub fn owned(valid: String) -> Option<Box<RawValue>> {
    let text = StringDeserializer::<Error>::new(valid);
    <Box<RawValue>>::deserialize(MapDeserializer::new(std::iter::once((NAME, text)))).ok()
}

/// Checks a text against the grammar.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// Reads a value and all that is in it.
    fn value(&mut self) -> Option<()> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.skip_white()? {
                bracket @ (b'{' | b'[') => {
                    self.at += 1;
                    let close = bracket + 2;
                    if self.skip_white()? != close {
                        open.push(close);
                        if bracket == b'{' {
                            self.name()?;
                        }
                        continue;
                    }
                    self.at += 1;
                }
                b'"' => self.string()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => self.number()?,
            }
            loop {
                let Some(&close) = open.last() else { return Some(()) };
                let byte = self.skip_white().filter(|byte| [b',', close].contains(byte))?;
                self.at += 1;
                if byte == close {
                    open.pop();
                    continue;
                }
                if close == b'}' {
                    self.name()?;
                }
                break;
            }
        }
    }

    /// Reads the name of a member, and the colon.
    fn name(&mut self) -> Option<()> {
        self.skip_white().filter(|byte| *byte == b'"')?;
        self.string()?;
        self.skip_white().filter(|byte| *byte == b':')?;
        self.at += 1;
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        let start = self.at + 1;
        self.at = start + string_end::<true>(&self.text[start..])? + 1;
        Some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn number(&mut self) -> Option<()> {
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Some(())
    }

    /// Reads one digit or more.
    fn digits(&mut self) -> Option<()> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        (digits > 0).then_some(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Returns the next byte that is no white space.
    fn skip_white(&mut self) -> Option<u8> {
        self.at += self.text[self.at..].iter().take_while(|byte| is_white(**byte)).count();
        self.peek()
    }
}

#[cfg(test)]
mod tests;
