//! Turns the documents of a file into objects, and skips documents of kinds that are not read outside a cluster.
//! Documents of other forms (see [`convert`]) are converted, for which the names of the files in a plugin folder are read.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::commented_json::without_comments;
use super::files::{FileText, file_names};
use super::located::Located;
use super::yaml::{self, Document, Position, PositionTree};
use crate::api::canonical;
use crate::api::check::nearest;
use crate::api::convert::{self, Converted, Variable, Workspace};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::problem::{Level, Problem};
use crate::domain::reason::Reason;

/// The group and version of Hawsepipe's kinds.
const API_VERSION: &str = "hawsepipe.dev/v1alpha1";
/// All kinds of Hawsepipe's group. The last one is never valid in a file.
const KINDS: [&str; 7] =
    ["MCPGateway", "MCPUpstream", "Plugin", "PluginChain", "ToolPipeline", "SectionBinding", "GatewaySnapshot"];

/// An object that a manifest file declares. `Debug` leaves out the document, because it can be a Secret.
#[derive(Clone)]
pub struct FileObject {
    /// Kind, namespace and name.
    pub id: ObjectId,
    /// The whole document in its canonical form, in which `1.0` is `1`.
    pub document: Arc<Value>,
    /// The file that declares the object.
    pub file: Arc<PathBuf>,
    /// The positions of the object's fields in the file.
    pub places: Arc<PositionTree>,
}

impl fmt::Debug for FileObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("id", &self.id).field("file", &self.file).finish_non_exhaustive()
    }
}

impl FileObject {
    /// Returns `problem`, which is about this object, with the file and with the position of the field that it names.
    pub fn locate(&self, problem: Problem) -> Located {
        let place = Some(self.places.find(&problem.field));
        Located { problem, file: Some(self.file.to_path_buf()), place }
    }
}

/// The objects of one file.
#[derive(Clone, Debug, Default)]
pub struct FileObjects {
    /// The objects, in file order.
    pub objects: Vec<FileObject>,
    /// Problems of documents that were skipped, and warnings about values that kubectl would read differently.
    pub problems: Vec<Located>,
    /// Whether a document was skipped that can be any object, because its kind, apiVersion or name cannot be read.
    pub unclear: bool,
    /// The objects of kinds that are not read outside a cluster.
    pub foreign: BTreeSet<ForeignObject>,
}

/// An object of a kind that is not read outside a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignObject {
    /// The name.
    pub name: String,
    /// The apiVersion.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// Reads the text of a file, as JSON if `is_json` is set, else as YAML.
///
/// # Errors
/// If the text is not valid YAML or JSON; the error has the position.
pub fn read(file: &Arc<PathBuf>, text: &str, is_json: bool) -> Result<FileObjects, Box<Located>> {
    let documents = documents(text, is_json).map_err(|(place, message)| {
        let problem = Problem::without_object(Level::Error, Reason::InvalidYaml, message);
        Box::new(Located { problem, file: Some(file.to_path_buf()), place: Some(place) })
    })?;
    let mut found = FileObjects::default();
    for document in documents {
        for (place, message) in &document.ambiguous {
            found.problems.push(finding(file, *place, Level::Warning, Reason::InvalidYaml, message.clone()));
        }
        add(&mut found, file, document.value, document.places);
    }
    Ok(found)
}

/// Reads the documents of a file, whatever their form.
///
/// # Errors
/// Like [`read`].
pub fn values(file: &FileText) -> Result<Vec<Value>, Box<Located>> {
    let failed = |place, message| {
        let problem = Problem::without_object(Level::Error, Reason::InvalidYaml, message);
        Box::new(Located { problem, file: Some(file.path.to_path_buf()), place })
    };
    let text = file.text.as_ref().map_err(|error| failed(None, format!("cannot be read: {error}")))?;
    let documents = documents(text, file.is_json()).map_err(|(place, message)| failed(Some(place), message))?;
    Ok(documents.into_iter().map(|document| document.value).collect())
}

