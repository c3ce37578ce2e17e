//! Finds plugins in folders: each becomes a Plugin, as if a manifest declared it. Nothing is run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::folder_plugin::{
    FoundPlugin, WrapperManifest, described_plugin, file_name, name_in, read, stays_below, wrapper_plugin,
};
use crate::domain::plugin::PluginKind;

/// The file that describes a plugin in its folder.
const DESCRIPTOR: &str = "plugin.json";
/// The file that describes a wrapper in its folder.
const MANIFEST: &str = "manifest.json";
/// The folder of wrappers.
const WRAPPERS: &str = "wrappers";
/// The file that lists the plugins of a folder, below it or beside it.
const CATALOGUE: &str = "config/plugins.json";
/// The folder of packages, beside that of plugins.
const PACKAGES: &str = "node_modules";
/// The maximum number of plugins.
const MAX_FOUND: usize = 1000;

/// Where plugins are looked for.
#[derive(Clone, Debug, Default)]
pub struct DiscoverySettings {
    /// The folder of plugins.
    pub folder: PathBuf,
    /// The catalogue; `None` for the one below or beside the folder, if there is one.
    pub catalogue: Option<PathBuf>,
    /// Whether packages in `node_modules` beside the folder are looked at.
    pub packages: bool,
}

/// A plugin that is left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// The file that describes it, or the folder.
    pub file: PathBuf,
    /// The reason, as a message.
    pub why: String,
    /// The name of the plugin, as far as it is known: that of its folder if its file cannot be read.
    pub name: Option<String>,
    /// Whether the name is that of several plugins.
    pub is_conflict: bool,
}

/// The plugins that were found, and those that are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discovered {
    /// The plugins, by name.
    pub plugins: Vec<FoundPlugin>,
    /// The plugins that are left out.
    pub left_out: Vec<LeftOut>,
    /// Files that decide what is found.
    pub files: Vec<PathBuf>,
    /// Folders in which a new folder can be a plugin.
    pub folders: Vec<PathBuf>,
}

/// A catalogue of plugins. Other members are not read.
#[derive(Default, Deserialize)]
struct Catalogue {
    #[serde(default)]
    builtins: Vec<CatalogueEntry>,
}

#[derive(Deserialize)]
struct CatalogueEntry {
    module: String,
    enabled: Option<bool>,
}

/// Looks for plugins. One bad folder leaves out itself only; of two with one name, both are left out.
pub fn discover(settings: &DiscoverySettings) -> Discovered {
    let mut finder = Finder { found: Vec::new(), discovered: Discovered::default(), switches: BTreeMap::new() };
    finder.catalogue(settings);
    if let Err(error) = fs::read_dir(&settings.folder) {
        finder.leave_out(&settings.folder, format!("the folder of plugins cannot be read: {error}"));
    }
    finder.discovered.folders.push(settings.folder.clone());
    for folder in folders_in(&settings.folder) {
        let name = file_name(&folder);
        // A file that is written later counts too.
        finder.discovered.files.push(folder.join(DESCRIPTOR));
        if name == WRAPPERS || PluginKind::NAMES.contains(&&*name) {
            finder.discovered.folders.push(folder.clone());
        }
        if name == WRAPPERS {
            folders_in(&folder).iter().for_each(|wrapper| finder.wrapper(wrapper));
        } else if folder.join(DESCRIPTOR).is_file() {
            finder.folder(&folder, None);
        } else if PluginKind::NAMES.contains(&&*name) {
            for plugin in folders_in(&folder) {
                finder.discovered.files.push(plugin.join(DESCRIPTOR));
                if plugin.join(DESCRIPTOR).is_file() {
                    finder.folder(&plugin, Some(&name));
                }
            }
        }
    }
    if settings.packages {
        finder.packages(&beside(&settings.folder).join(PACKAGES));
    }
    finder.finish()
}

struct Finder {
    found: Vec<FoundPlugin>,
    discovered: Discovered,
    /// Whether each module of a catalogue is enabled.
    switches: BTreeMap<PathBuf, bool>,
}

