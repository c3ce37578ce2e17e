//! Helpers for faults of objects and for invalid objects.

use crate::config::input::{Inputs, InvalidObject};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// A fault of an object as written: reason, field, message.
pub(super) type FieldFault = (Reason, String, String);

/// The faults of one object. A check that does not depend on another one is made whether or not that one finds a fault.
#[derive(Default)]
pub(super) struct Faults(pub(super) Vec<FieldFault>);

impl Faults {
    /// Adds the fault of a check, if it found one. Otherwise returns its result.
    pub(super) fn take<T>(&mut self, checked: Result<T, FieldFault>) -> Option<T> {
        checked.map_err(|fault| self.0.push(fault)).ok()
    }

    /// Returns `made` if there is no fault. Otherwise returns the first fault, that of `made` before all others, and adds the
    /// others to `problems` as they are: the caller adds to the first one what becomes of the object.
    pub(super) fn finish<T>(
        self,
        made: Result<T, FieldFault>,
        object: &ObjectId,
        problems: &mut Vec<Problem>,
    ) -> Result<T, FieldFault> {
        let mut faults = self.0.into_iter();
        let first = match made {
            Ok(made) => match faults.next() {
                None => return Ok(made),
                Some(first) => first,
            },
            Err(first) => first,
        };
        let others = faults.map(|(reason, field, message)| Problem::error(reason, object.clone(), field, message));
        problems.extend(others);
        Err(first)
    }
}

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