fn documents(text: &str, is_json: bool) -> Result<Vec<Document>, (Position, String)> {
    if is_json { json(text) } else { yaml::read(text).map_err(|e| (e.place, e.message)) }
}

/// Reads JSON text, also with comments and trailing commas. The values come from a JSON parser. The positions come from a YAML parser, because nearly all JSON
/// is valid YAML.
fn json(text: &str) -> Result<Vec<Document>, (Position, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut text = Cow::Borrowed(text);
    let value = serde_json::from_str(&text).or_else(|_| {
        text = Cow::Owned(without_comments(&text));
        serde_json::from_str(&text)
    });
    let value: Value = value.map_err(|error| {
        (Position { line: number(error.line()), column: number(error.column()) }, format!("it is not JSON: {error}"))
    })?;
    let places = match yaml::read(&text) {
        Ok(mut documents) if documents.len() == 1 => documents.swap_remove(0).places,
        Err(error) if !error.is_syntax => return Err((error.place, error.message)),
        _ => PositionTree::default(),
    };
    Ok(vec![Document { value, places, ambiguous: Vec::new() }])
}

/// Adds a document, or the items of a `List`.
fn add(found: &mut FileObjects, file: &Arc<PathBuf>, document: Value, places: PositionTree) {
    if document.get("kind").and_then(Value::as_str) == Some("List") {
        let Some(Value::Array(items)) = document.get("items") else {
            let message = "the List has no items: items must be a list of objects".to_owned();
            found.problems.push(finding(file, places.find("items"), Level::Error, Reason::InvalidObject, message));
            found.unclear = true;
            return;
        };
        let inside = places.member_places("items");
        for (i, item) in items.iter().enumerate() {
            add_one(found, file, item, inside.item_places(i));
        }
        return;
    }
    add_one(found, file, &document, places);
}

/// Converts a document of another form, which is in a file. `variable` returns the values of variables that the document refers
/// to; if it is `None`, they stay out of what can only hold a value.
pub fn converted(file: &Path, document: &Value, variable: Option<Variable>) -> Converted {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().unwrap_or(Path::new(""));
    convert::convert(document, Workspace { variable, ..workspace(folder) }, &|plugin_dir| {
        file_names(&folder.join(plugin_dir))
    })
}

/// The folder that an editor has open whose configuration is in `folder`.
fn workspace(folder: &Path) -> Workspace {
    let is_of_editor = folder.file_name().is_some_and(|name| name == ".vscode" || name == ".cursor");
    let opened = folder.parent().filter(|_| is_of_editor).unwrap_or(folder);
    Workspace { path: opened.to_string_lossy().into_owned(), is_start: is_of_editor, variable: None }
}

/// Adds the objects of a document of another form. Each has the position of the field that it was made from.
fn add_converted(found: &mut FileObjects, file: &Arc<PathBuf>, document: &Value, places: &PositionTree) {
    let converted = converted(file, document, Some(|name| std::env::var(name).ok()));
    for made in converted.objects {
        add_one(found, file, &made.document, PositionTree::leaf(places.find(&made.field)));
    }
    for left in converted.left_out {
        let message = format!("{}: {}", left.field, left.reason);
        found.problems.push(finding(file, places.find(&left.field), Level::Warning, Reason::NotConverted, message));
    }
    for wrong in converted.wrong {
        let message = format!("{}: {}", wrong.field, wrong.reason);
        found.problems.push(finding(file, places.find(&wrong.field), Level::Error, Reason::InvalidObject, message));
        found.unclear = true;
    }
}

fn add_one(found: &mut FileObjects, file: &Arc<PathBuf>, document: &Value, places: PositionTree) {
    if convert::is_convertible(document) {
        return add_converted(found, file, document, &places);
    }
    match identify(document) {
        Ok(id) => found.objects.push(FileObject {
            id,
            document: Arc::new(canonical(document)),
            file: Arc::clone(file),
            places: Arc::new(places),
        }),
        Err(SkippedDocument { level, reason, field, message }) => {
            match foreign(document).filter(|_| reason == Reason::ClusterOnly) {
                Some(foreign) => _ = found.foreign.insert(foreign),
                None => found.unclear = true,
            }
            found.problems.push(finding(file, places.find(field), level, reason, message));
        }
    }
}

