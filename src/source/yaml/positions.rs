//! The positions of a document's values in its file.

use std::collections::BTreeMap;

use serde::Serialize;

/// A line and a column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

/// The position of a value and of everything inside it. A member of a mapping has the position of its key.
#[derive(Clone, Debug, Default)]
pub struct PositionTree {
    here: Position,
    members: BTreeMap<String, PositionTree>,
    items: Vec<PositionTree>,
}

impl PositionTree {
    pub(in crate::source) fn leaf(here: Position) -> Self {
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

    /// Returns the position of the value itself.
    pub fn here(&self) -> Position {
        self.here
    }

    /// Returns the positions of the value under `key`, or only this value's own position if there is no such key.
    pub fn member_places(&self, key: &str) -> Self {
        self.members.get(key).cloned().unwrap_or_else(|| Self::leaf(self.here))
    }

    /// Returns the positions of one item of a list, or only the list's own position if there is no such item.
    pub fn item_places(&self, index: usize) -> Self {
        self.items.get(index).cloned().unwrap_or_else(|| Self::leaf(self.here))
    }

    /// Returns the position of a field such as `spec.entries[0].when`. For a field that does not exist, returns the
    /// position of the innermost existing value on the path to it.
    pub fn find(&self, field: &str) -> Position {
        let field = field.strip_prefix('.').unwrap_or(field);
        if let Some((index, rest)) = field.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let item = index.parse::<usize>().ok().and_then(|index| self.items.get(index));
            return item.map_or(self.here, |item| item.find(rest));
        }
        // Keys can contain dots, so the longest key that matches wins.
        let fits = |key: &str| field.strip_prefix(key).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        let found = self.members.iter().filter_map(|(key, member)| Some((key.len(), member, fits(key)?)));
        found.max_by_key(|(length, ..)| *length).map_or(self.here, |(_, member, rest)| member.find(rest))
    }
}