impl Finder {
    fn add(&mut self, file: PathBuf, found: Result<FoundPlugin, String>) {
        self.discovered.files.push(file.clone());
        match found {
            Ok(found) if !self.found.iter().any(|known| known.file == found.file && known.entry == found.entry) => {
                self.found.push(found);
            }
            Ok(_) => {}
            Err(why) => {
                let name = name_in(&file);
                self.discovered.left_out.push(LeftOut { file, why, name, is_conflict: false });
            }
        }
    }

    /// Leaves out what has no name.
    fn leave_out(&mut self, file: &Path, why: String) {
        self.discovered.left_out.push(LeftOut { file: file.to_owned(), why, name: None, is_conflict: false });
    }

    /// Adds the plugin of a folder with a `plugin.json`. `kind` is the type that the folder above is named after.
    fn folder(&mut self, folder: &Path, kind: Option<&str>) {
        let file = folder.join(DESCRIPTOR);
        let found = read::<Value>(&file).and_then(|described| described_plugin(folder, &file, &described, kind));
        self.add(file, found);
    }

    fn wrapper(&mut self, folder: &Path) {
        let file = folder.join(MANIFEST);
        self.discovered.files.push(file.clone());
        if file.is_file() {
            let found = read::<WrapperManifest>(&file).and_then(|manifest| wrapper_plugin(folder, &file, manifest));
            self.add(file, found);
        }
    }

    /// Adds the modules of a catalogue.
    fn catalogue(&mut self, settings: &DiscoverySettings) {
        let places = match &settings.catalogue {
            Some(named) => vec![named.clone()],
            None => vec![settings.folder.join(CATALOGUE), beside(&settings.folder).join(CATALOGUE)],
        };
        let Some(file) = places.iter().find(|file| file.is_file()) else {
            if let Some(file) = &settings.catalogue {
                self.leave_out(file, "there is no such file".to_owned());
            }
            self.discovered.files.extend(places);
            return;
        };
        self.discovered.files.push(file.clone());
        let root = file.parent().and_then(Path::parent).unwrap_or(Path::new("."));
        match read::<Catalogue>(file) {
            Ok(catalogue) => {
                for CatalogueEntry { module, enabled } in catalogue.builtins {
                    self.module(&root.join(&module), file, enabled != Some(false));
                }
            }
            Err(why) => self.leave_out(file, why),
        }
    }

    /// Adds a module that a catalogue names. Its folder has a `plugin.json`.
    fn module(&mut self, module: &Path, catalogue: &Path, enabled: bool) {
        let folder = module.parent().unwrap_or(Path::new("."));
        let described = folder.join(DESCRIPTOR);
        self.switches.insert(described.clone(), enabled);
        let kind = folder.parent().map(file_name).filter(|kind| PluginKind::NAMES.contains(&&**kind));
        if described.is_file() {
            self.folder(folder, kind.as_deref());
        } else {
            let why = format!("module {}: there is no {DESCRIPTOR} beside it", module.display());
            self.leave_out(catalogue, why);
        }
    }

    /// Adds the plugins that packages name, which are described as those of folders are.
    fn packages(&mut self, folder: &Path) {
        let scoped = folders_in(folder).into_iter().flat_map(|package| {
            if file_name(&package).starts_with('@') { folders_in(&package) } else { vec![package] }
        });
        for package in scoped {
            let file = package.join("package.json");
            let Ok(described) = read::<Value>(&file) else { continue };
            let modules = described.pointer("/hawsepipe/plugins").and_then(Value::as_array).cloned();
            for module in modules.into_iter().flatten() {
                let Some(module) = module.as_str().filter(|module| stays_below(module)) else {
                    let why = "hawsepipe.plugins: a path leaves the package, or is no text".to_owned();
                    self.leave_out(&file, why);
                    continue;
                };
                self.module(&package.join(module.trim_start_matches("./")), &file, true);
            }
        }
    }

