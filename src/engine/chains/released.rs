//! What may be given to the client of a call.

use super::outcome::CallEnd;

/// The end of a call with what may be given to the client: its response chains have run. Only this folder makes one.
pub(in crate::engine) struct Released(CallEnd);

impl Released {
    pub(super) fn new(end: CallEnd) -> Self {
        Self(end)
    }
}

impl From<Released> for CallEnd {
    fn from(Released(end): Released) -> Self {
        end
    }
}
