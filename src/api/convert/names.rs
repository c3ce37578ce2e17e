//! Names of objects for names of other forms.

/// Returns the name of an object for a name such as `My Server`: at most `max` characters of `a-z`, `0-9` and `-`, a letter
/// first, as [DNS labels](https://www.rfc-editor.org/rfc/rfc1035#section-2.3.1) have them.
pub(super) fn object_name(name: &str, max: usize) -> String {
    let mut made = String::new();
    for c in name.chars().map(|c| c.to_ascii_lowercase()) {
        match c {
            'a'..='z' | '0'..='9' => made.push(c),
            _ if made.is_empty() || made.ends_with('-') => {}
            _ => made.push('-'),
        }
    }
    if !made.starts_with(|c: char| c.is_ascii_lowercase()) {
        made.insert_str(0, "s-");
    }
    made.truncate(max);
    made.trim_end_matches('-').to_owned()
}

/// Whether a label can have this value (Kubernetes, labels and selectors).
pub(super) fn is_label_value(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= 63 && is_end(text.chars().next()) && is_end(text.chars().last()) && text.chars().all(is_inner)
}