    fn finish(self) -> Discovered {
        let Self { found, mut discovered, switches } = self;
        let mut by_name: BTreeMap<String, Vec<FoundPlugin>> = BTreeMap::new();
        for mut plugin in found {
            if switches.get(&plugin.file) == Some(&false) {
                plugin.spec.insert("enabled".to_owned(), json!(false));
            }
            by_name.entry(plugin.name.clone()).or_default().push(plugin);
        }
        for (name, mut plugins) in by_name {
            if plugins.len() > 1 {
                let folders: Vec<_> = plugins.iter().map(|plugin| plugin.folder.display().to_string()).collect();
                let why = format!("{name} is in {}: names are unique over all types", folders.join(" and "));
                let left_out = plugins.into_iter().map(|plugin| LeftOut {
                    file: plugin.file,
                    why: why.clone(),
                    name: Some(name.clone()),
                    is_conflict: true,
                });
                discovered.left_out.extend(left_out);
                continue;
            }
            let Some(plugin) = plugins.pop() else { continue };
            if discovered.plugins.len() < MAX_FOUND {
                discovered.plugins.push(plugin);
                continue;
            }
            let why = format!("{MAX_FOUND} plugins were found before it, as many as can be: declare it in a manifest");
            discovered.left_out.push(LeftOut { file: plugin.file, why, name: Some(name), is_conflict: false });
        }
        discovered.left_out.sort();
        discovered.files.sort();
        discovered.files.dedup();
        discovered
    }
}

/// Returns the folder in which a folder is.
fn beside(folder: &Path) -> PathBuf {
    folder.parent().map_or_else(|| PathBuf::from(".."), Path::to_owned)
}

