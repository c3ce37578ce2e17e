//! Removes secrets and private paths from what a plugin writes.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::installed_code::InstalledCode;
use crate::domain::ports::LinkedPlugin;
use crate::domain::secret::Mask;

/// A plugin's name, and the values of its environment, which must not appear in any log line, error or record. The
/// paths of the plugin's private code folders are removed too, so that files in these folders appear with their plain
/// names.
#[derive(Clone, Debug)]
pub struct LogMask {
    name: String,
    mask: Mask,
    /// Prefixes of paths and URLs that are removed, the longer ones first.
    folders: Arc<[String]>,
}

impl LogMask {
    /// Creates the mask of `plugin`.
    pub fn of(plugin: &LinkedPlugin) -> Self {
        let mask = Mask::of(plugin.env.iter().map(|(_, value)| value));
        Self { name: plugin.plan.key.to_string(), mask, folders: Arc::default() }
    }

    /// Returns this mask, changed so that it also removes the paths of the private folders that a worker needs to run
    /// `code`: the folder of the entry file, and the folder of the host scripts.
    pub fn running(self, code: &InstalledCode) -> Self {
        let beginnings = |folder: &Path| [format!("file://{}/", folder.display()), format!("{}/", folder.display())];
        let folders = [beginnings(code.folder()), beginnings(code.parent().path())].concat();
        Self { folders: folders.into(), ..self }
    }

    /// The plugin, as `namespace/name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns `text` without the values of the environment and the paths of private folders.
    pub fn masked<'a>(&self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        let masked = self.mask.masked(text);
        let held = self.folders.iter().filter(|folder| masked.contains(folder.as_str()));
        let held: Vec<_> = held.collect();
        held.into_iter().fold(masked, |text, folder| Cow::Owned(text.replace(folder.as_str(), "")))
    }

    /// Removes the values of the environment from a JSON text.
    pub fn masked_json(&self, json: Box<RawValue>) -> Box<RawValue> {
        self.mask.masked_json(json)
    }
}

impl LogMask {
    /// Creates a mask that has only the plugin's name and removes nothing.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), mask: Mask::default(), folders: Arc::default() }
    }
}
