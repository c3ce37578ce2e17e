//! Document 001's `plugins`, with the fields and the spellings of document 000's PluginConfiguration.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::converted::Converted;
use super::names::object_name;
use super::section::Section;

/// The endings of plugin code, in the order in which they are looked for.
const ENDINGS: [&str; 3] = ["js", "mjs", "cjs"];
/// The folder of plugins without `pluginDir`.
const DEFAULT_DIR: &str = "./plugins";

/// A plugin of a document.
#[derive(Default)]
struct Named {
    /// The fields of its `spec` that entries have.
    spec: Map<String, Value>,
    /// The field that names it first; empty for a file that nothing names.
    field: String,
}

/// The plugins of one document by their names.
type Plugins = BTreeMap<String, Named>;

/// Returns the plugin that is named at `field`.
fn named<'p>(plugins: &'p mut Plugins, name: &str, field: &str) -> &'p mut Named {
    let plugin = plugins.entry(name.to_owned()).or_default();
    if plugin.field.is_empty() {
        field.clone_into(&mut plugin.field);
    }
    plugin
}

/// Converts `plugins` into the settings of a gateway, plugins and a chain for each server and phase.
pub(super) fn convert(
    plugins: &Value,
    gateway: &mut Map<String, Value>,
    converted: &mut Converted,
    files: &dyn Fn(&str) -> Option<Vec<String>>,
) {
    let Value::Object(members) = plugins else {
        return converted.refuse("plugins", "it is no mapping");
    };
    let mut section = Section::new(members, "plugins");
    let mut settings = Map::new();
    section.copy(&["pluginDir", "plugin_dir"], &mut settings, "pluginDir");
    section.copy(&["nodeExecutable", "node_executable"], &mut settings, "nodeExecutable");
    let concurrent = ["maxConcurrentExecutions", "max_concurrent_executions"];
    section.copy(&concurrent, &mut settings, "maxConcurrentExecutions");
    section.copy(&["poolSizePerPlugin", "pool_size_per_plugin"], &mut settings, "poolSizePerPlugin");
    section.copy(&["defaultTimeoutMs", "default_timeout_ms"], &mut settings, "defaultTimeoutMs");
    let is_given = settings.contains_key("pluginDir");
    let dir = settings.entry("pluginDir").or_insert_with(|| json!(DEFAULT_DIR)).as_str().unwrap_or(DEFAULT_DIR);
    let read = files(dir);
    if read.is_none() && is_given {
        converted.refuse("plugins.pluginDir", format!("there is no folder {dir}, or it cannot be read"));
    }
    let files = read.unwrap_or_default();
    gateway.insert("plugins".to_owned(), Value::Object(settings));

    let mut found: Plugins =
        files.iter().filter_map(|file| name_of(file)).map(|name| (name, Named::default())).collect();
    let servers = section.take(&["servers"]);
    let assignments = section.take(&["serverAssignments", "server_assignments"]);
    section.finish_strict(converted);
    for (server, phases) in servers_in(servers, "plugins.servers", converted) {
        chains_of(server, phases, &mut found, converted);
    }
    for (server, names) in servers_in(assignments, "plugins.serverAssignments", converted) {
        assigned(server, names, &mut found, converted);
    }
    add_plugins(found, &files, converted);
}

/// Returns the servers that a mapping names, with the value of each that has one.
fn servers_in<'v>(value: Option<&'v Value>, field: &str, converted: &mut Converted) -> Vec<(&'v String, &'v Value)> {
    let Some(value) = value else { return Vec::new() };
    let Value::Object(servers) = value else {
        converted.refuse(field, "it is no mapping from servers");
        return Vec::new();
    };
    let (named, nameless): (Vec<_>, Vec<_>) =
        servers.iter().partition(|(name, _)| name.contains(|c: char| c.is_ascii_alphanumeric()));
    for (name, _) in nameless {
        converted
            .refuse(format!("{field}.{name}"), "the name of a server has a letter or a digit; there are no patterns");
    }
    named.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

/// Adds the plugins: first those that entries name, so that no other file takes their names.
fn add_plugins(found: Plugins, files: &[String], converted: &mut Converted) {
    let (named, idle): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, plugin)| !plugin.field.is_empty());
    let mut names = BTreeSet::new();
    for (name, Named { mut spec, field }) in named.into_iter().chain(idle) {
        let object = object_name(&name, 63);
        if !names.insert(object.clone()) && field.is_empty() {
            converted.leave_out("plugins", format!("{name}: Plugin {object} is made from another file"));
            continue;
        }
        spec.insert("source".to_owned(), json!({"path": file_of(&name, files)}));
        let field = if field.is_empty() { "plugins" } else { &field };
        converted.add("Plugin", &object, Value::Object(spec), field);
    }
}

