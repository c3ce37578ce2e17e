//! Splits names and texts into words.

/// The longest word, in bytes. The rest of a longer one is dropped.
const MAX_WORD: usize = 64;

/// Calls `take` with each word of `text`, in lower case, until it returns false. Words are runs of letters and digits;
/// a name such as `listOpenIssues` or `HTTPServer` has several. Scripts without spaces between words have one word for
/// each character. The plural of an English noun is the same word as its singular.
pub(super) fn each_word(text: &str, mut take: impl FnMut(String) -> bool) {
    for run in text.split(|c: char| !c.is_alphanumeric()) {
        let mut rest = run;
        while !rest.is_empty() {
            let (word, after) = rest.split_at(end_of_word(rest));
            rest = after;
            if !take(normalized(word)) {
                return;
            }
        }
    }
}

/// Returns the length in bytes of the first word of a run of letters and digits.
fn end_of_word(run: &str) -> usize {
    let mut chars = run.char_indices().peekable();
    let mut last: Option<char> = None;
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let begins = last.is_some_and(|last| {
            // The last capital of several begins the next word, as in `HTTPServer`.
            let ends_capitals = last.is_uppercase() && c.is_uppercase() && next.is_some_and(char::is_lowercase);
            is_word_alone(last) || is_word_alone(c) || (!last.is_uppercase() && c.is_uppercase()) || ends_capitals
        });
        if begins {
            return at;
        }
        last = Some(c);
    }
    run.len()
}

/// Whether a character is of a script that is written without spaces: Chinese, Japanese, Korean syllables, Thai.
fn is_word_alone(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}'
        | '\u{20000}'..='\u{3134f}')
}

/// Returns a word in lower case, without the ending of an English plural (Harman, "How effective is suffixing?", 1991:
/// the S stemmer).
fn normalized(word: &str) -> String {
    let mut word = word.to_lowercase();
    word.truncate(word.floor_char_boundary(MAX_WORD));
    let length = word.len();
    if length < 4 || !word.is_ascii() {
        return word;
    }
    let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    if ends(&["ies"]) && !ends(&["eies", "aies"]) {
        word.replace_range(length - 3.., "y");
    } else if (ends(&["es"]) && !ends(&["aes", "ees", "oes"])) || (ends(&["s"]) && !ends(&["us", "ss", "es"])) {
        word.truncate(length - 1);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        let mut words = Vec::new();
        each_word(text, |word| {
            words.push(word);
            true
        });
        words.join(" ")
    }

    #[test]
    fn names_and_texts_are_split_into_words() {
        for (text, expected) in [
            ("", ""),
            ("  -- !", ""),
            ("list_open-issues.v2", "list open issue v2"),
            ("listOpenIssues", "list open issue"),
            ("HTTPServer getURL parseJSON5 s3Bucket", "http server get url parse json5 s3 bucket"),
            ("Deletes a user's files, by ID.", "delete a user s file by id"),
            ("queries query status class bus shoes caches", "query query status class bus shoes cache"),
            ("Größe ÄNDERN", "größe ändern"),
            ("天気を調べる weather東京", "天 気 を 調 べ る weather 東 京"),
            ("\u{0130}stanbul", "i\u{307}stanbul"),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
        assert_eq!(words(&"x".repeat(1000)).len(), MAX_WORD);
        assert_eq!(words(&"é".repeat(1000)).len(), MAX_WORD);
    }

    #[test]
    fn words_are_read_as_long_as_they_are_wanted() {
        let mut read = 0;
        each_word("a b c d", |_| {
            read += 1;
            read < 2
        });
        assert_eq!(read, 2);
    }
}
