//! The command `hawsepipe plugin new`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::args::{NewArgs, TypedKind};
use crate::cli::output::print_line;

/// The TypeScript types for plugin authors, from `plugins/sdk`.
pub const TYPES: &str = include_str!("../../../plugins/sdk/index.d.ts");
/// The name of the file with the types, beside the code.
const TYPES_FILE: &str = "hawsepipe-plugin.d.ts";
/// The name of the Plugin in templates.
const NAME: &str = "my-plugin";

/// What is written for a plugin, and how to run it.
struct Template {
    code: &'static str,
    manifest: &'static str,
    /// The options of `hawsepipe plugin run`.
    first_run: &'static str,
}

impl Template {
    fn of(kind: TypedKind) -> Self {
        let (code, manifest, first_run) = match kind {
            TypedKind::Phase => (
                include_str!("../../../plugins/sdk/templates/phase.mjs"),
                include_str!("../../../plugins/sdk/templates/phase.yaml"),
                "--method execute --input '{\"arguments\": {\"prompt\": \"hi\"}}' \\\n    \
                 --mock '{\"everything__echo\": {\"content\": [{\"type\": \"text\", \"text\": \"hi\"}]}}'",
            ),
            TypedKind::ToolProvider => (
                include_str!("../../../plugins/sdk/templates/tool-provider.mjs"),
                include_str!("../../../plugins/sdk/templates/tool-provider.yaml"),
                "--method execute --input '[\"count_words\", {\"text\": \"one two\"}]'",
            ),
            TypedKind::PromptProvider => (
                include_str!("../../../plugins/sdk/templates/prompt-provider.mjs"),
                include_str!("../../../plugins/sdk/templates/prompt-provider.yaml"),
                "--method getPromptOverrides",
            ),
            TypedKind::PipelineCustomizer => (
                include_str!("../../../plugins/sdk/templates/pipeline-customizer.mjs"),
                include_str!("../../../plugins/sdk/templates/pipeline-customizer.yaml"),
                "--method getPipelineCustomizations --input '{\"arguments\": {\"depth\": \"light\"}}'",
            ),
            TypedKind::OutputType => (
                include_str!("../../../plugins/sdk/templates/output-type.mjs"),
                include_str!("../../../plugins/sdk/templates/output-type.yaml"),
                "--method getOutputSchema",
            ),
        };
        Self { code, manifest, first_run }
    }
}

/// Writes a plugin and its manifest, and prints how to run it.
pub fn new(args: &NewArgs) -> anyhow::Result<ExitCode> {
    let template = Template::of(args.kind);
    let name = args.name.as_deref().unwrap_or(args.kind.as_str());
    let named = |text: &str| text.replace(NAME, name).replace(&tool_name(NAME), &tool_name(name));
    let plugins = args.dir.join("plugins");
    let (code, manifest) = (plugins.join(format!("{name}.mjs")), args.dir.join(format!("{name}.yaml")));
    if let Some(there) = [&code, &manifest].into_iter().find(|file| file.exists()) {
        bail!("{} is there already: give another NAME", there.display());
    }
    fs::create_dir_all(&plugins).with_context(|| format!("cannot make the folder {}", plugins.display()))?;
    write(&code, &named(template.code))?;
    write(&manifest, &without_declared(&named(template.manifest), &args.dir)?)?;
    let types = plugins.join(TYPES_FILE);
    if !types.exists() {
        write(&types, TYPES)?;
    }
    print_line(&format!("\nRun it once:\n  hawsepipe plugin run {} {}", manifest.display(), template.first_run))?;
    print_line(&format!("Start a gateway with it:\n  hawsepipe run -f {}", args.dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a manifest without the servers that another manifest of the folder declares.
fn without_declared(manifest: &str, folder: &Path) -> anyhow::Result<String> {
    let mut others = String::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            others.push_str(&fs::read_to_string(&path)?);
        }
    }
    const SERVER: &str = "kind: MCPUpstream\nmetadata: {name: everything}\n";
    let is_new = |document: &&str| !document.contains(SERVER) || !others.contains(SERVER);
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
