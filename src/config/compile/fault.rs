//! Helpers for faults of objects and for invalid objects.

use crate::config::input::{Inputs, InvalidObject};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::reason::Reason;

/// A fault of an object as written: reason, field, message.
pub(super) type FieldFault = (Reason, String, String);

pub(super) fn id(kind: Kind, key: &ObjectKey) -> ObjectId {
    ObjectId::new(kind, key.clone())
}

/// Returns what is known of an object that exists but is invalid.
pub(super) fn invalid<'a>(inputs: &'a Inputs, kind: Kind, key: &ObjectKey) -> Option<&'a InvalidObject> {
    inputs.invalid.iter().find(|object| object.id.kind == kind && object.id.key == *key)
}

/// Whether an object exists but is invalid.
pub(super) fn is_invalid(inputs: &Inputs, kind: Kind, key: &ObjectKey) -> bool {
    invalid(inputs, kind, key).is_some()
}

/// For an invalid object, returns whether it asks to be switched off (`true`) or on (`false`). Returns `None` if it
/// asks for neither.
pub(super) fn switched_off(inputs: &Inputs, kind: Kind, key: &ObjectKey) -> Option<bool> {
    invalid(inputs, kind, key)?.off
}
