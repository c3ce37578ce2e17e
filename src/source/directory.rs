//! Turns manifests on disk into a plan: reads them, inspects new plugin code, and compiles against the running plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use super::code::{folders_of_code, paths_of, read_plugin_files, wanted_code};
use super::discovered::found;
use super::facts_cache::FactsCache;
use super::files::{FileText, read_files};
use super::folders::{Folders, MANIFESTS};
use super::load::{LoadedManifests, load};
use super::located::Located;
use super::nothing::nothing_to_serve;
use super::secrets::FileSecrets;
use super::yaml::Position;
use crate::config::compile::{check_entry_config, compile, plugin_code, untaken};
use crate::config::config_schema::{ConfigChecks, ConfigVerdicts};
use crate::config::input::{GatewayInput, Inputs, SourceInput, code_key};
use crate::domain::digest::sha256_hex;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::Plan;
use crate::domain::ports::Inspect;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// How long a file must be gone before its objects count as deleted.
const SETTLE: Duration = Duration::from_secs(1);
/// How often a file that is gone is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// The longest time that one reading waits for files that are gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where manifests are and how they are read.
#[derive(Clone, Debug)]
pub struct DirectorySettings {
    /// Manifest files, and folders of them.
    pub paths: Vec<PathBuf>,
    /// The gateway to run, as `NAME` or `NAMESPACE/NAME`. Required if the manifests declare several gateways.
    pub gateway: Option<String>,
    /// A folder with values of secrets, see [`FileSecrets::new`].
    pub secrets_dir: Option<PathBuf>,
    /// The Node.js executable. `None` leaves the choice to the MCPGateway.
    pub node: Option<PathBuf>,
}

/// The manifests of [`DirectorySettings`], and the results of the last reading that are needed for the next one.
pub struct Directory<I> {
    settings: DirectorySettings,
    /// Manifest texts that are read after the files.
    more: Vec<FileText>,
    loaded: Option<Arc<LoadedManifests>>,
    facts: FactsCache<I>,
}

/// The result of one reading.
pub struct CompiledManifests {
    /// The plan to put in force.
    pub plan: Plan,
    /// All Problems with their places as texts, in the order of `located`.
    pub problems: Vec<Problem>,
    /// The same Problems with their places: first those of reading, in file order, then those of compiling.
    pub located: Vec<Located>,
    /// How many objects the manifests have.
    pub objects: usize,
    /// The values of the secrets that the plan can refer to.
    pub secrets: FileSecrets,
    /// Files that cannot be read or parsed, or from which objects are missing and may not be deleted. What counted at the last
    /// reading is used instead.
    pub unreadable: Vec<PathBuf>,
    /// Files with a document of which it cannot be told what it is.
    pub unclear: Vec<PathBuf>,
    /// The folders to watch, and which of their files can change the plan.
    pub folders: Folders,
}

/// Why there is no plan at all.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The manifests declare several gateways, and the settings do not say which one to run.
    #[error("there are several gateways ({0}): say which one with --gateway NAME")]
    SeveralGateways(String),
    /// The manifests declare gateways, but not the requested one.
    #[error("there is no MCPGateway {0}; there is: {1}")]
    NoSuchGateway(String, String),
    /// A gateway was requested, but the manifests declare none.
    #[error("there is no MCPGateway {0}: the manifests have none, so leave --gateway out")]
    NoGateway(String),
    /// The gateway in force was declared, and no manifest declares one now. The default gateway, which is open, must not
    /// take the place of one that was configured.
    #[error(
        "MCPGateway {0} is in force and no manifest declares it any more: put it back. To run with the default gateway, \
         restart"
    )]
    GatewayGone(ObjectKey),
    /// A folder of the command line cannot be listed now, or is no folder any more.
    #[error("{} was a folder of manifests and cannot be read as one now", .0.display())]
    Unreadable(PathBuf),
    /// Files with objects went while others were waited for, or this one comes and goes.
    #[error("files of the manifests come and go, such as {}", .0.display())]
    Unsettled(PathBuf),
    /// The folder of secrets does not exist when the gateway starts.
    #[error("--secrets-dir {}: there is no such folder", .0.display())]
    NoSecretsDir(PathBuf),
    /// The task that reads the files was cancelled or panicked.
    #[error("reading was interrupted")]
    Interrupted,
}

impl<I: Inspect> Directory<I> {
    /// Creates the source. It reads no file until [`Directory::read`] is called.
    pub fn new(settings: DirectorySettings, inspect: I) -> Self {
        Self { settings, more: Vec::new(), loaded: None, facts: FactsCache::new(inspect) }
    }

