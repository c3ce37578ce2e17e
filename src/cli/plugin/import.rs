//! The command `hawsepipe plugin import`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::args::ImportArgs;
use super::code::wrapper_command;
use crate::cli::output::{print_line, say};
use crate::domain::code_file::is_code;
use crate::source::discovery::{Discovered, DiscoverySettings, LeftOut, discover};
use crate::source::folder_plugin::FoundPlugin;

/// The largest code that a ConfigMap holds, in bytes.
const MAX_CODE: u64 = 1_000_000;

/// Prints the manifests of all plugins in a folder.
pub fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    if !args.dir.is_dir() {
        bail!("{} is no folder", args.dir.display());
    }
    let folder = std::path::absolute(&args.dir)?;
    let catalogue = args.catalogue.as_ref().map(std::path::absolute).transpose()?;
    let settings = DiscoverySettings { folder, catalogue, packages: args.packages };
    let Discovered { plugins, left_out, .. } = discover(&settings);
    for LeftOut { file, why, .. } in &left_out {
        say(&format!("{}: {why}", file.display()));
    }
    let mut is_whole = left_out.is_empty();
    for plugin in &plugins {
        match objects(plugin, args, &settings.folder) {
            Ok(objects) => {
                for object in objects {
                    print_line(&format!("---\n{}", serde_saphyr::to_string(&object)?.trim_end()))?;
                }
            }
            Err(why) => {
                say(&format!("{}: {why}", plugin.name));
                is_whole = false;
            }
        }
    }
    if plugins.is_empty() && left_out.is_empty() {
        bail!("{}: there is no plugin: each has a folder with a plugin.json", args.dir.display());
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the objects of a plugin: itself, and its code.
fn objects(plugin: &FoundPlugin, args: &ImportArgs, folder: &Path) -> Result<Vec<Value>, String> {
    let namespace = args.namespace.as_deref();
    let files = code_files(&plugin.folder).max(1);
    let file = plugin.folder.join(&plugin.entry);
    let is_program = plugin.spec.contains_key("wrapper") && !is_text(&file);
    if files > 1 || is_program {
        let Some(image) = &args.image else {
            return Err(match is_program {
                true => format!("{} is a program: build an image with it and give --image", plugin.entry),
                false => format!("{files} files; bundle them into one, or build an image and give --image"),
            });
        };
        let path = file.strip_prefix(folder).map_err(|_| "it is not below the folder of the image".to_owned())?;
        let source = json!({"image": {"reference": image, "path": path}});
        return Ok(vec![plugin.object(namespace, source)]);
    }
    let size = fs::metadata(&file).map_err(|error| error.to_string())?.len();
    if size > MAX_CODE {
        return Err(format!(
            "its code has {size} bytes, a ConfigMap holds {MAX_CODE}: build an image and give --image"
        ));
    }
    let code = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let key = plugin.entry.rsplit('/').next().unwrap_or(&plugin.entry);
    let name = format!("plugin-{}", plugin.name);
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: code}});
    Ok(vec![map, plugin.object(namespace, json!({"configMapKeyRef": {"name": name, "key": key}}))])
}

/// Whether a file is text in UTF-8. A program is not.
fn is_text(file: &Path) -> bool {
    let is_python = file.extension().is_some_and(|ending| ending == "py");
    is_python || wrapper_command(file).is_none()
}

/// Returns how many files of code a folder and those below it have, without tests.
fn code_files(folder: &Path) -> usize {
    let is_of_plugin = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_python = path.extension().is_some_and(|ending| ending == "py");
        (is_code(path) || is_python) && !name.contains(".test.")
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => code_files(&entry.path()),
        Ok(_) => usize::from(is_of_plugin(&entry.path())),
        Err(_) => 0,
    });
    files.sum()
}