/// Returns the folders in a folder, by name, without hidden ones.
fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<_> = entries.filter(|path| path.is_dir() && !file_name(path).starts_with('.')).collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of files in a folder of its own.
    struct Tree(PathBuf);

    impl Tree {
        fn of(files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("hawsepipe-found-{}", uuid::Uuid::new_v4().simple()));
            for (path, text) in files {
                let file = root.join(path);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            Self(root)
        }

        fn discovered(&self) -> Discovered {
            discover(&DiscoverySettings { folder: self.0.join("plugins"), catalogue: None, packages: true })
        }

        fn left_out(&self) -> Vec<String> {
            let said = |LeftOut { file, why, .. }: &LeftOut| {
                let root = format!("{}/", self.0.display());
                format!("{}: {why}", file.strip_prefix(&self.0).unwrap().display()).replace(&root, "")
            };
            self.discovered().left_out.iter().map(said).collect()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Plugins of each kind that is found.
    const WHOLE: &[(&str, &str)] = &[
        (
            "plugins/kb-plugin/kb-a/plugin.json",
            r#"{"id":"kb-a","name":"A","type":"kb-plugin","description":"D.","timeoutMs":5}"#,
        ),
        ("plugins/kb-plugin/kb-a/index.mjs", "x"),
        ("plugins/redact/plugin.json", r#"{"name":"redact","role":"Guard","phases":["request"],"entry":"./main.mjs"}"#),
        ("plugins/redact/main.mjs", "x"),
        (
            "plugins/wrappers/z3/manifest.json",
            r#"{"id":"z3","protocolVersion":1,"command":"python3","args":["z3.py","-q"],"timeout":7}"#,
        ),
        ("plugins/wrappers/z3/z3.py", "x"),
        ("plugins/not/readme.md", "x"),
        (
            "config/plugins.json",
            r#"{"builtins":[{"module":"plugins/kb-plugin/kb-a/index.mjs","enabled":false},{"module":"more/gs-plugin/gs-b/index.mjs"}]}"#,
        ),
        ("more/gs-plugin/gs-b/plugin.json", "{}"),
        ("more/gs-plugin/gs-b/index.mjs", "x"),
        ("node_modules/@scope/p/package.json", r#"{"hawsepipe":{"plugins":["./val/index.mjs"]}}"#),
        ("node_modules/@scope/p/val/plugin.json", r#"{"id":"val-p","type":"val-plugin"}"#),
        ("node_modules/@scope/p/val/index.mjs", "x"),
    ];

    #[test]
    fn plugins_of_folders_a_catalogue_wrappers_and_packages_are_found() {
        let tree = Tree::of(WHOLE);
        let found = tree.discovered();
        assert_eq!(tree.left_out(), [""; 0]);
        let names: Vec<_> = found.plugins.iter().map(|plugin| (&*plugin.name, &*plugin.entry)).collect();
        assert_eq!(
            names,
            [
                ("gs-b", "index.mjs"),
                ("kb-a", "index.mjs"),
                ("redact", "main.mjs"),
                ("val-p", "index.mjs"),
                ("z3", "z3.py")
            ]
        );
        let spec = |name: &str| Value::Object(found.plugins.iter().find(|it| it.name == name).unwrap().spec.clone());
        assert_eq!(
            spec("kb-a"),
            json!({"type": "kb-plugin", "enabled": false, "timeoutMs": 5, "descriptor": {"description": "D.", "displayName": "A"}})
        );
        assert_eq!(spec("redact"), json!({"type": "middleware", "role": "Guard", "phases": ["Request"]}));
        let wrapper = json!({"command": "python3", "args": ["{entry}", "-q"], "protocolVersion": "1.0"});
        assert_eq!(spec("z3"), json!({"type": "gs-plugin", "wrapper": wrapper, "timeoutMs": 7, "descriptor": {}}));
        assert_eq!(found, tree.discovered(), "the same each time");
    }

    #[test]
    fn a_bad_folder_leaves_out_itself_with_the_reason() {
        let tree = Tree::of(&[
            ("plugins/kb-plugin/a/plugin.json", r#"{"id":"same"}"#),
            ("plugins/kb-plugin/a/index.mjs", "x"),
            ("plugins/gs-plugin/b/plugin.json", r#"{"id":"same"}"#),
            ("plugins/gs-plugin/b/index.mjs", "x"),
            ("plugins/gs-plugin/c/plugin.json", r#"{"type":"kb-plugin"}"#),
            ("plugins/d/plugin.json", "["),
            ("plugins/e/plugin.json", r#"{"entry":"../x.mjs"}"#),
            ("plugins/f/plugin.json", "{}"),
            ("plugins/good/plugin.json", "{}"),
            ("plugins/good/index.mjs", "x"),
            ("plugins/wrappers/g/manifest.json", r#"{"id":"g","command":"g"}"#),
            ("plugins/wrappers/h/manifest.json", r#"{"protocolVersion":1,"command":"h"}"#),
            ("plugins/wrappers/i/manifest.json", r#"{"id":"i","protocolVersion":2,"command":"i"}"#),
            ("plugins/wrappers/j/manifest.json", r#"{"id":"j","protocolVersion":1,"command":"../j"}"#),
        ]);
        let names: Vec<_> = tree.discovered().plugins.into_iter().map(|plugin| plugin.name).collect();
        assert_eq!(names, ["good"]);
        let same = "same is in plugins/gs-plugin/b and plugins/kb-plugin/a: names are unique over all types";
        let left = tree.left_out();
        for wanted in [
            &format!("plugins/gs-plugin/b/plugin.json: {same}"),
            &format!("plugins/kb-plugin/a/plugin.json: {same}"),
            "plugins/gs-plugin/c/plugin.json: type \"kb-plugin\" is not that of its folder, \"gs-plugin\"",
            "plugins/e/plugin.json: entry leaves the folder",
            "plugins/f/plugin.json: its code index.mjs is not there",
            "plugins/wrappers/g/manifest.json: protocolVersion is missing, 1 is spoken",
            "plugins/wrappers/h/manifest.json: neither id nor name",
            "plugins/wrappers/i/manifest.json: protocolVersion 2 is not spoken, 1 is",
            "plugins/wrappers/j/manifest.json: command starts in the folder: no leading /, no `..`",
        ] {
            assert!(left.iter().any(|said| said == wanted), "{wanted}\n{left:#?}");
        }
        assert!(
            left.iter().any(|said| said.starts_with("plugins/d/plugin.json: it is not as it must be")),
            "{left:#?}"
        );
        assert_eq!(left.len(), 10, "{left:#?}");
        let named = tree.discovered().left_out.into_iter().filter_map(|left| left.name).collect::<Vec<_>>();
        assert!(["same", "c", "d", "e", "f", "g", "h", "i", "j"].iter().all(|name| named.iter().any(|it| it == name)));
    }
}
