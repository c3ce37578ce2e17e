//! Turns written values into planned values: references to ConfigMaps are replaced by the values there, references to
//! Secrets and environment variables remain references. Also checks globs.

use globset::Glob;

use super::FieldFault;
use crate::config::input::{InputValue, Inputs, NamedInput};
use crate::domain::ids::{ObjectId, ObjectKey};
use crate::domain::plan::{NamedValue, ValueSource};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::secret::{NoSecret, fits_header};

/// Resolves the `values` of `object`. Optional values that are missing are left out.
///
/// # Errors
/// Returns the fault of the first value that is missing or cannot be read. Such faults of other values are added to
/// `problems`.
pub(super) fn resolve(
    inputs: &Inputs,
    object: &ObjectId,
    values: &[NamedInput],
    problems: &mut Vec<Problem>,
) -> Result<Vec<NamedValue>, FieldFault> {
    let mut resolved = Vec::with_capacity(values.len());
    let mut fault = None;
    for value in values {
        match source(inputs, &object.key.namespace, &value.value) {
            Ok(Some(source)) => resolved.push(NamedValue { name: value.name.clone(), value: source }),
            Ok(None) => {}
            Err((reason, message)) if fault.is_none() => fault = Some((reason, value.field.clone(), message)),
            Err((reason, message)) => problems.push(Problem::error(reason, object.clone(), &value.field, message)),
        }
    }
    fault.map_or(Ok(resolved), Err)
}

/// Returns the `values` that grant rights: references to Secrets of `namespace` and to variables of the gateway.
pub(super) fn rights(namespace: &str, values: &[NamedInput]) -> Vec<NamedValue> {
    let right = |value: &NamedInput| {
        let source = match &value.value {
            InputValue::Environment(name) => ValueSource::Environment(name.clone()),
            InputValue::Secret { name, key, optional } => secret(namespace, name, key, *optional),
            InputValue::Literal(_) | InputValue::ConfigMap { .. } => return None,
        };
        Some(NamedValue { name: value.name.clone(), value: source })
    };
    values.iter().filter_map(right).collect()
}

fn secret(namespace: &str, name: &str, key: &str, optional: bool) -> ValueSource {
    ValueSource::Secret { secret: ObjectKey::new(namespace, name), key: key.to_owned(), optional }
}

fn source(inputs: &Inputs, namespace: &str, value: &InputValue) -> Result<Option<ValueSource>, (Reason, String)> {
    Ok(Some(match value {
        InputValue::Literal(text) => ValueSource::Literal(text.clone()),
        InputValue::Environment(name) => ValueSource::Environment(name.clone()),
        InputValue::Secret { name, key, optional } => secret(namespace, name, key, *optional),
        InputValue::ConfigMap { name, key, optional } => match config_map(inputs, namespace, name, key) {
            Ok(text) => ValueSource::Literal(text.to_owned()),
            // A ConfigMap that cannot be read might exist, so it does not count as missing.
            Err((Reason::ConfigMapNotFound | Reason::KeyNotFound, _)) if *optional => return Ok(None),
            Err(missing) => return Err(missing),
        },
    }))
}

/// Returns the text that a ConfigMap has for `key`.
///
/// # Errors
/// `ConfigMapNotFound`, `KeyNotFound`, or the reason why the ConfigMap cannot be read, with a message.
pub(super) fn config_map<'a>(
    inputs: &'a Inputs,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<&'a str, (Reason, String)> {
    let object = ObjectKey::new(namespace, name);
    let Some(data) = inputs.config_maps.get(&object) else {
        return Err((Reason::ConfigMapNotFound, format!("there is no ConfigMap {object}")));
    };
    let data = data.as_ref().map_err(Clone::clone)?;
    data.get(key)
        .map(String::as_str)
        .ok_or_else(|| (Reason::KeyNotFound, format!("ConfigMap {object} has no key {key:?}")))
}

/// Returns a fault for each of the `headers` whose value in a ConfigMap no header can have. Literals were checked by the
/// schema, and values of Secrets are checked where they are put in.
pub(super) fn bad_headers(
    inputs: &Inputs,
    namespace: &str,
    headers: &[NamedInput],
) -> impl Iterator<Item = FieldFault> {
    headers.iter().filter_map(move |header| {
        let InputValue::ConfigMap { name, key, .. } = &header.value else { return None };
        let text = config_map(inputs, namespace, name, key).ok()?;
        let place = format!("key {key:?} of ConfigMap {}", ObjectKey::new(namespace, name));
        let message = NoSecret::NotHeader.message(&place);
        (!fits_header(text)).then(|| (Reason::InvalidConfig, header.field.clone(), message))
    })
}

/// Returns a fault for each of the globs in `field` that does not compile.
pub(super) fn bad_globs(field: &str, globs: &[String]) -> impl Iterator<Item = FieldFault> {
    globs.iter().enumerate().filter_map(move |(index, glob)| {
        let error = Glob::new(glob).err()?;
        let message = format!("{glob:?} is not a glob: {}", error.kind());
        Some((Reason::InvalidPattern, format!("{field}[{index}]"), message))
    })
}
