//! `hawsepipe convert`: prints manifests for configuration of another form.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::output::{print, say};
use crate::api::convert::is_convertible;
use crate::api::yaml;
use crate::source::document::{converted, values};
use crate::source::{FileText, read_files};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads the `plugins` of Plugin API Contract 1.0, the servers of MCP clients (`mcpServers`, or `servers` of VS Code)
and settings with a list of servers and their section bindings. `hawsepipe run -f FILE` reads the same files directly.
Fields that have no place in a manifest are named on standard error.

Examples:
  hawsepipe convert config.yaml > converted.yaml
  hawsepipe convert ~/.cursor/mcp.json")]
pub struct ConvertArgs {
    /// The file, YAML or JSON
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print a List in JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints the manifests.
pub fn convert(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    let mut objects = Vec::new();
    for file in read_files(std::slice::from_ref(&args.file), &Default::default()) {
        let documents = values(&file).map_err(|located| anyhow::anyhow!("{located}"))?;
        if !documents.iter().any(is_convertible) {
            bail!(
                "{}: it has none of `plugins`, `mcpServers`, `servers`, mcpGlobalTimeout, mcpConcurrentLimit, \
                 mcpSessionLimit at its top",
                args.file.display()
            );
        }
        for document in documents {
            objects.extend(objects_of(&file, document)?);
        }
    }
    print(&if args.json { list(&objects) } else { manifests(&objects) })?;
    Ok(ExitCode::SUCCESS)
}

/// The objects of a document; a manifest is its own object.
fn objects_of(file: &FileText, document: Value) -> anyhow::Result<Vec<Value>> {
    if !is_convertible(&document) {
        return Ok(vec![document]);
    }
    let converted = converted(&file.folder.join("file"), &document, None);
    if let Some(wrong) = converted.wrong.first() {
        bail!("{}: {}: {}", file.path.display(), wrong.field, wrong.reason);
    }
    for left in &converted.left_out {
        say(&format!("left out: {}: {}", left.field, left.reason));
    }
    Ok(converted.objects.into_iter().map(|made| made.document).collect())
}

fn list(objects: &[Value]) -> String {
    format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": objects}))
}

fn manifests(objects: &[Value]) -> String {
    objects.iter().map(yaml::print).collect::<Vec<_>>().join("---\n")
}
