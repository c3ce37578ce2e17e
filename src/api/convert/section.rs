//! A mapping whose fields are taken one after another, so that those left at the end can be named.

use serde_json::{Map, Value};

use super::converted::Converted;

/// A mapping of a source, with its path.
pub(super) struct Section<'a> {
    members: &'a Map<String, Value>,
    path: String,
    taken: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub(super) fn new(members: &'a Map<String, Value>, path: impl Into<String>) -> Self {
        Self { members, path: path.into(), taken: Vec::new() }
    }

    /// Returns the value under the first of these spellings that the mapping has.
    pub(super) fn take(&mut self, names: &[&'static str]) -> Option<&'a Value> {
        self.taken.extend(names);
        names.iter().find_map(|name| self.members.get(*name)).filter(|value| !value.is_null())
    }

    /// Returns a list. Refuses any other value, because what it would restrict is not known.
    pub(super) fn take_list(&mut self, name: &'static str, converted: &mut Converted) -> Option<&'a Vec<Value>> {
        let value = self.take(&[name])?;
        if !value.is_array() {
            converted.refuse(self.field(name), "it is no list");
        }
        value.as_array()
    }

    /// Returns a switch. Refuses any other value.
    pub(super) fn take_bool(&mut self, name: &'static str, converted: &mut Converted) -> Option<bool> {
        let value = self.take(&[name])?;
        if !value.is_boolean() {
            converted.refuse(self.field(name), "it is neither true nor false");
        }
        value.as_bool()
    }

    /// Copies a field into `target` under another name.
    pub(super) fn copy(&mut self, names: &[&'static str], target: &mut Map<String, Value>, name: &str) {
        if let Some(value) = self.take(names) {
            target.insert(name.to_owned(), value.clone());
        }
    }

    /// Leaves out fields that are known, with the reason.
    pub(super) fn leave_out(&mut self, names: &[&'static str], reason: &str, converted: &mut Converted) {
        for name in names {
            if self.take(&[name]).is_some() {
                converted.leave_out(self.field(name), reason);
            }
        }
    }

    /// The path of one of the fields.
    pub(super) fn field(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Leaves out the fields that were not taken.
    pub(super) fn finish(self, converted: &mut Converted) {
        for name in self.members.keys().filter(|name| !self.taken.contains(&name.as_str())) {
            converted.leave_out(self.field(name), "not a field of this form");
        }
    }

    /// Refuses the fields that were not taken, because a misspelt one can have a Guard.
    pub(super) fn finish_strict(self, converted: &mut Converted) {
        for name in self.members.keys().filter(|name| !self.taken.contains(&name.as_str())) {
            converted.refuse(self.field(name), "not a field of this form: correct its name, or remove it");
        }
    }
}
