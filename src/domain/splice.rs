//! Replaces parts of a text. Everything else keeps its bytes.

/// A text of which parts are being replaced, from its beginning to its end.
pub struct Splice<'a> {
    text: &'a str,
    new: String,
    /// How many bytes of `text` are copied or replaced.
    done: usize,
}

impl<'a> Splice<'a> {
    /// Begins with the text as it is.
    pub fn new(text: &'a str) -> Self {
        Self { text, new: String::new(), done: 0 }
    }

    /// Returns where a slice of `text` begins in it.
    pub fn place(text: &str, part: &str) -> usize {
        part.as_ptr() as usize - text.as_ptr() as usize
    }

    /// Puts `new` in the place of a slice of the text, which is behind all that were replaced before.
    pub fn replace(&mut self, part: &str, new: &str) {
        let place = Self::place(self.text, part);
        self.new.push_str(&self.text[self.done..place]);
        self.new.push_str(new);
        self.done = place + part.len();
    }

    /// Returns the new text; `None` if nothing was replaced.
    pub fn finish(self) -> Option<String> {
        (self.done > 0).then(|| self.new + &self.text[self.done..])
    }
}
