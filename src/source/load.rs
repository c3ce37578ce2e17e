//! Turns the texts of files into the compiler's input, with the place of every Problem. No IO is performed, except that the
//! names of plugin files are listed for a document of another form (`document.rs`).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::document::{self, FileObject, FileObjects};
use super::files::FileText;
use super::located::Located;
use super::retained_objects::as_before;
use crate::api::lower::{self, Lowered, ManifestSource};
use crate::config::input::{
    ChainInput, GatewayInput, InvalidObject, Labels, PipelineInput, PluginInput, SectionInput, Unread, UpstreamInput,
};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::problem::{Level, Problem};
use crate::domain::reason::Reason;
use crate::domain::secret::SecretText;

/// All objects of the manifests. Lists are in the order of the files, and of the documents in a file.
#[derive(Clone, Debug, Default)]
pub struct LoadedManifests {
    /// All valid MCPGateways. If there are several, the command line names the one to run.
    pub gateways: Vec<GatewayInput>,
    /// All valid MCPUpstreams.
    pub upstreams: Vec<UpstreamInput>,
    /// All valid Plugins.
    pub plugins: Vec<PluginInput>,
    /// All valid chains.
    pub chains: Vec<ChainInput>,
    /// All valid pipelines.
    pub pipelines: Vec<PipelineInput>,
    /// All valid bindings of sections.
    pub sections: Vec<SectionInput>,
    /// Objects of Hawsepipe's kinds that are not valid.
    pub invalid: Vec<InvalidObject>,
    /// The data of ConfigMaps.
    pub config_maps: BTreeMap<ObjectKey, BTreeMap<String, String>>,
    /// The labels of Namespaces that a manifest declares, by name.
    pub namespaces: BTreeMap<String, Labels>,
    /// The values of Secrets.
    pub secrets: BTreeMap<ObjectKey, BTreeMap<String, SecretText>>,
    /// The Problems of reading. Use [`LoadedManifests::locate`] to add places to the compiler's Problems.
    pub problems: Vec<Located>,
    /// Files that cannot be read or parsed, or from which objects are missing and may not be deleted. What counted at the last
    /// reading is used instead, if there is anything.
    pub unreadable: Vec<PathBuf>,
    /// Files with a document of which it cannot be told what it is: it can be any object, such as a Guard.
    pub unclear: Vec<PathBuf>,
    objects: BTreeMap<ObjectId, FileObject>,
    files: BTreeMap<PathBuf, FileObjects>,
    accepted: BTreeMap<ObjectId, Arc<Value>>,
}

impl LoadedManifests {
    /// Returns `problem` with its place, if a file declares the object that it is about.
    pub fn locate(&self, problem: Problem) -> Located {
        match problem.object.as_ref().and_then(|id| self.objects.get(id)) {
            Some(object) => object.locate(problem),
            None => Located { problem, file: None, place: None },
        }
    }

    /// Returns how many objects there are.
    pub fn object_count(&self) -> usize {
        self.objects.len()
    }

    /// Whether the manifests declare an object of this kind, valid or not.
    pub(super) fn declares(&self, kind: Kind) -> bool {
        self.objects.keys().any(|id| id.kind == kind)
    }

    /// Whether the manifests declare a Plugin of this name, valid or not.
    pub(super) fn declares_plugin(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(&ObjectId::new(Kind::Plugin, key.clone()))
    }

    /// Returns the files of this reading that `newer` does not have, where they declare objects that `newer` does not have
    /// as they were.
    pub(super) fn vanished(&self, newer: &Self) -> BTreeSet<PathBuf> {
        let same = |id: &ObjectId, object: &FileObject| {
            newer.objects.get(id).is_some_and(|newer| newer.document == object.document)
        };
        let gone = self
            .objects
            .iter()
            .filter(|(id, object)| !newer.files.contains_key(object.file.as_path()) && !same(id, object));
        gone.map(|(_, object)| object.file.to_path_buf()).collect()
    }

    /// Returns the files of this reading that declare an object.
    pub(super) fn declaring(&self) -> HashSet<PathBuf> {
        let declaring = self.files.iter().filter(|(_, found)| !found.objects.is_empty());
        declaring.map(|(file, _)| file.clone()).collect()
    }

    /// Whether `path` is one of the files of this reading, readable or not.
    pub(super) fn has_file(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }
}

/// Reads the objects in `files`. `previous` is the result of the last reading. A file from which objects of that reading are
/// missing counts as it was, unless it is clear that they were deleted. Rules about changes compare with the object as it was last accepted.
/// `plugin_dir` is the plugin folder of a gateway that names none.
pub fn load(files: Vec<FileText>, previous: Option<&LoadedManifests>, plugin_dir: &Path) -> LoadedManifests {
    let mut loading = ManifestLoader { loaded: LoadedManifests::default(), previous, plugin_dir };
    let read: Vec<_> = files.iter().map(|file| (loading.file(file), file)).collect();
    let counting = counting(read.iter().flat_map(|(found, _)| &found.objects), previous);
    for (found, file) in &read {
        loading.loaded.problems.extend(found.problems.iter().cloned());
        for object in &found.objects {
            match counting.get(&object.id) {
                Some(other) if !std::ptr::eq(*other, object) => loading.duplicate(object, other),
                _ => loading.object(object, &file.folder),
            }
        }
    }
    loading.loaded.files = read.into_iter().map(|(found, file)| (file.path.to_path_buf(), found)).collect();
    loading.loaded
}

