//! What the next plans are made for, as the log says it.

use crate::domain::ids::ObjectId;

/// Maximum number of changed objects that are named.
const MAX_NAMED: usize = 8;

/// What has changed since plans were last made.
#[derive(Default)]
pub(super) struct Causes {
    /// The names of the first [`MAX_NAMED`] objects that changed.
    edited: Vec<String>,
    /// Number of changes of objects besides these.
    more: usize,
    /// Whether something changed that objects refer to, and none of the objects themselves.
    referred: bool,
    /// Whether there are news of code that is parsed, or of plugins that pods cannot load.
    code: bool,
}

impl Causes {
    /// Adds what a round found.
    pub(super) fn add(&mut self, edited: &[ObjectId], referred: bool, code: bool) {
        for name in edited.iter().map(ToString::to_string) {
            match self.edited.len() < MAX_NAMED {
                _ if self.edited.contains(&name) => {}
                true => self.edited.push(name),
                false => self.more += 1,
            }
        }
        self.referred |= referred && edited.is_empty();
        self.code |= code;
    }

    /// Forgets everything, because another process makes plans.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns what has changed, and forgets it.
    pub(super) fn take(&mut self) -> String {
        let Self { mut edited, more, referred, code } = std::mem::take(self);
        if more > 0 {
            edited.push(format!("and {more} more"));
        }
        let others = [(referred, "what objects refer to"), (code, "code that was parsed, or that pods cannot load")];
        edited.extend(others.into_iter().filter(|(is, _)| *is).map(|(_, what)| what.to_owned()));
        if edited.is_empty() { "this operator leads now".to_owned() } else { edited.join(", ") }
    }
}

/// Returns the names of the first objects of a list.
pub(super) fn names(objects: &[ObjectId]) -> String {
    let names: Vec<_> = objects.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{Kind, ObjectKey};

    #[test]
    fn what_changed_in_several_rounds_is_told_once_and_within_bounds() {
        let plugin = |number: usize| ObjectId::new(Kind::Plugin, ObjectKey::new("mcp", format!("p-{number}")));
        let mut causes = Causes::default();
        assert_eq!(causes.take(), "this operator leads now");
        causes.add(&[plugin(1)], false, false);
        causes.add(&[plugin(1)], true, false);
        assert_eq!(causes.take(), "Plugin mcp/p-1", "an edit may refer to something else");
        causes.add(&[plugin(1)], false, false);
        causes.add(&[], true, false);
        assert_eq!(causes.take(), "Plugin mcp/p-1, what objects refer to");
        causes.add(&(0..5000).map(plugin).collect::<Vec<_>>(), false, true);
        let told = causes.take();
        assert!(told.starts_with("Plugin mcp/p-0, ") && told.contains("Plugin mcp/p-7, and 4992 more, code"), "{told}");
        causes.add(&[plugin(1)], true, true);
        causes.clear();
        assert_eq!(causes.take(), "this operator leads now");
    }
}