    /// Returns this source with more texts, which are read after the files.
    pub fn with(self, more: Vec<FileText>) -> Self {
        Self { more, ..self }
    }

    /// Reads everything and compiles it. `previous` is the running plan.
    ///
    /// # Errors
    /// See [`DirectoryError`].
    pub async fn read(&mut self, previous: Option<&Plan>) -> Result<CompiledManifests, DirectoryError> {
        self.read_after(previous, previous).await
    }

    /// Reads everything for the first time. `stored` is the last plan of an earlier process: objects that are invalid now keep
    /// the forms that they have there.
    ///
    /// # Errors
    /// See [`DirectoryError`].
    pub async fn read_first(&mut self, stored: Option<&Plan>) -> Result<CompiledManifests, DirectoryError> {
        self.read_after(None, stored).await
    }

    /// `running` is the running plan, and `previous` the one with the last accepted forms.
    async fn read_after(
        &mut self,
        running: Option<&Plan>,
        previous: Option<&Plan>,
    ) -> Result<CompiledManifests, DirectoryError> {
        let first = self.loaded.is_none();
        if let Some(folder) = self.settings.secrets_dir.as_ref().filter(|folder| first && !folder.is_dir()) {
            return Err(DirectoryError::NoSecretsDir(folder.clone()));
        }
        let plugin_dir = self.plugin_dir();
        let loaded = self.load(&plugin_dir).await?;
        if let Some(running) = running.filter(|plan| plan.gateway.declared && !loaded.declares(Kind::MCPGateway)) {
            return Err(DirectoryError::GatewayGone(running.gateway.key.clone()));
        }
        let gateway = choose(&loaded, self.settings.gateway.as_deref())?.cloned();
        let found_plugins = found(gateway.as_ref(), &loaded);
        let mut inputs = inputs(&loaded, gateway, plugin_dir, self.settings.gateway.as_deref());
        inputs.plugins.extend(found_plugins.plugins);
        inputs.invalid.extend(found_plugins.invalid);
        let plugin_dir = inputs.gateway.as_ref().map_or(&inputs.default_plugin_dir, |g| &g.plan.runtime.plugin_dir);
        inputs.files = read_plugin_files(plugin_dir, paths_of(&inputs.plugins));
        let secrets = FileSecrets::new(loaded.secrets.clone(), self.settings.secrets_dir.clone());
        let mut folders = self.folders(&inputs, plugin_dir, &secrets);
        folders.extend(found_plugins.folders);
        inputs.facts = self.facts.of(&wanted_code(&inputs)).await;
        let (mut plan, mut found) = compile(&inputs, previous);
        found.extend(untaken(&inputs, &loaded.gateways, &found));
        if let Some(node) = &self.settings.node {
            plan.gateway.runtime.node_executable.clone_from(node);
        }
        let mut located = loaded.problems.clone();
        located.extend(found_plugins.problems);
        located.extend(found.into_iter().map(|problem| in_code(&inputs, plugin_dir, loaded.locate(problem))));
        let serves = [Kind::MCPUpstream, Kind::ToolPipeline].into_iter().any(|kind| loaded.declares(kind));
        if !self.settings.paths.is_empty() && loaded.unreadable.is_empty() && !serves {
            located.push(nothing_to_serve(&self.settings.paths));
        }
        let (unreadable, unclear) = (loaded.unreadable.clone(), loaded.unclear.clone());
        let objects = loaded.object_count();
        self.loaded = Some(loaded);
        let problems = located.iter().map(Located::to_problem).collect();
        Ok(CompiledManifests { plan, problems, located, objects, secrets, unreadable, unclear, folders })
    }

