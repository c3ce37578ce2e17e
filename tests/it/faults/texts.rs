//! Texts that are JSON, or nearly.

/// Numbers, the last of them none.
const NUMBERS: [&str; 34] = [
    "0",
    "-0",
    "1",
    "-1",
    "1.0",
    "-1.50",
    "0.1",
    "1E5",
    "1e+5",
    "2.5e-3",
    "9007199254740991",
    "9007199254740993",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890",
    "4.9e-324",
    "2.2250738585072011e-308",
    "1.7976931348623157e308",
    "1e-400",
    "1e400",
    "-1e400",
    "0.30000000000000004",
    "01",
    "1.",
    ".5",
    "+1",
    "0x10",
    "1e",
    "--1",
    "NaN",
    "-Infinity",
    "1_000",
];
const NO_NUMBERS: usize = 10;

/// Parts of strings, the last of them of none.
const PARTS: [&str; 22] = [
    "a",
    "é",
    "😀",
    "\u{2028}",
    "\u{7f}",
    "\u{feff}",
    "\\n",
    "\\u0041",
    "\\ud83d\\ude00",
    "\\ud800",
    "\\udc00x",
    "\\u0000",
    "\\/",
    "\\\"",
    "__proto__",
    "\n",
    "\t",
    "\u{1}",
    "\\x",
    "\\u12",
    "\\",
    "\"",
];
const NO_PARTS: usize = 7;

const SPACES: [&str; 12] = ["", "", "", "", " ", "\n", "\t\r ", "  ", "\u{a0}", "\u{feff}", "\u{b}", "/**/"];
const NO_SPACES: usize = 4;

const WORDS: [&str; 8] = ["null", "true", "false", "nul", "True", "undefined", "'a'", "\u{0}"];
const NO_WORDS: usize = 5;

/// Keys that stand twice, or mean something to JavaScript, are among them.
const KEYS: [&str; 8] = ["a", "b", "__proto__", "constructor", "toJSON", "1", "", "\\u0061"];

/// An endless sequence of them. The same seed gives the same.
pub struct Generator(pub u64);

impl Iterator for Generator {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut text = String::new();
        self.space(&mut text);
        self.value(&mut text, 0);
        self.space(&mut text);
        if self.below(4) == 0 {
            self.damage(&mut text);
        }
        Some(text)
    }
}

impl Generator {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    /// One of `all`; of those at its end, which are `wrong`, seldom.
    fn pick(&mut self, all: &[&'static str], wrong: usize) -> &'static str {
        let right = all.len() - wrong;
        match wrong > 0 && self.below(60) == 0 {
            true => all[right + self.below(wrong)],
            false => all[self.below(right)],
        }
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(self.pick(&SPACES, NO_SPACES));
    }

    fn value(&mut self, out: &mut String, depth: usize) {
        match self.below(if depth > 4 { 6 } else { 10 }) {
            0 => out.push_str(self.pick(&WORDS, NO_WORDS)),
            1 | 2 => out.push_str(self.pick(&NUMBERS, NO_NUMBERS)),
            3 => self.digits(out),
            4 | 5 => self.string(out),
            6 if self.below(20) == 0 => {
                let levels = 100 + self.below(200);
                out.push_str(&"[".repeat(levels));
                out.push_str(&"]".repeat(levels));
            }
            6 | 7 => self.list(out, depth, '[', ']'),
            _ => self.list(out, depth, '{', '}'),
        }
    }

    fn list(&mut self, out: &mut String, depth: usize, open: char, close: char) {
        out.push(open);
        for item in 0..self.below(4) {
            if item > 0 {
                out.push(',');
            }
            self.space(out);
            if open == '{' {
                out.push_str(&format!("\"{}\"", self.pick(&KEYS, 0)));
                self.space(out);
                out.push(':');
                self.space(out);
            }
            self.value(out, depth + 1);
            self.space(out);
        }
        out.push(close);
    }

    fn digits(&mut self, out: &mut String) {
        for _ in 0..=self.below(25) {
            out.push(char::from(b'1' + u8::try_from(self.below(9)).unwrap()));
        }
        if self.below(2) == 0 {
            out.push_str(&format!(".{}", self.below(1_000_000_000)));
        }
        if self.below(3) == 0 {
            out.push_str(&format!("e-{}", self.below(330)));
        }
    }

    fn string(&mut self, out: &mut String) {
        out.push('"');
        for _ in 0..self.below(5) {
            out.push_str(self.pick(&PARTS, NO_PARTS));
        }
        out.push('"');
    }

    /// Takes a character away, puts one in, or cuts the text.
    fn damage(&mut self, text: &mut String) {
        let mut all: Vec<char> = text.chars().collect();
        let at = self.below(all.len() + 1);
        match self.below(3) {
            0 if at < all.len() => drop(all.remove(at)),
            1 => all.truncate(at),
            _ => all.insert(at, ['"', '\\', ',', '}', ']', '[', '-', '0', 'e', '\u{0}'][self.below(10)]),
        }
        *text = all.into_iter().collect();
    }
}
