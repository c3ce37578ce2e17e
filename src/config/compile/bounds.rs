//! How large objects may be in a plan: a gateway is shared, and what one of its users writes must leave room for the
//! others.

use std::io;

use serde::Serialize;

use super::FieldFault;
use crate::config::input::Inputs;
use crate::domain::ids::ObjectId;
use crate::domain::reason::Reason;

/// The most bytes of an object in a plan, as JSON, without its code.
pub(super) const MAX_OBJECT: usize = 512 << 10;
/// The most bytes of a code text.
pub(super) const MAX_CODE: usize = 900 << 10;
/// The most bytes of a code text once it is escaped as JSON, where a control character takes six.
const MAX_CODE_JSON: usize = 1 << 20;
/// The most bytes of all objects of one namespace in a plan, their code included.
pub(super) const MAX_NAMESPACE: usize = 64 << 20;
/// The most objects of one namespace in a plan.
pub(super) const MAX_OBJECTS: usize = 8192;

/// All namespaces but the gateway's own have together as much as one may have, so that what stores a plan holds it. Of
/// that a half is for the first part of each, which is so much smaller than the whole: who takes the other half leaves
/// room for who comes later.
pub(super) const PARTS: usize = 64;

/// Checks that an object fits into a plan, by itself and beside the others.
///
/// # Errors
/// If it is too large.
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

/// Checks that code fits into a plan; `field` says where it is.
///
/// # Errors
/// If it is too large.
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

/// Bytes of an object as JSON.
pub(super) fn size(object: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    // What a plan holds always has a form in JSON.
    let _ = serde_json::to_writer(&mut counter, object);
    counter.0
}

/// Counts what is written.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
