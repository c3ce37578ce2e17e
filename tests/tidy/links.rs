//! Links in Markdown files: each leads to a file or folder of the repository, and to a heading that is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::{check, files};

/// The lines of a page, numbered from 1, without those of code blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut within = false;
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        within ^= is_fence;
        !within && !is_fence
    })
}

/// The name by which GitHub links to a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let Some((marks, heading)) = line.split_once(' ') else { continue };
        if marks.is_empty() || !marks.chars().all(|c| c == '#') {
            continue;
        }
        let name = anchor(heading);
        let count = seen.entry(name.clone()).or_default();
        found.insert(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    found
}

/// The targets of the links of a line, as they are written, without those to other sites.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let after = line.split("](").skip(1);
    let written = after.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    written.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn links_lead_to_what_is_there() {
    let all: BTreeMap<PathBuf, String> = files().into_iter().map(|(name, text)| (name.into(), text)).collect();
    let folders: BTreeSet<_> = all.keys().flat_map(|file| file.ancestors().skip(1).map(Path::to_path_buf)).collect();
    let pages = || all.iter().filter(|(name, _)| name.extension().is_some_and(|extension| extension == "md"));
    let links = pages().flat_map(|(_, text)| prose(text)).flat_map(|(_, line)| targets(line)).count();
    assert!(links > 100, "too few links to be all of them: {links}");
    let pages = pages().map(|(name, text)| (name.to_string_lossy().into_owned(), text.clone()));
    check("a link leads nowhere", pages, |name, text, faults| {
        for (number, line) in prose(text) {
            for target in targets(line) {
                let (path, heading) = target.split_once('#').unwrap_or((target, ""));
                let own = Path::new(name);
                let folder = own.parent().unwrap_or(Path::new(""));
                let file = if path.is_empty() { own.to_path_buf() } else { plain(&folder.join(path)) };
                let known = all.get(&file);
                if known.is_none() && !folders.contains(&file) {
                    faults.push((number, format!("{target}: there is no such file")));
                } else if !heading.is_empty() && !known.is_some_and(|text| anchors(text).contains(heading)) {
                    faults.push((number, format!("{target}: there is no such heading")));
                }
            }
        }
    });
}
