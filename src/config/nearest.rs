//! Finds the name that a user probably meant.

/// Returns the candidate that is most similar to `word`, or `None` if no candidate is similar or `word` is longer than
/// 64 bytes.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    if word.len() > LONGEST {
        return None;
    }
    let lower = word.to_lowercase();
    let scored = candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate));
    let near = (word.chars().count() / 3).max(1);
    scored.filter(|(distance, _)| *distance <= near).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_told_from_other_words() {
        let known = ["when", "view", "mode", "failurePolicy"];
        assert_eq!(nearest("whne", known), Some("when"));
        assert_eq!(nearest("failurepolicy", known), Some("failurePolicy"));
        assert_eq!(nearest("failure_policy", known), Some("failurePolicy"));
        assert_eq!(nearest("canary", known), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }
}
