//! The positions of a document's values in its file.

use std::collections::BTreeMap;

use serde::Serialize;

/// A line and a column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// The position of a value and of everything in it. A member has the position of its key.
#[derive(Clone, Debug, Default)]
pub struct PositionTree {
    here: Position,
    members: BTreeMap<String, PositionTree>,
    items: Vec<PositionTree>,
}

impl PositionTree {
    pub(super) fn leaf(here: Position) -> Self {
        Self { here, ..Self::default() }
    }

    pub(super) fn moved(self, here: Position) -> Self {
        Self { here, ..self }
    }

    pub(super) fn put_member(&mut self, key: &str, places: Self) {
        self.members.insert(key.to_owned(), places);
    }

    pub(super) fn put_item(&mut self, places: Self) {
        self.items.push(places);
    }

    pub(super) fn member(&self, key: &str) -> Option<Position> {
        self.members.get(key).map(|member| member.here)
    }

    /// The place of the value itself.
    pub fn here(&self) -> Position {
        self.here
    }

    /// The places of what stands under `key`.
    pub fn member_places(&self, key: &str) -> Self {
        self.members.get(key).cloned().unwrap_or_else(|| Self::leaf(self.here))
    }

    /// The places of one item of a list.
    pub fn item_places(&self, index: usize) -> Self {
        self.items.get(index).cloned().unwrap_or_else(|| Self::leaf(self.here))
    }

    /// The place of a field such as `spec.entries[0].when`; of one that is not there, that of what it would stand in.
    pub fn find(&self, field: &str) -> Position {
        let field = field.strip_prefix('.').unwrap_or(field);
        if let Some((index, rest)) = field.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let item = index.parse::<usize>().ok().and_then(|index| self.items.get(index));
            return item.map_or(self.here, |item| item.find(rest));
        }
        // Keys may hold dots: the longest that fits is meant.
        let fits = |key: &str| field.strip_prefix(key).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        let found = self.members.iter().filter_map(|(key, member)| Some((key.len(), member, fits(key)?)));
        found.max_by_key(|(length, ..)| *length).map_or(self.here, |(_, member, rest)| member.find(rest))
    }
}
