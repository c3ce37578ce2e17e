//! `hawsepipe registry`: Plugin and PluginChain objects in a database. And `hawsepipe run --registry`, which copies them
//! into the state folder, from where they are read like other manifests.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::names::is_label;
use super::output::{harmless, print_line, say};
use super::pushed::{PushedObject, faults};
use super::store_arg::StoreArg;
use crate::domain::digest::sha256_hex;
use crate::domain::ids::ObjectId;
use crate::node::{Inspector, Launcher};
use crate::source::document::{self, FileObject};
use crate::source::{read_files, read_plugin_file};
use crate::store::{Registry, RegistryObject, StoreError, StoreTarget};

/// The kinds that a registry holds.
const KINDS: [&str; 2] = ["Plugin", "PluginChain"];
/// The maximum length of a name: with kind and namespace it is the name of a file.
const MAX_NAME: usize = 128;
/// How often a gateway looks for changes.
const LOOK: Duration = Duration::from_secs(1);
/// How often a failure that lasts is logged, in looks.
const LOG: u32 = 60;

#[derive(Debug, clap::Args)]
pub struct RegistryArgs {
    #[command(subcommand)]
    pub command: RegistryCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum RegistryCommand {
    /// Add the plugins and chains of manifests, or replace those that are there
    Push(PushArgs),
    /// List the objects
    List(RegistryTarget),
    /// Remove an object
    Rm(RmArgs),
}

#[derive(Debug, clap::Args)]
pub struct RegistryTarget {
    /// The registry: PATH or sqlite:PATH of a SQLite file, or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(long, value_name = "REGISTRY", env = "HAWSEPIPE_REGISTRY", hide_env_values = true)]
    pub registry: StoreArg,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
All objects are added, or none if one of them has an error. Of other kinds than Plugin and PluginChain nothing is added.

Examples:
  hawsepipe registry push -f team-a/ --registry registry.db
  hawsepipe registry push -f chains.yaml --plugin-dir plugins --registry postgres://hawsepipe@db/registry")]
pub struct PushArgs {
    #[command(flatten)]
    pub target: RegistryTarget,
    /// A manifest, or a folder of manifests (*.yaml, *.yml, *.json); can be repeated
    #[arg(short, long = "file", value_name = "PATH", required = true)]
    pub files: Vec<PathBuf>,
    /// The folder that `source.path` of plugins starts in. Default: `plugins` in the folder of the first manifest
    #[arg(long, value_name = "DIR")]
    pub plugin_dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hawsepipe registry rm Plugin default/shout --registry registry.db")]
pub struct RmArgs {
    #[command(flatten)]
    pub target: RegistryTarget,
    /// Plugin or PluginChain
    #[arg(value_parser = KINDS)]
    pub kind: String,
    /// NAMESPACE/NAME, or NAME in the namespace default
    pub name: String,
    /// Remove a plugin although chains of the registry use it
    #[arg(long)]
    pub force: bool,
}

pub async fn registry(args: RegistryArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        RegistryCommand::Push(args) => push(args).await,
        RegistryCommand::List(target) => list(target).await,
        RegistryCommand::Rm(args) => remove(args).await,
    }
}

async fn push(args: PushArgs) -> anyhow::Result<ExitCode> {
    let mut pushed = Vec::new();
    for file in read_files(&args.files, &HashSet::new()) {
        let text = file.text.as_ref().map_err(|why| anyhow::anyhow!("{}: {why}", file.path.display()))?;
        let found = document::read(&file.path, text, file.is_json()).map_err(|wrong| anyhow::anyhow!("{wrong}"))?;
        if found.unclear {
            bail!("{}: it has a document that cannot be identified", file.path.display());
        }
        let default = file.folder.join("plugins");
        let folder = args.plugin_dir.as_deref().unwrap_or(&default);
        for object in found.objects.into_iter().filter(|object| KINDS.contains(&object.id.kind.as_str())) {
            check_name(&object.id)?;
            pushed.push(registered(object, folder)?);
        }
    }
    if pushed.is_empty() {
        bail!("the manifests have no Plugin and no PluginChain");
    }
    let checked: Vec<_> = pushed.iter().map(Registered::to_check).collect();
    let faults = faults(&checked, Inspector::new(Launcher::current()?)).await;
    if !faults.is_empty() {
        faults.iter().for_each(|fault| say(&harmless(&fault.to_string())));
        bail!("nothing was pushed: put right what is wrong, and push again");
    }
    let (objects, code): (Vec<_>, Vec<_>) = pushed.iter().map(Registered::to_store).unzip();
    Registry::open(args.target.registry.target()?)
        .await?
        .push(&objects, &code.into_iter().flatten().collect::<Vec<_>>())
        .await?;
    for RegistryObject { kind, namespace, name, .. } in &objects {
        print_line(&format!("{kind} {namespace}/{name}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses a name that no object can have (RFC 1123): the copy of the registry could not have a file for it.
fn check_name(id: &ObjectId) -> anyhow::Result<()> {
    let key = &id.key;
    if !is_label(&key.namespace) || !key.name.split('.').all(is_label) || key.name.len() > MAX_NAME {
        bail!("{} {key}: names have lower-case letters, digits, '-' and '.', at most {MAX_NAME}; rename it", id.kind);
    }
    Ok(())
}

/// An object to push.
struct Registered {
    written: FileObject,
    /// The object as the registry has it: code of a file is in a ConfigMap.
    document: Value,
    /// The name of the file with the plugin's code, and the code.
    code: Option<(String, String)>,
}

fn registered(written: FileObject, folder: &Path) -> anyhow::Result<Registered> {
    let (mut document, id) = (written.document.as_ref().clone(), &written.id);
    let path = document["spec"]["source"]["path"].as_str().map(str::to_owned);
    let mut code = None;
    if let Some(path) = path {
        let read = read_plugin_file(folder, &path);
        let file = read.map_err(|why| anyhow::anyhow!("{} {}: spec.source.path: {why}", id.kind, id.key))?;
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        let from = json!({"name": config_map(&id.key.name), "key": name});
        document["spec"]["source"] = json!({"configMapKeyRef": from});
        code = Some((name, file.text));
    }
    Ok(Registered { written, document, code })
}

impl Registered {
    fn to_check(&self) -> PushedObject<'_> {
        let map = config_map(&self.written.id.key.name);
        let code = self.code.as_ref().map(|(name, code)| (map, name.clone(), &**code));
        PushedObject { written: &self.written, document: &self.document, code }
    }

    /// Returns the object for the registry, and the code of its file.
    fn to_store(&self) -> (RegistryObject, Option<String>) {
        let ObjectId { kind, key } = &self.written.id;
        let code = self.code.as_ref().map(|(name, code)| (name.clone(), sha256_hex(code.as_bytes())));
        let object = RegistryObject {
            kind: kind.as_str().to_owned(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            api_version: self.document["apiVersion"].as_str().unwrap_or_default().to_owned(),
            document: self.document.to_string(),
            code,
        };
        (object, self.code.as_ref().map(|(_, code)| code.clone()))
    }
}

async fn list(target: RegistryTarget) -> anyhow::Result<ExitCode> {
    for object in Registry::open(target.registry.existing()?).await?.list().await? {
        let code = object.code.as_ref().map(|(file, digest)| format!("  {file} {digest:.12}")).unwrap_or_default();
        let [kind, namespace, name] = object.id();
        print_line(&format!("{kind:<12} {namespace}/{name}  {}{code}", object.api_version))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn remove(args: RmArgs) -> anyhow::Result<ExitCode> {
    let (namespace, name) = args.name.split_once('/').unwrap_or(("default", &args.name));
    let registry = Registry::open(args.target.registry.existing()?).await?;
    let objects = registry.list().await?;
    let is_there = objects.iter().any(|object| object.id() == [&args.kind, namespace, name]);
    let users: Vec<_> = objects.iter().filter(|object| uses(object, namespace, name)).map(shown).collect();
    if is_there && args.kind == "Plugin" && !args.force && !users.is_empty() {
        bail!(
            "Plugin {namespace}/{name} is used by {}, which would refuse calls without it: take it out there first, or give \
             --force",
            users.join(", ")
        );
    }
    if !registry.remove([&args.kind, namespace, name]).await? {
        bail!("the registry has no {} {namespace}/{name}", args.kind);
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(object: &RegistryObject) -> String {
    let [kind, namespace, name] = object.id();
    format!("{kind} {namespace}/{name}")
}

/// Whether an object is a chain with an entry that names this plugin.
fn uses(object: &RegistryObject, namespace: &str, name: &str) -> bool {
    let document: Value = serde_json::from_str(&object.document).unwrap_or_default();
    let entries = document["spec"]["entries"].as_array().into_iter().flatten();
    object.kind == "PluginChain"
        && entries
            .into_iter()
            .any(|entry| entry["name"] == name && entry["namespace"].as_str().unwrap_or(&object.namespace) == namespace)
}

/// A registry that a gateway follows, and the folder that has a copy of it.
pub struct RegistryCopy {
    target: StoreTarget,
    folder: PathBuf,
    registry: Option<Registry>,
    revision: i64,
}

impl RegistryCopy {
    /// Copies a registry into `folder`. If it cannot be reached and there is a copy of an earlier run, that one counts.
    ///
    /// # Errors
    /// If there is no copy, or the folder cannot be written.
    pub async fn new(target: StoreTarget, folder: PathBuf) -> anyhow::Result<Self> {
        let had_copy = folder.is_dir();
        let mut copy = Self { target, folder, registry: None, revision: -1 };
        match copy.look().await {
            Ok(()) => {}
            Err(why) if had_copy => {
                tracing::warn!("the registry is not read: {why}. The copy of its last state counts")
            }
            Err(why) => return Err(why.context("--registry")),
        }
        Ok(copy)
    }

    /// The folder with the copy.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Copies each change, until the future is dropped.
    pub async fn follow(mut self) {
        let mut failures = 0;
        loop {
            tokio::time::sleep(LOOK).await;
            match self.look().await {
                Ok(()) => failures = 0,
                Err(why) => {
                    if failures % LOG == 0 {
                        tracing::warn!("the registry is not read: {why}. The copy of its last state counts");
                    }
                    failures += 1;
                }
            }
        }
    }

    async fn look(&mut self) -> anyhow::Result<()> {
        if self.registry.is_none() {
            self.registry = Some(Registry::open(self.target.clone()).await?);
        }
        let Some(registry) = &self.registry else { return Ok(()) };
        // It is read before the objects: a change in between is copied with the next look.
        let revision = registry.revision().await?;
        if revision == 0 {
            bail!("nothing was ever pushed to it: check its address, or run `hawsepipe registry push` first");
        }
        if revision != self.revision {
            copy(registry, &self.folder).await?;
            self.revision = revision;
        }
        Ok(())
    }
}

/// Writes a file for each object, and removes those of other objects. Nothing is written if the registry cannot be read. The
/// first copy is there as a whole or not at all, because a part of it can lack a Guard.
async fn copy(registry: &Registry, folder: &Path) -> anyhow::Result<()> {
    if folder.is_dir() {
        return copy_into(registry, folder).await;
    }
    let first = folder.with_extension("new");
    std::fs::create_dir_all(&first).with_context(|| format!("the folder {}", first.display()))?;
    copy_into(registry, &first).await?;
    Ok(std::fs::rename(first, folder)?)
}

async fn copy_into(registry: &Registry, folder: &Path) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for object in registry.list().await? {
        let text = manifest(registry, &object).await?;
        let name = object.id().join(".").to_lowercase().replace('/', "_");
        files.push((format!("{name}.yaml"), text));
    }
    let names: BTreeSet<_> = files.iter().map(|(name, _)| name.clone()).collect();
    for (name, text) in files {
        let (file, beside) = (folder.join(&name), folder.join(format!(".{name}")));
        if std::fs::read_to_string(&file).is_ok_and(|known| known == text) {
            continue;
        }
        let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &file));
        written.with_context(|| format!("the copy of an object, {}", file.display()))?;
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !names.contains(&*entry.file_name().to_string_lossy()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The manifest of an object. Code that is not there is left out, so that only this plugin is not accepted.
async fn manifest(registry: &Registry, object: &RegistryObject) -> Result<String, StoreError> {
    let mut text = format!("---\n{}\n", object.document);
    if let Some((file, digest)) = &object.code {
        match registry.code(digest).await? {
            Some(content) => {
                let map: Value = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "data": {file: content},
                    "metadata": {"name": config_map(&object.name), "namespace": object.namespace},
                });
                text += &format!("---\n{map}\n");
            }
            None => tracing::warn!(
                "{} {}/{}: its code {digest:.12} is not in the registry, or was changed",
                object.kind,
                object.namespace,
                object.name
            ),
        }
    }
    Ok(text)
}

/// The name of the ConfigMap that has the code of a plugin in the copy.
fn config_map(plugin: &str) -> String {
    format!("{plugin}-registry-code")
}
