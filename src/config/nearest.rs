//! Finds the name that a user probably meant.

use std::cell::Cell;

/// The longest word that is compared, in bytes.
const LONGEST: usize = 128;
/// With how many candidates a word is compared exactly.
const COMPARED: usize = 64;
/// The maximum number of names that [`hint`] lists.
const LISTED: usize = 20;

/// Returns the candidate that is most similar to `word`, or `None` if no candidate is similar or `word` is longer than
/// 128 bytes. Many candidates cost little, because only those with about the same letters are compared exactly.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let lower = word.to_lowercase();
    let bounded = candidates.into_iter().filter(|candidate| candidate.len() <= 2 * LONGEST).filter_map(|candidate| {
        let other = candidate.to_lowercase();
        let most = most_slips(&lower, &other);
        let least = least_distance(&lower, &other);
        (least <= most).then_some((least, most, other, candidate))
    });
    let mut similar: Vec<_> = bounded.collect();
    similar.sort_by_key(|(least, ..)| *least);
    let exact = similar.iter().take(COMPARED).filter_map(|(_, most, other, candidate)| {
        let distance = strsim::osa_distance(&lower, other);
        (distance <= *most).then_some((distance, *candidate))
    });
    exact.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// Returns how many slips are likely in `word`: one for each three characters after the beginning that it shares with the
/// other word.
fn most_slips(word: &str, other: &str) -> usize {
    let shared = word.chars().zip(other.chars()).take_while(|(one, two)| one == two).count();
    ((word.chars().count() - shared) / 3).max(1)
}

/// Returns a lower bound of the distance of two words, from how often each letter is in them.
fn least_distance(word: &str, other: &str) -> usize {
    let mut counts = [0_i32; 128];
    let mut count = |text: &str, by| text.bytes().filter(u8::is_ascii).for_each(|byte| counts[usize::from(byte)] += by);
    count(word, 1);
    count(other, -1);
    let sum = |sign: i32| counts.iter().map(|count| (count * sign).max(0)).sum::<i32>();
    usize::try_from(sum(1).max(sum(-1))).unwrap_or(usize::MAX)
}

/// Returns a hint to append to an error about an unknown name: the most similar of `names` or, if no name is similar,
/// all names if there are at most 20.
pub fn hint(wanted: &str, names: &[&str]) -> String {
    match nearest(wanted, names.iter().copied()) {
        Some(near) => format!("; did you mean {near}?"),
        None if names.is_empty() => "; it has none".to_owned(),
        None if names.len() > LISTED => String::new(),
        None => format!("; there are: {}", names.join(", ")),
    }
}

/// Whether a glob is more than a name.
pub fn has_wildcard(glob: &str) -> bool {
    glob.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

/// Finds what was meant by several words, while their comparison does not take long.
#[derive(Debug)]
pub struct BoundedNearest {
    /// With how many more candidates words are compared.
    left: Cell<usize>,
}

impl BoundedNearest {
    /// Compares with at most `most` candidates, of all words together.
    pub fn new(most: usize) -> Self {
        Self { left: Cell::new(most) }
    }

    /// Returns the candidate that is most similar to `word`, like [`nearest`]. `None` also if too much was compared.
    pub fn find<'a>(&self, word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        let candidates: Vec<_> = candidates.into_iter().take(self.left.get() + 1).collect();
        let left = self.left.get().checked_sub(candidates.len())?;
        self.left.set(left);
        nearest(word, candidates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_told_from_other_words() {
        let known = ["when", "view", "mode", "failurePolicy"];
        assert_eq!(nearest("whne", known), Some("when"));
        assert_eq!(nearest("failurepolicy", known), Some("failurePolicy"));
        assert_eq!(nearest("failure_policy", known), Some("failurePolicy"));
        assert_eq!(nearest("canary", known), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
        assert_eq!(nearest("everything__nothing", ["everything__echo"]), None, "only the beginning is the same");
    }

    #[test]
    fn the_most_similar_of_many_is_found() {
        let names: Vec<_> = (0..5000).map(|number| format!("many__t{number}")).collect();
        let names = || names.iter().map(String::as_str);
        assert_eq!(nearest("mnay__t2344", names()), Some("many__t2344"));
        let bounded = BoundedNearest::new(7000);
        assert_eq!(bounded.find("mnay__t2344", names()), Some("many__t2344"));
        assert_eq!(bounded.find("mnay__t2344", names()), None, "that is too many");
    }

    #[test]
    fn a_hint_names_the_nearest_or_all() {
        assert_eq!(hint("redcat", &["redact", "shout"]), "; did you mean redact?");
        assert_eq!(hint("other", &["redact", "shout"]), "; there are: redact, shout");
        assert_eq!(hint("other", &[]), "; it has none");
    }
}