fn finding(file: &Path, place: Position, level: Level, reason: Reason, message: String) -> Located {
    let problem = Problem::without_object(level, reason, message);
    Located { problem, file: Some(file.to_owned()), place: Some(place) }
}

/// Why a document is skipped.
struct SkippedDocument {
    level: Level,
    reason: Reason,
    field: &'static str,
    message: String,
}

impl SkippedDocument {
    fn wrong(field: &'static str, message: impl Into<String>) -> Self {
        Self { level: Level::Error, reason: Reason::InvalidObject, field, message: message.into() }
    }
}

fn foreign(document: &Value) -> Option<ForeignObject> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Some(ForeignObject { name: text("/metadata/name")?, version: text("/apiVersion")?, kind: text("/kind")? })
}

fn identify(document: &Value) -> Result<ObjectId, SkippedDocument> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    let missing =
        |field, what| SkippedDocument::wrong(field, format!("it is not a Kubernetes object: {what} is missing"));
    let version = text("/apiVersion").ok_or_else(|| missing("apiVersion", "apiVersion"))?;
    let word = text("/kind").ok_or_else(|| missing("kind", "kind"))?;
    let kind = kind(version, word)?;
    let name = text("/metadata/name").filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| {
        SkippedDocument::wrong("metadata.name", format!("{word}: metadata.name is missing, or not a string"))
    })?;
    if kind == Kind::Namespace {
        return Ok(ObjectId::new(kind, ObjectKey::new(name, name)));
    }
    let namespace = match document.pointer("/metadata/namespace") {
        None => "default",
        Some(Value::String(namespace)) if !namespace.is_empty() => namespace,
        Some(_) => {
            return Err(SkippedDocument::wrong(
                "metadata.namespace",
                format!("{word} {name}: metadata.namespace must be a string"),
            ));
        }
    };
    Ok(ObjectId::new(kind, ObjectKey::new(namespace, name)))
}

fn kind(version: &str, word: &str) -> Result<Kind, SkippedDocument> {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    match (version, word) {
        (API_VERSION, "MCPGateway") => Ok(Kind::MCPGateway),
        (API_VERSION, "MCPUpstream") => Ok(Kind::MCPUpstream),
        (API_VERSION, "Plugin") => Ok(Kind::Plugin),
        (API_VERSION, "PluginChain") => Ok(Kind::PluginChain),
        (API_VERSION, "ToolPipeline") => Ok(Kind::ToolPipeline),
        (API_VERSION, "SectionBinding") => Ok(Kind::SectionBinding),
        ("v1", "Secret") => Ok(Kind::Secret),
        ("v1", "ConfigMap") => Ok(Kind::ConfigMap),
        ("v1", "Namespace") => Ok(Kind::Namespace),
        (API_VERSION, "GatewaySnapshot") => {
            Err(SkippedDocument::wrong("kind", "a GatewaySnapshot is written by the operator only; take it out"))
        }
        (API_VERSION, _) => Err(SkippedDocument::wrong(
            "kind",
            match nearest(word, KINDS) {
                Some(near) => format!("no such kind: {word:.64}; did you mean {near}?"),
                None => format!("no such kind: {word:.64}; there are {}", KINDS[..6].join(", ")),
            },
        )),
        _ if group == "hawsepipe.dev" || KINDS[..4].contains(&word) && nearest(group, ["hawsepipe.dev"]).is_some() => {
            Err(SkippedDocument::wrong("apiVersion", format!("{word:.64}: apiVersion must be {API_VERSION}")))
        }
        _ => Err(SkippedDocument {
            level: Level::Warning,
            reason: Reason::ClusterOnly,
            field: "kind",
            message: format!("{word:.64} ({version:.64}) is not read outside a cluster"),
        }),
    }
}
