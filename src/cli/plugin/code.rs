//! Generates the manifests for a file of plugin code.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::args::{self, Protocol, Sandbox};
use crate::domain::plugin::PluginKind;
use crate::source::FileText;

/// Returns a manifest file with an MCPGateway and a Plugin, both generated for a file of code. `kind` is the type of a
/// plugin that is not middleware.
pub(super) fn manifest(args: &args::SubjectArgs, kind: Option<PluginKind>) -> anyhow::Result<FileText> {
    let file = std::path::absolute(&args.file)?;
    let (Some(folder), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
        bail!("{} is not a file", args.file.display());
    };
    let mut plugins = json!({"pluginDir": "."});
    if wrapper_command(&args.file).is_some() {
        plugins["allowedWrappers"] = json!([name_of(&file)]);
    }
    if let Some(sandbox) = args.sandbox {
        plugins["sandbox"] = json!(match sandbox {
            Sandbox::Required => "Required",
            Sandbox::BestEffort => "BestEffort",
        });
    }
    let object = |kind: &str, name: &str, spec: Value| {
        let metadata = json!({"name": name});
        json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
    };
    let items = [
        object("MCPGateway", NAME, json!({"authentication": {"anonymous": {}}, "plugins": plugins})),
        object("Plugin", &name_of(&file), spec(args, name, kind)?),
    ];
    let text = json!({"kind": "List", "items": items}).to_string();
    Ok(FileText { path: Arc::new(PathBuf::from("manifest.json")), folder: folder.to_owned(), text: Ok(text) })
}

/// Returns the `spec` of the Plugin whose code is the file `name`.
fn spec(args: &args::SubjectArgs, name: &str, kind: Option<PluginKind>) -> anyhow::Result<Value> {
    let mut spec = json!({"source": {"path": name}});
    if let Some(kind) = kind {
        spec["type"] = json!(kind.as_str());
    }
    if let Some(command) = wrapper_command(&args.file) {
        spec["wrapper"] = json!({"command": command});
    }
    if let Some(protocol) = args.protocol {
        spec["protocol"] = json!(match protocol {
            Protocol::Once => "Once",
            Protocol::Lines => "Lines",
            Protocol::Module => "Module",
        });
    }
    if !args.egress.is_empty() {
        spec["egress"] = json!(args.egress);
    }
    if !args.env.is_empty() {
        let env: anyhow::Result<Vec<_>> = args.env.iter().map(|written| variable(written)).collect();
        spec["env"] = json!(env?);
    }
    Ok(spec)
}

/// Returns the command of a wrapper whose code is this file: Python, or a program for Linux (ELF). Returns `None` for other files.
pub(super) fn wrapper_command(file: &Path) -> Option<String> {
    if file.extension().is_some_and(|ending| ending == "py") {
        return Some("python3".to_owned());
    }
    let mut first = [0; 4];
    let is_program = File::open(file).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == *b"\x7fELF";
    file.file_name().and_then(|name| name.to_str()).filter(|_| is_program).map(str::to_owned)
}

fn variable(written: &str) -> anyhow::Result<Value> {
    let name = written.split_once('=').map_or(written, |(name, _)| name);
    if name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        bail!("--env {name:?}: the name of a variable has only letters, digits and _, with no digit first");
    }
    if let Some((name, value)) = written.split_once('=') {
        return Ok(json!({"name": name, "value": value}));
    }
    let value = std::env::var(written);
    let value =
        value.with_context(|| format!("--env {written}: this shell has no such variable, or it is not text"))?;
    Ok(json!({"name": written, "value": value}))
}

/// Derives the name of the Plugin from the file name, or from the folder's name if the file is called `index`.
fn name_of(file: &Path) -> String {
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    let own = stem(file);
    let own = if own == "index" { file.parent().map_or(own, stem) } else { own };
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = own.chars().map(allowed).take(63).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_lowercase()).trim_end_matches('-');
    if name.is_empty() { "plugin".to_owned() } else { name.to_owned() }
}

/// The name of the generated MCPGateway and chain.
pub(super) const NAME: &str = "plugin-run";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_the_name_of_one() {
        assert_eq!(variable("A_1=x=y").unwrap(), json!({"name": "A_1", "value": "x=y"}));
        for wrong in ["A B=hunter2", "1A=hunter2", "a-b=hunter2"] {
            let error = variable(wrong).unwrap_err().to_string();
            assert!(error.starts_with("--env ") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_file_gives_its_plugin_a_name() {
        for (file, name) in [
            ("/a/shout.mjs", "shout"),
            ("/a/2 My Plugin_2.js", "my-plugin-2"),
            ("/a/redact/index.mjs", "redact"),
            ("/a/42.cjs", "plugin"),
        ] {
            assert_eq!(name_of(Path::new(file)), name);
        }
    }
}
