//! Checks what `hawsepipe registry push` is to store, as a gateway that reads it from the registry does.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::api::check::check;
use crate::api::lower::{self, Lowered, ManifestSource};
use crate::config::compile::compile;
use crate::config::input::Inputs;
use crate::domain::ids::{ObjectId, ObjectKey};
use crate::domain::ports::Inspect;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::source::document::FileObject;
use crate::source::{Located, inspected};

/// Problems that other manifests of a gateway, or other objects of the registry, can solve, and the consequence of another one.
const ELSEWHERE: [Reason; 4] =
    [Reason::PluginNotFound, Reason::ConfigMapNotFound, Reason::KeyNotFound, Reason::PluginNotAccepted];

/// A Plugin or PluginChain to check.
pub struct PushedObject<'a> {
    /// The object as its manifest has it.
    pub written: &'a FileObject,
    /// The object as the registry will have it.
    pub document: &'a Value,
    /// The ConfigMap with the code of its file: its name, the key and the code.
    pub code: Option<(String, String, &'a str)>,
}

/// Returns the errors in objects.
pub async fn faults(objects: &[PushedObject<'_>], inspect: impl Inspect) -> Vec<Located> {
    let (mut inputs, mut problems) = (Inputs::default(), Vec::new());
    for object in objects {
        let id = &object.written.id;
        let faults: Vec<_> = check(id, &object.written.document, None).into_iter().filter(Problem::is_error).collect();
        let is_valid = faults.is_empty();
        problems.extend(faults);
        if is_valid {
            problems.extend(put(&mut inputs, object));
        }
    }
    inputs.facts = inspected(inspect, &inputs).await;
    problems.extend(compile(&inputs, None).1);
    let written: BTreeMap<&ObjectId, _> = objects.iter().map(|object| (&object.written.id, object.written)).collect();
    let located = problems.into_iter().filter(|problem| problem.is_error() && !ELSEWHERE.contains(&problem.reason));
    located.filter_map(|problem| Some(written.get(problem.object.as_ref()?)?.locate(problem))).collect()
}

/// Adds an object to the inputs of the compiler. Returns its Problems.
fn put(inputs: &mut Inputs, object: &PushedObject<'_>) -> Vec<Problem> {
    let (id, nowhere) = (&object.written.id, Path::new(""));
    let place = ManifestSource::File { folder: nowhere, plugin_dir: nowhere };
    let (lowered, problems) = lower::document(id, object.document, None, place);
    match lowered {
        Ok(Lowered::Plugin(input)) => inputs.plugins.push(input),
        Ok(Lowered::Chain(input)) => inputs.chains.push(input),
        _ => {}
    }
    if let Some((map, key, code)) = &object.code {
        let data = BTreeMap::from([(key.clone(), (*code).to_owned())]);
        inputs.config_maps.insert(ObjectKey::new(&id.key.namespace, map), Ok(data));
    }
    problems
}
