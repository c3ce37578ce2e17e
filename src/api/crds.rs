//! The CustomResourceDefinitions. They are generated from the Rust types; `make crds` writes them into `crds/`.

use std::io;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use super::canonical;
use super::unimplemented;
use super::yaml;
use crate::api::chain::PluginChain;
use crate::api::gateway::MCPGateway;
use crate::api::pipeline::ToolPipeline;
use crate::api::plugin::Plugin;
use crate::api::section::SectionBinding;
use crate::api::snapshot::GatewaySnapshot;
use crate::api::upstream::MCPUpstream;

/// Returns the CustomResourceDefinitions, one for each kind.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        MCPGateway::crd(),
        MCPUpstream::crd(),
        Plugin::crd(),
        PluginChain::crd(),
        ToolPipeline::crd(),
        SectionBinding::crd(),
        GatewaySnapshot::crd(),
    ];
    for crd in &mut crds {
        for version in &mut crd.spec.versions {
            if let Some(schema) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) {
                make_plain(schema);
                unimplemented::mark(&crd.spec.names.kind, schema);
            }
        }
    }
    crds
}

/// Joins the lines of a doc comment.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes what the derive macro adds but this API does not use: titles, `nullable` (fields can be absent but not
/// null), defaults (the code applies them, not the API server), and number formats that Kubernetes does not know.
fn make_plain(schema: &mut JSONSchemaProps) {
    schema.title = None;
    schema.description = schema.description.as_deref().map(one_line);
    schema.nullable = None;
    schema.default = None;
    schema.format = match schema.format.as_deref() {
        Some("uint32") if schema.maximum.is_some_and(|m| m > f64::from(i32::MAX)) => Some("int64".into()),
        Some("uint16" | "uint32") => Some("int32".into()),
        Some("double") => None,
        other => other.map(Into::into),
    };
    for child in schema.properties.iter_mut().flat_map(|p| p.values_mut()) {
        make_plain(child);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        make_plain(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        make_plain(values);
    }
}

/// Returns the file name and the YAML text of each definition.
pub fn crd_files() -> Vec<(String, String)> {
    crds()
        .iter()
        .map(|crd| {
            let value = canonical(&serde_json::to_value(crd).unwrap_or_default());
            (format!("{}.yaml", crd.spec.names.plural), yaml::print(&value))
        })
        .collect()
}

/// Returns all definitions as one YAML stream. This is the output of `hawsepipe crds`.
pub fn crds_yaml() -> String {
    crd_files().into_iter().map(|(_, text)| format!("---\n{text}")).collect()
}

/// Returns the file name and the text of each definition as a template of a Helm chart. `helm uninstall` keeps the
/// definitions, and therefore also the objects of their kinds.
pub fn crd_templates() -> Vec<(String, String)> {
    let head = "{{- /* Written by `make crds` from the types; edits here are lost. */}}\n";
    crds()
        .iter_mut()
        .map(|crd| {
            let keep = ("helm.sh/resource-policy".to_owned(), "keep".to_owned());
            crd.metadata.annotations.get_or_insert_default().extend([keep]);
            let value = canonical(&serde_json::to_value(&*crd).unwrap_or_default());
            (format!("{}.yaml", crd.spec.names.plural), format!("{head}{}", yaml::print(&value)))
        })
        .collect()
}

/// Writes `files`, pairs of a file name and a text, into `folder`, which is created if it does not exist.
///
/// # Errors
/// If the folder or a file cannot be written.
pub fn write_crds(folder: &Path, files: Vec<(String, String)>) -> io::Result<()> {
    let named = |path: &Path, error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(|error| named(folder, error))?;
    files.into_iter().try_for_each(|(name, text)| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| named(&path, error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let error = write_crds(Path::new("/proc/hawsepipe"), Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("/proc/hawsepipe: "), "{error}");
    }

    #[test]
    fn the_files_are_what_the_types_say() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
        for (name, text) in crd_files() {
            let kept = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
            assert!(kept == text, "crds/{name} is stale: run `make crds`");
        }
    }

    #[test]
    fn the_charts_templates_are_what_the_types_say_and_hold_no_other_action() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/hawsepipe-crds/templates");
        for (name, text) in crd_templates() {
            assert_eq!(text.matches("{{").count(), 1, "{name}: Helm would read a description as an action");
            assert!(text.contains("\n  annotations:\n    helm.sh/resource-policy: keep\n"), "{name}");
            let kept = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
            assert!(kept == text, "charts/hawsepipe-crds/templates/{name} is stale: run `make crds`");
        }
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let templates = files.filter(|name| name.to_string_lossy().ends_with(".yaml")).count();
        assert_eq!(templates, crd_templates().len(), "a template of no definition is left over");
    }

    /// Adds to `lines` one line for each field, with the field's constraints, and one line for each validation rule.
    fn outline(path: &str, schema: &Value, required: bool, lines: &mut Vec<String>) {
        let Value::Object(members) = schema else { return };
        let mark = if required { "!" } else { "" };
        let mut line = format!("{path}{mark}");
        for (key, value) in members {
            match key.as_str() {
                "description" | "properties" | "items" | "required" | "additionalProperties" => {}
                "x-kubernetes-validations" => {
                    let rules = value.as_array().into_iter().flatten();
                    let message = |rule: &Value| rule.get("message").unwrap_or(&rule["messageExpression"]).clone();
                    lines.extend(rules.map(|rule| format!("{path} rule {} {}", message(rule), rule["rule"])));
                }
                _ => line.push_str(&format!(" {key}={value}")),
            }
        }
        lines.push(line);
        let is_required = |name: &str| schema["required"].as_array().is_some_and(|r| r.iter().any(|word| word == name));
        for (name, child) in schema["properties"].as_object().into_iter().flatten() {
            outline(&format!("{path}.{name}"), child, is_required(name), lines);
        }
        outline(&format!("{path}[]"), &schema["items"], false, lines);
        outline(&format!("{path}{{}}"), &schema["additionalProperties"], false, lines);
    }

    /// The expected outline describes definitions that kube-apiserver accepts, as it accepts every golden
    /// manifest.
    #[test]
    fn schemas_bound_what_they_are_to_bound() {
        let mut lines = Vec::new();
        for crd in crds() {
            let crd = canonical(&serde_json::to_value(&crd).unwrap());
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
            let version = &crd["spec"]["versions"][0];
            outline(kind, &version["schema"]["openAPIV3Schema"], false, &mut lines);
            for column in version["additionalPrinterColumns"].as_array().unwrap() {
                lines.push(format!("{kind} column {column}"));
            }
            lines.push(format!("{kind} subresources {}", version["subresources"]));
            lines.push(format!(
                "{kind} short {} {}",
                crd["spec"]["names"]["shortNames"], crd["spec"]["names"]["categories"]
            ));
        }
        lines.sort();
        let expected = include_str!("../../tests/golden/api/crds.outline");
        let wrong = lines.iter().filter(|line| !expected.lines().any(|e| e == *line)).collect::<Vec<_>>();
        let missing = expected.lines().filter(|e| !lines.iter().any(|line| line == e)).collect::<Vec<_>>();
        assert!(wrong.is_empty() && missing.is_empty(), "wrong: {wrong:#?}\nmissing: {missing:#?}");
    }

    #[test]
    fn every_field_is_described() {
        fn described(path: &str, schema: &Value) {
            for (name, child) in schema["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}.{name}");
                assert!(child["description"].is_string(), "{path} has no description");
                assert!(child.get("default").is_none() && child.get("nullable").is_none(), "{path}");
                described(&path, child);
                described(&path, &child["items"]);
            }
        }
        for crd in crds() {
            let crd = serde_json::to_value(&crd).unwrap();
            described("", &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
        }
    }
}
