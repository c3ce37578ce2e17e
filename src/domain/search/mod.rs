//! A full-text index that ranks documents by BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25
//! and Beyond", 2009). The fields of a document have weights, which multiply how often a word occurs.

mod words;

use std::collections::HashMap;

use self::words::each_word;

/// How soon more occurrences of a word in one document count less (`k1`).
const SATURATION: f32 = 1.2;
/// How much the length of a document counts (`b`), from 0 to 1.
const LENGTH: f32 = 0.75;
/// The maximum number of words of one document. The rest is not found.
const MAX_WORDS: usize = 4096;
/// The maximum number of different words of a query. The rest is ignored.
const MAX_QUERY: usize = 64;
/// The memory that a word takes besides its text, in bytes, and what it takes in each document.
const WORD: usize = 96;
const POSTING: usize = 16;
/// The memory that a document takes besides its words, in bytes.
const DOCUMENT: usize = 4;

/// A text of a document, and how much a word in it counts.
pub type Field<'a> = (&'a str, f32);

/// An index of documents, which have numbers in the order in which they were added.
#[derive(Debug, Default)]
pub struct SearchIndex {
    postings: HashMap<Box<str>, Vec<Posting>>,
    /// The weighted number of words of each document.
    lengths: Vec<f32>,
    /// The sum of the lengths.
    total: f32,
    bytes: usize,
}

/// One document that has a word.
#[derive(Clone, Copy, Debug)]
struct Posting {
    document: u32,
    /// How often the document has the word, weighted.
    count: f32,
}

impl SearchIndex {
    /// Adds a document, unless the index would then take more than `most` bytes. Returns whether it was added.
    pub fn add<'a>(&mut self, fields: impl IntoIterator<Item = Field<'a>>, most: usize) -> bool {
        let Ok(document) = u32::try_from(self.lengths.len()) else { return false };
        let (mut counts, mut length, mut words): (HashMap<String, f32>, f32, usize) = (HashMap::new(), 0.0, 0);
        for (text, weight) in fields {
            each_word(text, |word| {
                words += 1;
                if words <= MAX_WORDS {
                    length += weight;
                    *counts.entry(word).or_default() += weight;
                }
                words < MAX_WORDS
            });
        }
        let new = counts.keys().filter(|word| !self.postings.contains_key(word.as_str()));
        let new: usize = new.map(|word| WORD + word.len()).sum();
        let bytes = self.bytes + DOCUMENT + new + counts.len() * POSTING;
        if bytes > most {
            return false;
        }
        for (word, count) in counts {
            self.postings.entry(word.into_boxed_str()).or_default().push(Posting { document, count });
        }
        self.lengths.push(length);
        self.total += length;
        self.bytes = bytes;
        true
    }

    /// About how much memory the index takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the numbers of the documents that fit the query, the one that fits best first. A document fits if it has a
    /// word of the query. Of documents that fit equally well, the one that was added first comes first.
    pub fn search(&self, query: &str) -> Vec<u32> {
        let mut wanted: Vec<String> = Vec::new();
        each_word(query, |word| {
            if !wanted.contains(&word) {
                wanted.push(word);
            }
            wanted.len() < MAX_QUERY
        });
        let mut scores: HashMap<u32, f32> = HashMap::new();
        for postings in wanted.iter().filter_map(|word| self.postings.get(word.as_str())) {
            let rarity = self.rarity(postings.len());
            for posting in postings {
                *scores.entry(posting.document).or_default() += rarity * self.share(posting);
            }
        }
        let mut found: Vec<_> = scores.into_iter().collect();
        found.sort_unstable_by(|(a, of_a), (b, of_b)| of_b.total_cmp(of_a).then(a.cmp(b)));
        found.into_iter().map(|(document, _)| document).collect()
    }

    /// How much a word counts that so many documents have (the inverse document frequency).
    #[allow(clippy::cast_precision_loss)]
    fn rarity(&self, documents: usize) -> f32 {
        let (all, having) = (self.lengths.len() as f32, documents as f32);
        (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
    }

    /// How much a word counts in a document.
    #[allow(clippy::cast_precision_loss)]
    fn share(&self, posting: &Posting) -> f32 {
        let average = (self.total / self.lengths.len() as f32).max(1.0);
        let length = self.lengths.get(posting.document as usize).copied().unwrap_or(average);
        let count = posting.count;
        count * (SATURATION + 1.0) / (count + SATURATION * (1.0 - LENGTH + LENGTH * length / average))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(documents: &[&[Field<'_>]]) -> SearchIndex {
        let mut index = SearchIndex::default();
        for document in documents {
            assert!(index.add(document.iter().copied(), usize::MAX));
        }
        index
    }

    #[test]
    fn what_fits_better_comes_first() {
        let index = index(&[
            &[("delete_file", 5.0), ("Deletes a file.", 2.0)],
            &[("read_file", 5.0), ("Reads a file of the disk, and never deletes one.", 2.0)],
            &[("send_mail", 5.0), ("Sends a mail to an address.", 2.0)],
            &[("list_files", 5.0), ("Lists the files of a folder.", 2.0)],
        ]);
        assert_eq!(index.search("delete file"), [0, 1, 3]);
        assert_eq!(index.search("which tool reads files?")[0], 1);
        assert_eq!(index.search("FILES"), [0, 3, 1]);
        assert_eq!(index.search("mailAddress"), [2]);
        for nothing in ["", "  ", "calendar", "\u{0}"] {
            assert!(index.search(nothing).is_empty(), "{nothing}");
        }
        assert!(SearchIndex::default().search("file").is_empty());
    }

    #[test]
    fn a_rare_word_counts_more_than_a_frequent_one_and_a_short_text_more_than_a_long_one() {
        let long = format!("get data {}", "of some kind ".repeat(50));
        let index = index(&[&[("get data", 1.0)], &[("get invoice", 1.0)], &[("get data", 1.0)], &[(&long, 1.0)]]);
        assert_eq!(index.search("get invoice")[0], 1);
        assert_eq!(index.search("data")[..2], [0, 2], "ties are in order");
    }

    /// The value is computed by hand from the formula: two documents of length 1 and 3, of which the first has the word
    /// once.
    #[test]
    fn scores_follow_the_formula() {
        let index = index(&[&[("a", 1.0)], &[("b c d", 1.0)]]);
        let posting = index.postings["a"][0];
        let rarity = (1.0_f32 + 1.5 / 1.5).ln();
        let share = 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * 0.5));
        assert!((index.rarity(1) - rarity).abs() < 1e-6);
        assert!((index.share(&posting) - share).abs() < 1e-6);
    }

    #[test]
    fn an_index_is_bounded() {
        let mut index = SearchIndex::default();
        let texts: Vec<_> = (0..1000).map(|n| format!("word{n} other{n}")).collect();
        let added = texts.iter().filter(|text| index.add([(text.as_str(), 1.0)], 64 << 10)).count();
        assert!((100..500).contains(&added), "{added}");
        assert!(index.bytes() <= 64 << 10);
        assert!(index.search("word999").is_empty() && index.search("word0") == [0]);
        let long: String = (0..10_000).map(|n| format!("w{n} ")).collect();
        let mut index = SearchIndex::default();
        assert!(index.add([(long.as_str(), 1.0)], usize::MAX));
        assert_eq!(index.postings.len(), MAX_WORDS);
        assert_eq!(index.search(&format!("{long} w0")), [0]);
    }
}
