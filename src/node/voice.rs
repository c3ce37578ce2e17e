//! What is known of a plugin's words: whose they are, and which values must not be seen in them.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::domain::ports::LinkedPlugin;
use crate::domain::secret::Mask;

/// A plugin's name, and its environment, which no log line, error or record of it shows.
#[derive(Clone, Debug)]
pub struct Voice {
    name: String,
    mask: Mask,
}

impl Voice {
    /// That of `plugin`.
    pub fn of(plugin: &LinkedPlugin) -> Self {
        Self { name: plugin.plan.key.to_string(), mask: Mask::of(plugin.env.iter().map(|(_, value)| value)) }
    }

    /// The plugin, as `namespace/name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `text` without the values of the environment.
    pub fn masked<'a>(&self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        self.mask.masked(text)
    }

    /// The same for a JSON text; none where it cannot be read.
    pub fn masked_json(&self, json: Box<RawValue>) -> Option<Box<RawValue>> {
        self.mask.masked_json(json)
    }
}

impl Voice {
    /// One of a plugin that is only a name.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), mask: Mask::default() }
    }
}
