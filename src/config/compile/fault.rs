//! Faults of objects, and what can be said of objects that are not valid.

use crate::config::input::Inputs;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::reason::Reason;

/// A fault of an object as it is written: reason, field, message.
pub(super) type FieldFault = (Reason, String, String);

/// The id of an object of this kind.
pub(super) fn id(kind: Kind, key: &ObjectKey) -> ObjectId {
    ObjectId::new(kind, key.clone())
}

/// Whether an object is there but not valid.
pub(super) fn is_invalid(inputs: &Inputs, kind: Kind, key: &ObjectKey) -> bool {
    inputs.invalid.iter().any(|o| o.id.kind == kind && o.id.key == *key)
}

/// Whether an object that is not valid says that it is switched off, or on.
pub(super) fn switched_off(inputs: &Inputs, kind: Kind, key: &ObjectKey) -> Option<bool> {
    inputs.invalid.iter().find(|o| o.id.kind == kind && o.id.key == *key)?.off
}
