//! The command `hawsepipe plugin new`.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::args::{NewArgs, NewKind, NewWrapper};
use crate::cli::output::print_line;
use crate::config::input::GatewayInput;
use crate::source::{load, read_files};

/// The TypeScript types for plugin authors, from `plugins/sdk`.
pub const TYPES: &str = include_str!("../../../plugins/sdk/index.d.ts");
/// The name of the file with the types, beside the code.
const TYPES_FILE: &str = "hawsepipe-plugin.d.ts";
/// The name of the Plugin in templates.
const NAME: &str = "my-plugin";

/// The beginning of each test.
const TEST_HEAD: &str = include_str!("../../../plugins/sdk/templates/test-head.mjs");

/// What is written for a plugin, and how to run it.
struct Template {
    /// The default name of the Plugin.
    name: &'static str,
    code: &'static str,
    manifest: &'static str,
    /// The test, without [`TEST_HEAD`].
    test: &'static str,
    /// The options of `hawsepipe plugin run`.
    first_run: &'static str,
    /// The extension of the code.
    ending: &'static str,
}

/// Makes the [`Template`] of a name in `plugins/sdk/templates`.
macro_rules! template {
    ($name:literal, $first_run:expr) => {
        Template {
            name: $name,
            code: include_str!(concat!("../../../plugins/sdk/templates/", $name, ".mjs")),
            manifest: include_str!(concat!("../../../plugins/sdk/templates/", $name, ".yaml")),
            test: include_str!(concat!("../../../plugins/sdk/templates/", $name, "-test.mjs")),
            first_run: $first_run,
            ending: "mjs",
        }
    };
}

impl Template {
    fn of(kind: NewKind) -> Self {
        match kind {
            NewKind::Guard => template!("guard", "--text '{\"message\": \"This is confidential.\"}'"),
            NewKind::Transform => template!("transform", "--text \"$(printf 'one\\n\\n\\n\\ntwo')\""),
            NewKind::Observer => template!("observer", "--text hello"),
            NewKind::Phase => template!(
                "phase",
                "--method execute --input '{\"arguments\": {\"prompt\": \"hi\"}}' \\\n    \
                 --mock '{\"everything__echo\": {\"content\": [{\"type\": \"text\", \"text\": \"hi\"}]}}'"
            ),
            NewKind::ToolProvider => {
                template!("tool-provider", "--method execute --input '[\"count_words\", {\"text\": \"one two\"}]'")
            }
            NewKind::PromptProvider => template!("prompt-provider", "--method getPromptOverrides"),
            NewKind::PipelineCustomizer => template!(
                "pipeline-customizer",
                "--method getPipelineCustomizations --input '{\"arguments\": {\"depth\": \"light\"}}'"
            ),
            NewKind::OutputType => template!("output-type", "--method getOutputSchema"),
        }
    }
}

impl Template {
    /// Returns the template in Python. Its test is that of the plugin in JavaScript, which does the same.
    ///
    /// # Errors
    /// If there is none of this type.
    fn in_python(self, kind: NewKind) -> anyhow::Result<Self> {
        let code = match kind {
            NewKind::Guard => include_str!("../../../plugins/sdk/templates/guard.py"),
            NewKind::Transform => include_str!("../../../plugins/sdk/templates/transform.py"),
            _ => bail!("--wrapper writes a guard or a transform: of type {}, there is code in JavaScript", self.name),
        };
        Ok(Self { code, ending: "py", ..self })
    }
}

/// Returns a manifest whose Plugin is a wrapper of Python.
fn of_python(manifest: &str, name: &str) -> String {
    let source = format!("  source: {{path: {name}.mjs}}\n");
    let wrapper = format!("  source: {{path: {name}.py}}\n  wrapper: {{command: python3}}\n  protocol: Lines\n");
    manifest.replace(&source, &wrapper)
}

/// Returns the manifest of a gateway that allows the wrapper, to put before the others; empty if there is a gateway in the folder,
/// which the user then has to edit.
fn gateway_of(name: &str, has_gateway: bool) -> String {
    if has_gateway {
        return String::new();
    }
    format!(
        "apiVersion: hawsepipe.dev/v1alpha1\nkind: MCPGateway\nmetadata: {{name: main}}\nspec:\n  \
         authentication: {{anonymous: {{}}}}\n  plugins: {{allowedWrappers: [{name}]}}\n---\n"
    )
}

