//! Generates the pages of `docs/reference` from the code: fields, metrics, reasons, rights of the operator, command
//! line, and the OpenAPI document of the admin API.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Command, CommandFactory};
use serde_json::Value;

use super::args;
use crate::controller::{ControllerMetrics, rights_table, role_files};
use crate::domain::reason::Reason;
use crate::node::WorkerMetrics;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::Traces;
use crate::upstream::UpstreamMetrics;

/// Writes all pages into a folder, and the files with the operator's roles into a checkout.
pub(super) fn docs(args: &args::DocsArgs) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.folder).with_context(|| format!("cannot make {}", args.folder.display()))?;
    let pages = pages()?.into_iter().map(|(name, text)| (args.folder.join(name), text));
    let roles = args.roles.iter().flat_map(|root| role_files().map(|(name, text)| (root.join(name), text)));
    for (file, text) in pages.chain(roles) {
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the pages of `docs/reference`, each as a file name and the text of the page.
///
/// # Errors
/// If metrics cannot be registered, or a definition has no schema.
pub fn pages() -> anyhow::Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("fields.md", fields()?),
        ("metrics.md", metrics()?),
        ("reasons.md", reasons()),
        ("rights.md", rights()),
        ("cli.md", cli()),
        ("openapi.json", serde_json::to_string_pretty(&crate::web::openapi_document())? + "\n"),
    ])
}

fn head(title: &str, from: &str) -> String {
    format!("# {title}\n\nWritten by `make docs` from {from}; edits here are lost.\n")
}

fn metrics() -> anyhow::Result<String> {
    let metrics = Metrics::new()?;
    WorkerMetrics::new()?.register(metrics.catalog())?;
    UpstreamMetrics::new()?.register(metrics.catalog())?;
    Traces::new()?.register(metrics.catalog())?;
    ControllerMetrics::register(metrics.catalog())?;
    let mut page = head("Metrics", "the code that counts");
    page.push_str(
        "\nServed as `/metrics` on the admin address of a gateway; those of reconciles and of the leader by the operator. \
         Times are seconds, sizes bytes.\n\n",
    );
    page.push_str("| Metric | Type | Labels | What it says |\n|---|---|---|---|\n");
    for metric in metrics.catalog().reference() {
        let labels = metric.labels.join(", ");
        let _ = writeln!(page, "| `{}` | {} | {labels} | {} |", metric.name, metric.kind, metric.help);
    }
    Ok(page)
}

fn reasons() -> String {
    let mut page = head("Reasons", "the closed list in the code");
    page.push_str(
        "\nOne word in Problems, records, metric labels, logs, `_meta` and `data.reason` of errors, the same everywhere. The \
         admin API has words of its own for what is wrong with a request to it.\n\n\
         | Reason | What it means |\n|---|---|\n",
    );
    for reason in Reason::ALL {
        let _ = writeln!(page, "| `{reason}` | {} |", reason.meaning());
    }
    page
}

fn rights() -> String {
    let mut page = head("Rights of the operator", "the operator's table of resources");
    page.push_str(
        "\nThe roles in `manifests/operator/rbac.yaml` and in the chart are written from the same table. Where namespaces \
         are named with `--namespaces`, a Role in each of them is enough. Of the rights on `namespaces` only `get` counts \
         in a Role; the operator then reads each namespace every 10 s.\n\n\
         | Resource | Verbs | Where | What for |\n|---|---|---|---|\n",
    );
    for row in rights_table() {
        let _ = writeln!(page, "| {} |", row.join(" | "));
    }
    page
}

fn cli() -> String {
    let mut page = head("Command line", "its own help");
    let mut command = super::args::Args::command().term_width(100);
    command.build();
    section(&mut page, &mut command, "hawsepipe");
    page
}

fn section(page: &mut String, command: &mut Command, name: &str) {
    let help = command.render_long_help().to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {name}\n\n```\n{}\n```\n", help.join("\n").trim_end());
    for sub in command.get_subcommands_mut().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        let name = format!("{name} {}", sub.get_name());
        section(page, sub, &name);
    }
}

fn fields() -> anyhow::Result<String> {
    let mut page = head("Fields", "the custom resource types");
    page.push_str("\nGroup `hawsepipe.dev`, version `v1alpha1`. `[]` is an item of a list, `{}` a value of a map.\n");
    for crd in crate::api::crds() {
        let kind = &crd.spec.names.kind;
        let schema = crd.spec.versions.first().and_then(|version| version.schema.as_ref());
        let schema = schema.and_then(|s| s.open_api_v3_schema.as_ref()).context("a definition without a schema")?;
        let schema = serde_json::to_value(schema)?;
        let _ = write!(page, "\n## {kind}\n\n| Field | Type | What it is |\n|---|---|---|\n");
        rows(&mut page, "spec", &schema["properties"]["spec"]);
        rows(&mut page, "status", &schema["properties"]["status"]);
    }
    Ok(page)
}

fn rows(page: &mut String, path: &str, schema: &Value) {
    if schema.is_null() {
        return;
    }
    let text = schema["description"].as_str().unwrap_or_default().replace('|', "\\|").replace('\n', " ");
    let _ = writeln!(page, "| `{path}` | {} | {text} |", kind(schema));
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        rows(page, &format!("{path}.{name}"), property);
    }
    for (mark, inner) in [("[]", &schema["items"]), ("{}", &schema["additionalProperties"])] {
        for (name, property) in inner["properties"].as_object().into_iter().flatten() {
            rows(page, &format!("{path}{mark}.{name}"), property);
        }
    }
}

/// Describes a field's type and bounds in a few words.
fn kind(schema: &Value) -> String {
    let mut words = match (&schema["enum"], schema["type"].as_str()) {
        (Value::Array(values), _) => values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        (_, Some("array")) => format!("list of {}", kind(&schema["items"])),
        (_, Some(word)) => word.to_owned(),
        (_, None) => "any".to_owned(),
    };
    let bounds = [("minimum", "from"), ("maximum", "to"), ("maxLength", "at most"), ("maxItems", "at most")];
    for (key, word) in bounds {
        if let Some(bound) = schema.get(key).filter(|bound| !bound.is_null()) {
            let bound = bound.to_string();
            let _ = write!(words, ", {word} {}", bound.strip_suffix(".0").unwrap_or(&bound));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_pages_are_what_the_code_says() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference");
        for (name, text) in super::pages().unwrap() {
            let kept = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            assert!(kept == text, "docs/reference/{name} is stale: run `make docs`");
        }
    }
}
