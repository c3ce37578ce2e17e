//! From the texts of files to what the compiler reads, with the place of every Problem. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::document::{self, FileObjects, Object};
use super::files::FileText;
use super::located::Located;
use crate::api::{check, lower};
use crate::config::input::{ChainInput, GatewayInput, InvalidObject, Labels, PluginInput, UpstreamInput};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::problem::{Level, Problem};
use crate::domain::reason::Reason;
use crate::domain::secret::SecretText;

/// Everything that files hold. Lists are in file order, then in order of their documents.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Every gateway; which of several is to run is for the command line to say.
    pub gateways: Vec<GatewayInput>,
    /// Upstreams.
    pub upstreams: Vec<UpstreamInput>,
    /// Plugins.
    pub plugins: Vec<PluginInput>,
    /// Chains.
    pub chains: Vec<ChainInput>,
    /// Objects of these kinds that did not pass their check.
    pub invalid: Vec<InvalidObject>,
    /// Data of ConfigMaps.
    pub config_maps: BTreeMap<ObjectKey, BTreeMap<String, String>>,
    /// Labels of namespaces that have a document.
    pub namespaces: BTreeMap<String, Labels>,
    /// Values of Secrets.
    pub secrets: BTreeMap<ObjectKey, BTreeMap<String, SecretText>>,
    /// What was found so far; what the compiler finds is located by [`Loaded::locate`].
    pub problems: Vec<Located>,
    /// Files that are no YAML, or cannot be read. Their last readable form is what counts, where there was one.
    pub unreadable: Vec<PathBuf>,
    objects: BTreeMap<ObjectId, Object>,
    files: BTreeMap<PathBuf, FileObjects>,
    accepted: BTreeMap<ObjectId, Arc<Value>>,
}

impl Loaded {
    /// A Problem with the place in a file that it is about, where its object stands in one.
    pub fn locate(&self, problem: Problem) -> Located {
        match problem.object.as_ref().and_then(|id| self.objects.get(id)) {
            Some(object) => object.locate(problem),
            None => Located { problem, file: None, place: None },
        }
    }

    /// Whether a file of this path was read, now or before.
    pub(super) fn has_file(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }
}

/// Reads what `files` hold. `previous` is what was loaded before: files that are no YAML now count as they were then,
/// and rules about changes are asked against what was accepted then. `plugin_dir` is where `source.path` starts for a
/// gateway that names no folder.
pub fn load(files: Vec<FileText>, previous: Option<&Loaded>, plugin_dir: &Path) -> Loaded {
    let mut loading = Loading { loaded: Loaded::default(), previous, plugin_dir };
    for file in files {
        let objects = loading.file(&file);
        for object in &objects.objects {
            loading.object(object, &file.folder);
        }
        loading.loaded.files.insert(file.path.to_path_buf(), objects);
    }
    loading.loaded
}

struct Loading<'a> {
    loaded: Loaded,
    previous: Option<&'a Loaded>,
    plugin_dir: &'a Path,
}

impl Loading<'_> {
    /// The objects of a file; where it cannot be read now, those it held before.
    fn file(&mut self, file: &FileText) -> FileObjects {
        let read = match &file.text {
            Ok(text) => document::read(&file.path, text, file.is_json()),
            Err(error) => Err(Box::new(unreadable(&file.path, error))),
        };
        match read {
            Ok(objects) => {
                self.loaded.problems.extend(objects.problems.iter().cloned());
                objects
            }
            Err(problem) => {
                self.loaded.problems.push(*problem);
                self.loaded.unreadable.push(file.path.to_path_buf());
                self.previous.and_then(|p| p.files.get(file.path.as_path())).cloned().unwrap_or_default()
            }
        }
    }

    fn object(&mut self, object: &Object, folder: &Path) {
        if let Some(first) = self.loaded.objects.get(&object.id) {
            let place = first.places.here();
            let message = format!("is declared twice; the first is in {}, line {}", first.file.display(), place.line);
            let problem = Problem::error(Reason::InvalidObject, object.id.clone(), "metadata.name", message);
            return self.loaded.problems.push(object.locate(problem));
        }
        self.loaded.objects.insert(object.id.clone(), object.clone());
        let before = self.previous.and_then(|p| p.accepted.get(&object.id));
        let broken = check::check(&object.id, &object.document, before.map(|document| &**document));
        let lowered = if broken.is_empty() { self.lower(object, folder) } else { Err(broken) };
        let problems = match lowered {
            Ok(problems) => {
                if object.id.kind != Kind::Secret {
                    self.loaded.accepted.insert(object.id.clone(), Arc::clone(&object.document));
                }
                problems
            }
            Err(problems) => {
                let is_chain = object.id.kind == Kind::PluginChain;
                let chain =
                    is_chain.then(|| lower::invalid_chain(&object.id.key, &object.document, &problems)).flatten();
                self.loaded.invalid.push(InvalidObject { id: object.id.clone(), chain });
                self.loaded.accepted.extend(before.map(|document| (object.id.clone(), Arc::clone(document))));
                problems
            }
        };
        let mut located: Vec<_> = problems.into_iter().map(|problem| object.locate(problem)).collect();
        located.sort_by_key(|problem| problem.place);
        self.loaded.problems.extend(located);
    }

    /// Lowers an object that passed its check.
    ///
    /// # Errors
    /// Problems of a value that its type cannot hold, such as a negative size; then nothing was added.
    fn lower(&mut self, object: &Object, folder: &Path) -> Result<Vec<Problem>, Vec<Problem>> {
        let Object { id, document, .. } = object;
        let loaded = &mut self.loaded;
        let problems = match id.kind {
            Kind::MCPGateway => {
                typed(object, |gateway| lower::gateway(&gateway, folder, self.plugin_dir), &mut loaded.gateways)?
            }
            Kind::MCPUpstream => typed(object, |upstream| lower::upstream(&upstream, folder), &mut loaded.upstreams)?,
            Kind::Plugin => typed(object, |plugin| lower::plugin(&plugin), &mut loaded.plugins)?,
            Kind::PluginChain => typed(object, |chain| lower::chain(&chain), &mut loaded.chains)?,
            Kind::Secret => {
                let (values, problems) = lower::secret(&id.key, document);
                loaded.secrets.insert(id.key.clone(), values);
                problems
            }
            Kind::ConfigMap => {
                let (data, problems) = lower::config_map(&id.key, document);
                loaded.config_maps.insert(id.key.clone(), data);
                problems
            }
            Kind::Namespace => {
                let (labels, problems) = lower::namespace(&id.key.name, document);
                loaded.namespaces.insert(id.key.name.clone(), labels);
                problems
            }
            Kind::ToolPipeline | Kind::SectionBinding => vec![lower::not_served(id)],
        };
        Ok(problems)
    }
}

/// Lowers a document as an object of type `T` into `list`.
fn typed<T: DeserializeOwned, I>(
    object: &Object,
    lower: impl FnOnce(T) -> (I, Vec<Problem>),
    list: &mut Vec<I>,
) -> Result<Vec<Problem>, Vec<Problem>> {
    let typed = serde_json::from_value((*object.document).clone()).map_err(|error| {
        vec![Problem::error(Reason::InvalidObject, object.id.clone(), "", format!("cannot be read: {error}"))]
    })?;
    let (input, problems) = lower(typed);
    list.push(input);
    Ok(problems)
}

fn unreadable(path: &Path, error: &str) -> Located {
    let message = format!("cannot be read: {error}");
    let problem =
        Problem { level: Level::Error, reason: Reason::FileNotFound, object: None, field: String::new(), message };
    Located { problem, file: Some(path.to_owned()), place: None }
}
