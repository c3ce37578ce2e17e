//! Plugins that are found in folders (`discovery: Directory`), as inputs of the compiler.

use std::path::Path;

use serde_json::{Value, json};

use super::discovery::{Discovered, DiscoverySettings, LeftOut, discover};
use super::folder_plugin::FoundPlugin;
use super::folders::Folders;
use super::load::LoadedManifests;
use super::located::Located;
use crate::api::lower::{self, Lowered, ManifestSource};
use crate::config::input::{GatewayInput, InvalidObject, PluginInput};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::problem::{Level, Problem};
use crate::domain::reason::Reason;

/// The largest code that an object can hold, in bytes.
const MAX_INLINE: usize = 128 << 10;

/// The plugins of the folders of a gateway.
#[derive(Default)]
pub(super) struct FoundPlugins {
    pub(super) plugins: Vec<PluginInput>,
    pub(super) invalid: Vec<InvalidObject>,
    pub(super) problems: Vec<Located>,
    pub(super) folders: Folders,
}

/// Looks for plugins, if the gateway does. Objects of the same name take precedence.
pub(super) fn found(gateway: Option<&GatewayInput>, loaded: &LoadedManifests) -> FoundPlugins {
    let Some(gateway) = gateway.filter(|gateway| gateway.discovers) else { return FoundPlugins::default() };
    let folder = &gateway.plan.runtime.plugin_dir;
    let Discovered { plugins, left_out, files, folders } =
        discover(&DiscoverySettings { folder: folder.clone(), catalogue: None, packages: true });
    let mut found = FoundPlugins::default();
    for LeftOut { file, why, name, is_conflict } in left_out {
        let reason = if is_conflict { Reason::NameConflict } else { Reason::InvalidDescriptor };
        let key = name.map(|name| ObjectKey::new(gateway.plan.key.namespace.clone(), name));
        let id = key.filter(|key| !loaded.declares_plugin(key)).map(|key| ObjectId::new(Kind::Plugin, key));
        let problem = match &id {
            Some(id) => Problem::error(reason, id.clone(), "", why),
            None => Problem::without_object(Level::Error, reason, why),
        };
        found.problems.push(Located { problem, file: Some(file), place: None });
        // The plugin stays as it was before, as an invalid object does.
        let known = |id: &ObjectId| found.invalid.iter().any(|invalid| invalid.id == *id);
        if let Some(id) = id.filter(|id| !known(id)) {
            found.invalid.push(InvalidObject { id, chain: None, labels: None, off: None });
        }
    }
    for plugin in plugins {
        let key = ObjectKey::new(gateway.plan.key.namespace.clone(), plugin.name.clone());
        if !loaded.declares_plugin(&key) {
            found.add(&ObjectId::new(Kind::Plugin, key), &plugin, folder);
        }
    }
    folders.into_iter().for_each(|folder| found.folders.add_all(folder));
    files.iter().for_each(|file| found.folders.add_file(file));
    found
}

impl FoundPlugins {
    fn add(&mut self, id: &ObjectId, plugin: &FoundPlugin, plugin_dir: &Path) {
        let located = |problem| Located { problem, file: Some(plugin.file.clone()), place: None };
        let source = match source(plugin, plugin_dir) {
            Ok(source) => source,
            Err(why) => {
                let problem = Problem::error(Reason::FileNotFound, id.clone(), "spec.source", why);
                self.problems.push(located(problem));
                return self.invalid.push(InvalidObject { id: id.clone(), chain: None, labels: None, off: None });
            }
        };
        let document = plugin.object(Some(&id.key.namespace), source);
        let place = ManifestSource::File { folder: &plugin.folder, plugin_dir };
        let (lowered, problems) = lower::document(id, &document, None, place);
        self.problems.extend(problems.into_iter().map(located));
        match lowered {
            Ok(Lowered::Plugin(input)) => self.plugins.push(input),
            Ok(_) => {}
            Err(invalid) => self.invalid.push(invalid),
        }
    }
}

/// Returns where the code is: its path below the plugin folder, or else the code itself.
fn source(plugin: &FoundPlugin, plugin_dir: &Path) -> Result<Value, String> {
    let file = plugin.folder.join(&plugin.entry);
    if let Some(path) = file.strip_prefix(plugin_dir).ok().and_then(Path::to_str) {
        return Ok(json!({"path": path}));
    }
    let code = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    if code.len() > MAX_INLINE {
        return Err(format!("{} is outside of the plugin folder and larger than {MAX_INLINE} bytes", file.display()));
    }
    Ok(json!({"inline": code}))
}
