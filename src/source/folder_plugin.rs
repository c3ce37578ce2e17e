//! Plugins as their folders describe them: by a `plugin.json`, or by the `manifest.json` of a wrapper.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The version of wrappers that this program speaks.
const VERSION: u64 = 1;
/// The members of a `plugin.json` that are those of `spec.descriptor`.
const MEMBERS: [&str; 10] = [
    "version",
    "description",
    "costClass",
    "usesLLM",
    "modelRoles",
    "maxLLMCalls",
    "tags",
    "plannerHints",
    "provides",
    "accepts",
];
/// The defaults of a wrapper's manifest.
const WRAPPER_TYPE: &str = "gs-plugin";
const WRAPPER_TIMEOUT: u64 = 30_000;

/// A plugin that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPlugin {
    /// The name of the Plugin.
    pub name: String,
    /// The file that describes it.
    pub file: PathBuf,
    /// The folder of its files.
    pub folder: PathBuf,
    /// The file of its code, relative to `folder`.
    pub entry: String,
    /// `spec` of the Plugin, without its source.
    pub spec: Map<String, Value>,
}

/// The description of a wrapper.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrapperManifest {
    id: Option<String>,
    name: Option<String>,
    r#type: Option<String>,
    version: Option<String>,
    protocol_version: Option<u64>,
    #[serde(default)]
    capabilities: Vec<String>,
    command: String,
    #[serde(default)]
    args: Vec<String>,
    timeout: Option<u64>,
    max_input_size_bytes: Option<u64>,
    description: Option<String>,
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a relative path leads to something below its start.
pub(super) fn stays_below(path: &str) -> bool {
    !path.starts_with('/') && !path.split('/').any(|part| part == "..")
}

/// Returns the name of the plugin that a file describes: that of its folder, if the file gives none.
pub(super) fn name_in(file: &Path) -> Option<String> {
    let described: Value = read(file).unwrap_or_default();
    let given = described["id"].as_str().or(described["name"].as_str()).map(str::to_owned);
    given.or_else(|| file.parent().map(file_name))
}

pub(super) fn read<T: for<'de> Deserialize<'de>>(file: &Path) -> Result<T, String> {
    let size = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > MAX_FILE {
        return Err(format!("it has {size} bytes, at most {MAX_FILE} are read"));
    }
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| format!("it is not as it must be: {error}"))
}

/// Returns the plugin of a folder with this `plugin.json`.
pub(super) fn described_plugin(
    folder: &Path,
    file: &Path,
    described: &Value,
    kind: Option<&str>,
) -> Result<FoundPlugin, String> {
    let text = |name: &str| described[name].as_str();
    let name = text("id").or(text("name")).map_or_else(|| file_name(folder), str::to_owned);
    let written = text("type").or(kind).unwrap_or("middleware");
    if let Some(kind) = kind.filter(|kind| *kind != written) {
        return Err(format!("type {written:?} is not that of its folder, {kind:?}"));
    }
    let entry = text("entry").unwrap_or("index.mjs").trim_start_matches("./").to_owned();
    if !stays_below(&entry) {
        return Err("entry leaves the folder".to_owned());
    }
    if !folder.join(&entry).is_file() {
        return Err(format!("its code {entry} is not there"));
    }
    let mut spec = Map::new();
    spec.insert("type".to_owned(), json!(written));
    for name in ["role", "protocol"] {
        spec.extend(text(name).map(|value| (name.to_owned(), json!(value))));
    }
    if let Some(phases) = described["phases"].as_array() {
        let title = |phase: &Value| match phase.as_str() {
            Some("request") => json!("Request"),
            Some("response") => json!("Response"),
            _ => phase.clone(),
        };
        spec.insert("phases".to_owned(), phases.iter().map(title).collect());
    }
    spec.extend(described["configSchema"].as_object().map(|it| ("configSchema".to_owned(), json!(it))));
    spec.extend(described["timeoutMs"].as_u64().map(|it| ("timeoutMs".to_owned(), json!(it))));
    let own = MEMBERS.iter().filter_map(|name| Some(((*name).to_owned(), described.get(*name)?.clone())));
    let mut descriptor: Map<String, Value> = own.collect();
    // With an id, the name is only shown.
    let shown = text("id").and(text("name")).map(|name| ("displayName".to_owned(), json!(name)));
    descriptor.extend(shown);
    if !descriptor.is_empty() {
        spec.insert("descriptor".to_owned(), Value::Object(descriptor));
    }
    Ok(FoundPlugin { name, file: file.to_owned(), folder: folder.to_owned(), entry, spec })
}

/// Returns the plugin of a wrapper with this manifest.
pub(super) fn wrapper_plugin(folder: &Path, file: &Path, manifest: WrapperManifest) -> Result<FoundPlugin, String> {
    let name = manifest.id.or(manifest.name).ok_or("neither id nor name")?;
    match manifest.protocol_version {
        Some(VERSION) => {}
        None => return Err(format!("protocolVersion is missing, {VERSION} is spoken")),
        Some(other) => return Err(format!("protocolVersion {other} is not spoken, {VERSION} is")),
    }
    let command = manifest.command.trim_start_matches("./").to_owned();
    if !stays_below(&command) {
        return Err("command starts in the folder: no leading /, no `..`".to_owned());
    }
    let is_there = |path: &&str| stays_below(path) && folder.join(path).is_file();
    let arguments = manifest.args.iter().map(String::as_str);
    let entry = Some(command.as_str()).filter(is_there).or_else(|| arguments.clone().find(|path| is_there(path)));
    let entry =
        entry.ok_or_else(|| format!("neither the command {command} nor an argument is a file of the folder"))?;
    let mut descriptor = Map::new();
    descriptor.extend(manifest.version.map(|it| ("version".to_owned(), json!(it))));
    descriptor.extend(manifest.description.map(|it| ("description".to_owned(), json!(it))));
    if !manifest.capabilities.is_empty() {
        descriptor.insert("tags".to_owned(), json!(manifest.capabilities));
    }
    let args: Vec<_> = manifest.args.iter().map(|arg| if *arg == entry { "{entry}" } else { arg }).collect();
    let mut spec = Map::from_iter([
        ("type".to_owned(), json!(manifest.r#type.as_deref().unwrap_or(WRAPPER_TYPE))),
        ("wrapper".to_owned(), json!({"command": command, "args": args, "protocolVersion": "1.0"})),
        ("timeoutMs".to_owned(), json!(manifest.timeout.unwrap_or(WRAPPER_TIMEOUT))),
        ("descriptor".to_owned(), Value::Object(descriptor)),
    ]);
    spec.extend(manifest.max_input_size_bytes.map(|it| ("limits".to_owned(), json!({"maxInputSize": it}))));
    let entry = entry.to_owned();
    Ok(FoundPlugin { name, file: file.to_owned(), folder: folder.to_owned(), entry, spec })
}

impl FoundPlugin {
    /// Returns the Plugin with this source.
    pub fn object(&self, namespace: Option<&str>, source: Value) -> Value {
        let mut metadata = json!({"name": self.name});
        if let Some(namespace) = namespace {
            metadata["namespace"] = json!(namespace);
        }
        let mut spec = self.spec.clone();
        spec.insert("source".to_owned(), source);
        json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "Plugin", "metadata": metadata, "spec": spec})
    }
}