/// Writes a plugin, its manifest and its test, and prints what to do next.
pub fn new(args: &NewArgs) -> anyhow::Result<ExitCode> {
    let template = Template::of(args.kind);
    let template = match args.wrapper {
        Some(NewWrapper::Python) => template.in_python(args.kind)?,
        None => template,
    };
    let name = args.name.as_deref().unwrap_or(template.name);
    let named = |text: &str| text.replace(NAME, name).replace(&tool_name(NAME), &tool_name(name));
    let gateway = gateway_in(&args.dir);
    let has_gateway = gateway.is_some();
    let plugins = plugin_folder(gateway, &args.dir);
    let [code, test] = [template.ending, "test.mjs"].map(|ending| plugins.join(format!("{name}.{ending}")));
    let manifest = args.dir.join(format!("{name}.yaml"));
    if let Some(there) = [&code, &test, &manifest].into_iter().find(|file| file.exists()) {
        bail!("{} is there already: give another NAME", there.display());
    }
    fs::create_dir_all(&plugins).with_context(|| format!("cannot make the folder {}", plugins.display()))?;
    write(&code, &named(template.code))?;
    write(&test, &named(&[TEST_HEAD, template.test].concat()))?;
    let mut documents = without_declared(&named(template.manifest), &args.dir)?;
    if args.wrapper.is_some() {
        documents = gateway_of(name, has_gateway) + &of_python(&documents, name);
    }
    write(&manifest, &documents)?;
    let types = plugins.join(TYPES_FILE);
    if !types.exists() && args.wrapper.is_none() {
        write(&types, TYPES)?;
    }
    if args.wrapper.is_some() && has_gateway {
        print_line(&format!("\nLet the gateway run it: add {name} to spec.plugins.allowedWrappers"))?;
    }
    let (folder, manifest) = (args.dir.display(), manifest.display());
    let tests = if plugins.starts_with(&args.dir) { &args.dir } else { &plugins };
    print_line(&format!("\nCheck the manifests:\n  hawsepipe validate {folder}"))?;
    print_line(&format!("Run the test:\n  hawsepipe plugin test {}", tests.display()))?;
    print_line(&format!("Run it once:\n  hawsepipe plugin run {manifest} {}", template.first_run))?;
    print_line(&format!("Start a gateway with it:\n  hawsepipe run -f {folder}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the gateway that the manifests of a folder declare.
fn gateway_in(folder: &Path) -> Option<GatewayInput> {
    let loaded = load(read_files(&[folder.to_owned()], &HashSet::new()), None, &folder.join("plugins"));
    loaded.gateways.into_iter().next()
}

/// Returns the plugin folder of a gateway: by default `plugins` in the folder of its manifests.
fn plugin_folder(gateway: Option<GatewayInput>, folder: &Path) -> PathBuf {
    gateway.map_or_else(|| folder.join("plugins"), |gateway| gateway.plan.runtime.plugin_dir)
}

/// Returns a manifest without its server if another manifest of the folder declares the server, or any server if the
/// manifest does not name tools of its own.
fn without_declared(manifest: &str, folder: &Path) -> anyhow::Result<String> {
    let mut others = String::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            others.push_str(&fs::read_to_string(&path)?);
            others.push_str("\n---\n");
        }
    }
    let by_name = manifest.contains("everything__");
    let serves = |other: &str| other.contains("kind: MCPUpstream") && (!by_name || other.contains("name: everything"));
    let declared = others.split("---\n").any(serves);
    let is_new = |document: &&str| !declared || !document.contains("server-everything");
    Ok(manifest.split("---\n").filter(is_new).collect::<Vec<_>>().join("---\n"))
}

/// Returns the name of the tool of a pipeline with this name.
fn tool_name(name: &str) -> String {
    name.replace('-', "_")
}

/// Writes a new file, and says so.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written =
        OpenOptions::new().write(true).create_new(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    print_line(&format!("wrote {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn a_template_has_the_name_and_the_role_of_its_type() {
        for kind in NewKind::value_variants() {
            let template = Template::of(*kind);
            assert_eq!(kind.to_possible_value().unwrap().get_name(), template.name);
            let role = match kind {
                NewKind::Guard => "  role: Guard ",
                NewKind::Transform => "  role: Transform ",
                NewKind::Observer => "  role: Observe ",
                _ => &format!("  type: {}\n", template.name),
            };
            assert!(template.manifest.contains(role), "{}: {role}", template.name);
        }
    }

    #[test]
    fn a_wrapper_is_written_with_the_gateway_that_allows_it() {
        for kind in [NewKind::Guard, NewKind::Transform] {
            let template = Template::of(kind).in_python(kind).unwrap();
            let manifest = of_python(template.manifest, NAME);
            assert!(manifest.contains("  source: {path: my-plugin.py}\n  wrapper: {command: python3}\n"), "{manifest}");
        }
        assert!(Template::of(NewKind::Phase).in_python(NewKind::Phase).is_err());
        assert!(gateway_of("a", false).contains("plugins: {allowedWrappers: [a]}") && gateway_of("a", true).is_empty());
    }

    #[test]
    fn a_server_is_written_only_if_the_folder_has_none_to_run_on() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-new-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&folder).unwrap();
        let has_server = |kind| {
            let written = without_declared(Template::of(kind).manifest, &folder).unwrap();
            assert!(written.contains("kind: Plugin\n"), "{written}");
            written.contains("process:")
        };
        assert!(has_server(NewKind::Guard) && has_server(NewKind::Phase));
        // As the README writes it, with a comment.
        let files = "kind: MCPUpstream                 # an MCP server\nmetadata: {name: files}\n";
        fs::write(folder.join("a.yml"), files).unwrap();
        assert!(!has_server(NewKind::Guard) && has_server(NewKind::Phase));
        fs::write(folder.join("b.yaml"), files.replace("files", "everything")).unwrap();
        assert!(!has_server(NewKind::Guard) && !has_server(NewKind::Phase));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn code_goes_into_the_plugin_folder_of_the_gateway() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-new-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&folder).unwrap();
        assert_eq!(plugin_folder(gateway_in(&folder), &folder), folder.join("plugins"));
        let gateway = |plugins: &str| {
            let spec = format!("{{authentication: {{anonymous: {{}}}}{plugins}}}");
            format!("apiVersion: hawsepipe.dev/v1alpha1\nkind: MCPGateway\nmetadata: {{name: g}}\nspec: {spec}\n")
        };
        fs::write(folder.join("gateway.yaml"), gateway("")).unwrap();
        assert_eq!(plugin_folder(gateway_in(&folder), &folder), folder.join("plugins"));
        fs::write(folder.join("gateway.yaml"), gateway(", plugins: {pluginDir: code}")).unwrap();
        assert_eq!(plugin_folder(gateway_in(&folder), &folder), folder.join("code"));
        fs::remove_dir_all(folder).unwrap();
    }
}
