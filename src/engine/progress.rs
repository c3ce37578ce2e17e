//! Progress of a call on its way to the client.

use serde_json::value::RawValue;

use super::link::LinkedEntry;
use super::snapshot::ToolLink;
use crate::domain::plugin::Role;
use crate::domain::ports::ToClient;
use crate::domain::raw::RawObject;

/// Passes progress on: while a Guard is on the response its numbers alone, because text could carry what the Guard
/// takes out.
pub(super) struct Progress<'a> {
    pub(super) client: &'a dyn ToClient,
    pub(super) guarded: bool,
}

impl ToClient for Progress<'_> {
    fn progress(&self, params: Box<RawValue>) {
        if !self.guarded {
            return self.client.progress(params);
        }
        let Ok(object) = RawObject::parse(params.get()) else { return };
        let mut numbers = RawObject::default();
        for key in ["progress", "total"] {
            let number =
                object.get(key).filter(|value| value.get().starts_with(|c: char| c == '-' || c.is_ascii_digit()));
            if let Some(number) = number {
                numbers.set(key, number.to_owned());
            }
        }
        self.client.progress(numbers.to_raw());
    }
}

/// Whether a Guard is on the tool's response, in a chain that does not let notifications pass.
pub(super) fn guards_response(tool: &ToolLink) -> bool {
    let guards = |entry: &LinkedEntry| entry.enforces() && entry.rules.role == Role::Guard;
    tool.response.iter().filter(|selected| !selected.chain.plan.notifications_pass).any(|selected| {
        selected.chain.entries.iter().zip(&selected.admitted).any(|(entry, admitted)| *admitted && guards(entry))
    })
}
