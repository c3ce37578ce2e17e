//! Manifests on disk as plans: read, inspect what is new, compile against the plan that runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::code::{folders_of_code, paths_of, read_plugin_files, wanted_code};
use super::facts_cache::FactsCache;
use super::files::{FileText, read_files};
use super::folders::{Folders, MANIFESTS};
use super::load::{LoadedManifests, load};
use super::located::Located;
use super::nothing::nothing_to_serve;
use super::secrets::FileSecrets;
use super::yaml::Position;
use crate::config::compile::{check_config, compile, merge_config, plugin_code};
use crate::config::input::{GatewayInput, Inputs, SourceInput, code_key};
use crate::domain::digest::sha256_hex;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::Plan;
use crate::domain::ports::Inspect;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Where manifests are and how they are read.
#[derive(Clone, Debug)]
pub struct DirectorySettings {
    /// Files and folders.
    pub paths: Vec<PathBuf>,
    /// Which gateway, where there are several: a name or `namespace/name`.
    pub gateway: Option<String>,
    /// A folder of secret values.
    pub secrets_dir: Option<PathBuf>,
    /// Node.js, over what the manifest says.
    pub node: Option<PathBuf>,
}

/// The manifests of [`DirectorySettings`], and what is remembered of them between two readings.
pub struct Directory<I> {
    settings: DirectorySettings,
    /// Texts that stand in no file.
    more: Vec<FileText>,
    loaded: Option<Arc<LoadedManifests>>,
    facts: FactsCache<I>,
}

/// The result of one reading.
pub struct CompiledManifests {
    /// The plan to put in force.
    pub plan: Plan,
    /// All Problems, in the order of files.
    pub problems: Vec<Problem>,
    /// The same with places.
    pub located: Vec<Located>,
    /// The values that the plan names.
    pub secrets: FileSecrets,
    /// Files that are not YAML or cannot be read.
    pub unreadable: Vec<PathBuf>,
    /// Files where a change may mean another plan.
    pub folders: Folders,
}

/// Why there is no plan at all.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Several gateways, and none is named.
    #[error("there are several gateways ({0}): say which one with --gateway NAME")]
    SeveralGateways(String),
    /// The gateway that is named is not there.
    #[error("there is no MCPGateway {0}; there is: {1}")]
    NoSuchGateway(String, String),
    /// There is none at all.
    #[error("there is no MCPGateway {0}: the manifests have none, so leave --gateway out")]
    NoGateway(String),
    /// A path of the command line that was there before cannot be read.
    #[error("{} cannot be read now", .0.display())]
    Unreadable(PathBuf),
    /// The folder of secrets is not there when the gateway starts.
    #[error("--secrets-dir {}: there is no such folder", .0.display())]
    NoSecretsDir(PathBuf),
    /// A plan could not be made because reading was stopped.
    #[error("reading was interrupted")]
    Interrupted,
}

impl<I: Inspect> Directory<I> {
    /// Nothing is read yet.
    pub fn new(settings: DirectorySettings, inspect: I) -> Self {
        Self { settings, more: Vec::new(), loaded: None, facts: FactsCache::new(inspect) }
    }

    /// With these texts after those of its files.
    pub fn with(self, more: Vec<FileText>) -> Self {
        Self { more, ..self }
    }

    /// Reads everything and compiles it. `previous` is the plan that runs.
    ///
    /// # Errors
    /// Where it cannot be told which gateway is meant.
    pub async fn read(&mut self, previous: Option<&Plan>) -> Result<CompiledManifests, DirectoryError> {
        let first = self.loaded.is_none();
        if let Some(folder) = self.settings.secrets_dir.as_ref().filter(|folder| first && !folder.is_dir()) {
            return Err(DirectoryError::NoSecretsDir(folder.clone()));
        }
        let (paths, before, plugin_dir) = (self.settings.paths.clone(), self.loaded.clone(), self.plugin_dir());
        let (folder, more) = (plugin_dir.clone(), self.more.clone());
        let read = move || load([read_files(&paths), more].concat(), before.as_deref(), &folder);
        let loaded = tokio::task::spawn_blocking(read).await;
        let loaded = Arc::new(loaded.map_err(|_| DirectoryError::Interrupted)?);
        self.all_there(&loaded)?;
        let gateway = choose(&loaded, self.settings.gateway.as_deref())?.cloned();
        let mut inputs = inputs(&loaded, gateway, plugin_dir, self.settings.gateway.as_deref());
        let plugin_dir = inputs.gateway.as_ref().map_or(&inputs.default_plugin_dir, |g| &g.plan.runtime.plugin_dir);
        inputs.files = read_plugin_files(plugin_dir, paths_of(&inputs.plugins));
        let secrets = FileSecrets::new(loaded.secrets.clone(), self.settings.secrets_dir.clone());
        let folders = self.folders(&inputs, plugin_dir, &secrets);
        inputs.facts = self.facts.of(&wanted_code(&inputs)).await;
        let (mut plan, found) = compile(&inputs, previous);
        if let Some(node) = &self.settings.node {
            plan.gateway.runtime.node_executable.clone_from(node);
        }
        let mut located = loaded.problems.clone();
        located.extend(found.into_iter().map(|problem| in_code(&inputs, plugin_dir, loaded.locate(problem))));
        if !self.settings.paths.is_empty() && loaded.unreadable.is_empty() && !loaded.names_upstreams() {
            located.push(nothing_to_serve(&self.settings.paths));
        }
        let unreadable = loaded.unreadable.clone();
        self.loaded = Some(loaded);
        let problems = located.iter().map(|l| l.problem.clone()).collect();
        Ok(CompiledManifests { plan, problems, located, secrets, unreadable, folders })
    }

