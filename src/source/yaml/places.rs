//! Where in a file the parts of a document stand.

use std::collections::BTreeMap;

use serde::Serialize;

/// A line and a column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// The place of a value and of everything in it: of a member that of its key, of an item its own.
#[derive(Clone, Debug, Default)]
pub struct Places {
    here: Place,
    members: BTreeMap<String, Places>,
    items: Vec<Places>,
}

impl Places {
    pub(super) fn leaf(here: Place) -> Self {
        Self { here, ..Self::default() }
    }

    pub(super) fn moved(self, here: Place) -> Self {
        Self { here, ..self }
    }

    pub(super) fn put_member(&mut self, key: &str, places: Self) {
        self.members.insert(key.to_owned(), places);
    }

    pub(super) fn put_item(&mut self, places: Self) {
        self.items.push(places);
    }

    pub(super) fn member(&self, key: &str) -> Option<Place> {
        self.members.get(key).map(|member| member.here)
    }

    /// The place of the value itself.
    pub fn here(&self) -> Place {
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
    pub fn find(&self, field: &str) -> Place {
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
