//! For every line of random documents, the binding that counts is the one that a naive evaluation finds.

use super::*;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{SectionHeading, SectionPart};
use crate::domain::section::PlaceHeading;

/// A small pseudorandom generator (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides).unwrap()
    }
}

const NAME: &str = "runbooks/a.md";
const GLOBS: [&str; 4] = [NAME, "runbooks/*.md", "**", "other/*"];
const TEXTS: [&str; 3] = ["Deploy", "Database", "Notes"];
const BLOCKS: [&str; 3] = ["checks", "steps", "end"];

/// A line of a document.
#[derive(Clone, Copy)]
enum Line {
    Heading(&'static str, u32),
    Block(&'static str),
    Text,
}

fn document(dice: &mut Dice) -> Vec<Line> {
    let line = |_| match dice.roll(6) {
        0 | 1 => Line::Heading(TEXTS[dice.roll(3)], 1 + u32::try_from(dice.roll(4)).unwrap()),
        2 => Line::Block(BLOCKS[dice.roll(3)]),
        _ => Line::Text,
    };
    (0..40).map(line).collect()
}

fn binding(dice: &mut Dice, number: usize) -> SectionPlan {
    let part = match dice.roll(4) {
        0 => SectionPart::Block { id: BLOCKS[dice.roll(3)].to_owned() },
        1 => {
            let start = 1 + u32::try_from(dice.roll(35)).unwrap();
            SectionPart::Range { start, end: start + 1 + u32::try_from(dice.roll(10)).unwrap() }
        }
        _ => {
            let level = [None, Some(1), Some(2), Some(3)][dice.roll(4)];
            SectionPart::Heading(SectionHeading { text: TEXTS[dice.roll(3)].to_owned(), level })
        }
    };
    SectionPlan {
        key: ObjectKey::new("ns", format!("b{number}")),
        glob: GLOBS[dice.roll(4)].to_owned(),
        part,
        inherits: dice.roll(2) == 0,
        upstream: ObjectKey::new("ns", format!("up{}", dice.roll(4))),
        refusing: None,
    }
}

/// The place of a line, as a client derives it: with the stack of headings above it.
fn place(document: &[Line], index: usize) -> Place {
    let mut headings: Vec<PlaceHeading> = Vec::new();
    for line in &document[..=index] {
        if let Line::Heading(text, level) = *line {
            headings.retain(|above| above.level < level);
            headings.push(PlaceHeading { text: text.to_owned(), level });
        }
    }
    let block = if let Line::Block(id) = document[index] { Some(id.to_owned()) } else { None };
    Place { document: NAME.to_owned(), headings, block, line: u32::try_from(index + 1).ok() }
}

/// How specifically a binding covers a line, from the extents of the sections of the document: the kind of its part, then how
/// much is in favour of it among others of that kind.
fn naive(document: &[Line], index: usize, binding: &SectionPlan) -> Option<(u8, usize, bool, bool)> {
    let is_exact = binding.glob == NAME;
    if binding.glob == "other/*" {
        return None;
    }
    match &binding.part {
        SectionPart::Block { id } => {
            matches!(document[index], Line::Block(of) if of == id).then_some((4, 0, false, is_exact))
        }
        SectionPart::Range { start, end } => {
            let lines = usize::try_from(end - start).unwrap();
            let is_in = usize::try_from(*start).unwrap() <= index + 1 && index < usize::try_from(*end).unwrap();
            is_in.then_some((3, 1000 - lines, false, is_exact))
        }
        SectionPart::Heading(SectionHeading { text, level }) => {
            let own = |at: usize, of: u32| {
                let below = document[at + 1..=index].iter();
                let levels =
                    below.filter_map(|line| if let Line::Heading(_, level) = line { Some(*level) } else { None });
                let levels: Vec<_> = levels.collect();
                levels.is_empty().then_some(2).or((binding.inherits && levels.iter().all(|it| *it > of)).then_some(1))
            };
            let found = document[..=index].iter().enumerate().filter_map(|(at, line)| match *line {
                Line::Heading(of, deep) if of == text && level.is_none_or(|level| level == deep) => {
                    let kind = own(at, deep)?;
                    Some((kind, if kind == 1 { at } else { 0 }, level.is_some(), is_exact))
                }
                _ => None,
            });
            found.max()
        }
    }
}

#[test]
fn the_binding_that_counts_is_the_one_of_a_naive_evaluation() {
    let (mut bound, mut contested) = (0, 0);
    for seed in 0..500 {
        let mut dice = Dice(seed);
        let lines = document(&mut dice);
        let bindings: Vec<_> = (0..10).map(|number| binding(&mut dice, number)).collect();
        let sections = Sections::new(&bindings);
        for index in 0..lines.len() {
            let scores = bindings.iter().filter_map(|binding| Some((naive(&lines, index, binding)?, &binding.key)));
            let scores: Vec<_> = scores.collect();
            let best = scores.iter().map(|(score, _)| score).max();
            let expected = scores.iter().find(|(score, _)| Some(score) == best).map(|(_, key)| *key);
            let place = place(&lines, index);
            let found = sections.covering(&place);
            assert_eq!(found.first().map(|plan| &plan.key), expected, "seed {seed}, {place}: {bindings:#?}");
            assert_eq!(found.len(), scores.len());
            bound += usize::from(expected.is_some());
            contested += usize::from(scores.len() > 1);
        }
    }
    assert!(bound > 5000 && contested > 3000, "{bound} {contested}");
}

#[test]
fn a_star_stops_at_a_slash_and_two_do_not() {
    for (glob, name, expected) in [
        ("runbooks/**/*.md", "runbooks/a.md", true),
        ("runbooks/**/*.md", "runbooks/db/x/a.md", true),
        ("runbooks/*.md", "runbooks/db/a.md", false),
        ("**/scratch.md", "scratch.md", true),
        ("**/scratch.md", "a/b/scratch.md", true),
        ("*", "a/b.md", false),
        ("**", "a/b.md", true),
        ("a.md", "b/a.md", false),
        ("{a,b}.md", "b.md", true),
        ("A.md", "a.md", false),
    ] {
        assert_eq!(document_glob(glob).unwrap().is_match(name), expected, "{glob} {name}");
    }
    assert!(document_glob("[").unwrap_err().starts_with("\"[\" is not a glob"));
}