/// The name of the plugin in a file, which is the file's name without its ending.
fn name_of(file: &str) -> Option<String> {
    let (name, ending) = file.rsplit_once('.')?;
    (ENDINGS.contains(&ending) && !name.is_empty()).then(|| name.to_owned())
}

fn file_of(name: &str, files: &[String]) -> String {
    let mut all = ENDINGS.iter().map(|ending| format!("{name}.{ending}"));
    all.find(|file| files.contains(file)).unwrap_or_else(|| format!("{name}.js"))
}

/// The chains of one server.
fn chains_of(server: &str, phases: &Value, plugins: &mut Plugins, converted: &mut Converted) {
    let field = format!("plugins.servers.{server}");
    let Value::Object(members) = phases else {
        return converted.refuse(field, "it is no mapping with `request` or `response`");
    };
    let mut section = Section::new(members, &field);
    for (phase, kind) in [("request", "Request"), ("response", "Response")] {
        let Some(entries) = section.take(&[phase]) else { continue };
        let at = section.field(phase);
        let Value::Array(entries) = entries else {
            converted.refuse(at, "it is no list of plugins");
            continue;
        };
        let entries = entries.iter().enumerate();
        let entries: Vec<_> =
            entries.filter_map(|(i, written)| entry(written, &format!("{at}[{i}]"), plugins, converted)).collect();
        chain(server, kind, entries, &at, converted);
    }
    section.finish_strict(converted);
}

fn chain(server: &str, phase: &str, entries: Vec<Value>, field: &str, converted: &mut Converted) {
    if entries.is_empty() {
        return;
    }
    let upstream = object_name(server, 48);
    let name = format!("{upstream}-{}", phase.to_ascii_lowercase());
    let spec = json!({"phase": phase, "upstreams": {"names": [upstream]}, "entries": entries});
    converted.add("PluginChain", &name, spec, field);
}

/// An entry of a chain. Fields that belong to a plugin are added to that plugin.
fn entry(written: &Value, field: &str, plugins: &mut Plugins, converted: &mut Converted) -> Option<Value> {
    let (Value::Object(members), Some(name)) = (written, written["name"].as_str()) else {
        converted.refuse(field, "it is no mapping with a `name`");
        return None;
    };
    let mut section = Section::new(members, field);
    section.take(&["name"]);
    let mut entry = Map::from_iter([("name".to_owned(), json!(object_name(name, 63)))]);
    section.copy(&["order"], &mut entry, "order");
    section.copy(&["enabled"], &mut entry, "enabled");
    section.copy(&["timeoutMs", "timeout_ms"], &mut entry, "timeoutMs");
    section.copy(&["maxTokens", "max_tokens"], &mut entry, "maxTokens");
    let plugin = &mut named(plugins, name, field).spec;
    let mut of_plugin = Map::new();
    section.copy(&["role"], &mut of_plugin, "role");
    section.copy(&["egress"], &mut of_plugin, "egress");
    if let Some(names) = section.take_list("env", converted) {
        let variables = names.iter().map(|name| json!({"name": name, "valueFrom": {"environment": name}}));
        of_plugin.insert("env".to_owned(), variables.collect());
    }
    for (key, value) in of_plugin {
        let differs = plugin.get(&key).is_some_and(|other| *other != value);
        if differs {
            let reason = "entries of this plugin have other values: the role Guard counts, otherwise the first value";
            converted.leave_out(section.field(&key), reason);
        }
        if !differs || value == "Guard" {
            plugin.insert(key, value);
        }
    }
    section.finish_strict(converted);
    Some(Value::Object(entry))
}

/// The chains of a server to which plugins are assigned by name: those of both phases, in the order of the list.
fn assigned(server: &str, names: &Value, plugins: &mut Plugins, converted: &mut Converted) {
    let field = format!("plugins.serverAssignments.{server}");
    let texts = names.as_array().and_then(|names| names.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    let Some(names) = texts else {
        return converted.refuse(field, "it is no list of the names of plugins");
    };
    for phase in ["Request", "Response"] {
        let entries = names.iter().enumerate().map(|(i, name)| json!({"name": object_name(name, 63), "order": i}));
        chain(server, phase, entries.collect(), &field, converted);
    }
    for name in names {
        named(plugins, name, &field);
    }
}