    /// Reads the manifests. Objects whose files are gone count as deleted only once the files stay away: some programs
    /// delete a file before they write it anew.
    async fn load(&self, plugin_dir: &Path) -> Result<Arc<LoadedManifests>, DirectoryError> {
        let began = Instant::now();
        let mut gone = BTreeMap::new();
        loop {
            let (paths, before) = (self.settings.paths.clone(), self.loaded.clone());
            let (folder, more) = (plugin_dir.to_owned(), self.more.clone());
            let read = move || {
                let known = before.as_ref().map(|before| before.declaring()).unwrap_or_default();
                load([read_files(&paths, &known), more].concat(), before.as_deref(), &folder)
            };
            let loaded = tokio::task::spawn_blocking(read).await.map_err(|_| DirectoryError::Interrupted)?;
            self.all_there(&loaded)?;
            let vanished = self.loaded.as_ref().map(|before| before.vanished(&loaded)).unwrap_or_default();
            gone.retain(|file, _| vanished.contains(file));
            vanished.into_iter().for_each(|file| _ = gone.entry(file).or_insert_with(Instant::now));
            let Some((file, _)) = gone.iter().find(|(_, since)| since.elapsed() < SETTLE) else {
                return Ok(Arc::new(loaded));
            };
            if began.elapsed() > PATIENCE {
                return Err(DirectoryError::Unsettled(file.clone()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Fails if a folder of the settings that could be listed earlier cannot be listed now, or is a file now. Otherwise
    /// everything in it would count as deleted.
    fn all_there(&self, loaded: &LoadedManifests) -> Result<(), DirectoryError> {
        let Some(before) = &self.loaded else { return Ok(()) };
        let lost = self.settings.paths.iter().find(|path| loaded.has_file(path) && !before.has_file(path));
        lost.map_or(Ok(()), |path| Err(DirectoryError::Unreadable(path.clone())))
    }

    /// Checks that an entry's configuration, merged with the Plugin's own, matches the schema that the Plugin had at
    /// the last reading. If there was no such Plugin, every configuration is accepted.
    ///
    /// # Errors
    /// Returns which part of the configuration the schema does not allow, and why.
    pub fn check_config(&self, plugin: &ObjectKey, config: Option<&RawValue>) -> Result<(), String> {
        let loaded = self.loaded.iter().flat_map(|loaded| &loaded.plugins);
        let Some(input) = loaded.into_iter().find(|input| input.key == *plugin) else { return Ok(()) };
        let verdicts = ConfigVerdicts::default();
        check_entry_config(input, config, &plugin.namespace, &mut ConfigChecks::new(&verdicts))
    }

    /// Returns `problem` with its file and position, as the last reading found them.
    pub fn locate(&self, problem: Problem) -> Located {
        match &self.loaded {
            Some(loaded) => loaded.locate(problem),
            None => Located { problem, file: None, place: None },
        }
    }

    /// Returns the plugin folder of a gateway that names none: `plugins` in the folder of the first path.
    fn plugin_dir(&self) -> PathBuf {
        self.settings.paths.first().map_or_else(PathBuf::new, |path| self.folder_of(path)).join("plugins")
    }

    /// Returns the folder that `path` is in, or `path` itself if it is a folder and was not read as a file.
    fn folder_of(&self, path: &Path) -> PathBuf {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let was_file = self.loaded.as_ref().is_some_and(|loaded| loaded.has_file(path));
        if absolute.is_dir() && !was_file {
            return absolute;
        }
        absolute.parent().map_or_else(PathBuf::new, Path::to_owned)
    }

    fn folders(&self, inputs: &Inputs, plugin_dir: &Path, secrets: &FileSecrets) -> Folders {
        let mut folders = folders_of_code(plugin_dir, &inputs.files);
        for path in &self.settings.paths {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            match self.folder_of(path) {
                folder if folder == absolute => folders.add_ending(folder, &MANIFESTS),
                _ => folders.add_file(&absolute),
            }
        }
        secrets.folders().into_iter().for_each(|folder| folders.add_all(folder));
        folders
    }
}

/// If `located` is a syntax error of a plugin whose code is a file, replaces its place by the position in that file.
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
    // An invalid gateway is left out if another one was chosen.
    let chosen = |key: &ObjectKey| gateway.is_none() && wanted.is_none_or(|wanted| is_named(key, wanted));
    let concerns = |id: &ObjectId| id.kind != Kind::MCPGateway || chosen(&id.key);
    let invalid = loaded.invalid.iter().filter(|o| concerns(&o.id)).cloned().collect();
    Inputs {
        gateway,
        default_plugin_dir,
        upstreams: loaded.upstreams.clone(),
        plugins: loaded.plugins.clone(),
        chains: loaded.chains.clone(),
        pipelines: loaded.pipelines.clone(),
        sections: loaded.sections.clone(),
        invalid,
        config_maps: loaded.config_maps.iter().map(|(key, data)| (key.clone(), Ok(data.clone()))).collect(),
        servers: BTreeMap::new(),
        managed: BTreeMap::new(),
        revoked: BTreeSet::new(),
        namespaces: loaded.namespaces.clone(),
        files: BTreeMap::new(),
        files_elsewhere: false,
        no_pods: false,
        not_loaded: BTreeMap::new(),
        no_room: BTreeMap::new(),
        facts: BTreeMap::new(),
        parsing: BTreeSet::new(),
        config_verdicts: Arc::default(),
    }
}

/// Whether `name` is the key's name or `namespace/name`.
fn is_named(key: &ObjectKey, name: &str) -> bool {
    key.name == name || key.to_string() == name
}

/// Returns the gateway to run: the requested one, or else the only one. `None` if that gateway is invalid, or if no
/// gateway is requested and none is declared.
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
