//! Limits on the size of objects in a plan. Several users share a gateway, so the objects of one user must leave room
//! for those of the others.

use serde::Serialize;

use super::FieldFault;
use crate::config::input::Inputs;
use crate::domain::ids::ObjectId;
use crate::domain::json_size::json_size;
use crate::domain::reason::Reason;

/// Maximum size of an object in a plan, in bytes of JSON. The code of a plugin is not counted.
pub(super) const MAX_OBJECT: usize = 512 << 10;
/// Maximum size of a plugin's code, in bytes.
pub(super) const MAX_CODE: usize = 900 << 10;
/// Maximum size of a plugin's code as a JSON string, in bytes. A control character takes six bytes there.
const MAX_CODE_JSON: usize = 1 << 20;
/// Maximum size of all objects of one namespace in a plan, in bytes and including their code.
pub(super) const MAX_NAMESPACE: usize = 64 << 20;
/// Maximum number of objects of one namespace in a plan.
pub(super) const MAX_OBJECTS: usize = 8192;

/// The number of parts into which the room for all namespaces except the gateway's own is divided. This room is as
/// large as that of a single namespace, so that the plan remains small enough to be stored. Each namespace can always
/// use one part. What namespaces use beyond their parts must together fit into half of the room, so that the other
/// half is left for namespaces that come later.
pub(super) const PARTS: usize = 64;

/// Checks that an object is at most [`MAX_OBJECT`] bytes long, and that it fits into the room that other objects leave
/// in the plan.
///
/// # Errors
/// If the object is too large.
pub(super) fn check(inputs: &Inputs, id: &ObjectId, object: &impl Serialize) -> Result<(), FieldFault> {
    if let Some(why) = inputs.no_room.get(id) {
        return Err((Reason::TooLarge, "spec".to_owned(), why.clone()));
    }
    let size = size(object);
    if size <= MAX_OBJECT {
        return Ok(());
    }
    let message = format!(
        "it has {size} bytes with the values of its ConfigMaps, where {MAX_OBJECT} are the most: make its config or its \
         values smaller"
    );
    Err((Reason::TooLarge, "spec".to_owned(), message))
}

/// Checks that code fits into a plan. `field` is the manifest field to report.
///
/// # Errors
/// If the code is too large.
pub(super) fn check_code(text: &str, field: &str) -> Result<(), FieldFault> {
    if text.len() <= MAX_CODE && size(&text) <= MAX_CODE_JSON {
        return Ok(());
    }
    let message = format!(
        "the code has {} bytes, and {} as JSON, where {MAX_CODE} and {MAX_CODE_JSON} are the most: make it smaller",
        text.len(),
        size(&text)
    );
    Err((Reason::TooLarge, field.to_owned(), message))
}

/// Returns the number of bytes that an object has as JSON.
pub(super) fn size(object: &impl Serialize) -> usize {
    usize::try_from(json_size(object)).unwrap_or(usize::MAX)
}