    /// A folder that cannot be listed is not empty: nothing in it counts as deleted.
    fn all_there(&self, loaded: &LoadedManifests) -> Result<(), DirectoryError> {
        let Some(before) = &self.loaded else { return Ok(()) };
        let lost = loaded.unreadable.iter().find(|path| self.settings.paths.contains(path) && !before.has_file(path));
        lost.map_or(Ok(()), |path| Err(DirectoryError::Unreadable(path.clone())))
    }

    /// Checks a configuration for a Plugin against the schema that it was last read with.
    ///
    /// # Errors
    /// Where it does not fit, and in which place.
    pub fn check_config(&self, plugin: &ObjectKey, config: Option<&RawValue>) -> Result<(), String> {
        let loaded = self.loaded.iter().flat_map(|loaded| &loaded.plugins);
        let Some(input) = loaded.into_iter().find(|input| input.key == *plugin) else { return Ok(()) };
        check_config(input, merge_config(input.config.as_deref(), config).as_deref())
    }

    /// A Problem with its place, by what was read last.
    pub fn locate(&self, problem: Problem) -> Located {
        match &self.loaded {
            Some(loaded) => loaded.locate(problem),
            None => Located { problem, file: None, place: None },
        }
    }

    /// `plugins` beside the manifests, for a gateway that names no folder.
    fn plugin_dir(&self) -> PathBuf {
        self.settings.paths.first().map_or_else(PathBuf::new, |path| folder_of(path)).join("plugins")
    }

    fn folders(&self, inputs: &Inputs, plugin_dir: &Path, secrets: &FileSecrets) -> Folders {
        let mut folders = folders_of_code(plugin_dir, &inputs.files);
        for path in &self.settings.paths {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            match folder_of(path) {
                folder if folder == absolute => folders.add_ending(folder, &MANIFESTS),
                _ => folders.add_file(&absolute),
            }
        }
        secrets.folders().into_iter().for_each(|folder| folders.add_all(folder));
        folders
    }
}

/// The folder of a file, or the folder itself.
fn folder_of(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if absolute.is_dir() {
        return absolute;
    }
    absolute.parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// A syntax error stands in the file of the code, where the code has one.
fn in_code(inputs: &Inputs, plugin_dir: &Path, located: Located) -> Located {
    let place = || {
        let object = located.problem.object.as_ref().filter(|_| located.problem.reason == Reason::SyntaxError)?;
        let plugin = inputs.plugins.iter().find(|plugin| object.kind == Kind::Plugin && plugin.key == object.key)?;
        let SourceInput::Path(path) = &plugin.source else { return None };
        let code = plugin_code(inputs, plugin)?;
        let facts = inputs.facts.get(&code_key(&sha256_hex(code.text.as_bytes()), &code.file_name))?;
        let error = facts.error.as_ref().filter(|error| error.line > 0)?;
        Some((plugin_dir.join(path), Position { line: error.line, column: error.column }))
    };
    match place() {
        Some((file, place)) => Located { file: Some(file), place: Some(place), ..located },
        None => located,
    }
}

fn inputs(
    loaded: &LoadedManifests,
    gateway: Option<GatewayInput>,
    default_plugin_dir: PathBuf,
    wanted: Option<&str>,
) -> Inputs {
    // If one gateway was chosen, another one that is not valid does not matter.
    let chosen = |key: &ObjectKey| gateway.is_none() && wanted.is_none_or(|wanted| is_named(key, wanted));
    let concerns = |id: &ObjectId| id.kind != Kind::MCPGateway || chosen(&id.key);
    let invalid = loaded.invalid.iter().filter(|o| concerns(&o.id)).cloned().collect();
    Inputs {
        gateway,
        default_plugin_dir,
        upstreams: loaded.upstreams.clone(),
        plugins: loaded.plugins.clone(),
        chains: loaded.chains.clone(),
        invalid,
        config_maps: loaded.config_maps.iter().map(|(key, data)| (key.clone(), Ok(data.clone()))).collect(),
        servers: BTreeMap::new(),
        namespaces: loaded.namespaces.clone(),
        files: BTreeMap::new(),
        files_elsewhere: false,
        not_loaded: BTreeMap::new(),
        no_room: BTreeMap::new(),
        facts: BTreeMap::new(),
        parsing: BTreeSet::new(),
    }
}

/// Whether `name` is the key's name, or all of it.
fn is_named(key: &ObjectKey, name: &str) -> bool {
    key.name == name || key.to_string() == name
}

/// The gateway to run: the one that is named, else the only one, else none.
fn choose<'a>(loaded: &'a LoadedManifests, wanted: Option<&str>) -> Result<Option<&'a GatewayInput>, DirectoryError> {
    let invalid = loaded.invalid.iter().filter(|o| o.id.kind == Kind::MCPGateway).map(|o| &o.id.key);
    let keys: Vec<_> = loaded.gateways.iter().map(|g| &g.plan.key).chain(invalid).collect();
    let found = || keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let Some(wanted) = wanted else {
        return match keys.len() {
            0 | 1 => Ok(loaded.gateways.first()),
            _ => Err(DirectoryError::SeveralGateways(found())),
        };
    };
    let is_wanted = |key: &ObjectKey| is_named(key, wanted);
    match keys.iter().filter(|key| is_wanted(key)).count() {
        0 if keys.is_empty() => Err(DirectoryError::NoGateway(wanted.to_owned())),
        0 => Err(DirectoryError::NoSuchGateway(wanted.to_owned(), found())),
        1 => Ok(loaded.gateways.iter().find(|g| is_wanted(&g.plan.key))),
        _ => Err(DirectoryError::SeveralGateways(found())),
    }
}