/// Returns for each object the declaration that counts: of several, the one that counted at the last reading, so that a
/// new one never takes over from what runs, and otherwise the first.
fn counting<'a>(
    objects: impl Iterator<Item = &'a FileObject>,
    previous: Option<&LoadedManifests>,
) -> BTreeMap<ObjectId, &'a FileObject> {
    let mut counting: BTreeMap<ObjectId, &FileObject> = BTreeMap::new();
    for object in objects {
        let before = previous.and_then(|previous| previous.objects.get(&object.id));
        // An edit of the same file counts; where the file is renamed, what it declares is the same.
        let rank = |object: &FileObject| before.map(|b| (b.file == object.file, b.document == object.document));
        let counts = counting.entry(object.id.clone()).or_insert(object);
        if rank(object) > rank(counts) {
            *counts = object;
        }
    }
    counting
}

struct ManifestLoader<'a> {
    loaded: LoadedManifests,
    previous: Option<&'a LoadedManifests>,
    plugin_dir: &'a Path,
}

impl ManifestLoader<'_> {
    /// Returns what counts of a file: what it declares, or what counted at the last reading (see [`as_before`]).
    fn file(&mut self, file: &FileText) -> FileObjects {
        let read = match &file.text {
            Ok(text) => document::read(&file.path, text, file.is_json()),
            Err(error) => Err(Box::new(unreadable(&file.path, error))),
        };
        let is_read = read.is_ok();
        let mut found = read.unwrap_or_else(|problem| FileObjects {
            problems: vec![*problem],
            unclear: true,
            ..FileObjects::default()
        });
        let before = self.previous.and_then(|previous| previous.files.get(file.path.as_path()));
        let before = before.and_then(|before| as_before(&found, before, &file.path));
        if !is_read || before.is_some() {
            self.loaded.unreadable.push(file.path.to_path_buf());
        }
        if found.unclear && found.problems.iter().any(|located| located.problem.level == Level::Error) {
            self.loaded.unclear.push(file.path.to_path_buf());
        }
        if found.objects.is_empty() && found.problems.is_empty() {
            found.problems.push(no_object(&file.path));
        }
        before.unwrap_or(found)
    }

    /// Reports a declaration of an object of which another declaration counts.
    fn duplicate(&mut self, object: &FileObject, counting: &FileObject) {
        let (file, line) = (counting.file.display(), counting.places.here().line);
        let message = format!("is declared twice; the one that counts is in {file}, line {line}: remove one of them");
        let problem = Problem::error(Reason::InvalidObject, object.id.clone(), "metadata.name", message);
        self.loaded.problems.push(object.locate(problem));
    }

    fn object(&mut self, object: &FileObject, folder: &Path) {
        self.loaded.objects.insert(object.id.clone(), object.clone());
        let problems = self.read(object, folder);
        let mut located: Vec<_> = problems.into_iter().map(|problem| object.locate(problem)).collect();
        located.sort_by_key(|problem| problem.place);
        self.loaded.problems.extend(located);
    }

    /// Adds the object, valid or not, to what was loaded. Returns its Problems.
    fn read(&mut self, object: &FileObject, folder: &Path) -> Vec<Problem> {
        let FileObject { id, document, .. } = object;
        let loaded = &mut self.loaded;
        match id.kind {
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
            _ => self.read_ours(id, document, folder),
        }
    }

    /// Like [`Self::read`], for Hawsepipe's own kinds.
    fn read_ours(&mut self, id: &ObjectId, document: &Arc<Value>, folder: &Path) -> Vec<Problem> {
        let loaded = &mut self.loaded;
        let before = self.previous.and_then(|p| p.accepted.get(id));
        let place = ManifestSource::File { folder, plugin_dir: self.plugin_dir };
        let (lowered, problems) = lower::document(id, document, before.map(|document| &**document), place);
        let accepted = lowered.is_ok().then_some(document).or(before);
        loaded.accepted.extend(accepted.map(|document| (id.clone(), Arc::clone(document))));
        match lowered {
            Ok(Lowered::Gateway(input)) => loaded.gateways.push(input),
            Ok(Lowered::Upstream(input)) => loaded.upstreams.push(input),
            Ok(Lowered::Plugin(input)) => loaded.plugins.push(input),
            Ok(Lowered::Chain(input)) => loaded.chains.push(input),
            Ok(Lowered::Pipeline(input)) => loaded.pipelines.push(input),
            Ok(Lowered::Section(input)) => loaded.sections.push(input),
            Ok(Lowered::NotServed) => {}
            Err(invalid) => loaded.invalid.push(invalid),
        }
        problems
    }
}

fn unreadable(path: &Path, error: &Unread) -> Located {
    let message = format!("cannot be read: {error}");
    let problem = Problem::without_object(Level::Error, error.reason, message);
    Located { problem, file: Some(path.to_owned()), place: None }
}

fn no_object(path: &Path) -> Located {
    let message = "it declares no object".to_owned();
    let problem = Problem::without_object(Level::Warning, Reason::NothingToServe, message);
    Located { problem, file: Some(path.to_owned()), place: None }
}
