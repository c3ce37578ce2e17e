//! What is known of a plugin's words: whose they are, and which values must not be seen in them.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::installed_code::InstalledCode;
use crate::domain::ports::LinkedPlugin;
use crate::domain::secret::Mask;

/// A plugin's name, and its environment, which no log line, error or record of it shows. Nor do they show the private
/// folder that its code lies in: what is in that goes by its own name there.
#[derive(Clone, Debug)]
pub struct LogMask {
    name: String,
    mask: Mask,
    /// Beginnings of paths and URLs, the longer ones first.
    folders: Arc<[String]>,
}

impl LogMask {
    /// That of `plugin`.
    pub fn of(plugin: &LinkedPlugin) -> Self {
        let mask = Mask::of(plugin.env.iter().map(|(_, value)| value));
        Self { name: plugin.plan.key.to_string(), mask, folders: Arc::default() }
    }

    /// The same of a process that runs `code`.
    pub fn running(self, code: &InstalledCode) -> Self {
        let beginnings = |folder: &Path| [format!("file://{}/", folder.display()), format!("{}/", folder.display())];
        let folders = [beginnings(code.folder()), beginnings(code.parent().path())].concat();
        Self { folders: folders.into(), ..self }
    }

    /// The plugin, as `namespace/name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `text` without the values of the environment and the names of private folders.
    pub fn masked<'a>(&self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        let masked = self.mask.masked(text);
        let held = self.folders.iter().filter(|folder| masked.contains(folder.as_str()));
        let held: Vec<_> = held.collect();
        held.into_iter().fold(masked, |text, folder| Cow::Owned(text.replace(folder.as_str(), "")))
    }

    /// The same for a JSON text; none where it cannot be read.
    pub fn masked_json(&self, json: Box<RawValue>) -> Option<Box<RawValue>> {
        self.mask.masked_json(json)
    }
}

impl LogMask {
    /// One of a plugin that is only a name.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), mask: Mask::default(), folders: Arc::default() }
    }
}
